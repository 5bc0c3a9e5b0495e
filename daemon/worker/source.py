"""What the worker asks of whatever its records come from: a Kafka consumer group, or the demo's own
traffic."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from ..events.types import LogRecord


class LaneLost(Exception):
    """The lane is not, or no longer, assigned to this process."""


class OffsetBeyondEnd(Exception):
    """The log ends before the stored offset, so it is not the log that was read, or it lost records
    that it had acknowledged. Only a person can say which.
    """

    def __init__(self, topic: str, partition: int, stored: int, end: int) -> None:
        self.topic, self.partition, self.stored, self.end = topic, partition, stored, end
        super().__init__(
            f"{topic}[{partition}]: the stored offset {stored} is beyond the end of the log, {end}."
            " Was the topic deleted and created again? Its lane stands still until the topic is"
            " back or the daemon gets a new namespace (redis.namespace)."
        )


@dataclass(frozen=True)
class Batch:
    """What one poll gave.

    `lanes`: lane → topic → records in offset order, for the lanes that have any. `next_offsets`:
    for the same lanes, the offset of every topic after these records, to be stored with what they
    produce. `caught_up`: the open lanes whose topic-partitions were all seen at the end of their
    logs within the last 5 s, with nothing left to deliver.
    """

    lanes: Mapping[int, Mapping[str, Sequence[LogRecord]]]
    next_offsets: Mapping[int, Mapping[str, int]]
    caught_up: frozenset[int]


@dataclass(frozen=True)
class PartitionStatus:
    """One assigned topic-partition, for gauges. None: not known (yet), or not read."""

    topic: str
    partition: int
    next_offset: int | None
    lag_records: int | None
    fetched_ms: int | None
    fault: str | None


class Source(Protocol):
    """Lanes of records. Where reading goes on is said by whoever opens a lane."""

    async def poll(
        self, max_records: int, timeout_ms: int, lanes: Collection[int] | None = None
    ) -> Batch:
        """What is there, or comes within the time, of these lanes (None: of all that are open), at
        most `max_records` of each; the records of the others wait. Must be called again and again,
        with or without lanes."""

    def batch_in_hand(self) -> AbstractAsyncContextManager[None]:
        """`async with` around processing and committing, as often at once as there are batches:
        lanes are not taken away meanwhile, for a bounded time."""

    def lanes_to_open(self) -> frozenset[int]:
        """Lanes that are assigned and not open."""

    def lanes_lost(self) -> frozenset[int]:
        """Lanes that stopped being open without `close` since the last call."""

    async def open(self, lane: int, offsets: Mapping[str, int]) -> Mapping[str, int]:
        """Read the lane from these offsets; returns how many records of a topic are gone, where any
        are.

        Raises OffsetBeyondEnd, LaneLost, Unavailable.
        """

    async def close(self, lane: int) -> None:
        """Stop reading the lane for now; it stays assigned."""

    async def starting_offsets(self, lane: int, start: str | int, now_ms: int) -> Mapping[str, int]:
        """Where a lane begins: "earliest", "latest", or so many milliseconds back. Raises
        Unavailable."""

    async def still_member(self) -> bool:
        """Whether this process was still counted in after the call began."""

    def hint(self, lane: int, offsets: Mapping[str, int]) -> None:
        """These offsets are durable."""

    @property
    def open_lanes(self) -> frozenset[int]:
        """The lanes that are read."""

    def status(self) -> Sequence[PartitionStatus]:
        """All assigned topic-partitions."""

    @property
    def obstacle(self) -> str | None:
        """What keeps the topics as such from being read, as far as that is known."""
