"""The port that records come from: a Kafka consumer group, or the demo's own traffic."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from ..config import Start
from ..events import LogRecord
from ..storage import NO_MARKS, LogMarks


class LaneLost(Exception):
    """The lane is not, or no longer, assigned to this process."""


class LogChanged(Exception):
    """The log is not, or may not be, the one that the lane has read. The lane stays stopped until
    that log is back, or an operator accepts the one that is there.

    Reading such a log from the stored offset would leave out its first records, and nothing would
    show it; reading it from the start is right where it has taken the place of the old one, and
    only an operator knows that (`relevanced lane accept-new-log`): then the lane begins it at its
    start and keeps all that it has. What is sent again in the new log counts once: an impression
    that is still open is a duplicate, and one that has settled is late.
    """

    def __init__(
        self, topic: str, partition: int, stored: int, found: str | None, why: str
    ) -> None:
        """`found`: the topic id of the log that is there; None in a cluster without ids."""
        self.topic, self.partition, self.stored = topic, partition, stored
        self.log = topic
        """By which its lane knows it: set by who knows how topic-partitions make lanes."""
        self.found = found or ""
        self.why = why
        self.unread: int | None = None
        """How many records of the log that was read are known to have been left."""
        super().__init__(
            f"{topic}[{partition}]: {why} The lane stays stopped until that log is back, or until"
            f" `relevanced lane accept-new-log {topic}` lets it begin the log that is there now."
        )


class OffsetBeyondEnd(LogChanged):
    """The log ends before the stored offset: it lost records that it had acknowledged, or, in a
    cluster without topic ids, is another one.
    """

    def __init__(
        self, topic: str, partition: int, stored: int, end: int, found: str | None = None
    ) -> None:
        self.end = end
        why = f"the stored offset {stored} is beyond the end of the log, {end}."
        if found is None:
            why += " Was the topic deleted and created again?"
        super().__init__(topic, partition, stored, found, why)


class LogReplaced(LogChanged):
    """The topic was deleted and created again."""

    def __init__(
        self, topic: str, partition: int, stored: int, read: str, found: str | None
    ) -> None:
        why = f"the topic was deleted and created again: its id was {read} and is {found}."
        super().__init__(topic, partition, stored, found, why)


class LogRewritten(LogChanged):
    """The last record that was read is another one now: the log lost its end and was written on,
    or, in a cluster without topic ids, the topic was created again.
    """

    def __init__(
        self, topic: str, partition: int, stored: int, offset: int, found: str | None
    ) -> None:
        why = f"the record at offset {offset}, the last that was read, is another one now."
        super().__init__(topic, partition, stored, found, why)


@dataclass(frozen=True)
class Batch:
    """What one poll gave.

    `lanes`: lane → log → records in offset order, for the lanes that have any. `next_offsets`: for
    the same lanes, the offset of every log after these records, to be stored with what they
    produce. `caught_up`: the open lanes whose topic-partitions were all seen at the end of their
    logs within the last 5 s, with nothing left to deliver. `idle`: lane → its logs that are not to
    be waited for: at their ends, and without a record for long.
    """

    lanes: Mapping[int, Mapping[str, Sequence[LogRecord]]]
    next_offsets: Mapping[int, Mapping[str, int]]
    caught_up: frozenset[int]
    idle: Mapping[int, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class PartitionStatus:
    """One assigned topic-partition, for gauges. None: not known yet, or not read."""

    topic: str
    partition: int
    next_offset: int | None
    lag_records: int | None
    fetched_ms: int | None
    fault: str | None


class Source(Protocol):
    """Lanes of records, read from the offsets with which the caller opens a lane."""

    async def poll(
        self, max_records: int, timeout_ms: int, lanes: Collection[int] | None = None
    ) -> Batch:
        """Return the records of these lanes (None: of all that are open) that are there or come
        within `timeout_ms`, at most `max_records` of each lane; those of other lanes wait. Must be
        called again and again, also without lanes."""

    def batch_in_hand(self) -> AbstractAsyncContextManager[None]:
        """`async with` around processing and committing, as often at once as there are batches:
        lanes are not taken away meanwhile, for a bounded time."""

    def lanes_to_open(self) -> frozenset[int]:
        """The lanes that are assigned and not open."""

    def lanes_lost(self) -> frozenset[int]:
        """The lanes that stopped being open without a `close` since the last call."""

    async def topic_ids(self, lane: int) -> Mapping[str, str]:
        """Return, by log, the ids of the topics, where the cluster has such ids. Raises
        Unavailable.
        """

    async def verify(self, lane: int, offsets: Mapping[str, int], marks: LogMarks) -> None:
        """Return if the lane's logs are those of the marks and reach as far as the offsets.

        Raises LogChanged, LaneLost, Unavailable.
        """

    async def open(
        self, lane: int, offsets: Mapping[str, int], marks: LogMarks = NO_MARKS
    ) -> Mapping[str, int]:
        """Read the lane from these offsets, and from no other logs than those of the marks; returns
        how many records of a log are gone, where any are.

        Raises LogChanged, LaneLost, Unavailable.
        """

    async def close(self, lane: int) -> None:
        """Stop reading the lane for now; it stays assigned."""

    async def starting_offsets(self, lane: int, start: Start, now_ms: int) -> Mapping[str, int]:
        """Return, by log, the offset where a lane without stored offsets begins. `Ago` counts
        back from `now_ms`. Raises Unavailable.
        """

    async def first_times(self, lane: int) -> Mapping[str, int]:
        """Return, by topic, the Kafka timestamp (ms) of the first record that the lane's logs still
        have; none of empty logs. Raises Unavailable."""

    async def group_offsets(self, lane: int) -> Mapping[str, int]:
        """Return, by log, the next offset as the group knows it: a hint of how far some worker
        had come, stored apart from the state. Raises Unavailable."""

    async def still_member(self) -> bool:
        """Whether the group confirmed this process as a member after the call began."""

    def hint(self, lane: int, offsets: Mapping[str, int]) -> None:
        """Note that these offsets are durable: a hint for tools that show lag, never read back."""

    @property
    def open_lanes(self) -> frozenset[int]:
        """The lanes that are open."""

    def status(self) -> Sequence[PartitionStatus]:
        """The status of every assigned topic-partition."""

    @property
    def obstacle(self) -> str | None:
        """Why no topic can be read at all, where that is known; else None."""
