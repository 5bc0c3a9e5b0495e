"""Sends simulated search traffic to the topics of a round, lists files for it, and reads the
topics."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition

from relevanced.daemon.config import ONE, REKEY
from relevanced.daemon.errors import Unavailable
from relevanced.daemon.judgements import (
    Reader,
    add,
    read as read_judgements,
    read_classes,
    read_index,
)
from relevanced.daemon.kafka import KafkaSettings
from relevanced.daemon.lane import log_name
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.tools.traffic import (
    Faults,
    NativeEvent,
    Traffic,
    World,
    generate_events,
    judged_set,
)
from tests.chaos.registered import Registered
from tests.kafka_compression import Lz4Producer
from tests.oracle import Record, place_of_key

PARTITIONS: Final = 4
MORE_PARTITIONS: Final = 6
"""Those of the second topic, where lanes are not partitions."""
STAGE_PARTITIONS: Final = 3
"""Of the topic of the stage that divides events among lanes."""
LANES: Final = {"partition": PARTITIONS, ONE: 1, REKEY: STAGE_PARTITIONS}
"""How many there are, by what `kafka.lanes` says."""
START_MS: Final = 1_795_219_200_000 - 120_000
"""Two minutes of event time before a day ends (UTC)."""
EVENTS_PER_S: Final = 1200
"""Events per second of wall time."""
TICK_S: Final = 0.05
EVENT_TIME_RATE: Final = 30
"""Events per second of event time: a second of wall time is 40 s of event time."""
INVALID_SHARE: Final = 0.003
WRONG_CLOCK_SHARE: Final = 0.003
WRONG_CLOCK_MS: Final = 3_600_000
"""A producer with a wrong clock is an hour ahead, and so are the time stamps of its records."""
READ_PATIENCE_S: Final = 60.0
TOPIC_SETTINGS: Final = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**62)}
"""For event times far from the clock of this machine: they are fixed."""
FAULTS: Final = Faults(duplicates=0.01, disorder=0.02, orphans=0.01, off_list=0.01)


FILE_STARTS_MS: Final = tuple(START_MS // HOUR_MS * HOUR_MS + n * HOUR_MS for n in range(3))
"""The hours in which the traffic begins, the next one, and one that only clocks reach which are
wrong."""
CLASS_FILES: Final = [
    (start_ms, [(query.text, of) for query in Traffic().world.queries[:8]])
    for start_ms, of in zip(FILE_STARTS_MS, ("head", "torso", "head"), strict=True)
]
"""(start, (query, class) of each line) of files of classes."""


@dataclass(frozen=True)
class Listed:
    """A directory of dated files."""

    path: Path
    contents: Sequence[bytes]
    """By `FILE_STARTS_MS`."""
    read: Reader[Any]

    @classmethod
    def judgements(cls, path: Path, world: World) -> "Listed":
        whole = judged_set(world)
        other = whole.replace(b",3\n", b",2\n")
        return cls(path, (other, whole, other), read_judgements)

    @classmethod
    def classes(cls, path: Path) -> "Listed":
        contents = [
            "\n".join(["query,class", *map(",".join, lines)]).encode() for _, lines in CLASS_FILES
        ]
        return cls(path, contents, read_classes)

    def put_in_place(self) -> None:
        """List all files."""
        self.path.mkdir()
        for start_ms, content in zip(FILE_STARTS_MS, self.contents, strict=True):
            self._add(start_ms, content)

    def list_one_more(self) -> None:
        """List one more file, for the hour after those of all others."""
        after_ms = max(entry.start_ms for entry in read_index(self.path)) + HOUR_MS
        self._add(after_ms, self.contents[0])

    def _add(self, start_ms: int, content: bytes) -> None:
        source = self.path.parent / f"{self.path.name}.csv"
        source.write_bytes(content)
        add(self.path, source, start_ms, 0, self.read)


@dataclass(frozen=True)
class Places:
    """The partitions of the topics of a round, which are its lanes, or not. Where they are not,
    feedback lies anywhere but in the last one, which stays empty."""

    topics: Sequence[str]
    kind: str
    """What `kafka.lanes` says."""

    @property
    def are_lanes(self) -> bool:
        return self.kind == "partition"

    @property
    def partitions(self) -> dict[str, int]:
        """The number of partitions of each topic."""
        found = dict.fromkeys(self.topics, PARTITIONS)
        if not self.are_lanes and len(self.topics) > 1:
            found[self.topics[-1]] = MORE_PARTITIONS
        return found

    @property
    def lanes(self) -> int:
        return LANES[self.kind]

    @property
    def all(self) -> list[TopicPartition]:
        return [TopicPartition(t, n) for t, count in self.partitions.items() for n in range(count)]

    @property
    def empty(self) -> TopicPartition:
        """The last of all."""
        return self.all[-1]

    @property
    def logs(self) -> list[str]:
        """As rules name what is read in an order of its own."""
        return list(self.topics) if self.are_lanes else [log_name(*place) for place in self.all]

    def in_lane(self, record: Record) -> Record:
        """The record by its lane and the log in it; all are one lane where they are not lanes."""
        if self.are_lanes:
            return record
        return replace(record, topic=log_name(record.topic, record.partition), partition=0)

    def place_of(self, event: NativeEvent, random: Random) -> tuple[str, bytes]:
        """The topic and the key of an event."""
        is_impression = event["type"] == "impression"
        topic, key = self.topics[0 if is_impression else -1], str(event["impression_id"]).encode()
        if self.are_lanes:
            return topic, key
        if not is_impression:
            key = random.randbytes(8)
        while TopicPartition(topic, place_of_key(key, self.partitions[topic])) == self.empty:
            key += b"+"
        return topic, key


class Producer:
    """Sends traffic until `stop`. While the broker is unavailable it retries; records that are sent
    twice are twice in the log."""

    def __init__(
        self, bootstrap: str, places: Places, seed: int, registered: Registered | None
    ) -> None:
        """`registered`: what writes the records, if they name schemas."""
        self._places, self._registered = places, registered
        self._random = Random(f"rubbish {seed}")
        # Lifts must stay behind what comes, and follow the clock: 40 s of a second.
        faults = FAULTS if places.are_lanes else replace(FAULTS, disorder=0.0)
        self.traffic = Traffic(seed=seed, rate=EVENT_TIME_RATE, faults=faults)
        self._events = generate_events(self.traffic, START_MS)
        self._producer = Lz4Producer(KafkaSettings(bootstrap))
        self._last_ms = START_MS
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._producer.start()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop, and wait until all records are acknowledged."""
        self._stop.set()
        if self._task is not None:
            await self._task
        await self._producer.stop()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        began_s, sent = loop.time(), 0
        while not self._stop.is_set():
            due = int((loop.time() - began_s) * EVENTS_PER_S)
            # After an outage, events beyond one second's worth are skipped.
            batch = [next(self._events) for _ in range(min(due - sent, EVENTS_PER_S))]
            sent = due
            await self._deliver(batch)
            await asyncio.sleep(TICK_S)
        if self._places.kind == REKEY:
            await self._end()

    async def _end(self) -> None:
        """End each log with a record that is refused: with it a stage tells what it left out."""
        for topic, partition in self._places.all[:-1]:
            await self._producer.send(topic, b"{", partition=partition, timestamp_ms=self._last_ms)

    async def _deliver(self, batch: Sequence[tuple[int, NativeEvent]]) -> None:
        while True:
            try:
                for arrival_ms, event in batch:
                    await self._send(arrival_ms, event)
                await self._producer.flush()
                return
            except Unavailable:
                await asyncio.sleep(TICK_S)

    async def _send(self, arrival_ms: int, event: NativeEvent) -> None:
        topic, key = self._places.place_of(event, self._random)
        self._last_ms = arrival_ms
        if self._random.random() < WRONG_CLOCK_SHARE:
            event = {**event, "timestamp": event["timestamp"] + WRONG_CLOCK_MS}
            arrival_ms += WRONG_CLOCK_MS
        native = msgspec.json.encode(event)
        value: bytes | None = native
        if self._registered is not None:
            value = self._registered.encode(native)
            # What a registry may not have yet is waited for only while a record is new.
            arrival_ms = max(arrival_ms, int(time.time() * 1000))
        elif self._random.random() < INVALID_SHARE:
            value = self._random.choice((None, b"{", b"[]", b'{"type":"session"}'))
        await self._producer.send(topic, value, key, timestamp_ms=arrival_ms)


async def read_all(bootstrap: str, places: Places, registered: Registered | None) -> list[Record]:
    """All records in the topics, in the native format, each by its lane and the log in it."""
    native = {} if registered is None else registered.native
    return [
        places.in_lane(replace(record, value=native.get(record.value or b"", record.value)))
        for record in await read_logs(bootstrap, places.all)
    ]


async def read_logs(bootstrap: str, places: Sequence[TopicPartition]) -> list[Record]:
    """All records that these have now."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        found: list[Record] = []
        async with asyncio.timeout(READ_PATIENCE_S):
            while len(found) < sum(ends.values()):
                for place, batch in (await consumer.getmany(timeout_ms=1000)).items():
                    found += [
                        Record(r.topic, r.partition, r.offset, r.timestamp, r.value)
                        for r in batch
                        if r.offset < ends[place]
                    ]
        return found
    finally:
        await consumer.stop()
