"""Where reading goes on in a log, and whether its end is reached. Knows no client and no clock."""

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from ..worker.source import OffsetBeyondEnd
from .topic_partition import TopicPartition

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
