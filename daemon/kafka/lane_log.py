"""Reads the log of one lane from offsets to offsets: without a consumer group, for commands that
read again what a worker has read.

    async with LaneLogs(settings) as logs:
        log = await logs.open(lane, begin, end, marks)
        while not log.is_read:
            for name in log.unread:
                records = await log.take(name, 10_000)

Isolation level, codecs and topic ids are those of the worker's own reader, so what it left out is
left out here. Memory is that of one fetch of each topic-partition. A fault ends the reading:
nothing is passed over.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from ..config import Start
from ..errors import Unavailable
from ..storage import Head, LogMark, LogMarks
from ..worker import LogChanged
from . import aiokafka_patches
from .aiokafka_patches import client_of, unpacking_aside
from .client import KafkaSettings, client_arguments, consumer_arguments, stop_client
from .offsets import Record, not_yet_taken
from .resuming import KnownLogs, log_bounds, starting_offsets
from .topic_ids import fetch_by_id
from .topic_partition import Logs, TopicPartition, place_in
from .topics import describe_topics, require_counts

FETCH_WAIT_MS: Final = 500
PATIENCE_S: Final = 30.0
"""A log that gives nothing for so long does not answer."""


@dataclass(frozen=True)
class LogSpan:
    """The offsets of one topic-partition of a lane that are read: [begin, end)."""

    begin: int
    end: int
    earliest: int
    """The first offset that the log still has."""

    @property
    def is_whole(self) -> bool:
        """Whether the log still has every offset from `begin` on."""
        return self.earliest <= self.begin

    @property
    def has_lost_all(self) -> bool:
        """Whether the log had records, and all of them were deleted."""
        return 0 < self.end <= self.earliest

    @property
    def is_undated(self) -> bool:
        """Whether no record before `begin` is there to date what was before the first one."""
        return self.begin <= self.earliest


class LaneLog:
    """The log of one lane while it is read. Made by `LaneLogs.open`."""

    def __init__(self, consumer: Any, lane: int, spans: Mapping[str, LogSpan]) -> None:
        self._consumer = consumer
        self._lane = lane
        self.spans = spans
        """By log."""
        self.next_offsets = {
            log: min(max(span.begin, span.earliest), span.end) for log, span in spans.items()
        }
        """Where the next `take` of each log begins."""
        self._first = dict(self.next_offsets)

    @property
    def unread(self) -> list[str]:
        """The logs that are not read to their end."""
        return [log for log, at in self.next_offsets.items() if at < self.spans[log].end]

    @property
    def is_read(self) -> bool:
        """Whether all of it was taken."""
        return not self.unread

    @property
    def share_read(self) -> float:
        """The share of the offsets that was taken, in [0, 1]; 1 where there are none."""
        total = sum(span.end - self._first[log] for log, span in self.spans.items())
        taken = sum(at - self._first[log] for log, at in self.next_offsets.items())
        return taken / total if total else 1.0

    async def take(self, log: str, max_records: int) -> list[Record]:
        """Return the next records of a log, in offset order, at most so many; none only at its end.
        Raises Unavailable."""
        place, last = place_in(self._lane, log), self.spans[log].end
        since_s = time.monotonic()
        while (first := self.next_offsets[log]) < last:
            where = f"{place.topic}[{place.partition}] from offset {first} on"
            fetched = await self._fetch(place, where, max_records)
            # The client also steps over what is no record: markers, aborted transactions.
            position = min(await self._consumer.position(place), last)
            records = [r for r in not_yet_taken(fetched, first) if r.offset < last]
            self.next_offsets[log] = max(first, position)
            if records:
                return records
            if position > first:
                since_s = time.monotonic()
            elif time.monotonic() - since_s > PATIENCE_S:
                raise Unavailable(f"Kafka: {where}: nothing within {PATIENCE_S:.0f} s")
        self._consumer.pause(place)
        return []

    async def _fetch(self, place: TopicPartition, where: str, max_records: int) -> list[Record]:
        try:
            with unpacking_aside(self._consumer):
                fetched: Mapping[TopicPartition, list[Record]] = await self._consumer.getmany(
                    place, timeout_ms=FETCH_WAIT_MS, max_records=max_records
                )
        except OffsetOutOfRangeError as error:
            what = "the log was shortened or replaced while it was read. Run the command again"
            raise Unavailable(f"Kafka: {where}: {what}") from error
        except Exception as error:  # whatever a codec, a checksum or a broker raises
            raise Unavailable(f"Kafka: {where}: {type(error).__name__}: {error}") from error
        return fetched.get(place, [])


class LaneLogs:
    """Opens logs of lanes, one after the other. Connects on entry; raises Unavailable, and
    StartError where the topics do not fit together."""

    def __init__(self, settings: KafkaSettings) -> None:
        aiokafka_patches.install()
        self._settings = settings
        self._known = KnownLogs()
        self._counts: Mapping[str, int] = {}
        self._consumer: Any = None

    async def __aenter__(self) -> "LaneLogs":
        counts, obstacle = await describe_topics(self._settings)
        if obstacle is not None:
            raise Unavailable(f"Kafka: {obstacle.reason}")
        require_counts(counts, self._settings.division)
        self._counts = counts
        arguments = consumer_arguments(self._settings) | {"group_id": None}
        self._consumer = AIOKafkaConsumer(**arguments)
        try:
            await self._consumer.start()
        except (KafkaError, OSError) as error:
            await self.__aexit__()
            raise Unavailable(f"Kafka: {error}") from error
        fetch_by_id(client_of(self._consumer), self._known.fence)
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop_client(aiokafka_patches.stop(self._consumer))

    @property
    def lanes(self) -> int:
        """The number of lanes."""
        return self._settings.division.count(min(self._counts.values(), default=0))

    def _logs(self, lane: int) -> Logs:
        """The logs of a lane, as the topics are now."""
        division, counts = self._settings.division, self._counts
        of_topics = [TopicPartition(t, n) for t in self._settings.topics for n in range(counts[t])]
        return division.logs_of(place for place in of_topics if division.lane_of(place) == lane)

    async def offsets(self, lane: int, at: Start, now_ms: int) -> dict[str, int]:
        """Return, by log, an end of it, or the offset of the first record that is so
        young at `now_ms` by its Kafka timestamp (the end where none is). Raises Unavailable."""
        return await starting_offsets(self._consumer, self._logs(lane), at, now_ms)

    async def open(
        self, lane: int, begin: Mapping[str, int], until: Mapping[str, int], marks: LogMarks
    ) -> LaneLog:
        """Return the log of a lane, to be read from `begin` to before `until`, by log; one that
        `begin` lacks is read from its first record on. What was opened before is closed.

        Raises LogChanged where a log is not the one of its mark, or ends before the last record
        that was read of it or before `until`, and Unavailable."""
        logs = {place_in(lane, log): log for log in until}
        for topic, partition in logs:
            if partition >= self._counts[topic]:
                has = f"{topic} has {self._counts[topic]} partitions"
                raise Unavailable(f"Kafka: lane {lane}: {has}")
        reached = {log: max(at, _end_read(marks.get(log))) for log, at in until.items()}
        found = await self._known.resumption(self._consumer, logs, reached, marks)
        earliest, _ = await log_bounds(self._consumer, logs)
        self._known.fence.update(found.topic_ids)
        spans = {
            log: LogSpan(begin.get(log, earliest[place]), until[log], earliest[place])
            for place, log in logs.items()
        }
        read = LaneLog(self._consumer, lane, spans)
        self._consumer.assign(list(logs))
        for place, log in logs.items():
            self._consumer.seek(place, read.next_offsets[log])
        return read


def _end_read(mark: LogMark | None) -> int:
    """The offset after the last record that was read."""
    return 0 if mark is None or mark.last_offset is None else mark.last_offset + 1


async def changed_logs(
    settings: KafkaSettings, topic: str, heads: Mapping[int, Head]
) -> dict[tuple[int, str], LogChanged]:
    """Return, by lane and log, what is wrong with the logs of a topic that are not those which the
    lanes have read. Logs of partitions that are not there are left out. Raises Unavailable.
    """
    aiokafka_patches.install()
    counts, obstacle = await describe_topics(settings)
    if obstacle is not None:
        raise Unavailable(obstacle.reason)
    consumer: Any = AIOKafkaConsumer(**client_arguments(settings))
    changed = dict[tuple[int, str], LogChanged]()
    try:
        await consumer.start()
        for lane, head in heads.items():
            for log in head.offsets:
                place = place_in(lane, log)
                if place.topic != topic or place.partition >= counts[topic]:
                    continue
                try:
                    await KnownLogs().resumption(consumer, {place: log}, head.offsets, head.logs)
                except LogChanged as error:
                    changed[lane, log] = error
    except (KafkaError, OSError) as error:
        raise Unavailable(f"Kafka: {error}") from error
    finally:
        await stop_client(aiokafka_patches.stop(consumer))
    return changed
