"""Row sets of a lane as it stores them: pages of 64 segments, under keys of their own. Pure."""

from collections.abc import Callable, Iterable, Mapping

from ..lane.paged_rows import PagedRows, Rows
from ..lane.row_set import RowSet
from ..panes import PaneKey, Timing
from .keys import RowKeys
from .packing import pack_page, unpack_page

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
