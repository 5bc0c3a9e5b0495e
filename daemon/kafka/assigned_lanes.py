"""Which topic-partitions this process reads, and how far.

A lane is partition number p of every input topic, or all partitions of all. It is read only where
all of its topic-partitions are assigned: an impression and its feedback meet there. The rules keep
no client and no clock: both are given.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ..worker import PartitionStatus
from .offsets import is_at_end
from .partition_faults import PartitionFaults
from .topic_partition import Division, Logs, TopicPartition


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
    consumer: Any, lanes: AssignedLanes, of: Iterable[int], now_ms: int
) -> dict[int, set[TopicPartition]]:
    """Return, of these open lanes, which topic-partitions were just seen at the ends of their logs,
    with nothing left to deliver.

    The end is that of the log, not of its committed part: while a transaction is open, records may
    come that are older than the clock.
    """
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
