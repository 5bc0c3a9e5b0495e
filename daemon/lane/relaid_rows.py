"""Rows of one measure under other columns and windows: panes and hours are copied, and panes of a
window that is new are summed from those of another one. Pure.

Clicks and judgements go the same way. All rows of a lane are dropped by the same watermark, so one
window is tiled from the same instant on in each of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from relevanced.metrics import Integers

from ..panes import Window, pane_start
from ..timing import Timing
from .row_sets import PAGE_ROWS, PagedRows, RowSet

ColumnPairs: TypeAlias = tuple[Integers, Integers]
"""The columns, in the old rows and in the new ones, that both have."""


@dataclass(frozen=True)
class Tiling:
    """How the panes of a window that is new are made."""

    index: int
    """Of the window under the new timing."""
    window: Window
    part_index: int
    """Of the window under the old timing whose panes are summed."""
    part: Window
    first_ms: int | None
    """The first pane that they make whole; None: there was none before."""


def tilings_of(old: Timing, new: Timing, watermark_ms: int | None) -> list[Tiling]:
    """Those of the windows that the old timing lacks, each from the window that reaches furthest
    back. Of both timings the base panes are the same."""
    found = []
    for index, window in enumerate(new.windows):
        if window not in old.windows:
            parts = [
                Tiling(index, window, n, part, _tiled_from(old, window, part, watermark_ms))
                for n, part in enumerate(old.windows)
                if window.pane_ms % part.pane_ms == 0
            ]
            found.append(min(parts, key=lambda each: (each.first_ms or 0, -each.part.pane_ms)))
    return found


def _tiled_from(old: Timing, window: Window, part: Window, watermark_ms: int | None) -> int | None:
    if watermark_ms is None:
        return None
    return -(-old.dropped_before(part, watermark_ms) // window.pane_ms) * window.pane_ms


def relay(
    old: RowSet,
    new: RowSet,
    columns: ColumnPairs,
    tilings: Sequence[Tiling],
    timings: tuple[Timing, Timing],
) -> None:
    """Give a row set without rows those of another one. `timings`: of the old one and the new."""
    before, after = timings
    windows = {window: n for n, window in enumerate(after.windows)}
    index = {n: windows.get(window) for n, window in enumerate(before.windows)}
    for (window, start), rows in old.panes.items():
        into = index[window]
        if into is not None:
            new.panes[into, start] = copied(rows, new.width, columns)
        for tiling in tilings:
            first = pane_start(start, tiling.window.pane_ms)
            if window == tiling.part_index and first >= (tiling.first_ms or 0):
                tiled = new.panes.setdefault((tiling.index, first), PagedRows(new.width))
                for page, added in copied(rows, new.width, columns).pages.items():
                    tiled.add_page(page, added)
    new.hours = {start: copied(rows, new.width, columns) for start, rows in old.hours.items()}


def copied(rows: PagedRows, width: int, columns: ColumnPairs) -> PagedRows:
    """The rows in `width` columns: 0 in those that they did not have."""
    from_, to = columns
    found = PagedRows(width)
    for page, old in rows.pages.items():
        into = np.zeros((PAGE_ROWS, width), np.int64)
        into[:, to] = old[:, from_]
        found.set_page(page, into)
    return found


def set_before(rows: PagedRows, before: int, members: Sequence[int], *, keeps: bool) -> None:
    """Give one segment of a grouping, `before`, all of the whole that the others do not have.
    `keeps`: these, its members, keep their rows; else they have nothing."""
    if 0 not in rows.pages:
        return
    rest = rows.page(0)[0].copy()
    for member in members:
        page, line = divmod(member, PAGE_ROWS)
        if page in rows.pages and member != before:
            if keeps:
                rest -= rows.page(page)[line]
            else:
                rows.page(page)[line] = 0
    page, line = divmod(before, PAGE_ROWS)
    if page not in rows.pages:
        rows.set_page(page, np.zeros((PAGE_ROWS, len(rest)), np.int64))
    rows.page(page)[line] = rest
