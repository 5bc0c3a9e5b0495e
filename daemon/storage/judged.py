"""Judged rows as a lane stores them: keys, and what its head says of them. Pure.

    judged:W:START:P      page P of the judged rows of the pane that begins at START (ms) of the
                          window of W seconds
    judged:hours:START:P  page P of those of an hour, as far as judged panes are final

Readers follow these keys as they follow `rows:` and `hours:`. A page has the same 64 segments, and
the columns of `lane.judged`: COUNT_COLUMNS, then METRIC_COLUMNS of each judged metric.
"""

from typing import Final

import msgspec

from ..judgements.index import Entry
from ..judgements.timeline import NOTHING_READ, Timeline
from ..panes import PaneKey, Timing

PREFIX: Final = "judged:"
JUDGED_FIELD: Final = "judged"
JUDGEMENTS_FIELD: Final = "judgements"
HOURS_PREFIX: Final = f"{PREFIX}hours:"


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


def judged_key(timing: Timing, key: PaneKey, page: int) -> str:
    """Return the key of a page of the judged rows of a pane."""
    window, start = key
    return f"{PREFIX}{timing.windows[window].length_ms // 1000}:{start}:{page}"


def parse_judged_key(timing: Timing, key: str) -> tuple[PaneKey, int] | None:
    """Return (pane, page) of the key of a page of judged rows of a pane; None for other keys, and
    where there is no such window."""
    if not key.startswith(PREFIX) or key.startswith(HOURS_PREFIX):
        return None
    length_s, start, page = map(int, key.removeprefix(PREFIX).split(":"))
    window = timing.index_by_length_ms.get(length_s * 1000)
    return None if window is None else ((window, start), page)


def judged_hour_key(start: int, page: int) -> str:
    """Return the key of a page of the judged rows of an hour that begins at `start`, in ms."""
    return f"{HOURS_PREFIX}{start}:{page}"


def parse_judged_hour_key(key: str) -> tuple[int, int] | None:
    """Return (start of the hour in ms, page); None for other keys."""
    if not key.startswith(HOURS_PREFIX):
        return None
    start, page = key.removeprefix(HOURS_PREFIX).split(":")
    return int(start), int(page)
