"""Row sets of a lane as it stores them: pages of 64 segments, under keys of their own; what its
head says of optional rows and of dated files; and the examples of queries. Pure.

    examples:START   those of the hour that begins at START (ms) and is over: written once, read on
                     demand, and unlinked after 24 hours

Examples of the open hour stand in the parts of its tables (see `queries`), beside the rows that
they belong to.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from ..judgements import NOTHING_READ, DatedFiles, IndexEntry, Timeline
from ..lane import ExamplesByKey, Lane, PagedRows, Rows, RowSet, latest_ms
from ..panes import PaneKey
from ..queries import Examples
from ..timing import Timing
from .keys import RowKeys, pack, pack_page, unpack, unpack_page

Packed = dict[int, bytes]
"""Page → its rows, as they are stored."""


def blobs_of(rows: RowSet, keys: RowKeys, timing: Timing) -> dict[str, bytes]:
    """Return key → value of the rows that changed."""
    panes = {
        keys.pane(timing, key, page): pack_page(rows.panes[key].page(page))
        for key, page in sorted(rows.pages)
    }
    return panes | {
        keys.hour(start, page): pack_page(rows.hours[start].page(page))
        for start, page in sorted(rows.hour_pages)
    }


def dropped(rows: RowSet, keys: RowKeys, timing: Timing) -> list[str]:
    """Return the keys of rows that are no longer kept."""
    panes = [keys.pane(timing, key, page) for key, page in rows.dropped]
    return [*panes, *(keys.hour(start, page) for start, page in rows.dropped_hours)]


def past_keys(rows: RowSet, keys: RowKeys) -> list[str]:
    """Return the keys of rows that only the store has."""
    return [keys.hour(start, page) for start, of in rows.stored_hours.items() for page in of]


def restore(
    rows: RowSet,
    keys: RowKeys,
    timing: Timing,
    blobs: Mapping[str, bytes | None],
    is_past: Callable[[str], bool],
    of_hour: Callable[[int, Rows], Rows] = lambda start, rows: rows,
) -> None:
    """Give a row set its rows as its last commit left them: of hours those that can still change,
    and which pages are stored of the others. `of_hour`: a page of an hour under the plan of the
    lane. Raises KeyError where a part is missing."""
    stored: dict[int, tuple[int, ...]] = {}
    for key, data in blobs.items():
        if (hour := keys.of_hour(key)) is not None:
            start, page = hour
            if data is None and is_past(key):
                stored[start] = (*stored.get(start, ()), page)
                continue
            of = rows.hours.setdefault(start, PagedRows(rows.width))
            of.set_page(page, of_hour(start, unpack_page(_whole(key, data))))
        elif keys.own(key):
            pane = keys.of_pane(timing, key)
            if pane is None:
                raise KeyError(key)
            of = rows.panes.setdefault(pane[0], PagedRows(rows.width))
            of.set_page(pane[1], unpack_page(_whole(key, data)))
    rows.stored_hours = stored


def _whole(key: str, data: bytes | None) -> bytes:
    if data is None:
        raise KeyError(key)
    return data


def by_start(
    pages: Iterable[tuple[str, bytes]], keys: RowKeys, timing: Timing
) -> tuple[dict[PaneKey, Packed], dict[int, Packed]]:
    """Return the pages of panes and those of hours, among the stored values of a lane; without
    those of windows that there are not."""
    panes, hours = dict[PaneKey, Packed](), dict[int, Packed]()
    for key, data in pages:
        if (hour := keys.of_hour(key)) is not None:
            hours.setdefault(hour[0], {})[hour[1]] = data
        elif (pane := keys.of_pane(timing, key)) is not None:
            panes.setdefault(pane[0], {})[pane[1]] = data
    return panes, hours


JUDGEMENTS_FIELD: Final = "judgements"


class RowsHead(msgspec.Struct, array_like=True, frozen=True):
    """What the head of a lane says of rows that its plan asks for."""

    latest_ms: int = NOTHING_READ
    """The greatest of the watermarks of its topic-partitions and of the times of its accepted
    impressions: a file that starts later can be adopted."""
    since_ms: int = 0
    """The first hour that has such rows; 0: all have."""
    columns: tuple[str, ...] = ()
    """As in `Plan.optional`."""
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

    def restore(self, files: DatedFiles[Any]) -> None:
        """Give a lane its files as its last commit left them, without their contents."""
        files.timeline, files.past = self.timeline, _entries(self.past)

    @property
    def history(self) -> Timeline:
        """The same with the files of all kept hours: `in_force` says which file graded an hour
        that is kept."""
        return Timeline(_entries((*self.past, *self.entries)), _entries(self.refused))


def timeline_head(files: DatedFiles[Any]) -> TimelineHead:
    """Return what the head says of the files of a lane."""
    timeline = files.in_use
    return TimelineHead(_stored(timeline.entries), _stored(timeline.refused), _stored(files.past))


def _stored(entries: tuple[IndexEntry, ...]) -> tuple[StoredEntry, ...]:
    return tuple(StoredEntry(each.start_ms, each.name, each.sha256) for each in entries)


def _entries(stored: tuple[StoredEntry, ...]) -> tuple[IndexEntry, ...]:
    return tuple(IndexEntry(each.start_ms, each.name, each.sha256) for each in stored)


CLASSES_FIELD: Final = "classes"
NOTHING: Final = b""
"""The value of the field of a lane where attributes were derived by files and are not any more."""


class ClassesHead(msgspec.Struct, array_like=True, frozen=True):
    """What the head of a lane says of the files by which attributes are derived."""

    latest_ms: int = NOTHING_READ
    """The latest event time of the lane: a file that starts later can be adopted."""
    timelines: dict[str, TimelineHead] = {}
    """By attribute; without those that nothing was derived of so far."""


def packed_class_files(lane: Lane) -> bytes:
    """Return the field of the head of a lane; NOTHING where no attribute is derived by files."""
    if not lane.class_files:
        return NOTHING
    timelines = {
        name: timeline_head(files)
        for name, files in sorted(lane.class_files.items())
        if files.timeline is not None
    }
    return pack(ClassesHead(latest_ms(lane), timelines))


def restore_class_files(lane: Lane, head: ClassesHead | None) -> None:
    """Give a lane its files as its last commit left them. Raises KeyError where the head does not
    say them."""
    if not lane.class_files:
        return
    if head is None:
        raise KeyError(CLASSES_FIELD)
    for name, files in lane.class_files.items():
        if name in head.timelines:
            head.timelines[name].restore(files)


PREFIX: Final = "examples:"
StoredExamples: TypeAlias = tuple[tuple[bytes, Examples], ...]
"""(key of a query, its examples)."""


class ExampleHour(msgspec.Struct, array_like=True, frozen=True):
    """The examples of an hour."""

    min_users: int
    """Each query had so many users before any example of it was taken."""
    examples: StoredExamples


def examples_hour_key(start: int) -> str:
    """Return the key of the examples of an hour that is over."""
    return f"{PREFIX}{start}"


def hour_of(key: str) -> int | None:
    """Return the start of the hour whose examples have this key; None for other keys."""
    return int(key.removeprefix(PREFIX)) if key.startswith(PREFIX) else None


def stored(by_key: ExamplesByKey, keys: Iterable[str]) -> StoredExamples:
    """Return the examples of those of the keys that have any, as they are stored."""
    pairs = ((key, by_key[key]) for key in keys if key in by_key)
    return tuple((key.encode(errors="surrogatepass"), examples) for key, examples in pairs)


def by_key_of(found: StoredExamples) -> dict[str, Examples]:
    """Return key → examples, in the order in which they are stored."""
    return {key.decode(errors="surrogatepass"): examples for key, examples in found}


def unpacked_hour(data: bytes) -> ExampleHour:
    """Return the examples that were packed. Raises ValueError and PackingError for other bytes."""
    return unpack(data, ExampleHour)


def closed_hours(lane: Lane) -> dict[int, bytes]:
    """Return start → examples of the hours that this batch closed."""
    queries = lane.queries
    assert queries is not None
    return {
        start: pack(ExampleHour(queries.plan.min_users, stored(by_key, by_key)))
        for start, by_key in sorted(queries.examples.closed.items())
    }


def restored(
    lane: Lane, hours: Mapping[int, int], lost: Sequence[int], parts: Sequence[StoredExamples]
) -> None:
    """Give a lane its examples as its last commit left them: the hours that are stored or lost,
    and what the parts of the open hour have, from the last one that has all rows on."""
    queries = lane.queries
    assert queries is not None
    examples = queries.examples
    examples.stored, examples.lost = dict(hours), set(lost)
    for part in parts:
        examples.by_key |= by_key_of(part)
