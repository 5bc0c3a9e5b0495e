"""The whole path on real parts, for tests: a topic, daemons that read it, and whether what Redis
holds in the end is what the oracle makes of the topic."""

import asyncio
import random
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition

from relevanced.daemon.config import load
from relevanced.daemon.errors import Damaged, Unavailable
from relevanced.daemon.kafka import KafkaSettings
from relevanced.daemon.storage import (
    Head,
    InForce,
    LaneStore,
    Layouts,
    close,
    connect,
    namespace,
    rebuild,
)
from relevanced.daemon.tools.traffic import Faults, Traffic, generate_events
from tests import oracle
from tests.kafka_compression import Lz4Producer
from tests.oracle import OracleConfig, Record
from tests.replica import assert_equal, every_key, hours_of, plan_of
from tests.services.daemons import Daemon
from tests.services.kafka_server import Broker
from tests.services.redis_lanes import stray_keys

PARTITIONS = 4
START_MS = 1_795_176_000_000
FAULTS = Faults(duplicates=0.01, disorder=0.02, orphans=0.01, off_list=0.01)
CONFIG = OracleConfig(
    windows_s=(60, 300, 3600),
    attribution_window_s=60,
    lateness_s=5,
    groupings=(("country",), ("device",), ("country", "device"), ("experiment:ranker-v2",)),
)
TOML = """
windows = ["60s", "300s", "3600s"]
[kafka]
bootstrap_servers = ["{bootstrap}"]
topics = ["{topic}"]
group_id = "{name}"
start = "earliest"
session_timeout = "10s"
max_batch_records = 4000
commit_interval = "100ms"
[redis]
url = "{redis}"
namespace = "{name}"
[attribution]
window = "60s"
lateness = "5s"
[segments]
groupings = [["country"], ["device"], ["country", "device"], ["experiment:ranker-v2"]]
"""


class Stage:
    """Topics that are filled bit by bit, mostly one, and the daemons that read them.

    `rate` is in events per second of event time, whatever the clock of the wall says.
    """

    config = CONFIG
    """What `toml` says, for the oracle."""

    def __init__(
        self,
        kafka: Broker,
        redis_url: str,
        topic: str,
        directory: Path,
        rate: float = 150,
        start_ms: int = START_MS,
    ) -> None:
        self.kafka, self.redis_url, self.topic, self.directory = kafka, redis_url, topic, directory
        self.topics = [topic]
        traffic = Traffic(seed=5, rate=rate, faults=FAULTS)
        self.events = generate_events(traffic, start_ms)
        self.daemons: list[Daemon] = []

    @property
    def partitions(self) -> Mapping[str, int]:
        """Of each topic."""
        return dict.fromkeys(self.topics, PARTITIONS)

    def toml(self, name: str) -> str:
        values = {"bootstrap": self.kafka.bootstrap, "topic": self.topic, "redis": self.redis_url}
        return TOML.format(name=name, **values)

    def daemon(self, name: str, role: str = "worker") -> Daemon:
        self.daemons.append(Daemon(self.directory, self.toml(name), role))
        return self.daemons[-1]

    async def produce(self, count: int) -> None:
        producer = Lz4Producer(KafkaSettings(self.kafka.bootstrap))
        await producer.start()
        for arrival_ms, event in islice(self.events, count):
            key = str(event["impression_id"]).encode()
            value = msgspec.json.encode(event)
            await producer.send(self.topic, value, key, timestamp_ms=arrival_ms)
        await producer.flush()
        await producer.stop()

    async def records(self) -> list[Record]:
        """Everything in the topics, as the oracle takes it."""
        places = [
            TopicPartition(topic, n)
            for topic, count in self.partitions.items()
            for n in range(count)
        ]
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.kafka.bootstrap, auto_offset_reset="earliest"
        )
        await consumer.start()
        consumer.assign(places)
        left = sum((await consumer.end_offsets(places)).values())
        found: list[Record] = []
        async with asyncio.timeout(60):
            while len(found) < left:
                for batch in (await consumer.getmany(timeout_ms=1000)).values():
                    found += [
                        Record(r.topic, r.partition, r.offset, r.timestamp, r.value) for r in batch
                    ]
        await consumer.stop()
        return found

    def store(self, name: str) -> LaneStore:
        config = load(self.toml(name), {}, "test")
        return LaneStore(connect(self.redis_url), namespace(config))

    async def taken(self, name: str) -> dict[int, int]:
        """The records that every claimed lane has taken: the sum of its durable offsets."""
        heads = [await self.head(name, lane) for lane in range(PARTITIONS)]
        return {n: sum(head.offsets.values()) for n, head in enumerate(heads) if head is not None}

    async def head(self, name: str, lane: int = 0) -> Head | None:
        """That of a lane that has committed."""
        store = self.store(name)
        try:
            delta = await store.read(lane, "", None, 1)
        finally:
            await close(store._client)
        return None if delta is None else delta.head

    async def wait_for(self, name: str, records: int) -> None:
        """Until the lanes together have taken so many records."""
        async with asyncio.timeout(90):
            while await self._taken_by_all(name) < records:
                await asyncio.sleep(0.1)

    async def _taken_by_all(self, name: str) -> int:
        try:
            return sum((await self.taken(name)).values())
        except (Unavailable, Damaged):
            return 0

    async def assert_equals_oracle(self, name: str, expected: dict[int, oracle.LaneResult]) -> None:
        """Every number, and no key that nobody would ever read or unlink."""
        store, layouts = self.store(name), Layouts(InForce(plan_of(self.config)))
        for lane in range(PARTITIONS):
            head = await store.claim(lane, f"reader-{random.random()}", {})
            names, blobs = await store.load(lane, head, every_key)
            held = rebuild(lane, layouts, self.topics, head, names, blobs)
            assert_equal(held.lane, expected[lane])
            assert hours_of(held.lane) == expected[lane].hours
            assert await stray_keys(store._client, store._namespace, held) == []
        await close(store._client)

    async def assert_one_equals_oracle(
        self, name: str, records: Iterable[Record]
    ) -> oracle.LaneResult:
        """The same of one lane of all partitions."""
        store, layouts = self.store(name), Layouts(InForce(plan_of(self.config)))
        head = await store.claim(0, "reader", {})
        names, blobs = await store.load(0, head, every_key)
        held = rebuild(0, layouts, list(head.offsets), head, names, blobs)
        expected = oracle.run_lane(oracle.as_one(records, self.partitions), self.config, head.lifts)
        assert not held.lane.counts["behind_lift"]
        assert_equal(held.lane, expected)
        assert hours_of(held.lane) == expected.hours
        assert await stray_keys(store._client, store._namespace, held) == []
        await close(store._client)
        return expected

    def close(self) -> None:
        for daemon in self.daemons:
            daemon.close()
