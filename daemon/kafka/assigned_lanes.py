"""Which lanes are assigned to this process, which of them are whole, and which are read.

A lane is partition number p of every input topic, and is read only where all of these
topic-partitions are assigned: an impression and its feedback meet there. Knows no client and no
clock.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from .topic_partition import TopicPartition


def split_lanes(
    assigned: Iterable[TopicPartition], topics: Collection[str]
) -> tuple[frozenset[int], dict[int, list[str]]]:
    """Return the lanes assigned whole, and those assigned in part with the topics they lack."""
    topics_of: dict[int, set[str]] = {}
    for topic, partition in assigned:
        topics_of.setdefault(partition, set()).add(topic)
    missing = {lane: sorted(set(topics) - names) for lane, names in topics_of.items()}
    whole = frozenset(lane for lane, names in missing.items() if not names)
    return whole, {lane: names for lane, names in sorted(missing.items()) if names}


class AssignedLanes:
    """The lanes that the group assigned to this process, and how far the open ones are read.

    `next_offset` has the topic-partitions of the open lanes, and no others.
    """

    def __init__(self, topics: Sequence[str]) -> None:
        self.topics = tuple(topics)
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
        self.whole, self.missing_topics = split_lanes(self.assigned, self.topics)

    def revoke(self) -> None:
        """Drop the whole assignment; open lanes count as lost."""
        self.generation += 1
        self._lost |= self._open
        self._open.clear()
        self.assigned, self.whole, self.missing_topics = frozenset(), frozenset(), {}
        self.next_offset.clear()

    def open(self, lane: int, offsets: Mapping[str, int]) -> None:
        """Begin to read the lane at these offsets, one of each topic."""
        self._open.add(lane)
        for topic_partition in self.topic_partitions(lane):
            self.next_offset[topic_partition] = offsets[topic_partition.topic]

    def close(self, lane: int, *, lost: bool) -> None:
        """Stop reading the lane, which stays assigned. `lost`: the caller of `take_lost` is to
        learn of it.
        """
        if lane in self._open and lost:
            self._lost.add(lane)
        self._open.discard(lane)
        for topic_partition in self.topic_partitions(lane):
            self.next_offset.pop(topic_partition, None)

    def topic_partitions(self, lane: int) -> list[TopicPartition]:
        """Return the topic-partitions of a lane."""
        return [TopicPartition(topic, lane) for topic in self.topics]

    def positions(self, lane: int) -> dict[TopicPartition, int]:
        """Return the next offset of each topic-partition of an open lane."""
        return {place: self.next_offset[place] for place in self.topic_partitions(lane)}

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
