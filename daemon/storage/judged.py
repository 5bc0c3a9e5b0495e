"""What the head of a lane says of its judged rows, and of the files that grade them. Pure."""

from typing import Final

import msgspec

from ..judgements.index import Entry
from ..judgements.timeline import NOTHING_READ, Timeline

JUDGED_FIELD: Final = "judged"
JUDGEMENTS_FIELD: Final = "judgements"


class JudgedHead(msgspec.Struct, array_like=True, frozen=True):
    """What the head of a lane says of its judged rows."""

    latest_ms: int = NOTHING_READ
    """The greatest of the watermarks of its topic-partitions and of the times of its accepted
    impressions: a file that starts later can be adopted."""
    since_ms: int = 0
    """The first hour that has judged rows; 0: all have."""
    columns: tuple[str, ...] = ()
    """`JudgedPlan.column_ids`."""
    from_slot: int = 0
    """Impressions of earlier slots were accepted before the rows began: none of them counts."""
    lost_hours: tuple[int, ...] = ()
    """Starts of hours of which the store lost pages: no sum may contain them."""


class StoredEntry(msgspec.Struct, array_like=True, frozen=True):
    """A file of judgements, as `judgements.index.Entry`."""

    start_ms: int
    name: str
    sha256: str


class TimelineHead(msgspec.Struct, array_like=True, frozen=True):
    """What the head of a lane says of the files that grade."""

    entries: tuple[StoredEntry, ...] = ()
    """The lane's timeline, by ascending start."""
    refused: tuple[StoredEntry, ...] = ()
    """Files that were listed too late for this lane, by ascending start."""
    past: tuple[StoredEntry, ...] = ()
    """Files that have left the timeline and were in force in an hour that is kept, by ascending
    start: all of them start before those of `entries`."""

    @property
    def timeline(self) -> Timeline:
        """The files that are or will be in force."""
        return Timeline(_entries(self.entries), _entries(self.refused))

    @property
    def history_before(self) -> tuple[Entry, ...]:
        """The files that have left the timeline."""
        return _entries(self.past)

    @property
    def history(self) -> Timeline:
        """The same with the files of all kept hours: `in_force` says which file graded an hour
        that is kept."""
        return Timeline(_entries((*self.past, *self.entries)), _entries(self.refused))


def timeline_head(timeline: Timeline, past: tuple[Entry, ...]) -> TimelineHead:
    """Return what the head says of a timeline, and of the files that have left it."""
    return TimelineHead(_stored(timeline.entries), _stored(timeline.refused), _stored(past))


def _stored(entries: tuple[Entry, ...]) -> tuple[StoredEntry, ...]:
    return tuple(StoredEntry(each.start_ms, each.name, each.sha256) for each in entries)


def _entries(stored: tuple[StoredEntry, ...]) -> tuple[Entry, ...]:
    return tuple(Entry(each.start_ms, each.name, each.sha256) for each in stored)
