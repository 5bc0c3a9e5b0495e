"""Records of a log by their offsets: those that were not taken yet, where reading resumes, what
Kafka has deleted of them, and whether the end is reached. The rules keep no client and no clock.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from .topic_partition import TopicPartition

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
