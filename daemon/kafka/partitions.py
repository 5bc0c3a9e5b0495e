"""Which topic-partitions this process reads, how far, and what keeps it from reading one.

A lane is partition number p of every input topic, or all partitions of all. It is read only where
all of its topic-partitions are assigned: an impression and its feedback meet there. The rules keep
no client and no clock: both are given.
"""

import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import msgspec
import structlog

from ..backoff import doubled_s
from ..telemetry import ADVICE, NoteFault, RateLimit
from ..worker import OffsetBeyondEnd, PartitionStatus
from .topic_partition import Division, Logs, TopicPartition

NO_TIMESTAMP: Final = -1


class Record(msgspec.Struct, gc=False):
    """One record as a consumer returns it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


def records_of(topic_partition: TopicPartition, batch: Any, first: int) -> list[Record]:
    """Return the records of a batch from the offset `first` on: a broker sends the whole batch that
    has the offset it was asked for.
    """
    topic, partition = topic_partition
    records: list[Any] = [
        Record(
            topic,
            partition,
            raw.offset,
            raw.timestamp,
            raw.key,
            raw.value,
            tuple(headers) if (headers := raw.headers) else (),
        )
        for raw in batch
    ]
    if records and records[0].timestamp is None:  # the oldest format has none
        for record in records:
            record.timestamp = NO_TIMESTAMP
    if records and records[0].offset < first:
        return [record for record in records if record.offset >= first]
    return records


FRESH_MS: Final = 5_000
"""A lane is caught up while the end of its log was seen so recently."""


class HasOffset(Protocol):
    """A record, as far as these rules need it."""

    @property
    def offset(self) -> int:
        """Its offset in the log of its topic-partition."""


R = TypeVar("R", bound=HasOffset)


def resume_offset(
    topic_partition: TopicPartition,
    stored: int,
    log_start: int,
    log_end: int,
    topic_id: str | None = None,
) -> tuple[int, int]:
    """Return the offset where reading resumes in a log of the offsets [log_start, log_end), and
    how many records were deleted unread.

    A stored offset inside the log, or at its end, is where reading resumes. Before the start, the
    records between are gone. Beyond the end, this is not the log that was read, or it lost its end:
    raises OffsetBeyondEnd.
    """
    if stored > log_end:
        raise OffsetBeyondEnd(*topic_partition, stored, log_end, topic_id)
    offset = max(stored, log_start)
    return offset, offset - stored


def not_yet_taken(records: Sequence[R], expected: int) -> Sequence[R]:
    """Return the records from the expected offset on; those before it were taken already.

    A first offset that is higher is no loss: the log was asked for the expected one, and answers
    with the next that it has (compaction, transaction markers and aborted transactions leave
    holes).
    """
    if not records or records[0].offset >= expected:
        return records
    return [record for record in records if record.offset >= expected]


def is_at_end(next_offset: int, end: int | None, seen_ms: int | None, now_ms: int) -> bool:
    """Whether everything up to the log's end, as seen at most FRESH_MS ago, has been taken.

    Both times are of one clock. Where it was set back since, it is not known how long ago that was.
    """
    if end is None or seen_ms is None:
        return False
    return next_offset >= end and abs(now_ms - seen_ms) <= FRESH_MS


FIRST_RETRY_S: Final = 1.0
LONGEST_RETRY_S: Final = 60.0


@dataclass(frozen=True)
class PartitionFault:
    """Why a topic-partition cannot be read, and when it is tried again."""

    reason: str
    retry_s: float
    failures: int


class PartitionFaults:
    """The topic-partitions that failed, or may have.

    An error of the client names no topic-partition, and costs the records of all that were read
    together. So all of them become *suspects*, which are read one by one until each has either
    been read to its end or failed alone. One that failed alone is *excluded*: it is not read for
    a pause that grows with every failure, and is then a suspect again.
    """

    def __init__(self) -> None:
        self.suspects: dict[TopicPartition, int] = {}
        """With the time, in ms, since when each is a suspect."""
        self.failed: dict[TopicPartition, PartitionFault] = {}

    def suspect(self, topic_partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Make suspects of all that were in a failed fetch, but those that had failed before: they
        were not in it.
        """
        self.suspects.update({tp: now_ms for tp in topic_partitions if tp not in self.failed})

    def exclude(self, topic_partition: TopicPartition, reason: str, now_s: float) -> bool:
        """Record that it failed alone. True where it had not failed yet, or for another reason."""
        before = self.failed.get(topic_partition)
        failures = before.failures + 1 if before else 1
        retry_s = now_s + doubled_s(failures, FIRST_RETRY_S, LONGEST_RETRY_S)
        self.failed[topic_partition] = PartitionFault(reason, retry_s, failures)
        self.suspects.pop(topic_partition, None)
        return before is None or before.reason != reason

    def clear(self, topic_partition: TopicPartition) -> bool:
        """Record that it was read without error. True where it had failed before."""
        self.suspects.pop(topic_partition, None)
        return self.failed.pop(topic_partition, None) is not None

    def retry(self, now_s: float, now_ms: int) -> list[TopicPartition]:
        """Make suspects of the excluded ones whose pause is over, and return them."""
        due = [
            topic_partition
            for topic_partition, fault in self.failed.items()
            if fault.retry_s <= now_s and topic_partition not in self.suspects
        ]
        self.suspects.update(dict.fromkeys(due, now_ms))
        return due

    def excluded(self) -> set[TopicPartition]:
        """Return the topic-partitions that are not read for now."""
        return self.failed.keys() - self.suspects.keys()

    def keep(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Forget all others: they are not read by this process any more."""
        self.suspects = {tp: since for tp, since in self.suspects.items() if tp in topic_partitions}
        self.failed = {tp: fault for tp, fault in self.failed.items() if tp in topic_partitions}


def is_stuck(now_s: float, last_answer_s: float, session_timeout_s: float) -> bool:
    """Whether a consumer that got no answer since then is better replaced.

    Two session timeouts: longer than any rebalance takes, and by then the lanes belong to others
    anyway.
    """
    return now_s - last_answer_s > 2 * session_timeout_s


class Pulse:
    """Whether a consumer shows signs of life: answers to fetches, and assignments."""

    def __init__(self, now_s: float) -> None:
        self.waits = True
        """For an assignment."""
        self._answered_ms: Mapping[TopicPartition, int | None] = {}
        self._since_s = now_s

    def is_stuck(
        self,
        answered_ms: Mapping[TopicPartition, int | None],
        now_s: float,
        session_timeout_s: float,
    ) -> bool:
        """Whether there was none for so long that the consumer is better replaced. `answered_ms`
        has the time of the last answer to each topic-partition that is fetched now."""
        if not self.waits and (answered_ms != self._answered_ms or not answered_ms):
            self._since_s = now_s
        self._answered_ms = answered_ms
        return is_stuck(now_s, self._since_s, session_timeout_s)


class UnansweredFetches:
    """Finds the topic-partitions whose fetches are not answered while those of others are."""

    def __init__(self) -> None:
        self._since: dict[TopicPartition, tuple[int | None, float]] = {}
        """The last answer to each, and when this was first seen to be the last."""
        self._answered_s = -math.inf
        """When an answer to any of them was last seen."""

    def find(
        self, answered_ms: Mapping[TopicPartition, int | None], now_s: float, longest_s: float
    ) -> list[TopicPartition]:
        """Return those without an answer for longer than `longest_s`.

        `answered_ms` has the time of the last answer to each topic-partition that is being fetched
        now. Returns none where no fetch at all was answered in the last half of `longest_s`: then
        it is the cluster that does not answer.
        """
        before = self._since
        if any(tp in before and before[tp][0] != answer for tp, answer in answered_ms.items()):
            self._answered_s = now_s
        self._since = {
            tp: last if last[0] == answer else (answer, now_s)
            for tp, answer in answered_ms.items()
            for last in [before.get(tp, (answer, now_s))]
        }
        silent = [tp for tp, (_, since_s) in self._since.items() if now_s - since_s > longest_s]
        return silent if now_s - self._answered_s <= longest_s / 2 else []


def split_lanes(
    assigned: Iterable[TopicPartition], topics: Collection[str], division: Division
) -> tuple[frozenset[int], dict[int, list[str]]]:
    """Return the lanes assigned whole, and those assigned in part with the topics they lack."""
    topics_of: dict[int, set[str]] = {}
    for place in assigned:
        topics_of.setdefault(division.lane_of(place), set()).add(place.topic)
    missing = {lane: sorted(set(topics) - names) for lane, names in topics_of.items()}
    whole = frozenset(lane for lane, names in missing.items() if not names)
    return whole, {lane: names for lane, names in sorted(missing.items()) if names}


class AssignedLanes:
    """The lanes that the group assigned to this process, and how far the open ones are read.

    `next_offset` has the topic-partitions of the open lanes, and no others.
    """

    def __init__(self, topics: Sequence[str], division: Division = Division()) -> None:
        self.topics = tuple(topics)
        self.division = division
        self.generation = 0
        """Grows with every rebalance."""
        self.assigned: frozenset[TopicPartition] = frozenset()
        self.whole: frozenset[int] = frozenset()
        self.missing_topics: dict[int, list[str]] = {}
        """The lanes assigned in part, with the topics they lack."""
        self.next_offset: dict[TopicPartition, int] = {}
        self._open: set[int] = set()
        self._lost: set[int] = set()

    def assign(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Take over what a rebalance assigned; no lane is open after it."""
        self.revoke()
        self.assigned = frozenset(topic_partitions)
        self.whole, self.missing_topics = split_lanes(self.assigned, self.topics, self.division)

    def revoke(self) -> None:
        """Drop the whole assignment; open lanes count as lost."""
        self.generation += 1
        self._lost |= self._open
        self._open.clear()
        self.assigned, self.whole, self.missing_topics = frozenset(), frozenset(), {}
        self.next_offset.clear()

    def open(self, lane: int, offsets: Mapping[str, int]) -> None:
        """Begin to read the lane at these offsets, one of each log."""
        self._open.add(lane)
        for topic_partition, log in self.logs(lane).items():
            self.next_offset[topic_partition] = offsets[log]

    def close(self, lane: int, *, lost: bool) -> None:
        """Stop reading the lane, which stays assigned. `lost`: the caller of `take_lost` is to
        learn of it.
        """
        if lane in self._open and lost:
            self._lost.add(lane)
        self._open.discard(lane)
        for topic_partition in self.logs(lane):
            self.next_offset.pop(topic_partition, None)

    def logs(self, lane: int) -> Logs:
        """Return the topic-partitions of a lane, topic by topic, and its names of their logs."""
        if not self.division.is_one:
            return self.division.logs_of(TopicPartition(topic, lane) for topic in self.topics)
        order = self.topics.index
        return self.division.logs_of(sorted(self.assigned, key=lambda p: (order(p[0]), p[1])))

    def positions(self, lane: int) -> dict[TopicPartition, int]:
        """Return the next offset of each topic-partition of an open lane."""
        return {place: self.next_offset[place] for place in self.logs(lane)}

    @property
    def open_lanes(self) -> frozenset[int]:
        """The lanes that are read."""
        return frozenset(self._open)

    def to_open(self) -> frozenset[int]:
        """Return the lanes that are assigned whole and not read yet."""
        return self.whole - self._open

    def take_lost(self) -> frozenset[int]:
        """Return the lanes that a rebalance or an error closed since the last call."""
        lost, self._lost = frozenset(self._lost), set()
        return lost


logger = structlog.get_logger(__name__)


class AbortedLog:
    """Counts and logs what was left out of each topic-partition."""

    def __init__(self, note: NoteFault) -> None:
        self._note = note
        self._rate_limit = RateLimit[TopicPartition]()

    def report(self, left_out: Mapping[TopicPartition, int], now_s: float) -> None:
        """Report that so many more records were left out of each; a line's `records` are those
        since the line before.
        """
        for topic_partition, count in left_out.items():
            self._note("aborted")
            records = self._rate_limit.due(topic_partition, count, now_s)
            if records is None:
                continue
            logger.info(
                "aborted transaction left out",
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                records=records,
                advice=ADVICE["aborted"],
            )


def partition_status(
    consumer: Any, lanes: AssignedLanes, faults: PartitionFaults, topic_partition: TopicPartition
) -> PartitionStatus:
    """Return how far a topic-partition is read, as far as that is known."""
    next_offset = lanes.next_offset.get(topic_partition)
    if next_offset is None:
        return PartitionStatus(*topic_partition, None, None, None, None)
    end = consumer.highwater(topic_partition)
    fault = faults.failed.get(topic_partition)
    return PartitionStatus(
        *topic_partition,
        next_offset=next_offset,
        lag_records=None if end is None else max(end - next_offset, 0),
        fetched_ms=consumer.last_poll_timestamp(topic_partition),
        fault=None if fault is None else fault.reason,
    )


def partition_count(consumer: Any, topics: Sequence[str]) -> int:
    """Return the number of partitions of the topics, the largest where they differ; 0 where it is
    not known."""
    found = [consumer.partitions_for_topic(topic) for topic in topics if consumer]
    return max((len(ids) for ids in found if ids), default=0)


def at_ends(
    consumer: Any, lanes: AssignedLanes, of: Iterable[int]
) -> dict[int, set[TopicPartition]]:
    """Return, of these open lanes, which topic-partitions were just seen at the ends of their logs,
    with nothing left to deliver.

    The end is that of the log, not of its committed part: while a transaction is open, records may
    come that are older than the clock.
    """
    now_ms = int(time.time() * 1000)
    return {
        lane: {
            place
            for place, next_offset in lanes.positions(lane).items()
            if is_at_end(
                next_offset,
                consumer.highwater(place),
                consumer.last_poll_timestamp(place),
                now_ms,
            )
        }
        for lane in of
    }


class IdleLogs:
    """Which topic-partitions have been at their ends for long."""

    def __init__(self, after_s: float) -> None:
        """`after_s`: how long; 0: none ever is."""
        self._after_s = after_s
        self._since: dict[TopicPartition, tuple[int, float]] = {}
        """At which offset, and since when, each was seen at its end."""

    def find(self, at_end: Mapping[TopicPartition, int], now_s: float) -> set[TopicPartition]:
        """Return those that got no record for so long. `at_end`: the next offsets of those that are
        at their ends now."""
        self._since = {
            place: (
                since
                if (since := self._since.get(place)) and since[0] == offset
                else (offset, now_s)
            )
            for place, offset in at_end.items()
        }
        if not self._after_s:
            return set()
        return {place for place, (_, s) in self._since.items() if now_s - s >= self._after_s}
