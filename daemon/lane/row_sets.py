"""Rows of one measure of a lane, of panes and of hours, in whole pages by segment id: only those
that were touched cost memory.

Segment ids only grow while values come and go, so at any one time a few of all the pages are
touched. A pane as long as the largest id would cost 40 kB for each new name, in the writer and in
readers, for ever.

Clicks and judgements are two measures. They differ in their columns, in when a pane is final, in
the keys under which `storage` writes them, and in that a lane has those of judgements only where
its plan asks for them; what happens to their rows is the same, and stands here. Pure, and like
totals a function of the log alone: a base pane's rows are added to those of the hour that contains
its start, once, when it is final. So an hour changes only while its own panes become final, and a
writer needs only the one hour that may still change.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import Integers

from ..panes import PaneKey
from ..plan import Plan
from ..timing import Timing
from .kept_rows import kept_from, open_hour

Rows: TypeAlias = Integers
"""(n, columns): counters of n segments."""
Pages: TypeAlias = Mapping[int, Rows]
"""Page number → (PAGE_ROWS, columns): rows of the segment ids from PAGE_ROWS times the number on.
The rows of a page that is not there are zeros."""

PAGE_ROWS: Final = 64
"""Segments in a page, the unit in which rows are allocated and stored."""
LARGEST_SUM: Final = 2**62
"""A sum that reaches this is an error: int64 wraps around only at twice as much."""
_SPARE: Final = 8
"""A spare page is allocated for each 8 in use, so that growing moves each row a few times only."""
_ABSENT: Final = -1


class PagedRows:
    """Rows that a writer adds to. All methods that add raise OverflowError where a counter reaches
    2^62."""

    def __init__(self, width: int) -> None:
        self._page_numbers: list[int] = []
        self._rows = np.zeros((0, width), np.int64)
        """The pages in the order of `_page_numbers`, and spare ones after them."""
        self._index = np.zeros(0, np.int32)
        """Page number → its index in `_page_numbers`, or `_ABSENT`."""

    @property
    def page_numbers(self) -> tuple[int, ...]:
        """The pages that were touched."""
        return tuple(self._page_numbers)

    @property
    def pages(self) -> Pages:
        """All pages that were touched, as views."""
        return {page: self._at(index) for index, page in enumerate(self._page_numbers)}

    def page(self, page: int) -> Rows:
        """(PAGE_ROWS, columns), a view. Raises LookupError where the page was never touched."""
        index = int(self._index[page])
        if index == _ABSENT:
            raise LookupError(f"page {page}: was never touched")
        return self._at(index)

    def add(self, segments: Integers, sums: Rows) -> set[int]:
        """Add to the rows of distinct segments; returns the numbers of their pages."""
        if not len(segments):
            return set()
        pages = segments // PAGE_ROWS
        touched = set(pages.tolist())
        if int(pages.max()) >= len(self._index) or self._index.take(pages).min() == _ABSENT:
            self._allocate(touched)
        lines = (self._index.take(pages) - pages) * PAGE_ROWS + segments
        added = self._rows.take(lines, axis=0)
        added += sums
        _check_size(added)
        self._rows[lines] = added
        return touched

    def add_page(self, page: int, rows: Rows) -> None:
        """Add to all rows of a page."""
        self._allocate((page,))
        into = self.page(page)
        into += rows
        _check_size(into)

    def set_page(self, page: int, rows: Rows) -> None:
        """Replace a page by these rows, (PAGE_ROWS, columns)."""
        self._allocate((page,))
        self.page(page)[:] = rows

    def _at(self, index: int) -> Rows:
        return self._rows[index * PAGE_ROWS : (index + 1) * PAGE_ROWS]

    def _allocate(self, pages: Iterable[int]) -> None:
        """Allocate those of the pages that are not there yet."""
        end = len(self._index)
        new = [page for page in pages if page >= end or self._index[page] == _ABSENT]
        if not new:
            return
        beyond = max(new) + 1 - end
        if beyond > 0:
            more = np.full(beyond, _ABSENT, np.int32)
            self._index = np.concatenate([self._index, more])
        for page in sorted(new):
            self._index[page] = len(self._page_numbers)
            self._page_numbers.append(page)
        needed = len(self._page_numbers) * PAGE_ROWS
        if needed > len(self._rows):
            capacity = len(self._page_numbers) + len(self._page_numbers) // _SPARE
            larger = np.zeros((capacity * PAGE_ROWS, self._rows.shape[1]), np.int64)
            larger[: len(self._rows)] = self._rows
            self._rows = larger


def _check_size(rows: Rows) -> None:
    largest = int(np.abs(rows).max())
    if largest >= LARGEST_SUM:
        raise OverflowError(f"a counter of {largest}: must stay below 2^62")


def take(pages: Pages, segments: NDArray[np.intp], width: int) -> Rows:
    """The rows of these segment ids, (segments, columns)."""
    page_numbers, which = np.unique(segments // PAGE_ROWS, return_inverse=True)
    zeros = np.zeros((PAGE_ROWS, width), np.int64)
    found = np.stack([zeros, *(pages.get(page, zeros) for page in page_numbers.tolist())])
    return np.asarray(found[which.reshape(-1) + 1, segments % PAGE_ROWS], np.int64)


def summed(parts: Iterable[Pages]) -> tuple[Pages, int]:
    """The sum of pages, and a bound on the magnitudes in it: where the bound is beyond int64, the
    sum may have wrapped around."""
    by_page: dict[int, list[Rows]] = {}
    for pages in parts:
        for page, rows in pages.items():
            by_page.setdefault(page, []).append(rows)
    total: dict[int, Rows] = {}
    bound = 0
    for page, addends in by_page.items():
        stacked = np.stack(addends)
        total[page] = stacked.sum(axis=0)
        greatest = np.maximum(stacked.max(axis=(1, 2)), -stacked.min(axis=(1, 2)))
        bound = max(bound, sum(greatest.tolist()))
    return total, bound


@dataclass(kw_only=True)
class RowSet:
    """The rows, of `width` columns, and what the batch changed of them."""

    width: int
    panes: dict[PaneKey, PagedRows] = field(default_factory=dict)
    hours: dict[int, PagedRows] = field(default_factory=dict)
    """Of the hours that can still change, or whose changes are not durable yet."""
    stored_hours: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Start of an earlier hour → its pages in the store."""
    lost_hours: set[int] = field(default_factory=set)
    """Starts of earlier hours of which the store lost pages: no sum may contain them."""
    pages: set[tuple[PaneKey, int]] = field(default_factory=set)
    """(pane, page) that changed."""
    hour_pages: set[tuple[int, int]] = field(default_factory=set)
    """(start of the hour, page) that changed."""
    dropped: list[tuple[PaneKey, int]] = field(default_factory=list)
    """Pages of panes that are no longer kept."""
    dropped_hours: list[tuple[int, int]] = field(default_factory=list)
    """Pages of hours that are no longer kept."""

    def start_rows(self, settled_before: int | None, plan: Plan) -> None:
        """Forget what the last batch changed, which is durable by now, and leave the hours that
        cannot change any more to the store."""
        self.pages, self.hour_pages, self.dropped, self.dropped_hours = set(), set(), [], []
        if settled_before is not None:
            still_open = open_hour(settled_before, plan)
            for start in [start for start in self.hours if start < still_open]:
                self.stored_hours[start] = self.hours.pop(start).page_numbers

    def add_rows(self, key: PaneKey, segments: Integers, sums: Rows) -> None:
        """Add to the rows of distinct segments in a pane."""
        rows = self.panes.setdefault(key, PagedRows(self.width))
        self.pages.update((key, page) for page in rows.add(segments, sums))

    def add_left_behind(
        self, hour: int, segments: Integers, sums: Rows, settled_before: int, plan: Plan
    ) -> None:
        """Add to the rows of distinct segments in an hour: the sums of base panes that are final
        and that no view can need any more, so that they need no rows of their own."""
        if plan.history_hours and hour >= kept_from(settled_before, plan):
            into = self.hours.setdefault(hour, PagedRows(self.width))
            self.hour_pages.update((hour, page) for page in into.add(segments, sums))

    def newly_final(self, since: int | None, before: int) -> Iterator[tuple[int, Pages]]:
        """(start, pages that are not empty) of the base panes that became final, ascending. Panes
        stay afterwards, for the windows: those before `since` were final before."""
        for window, start in sorted(self.panes):
            if not window and start < before and (since is None or start >= since):
                pages = self.panes[window, start].pages
                yield start, {page: rows for page, rows in pages.items() if rows.any()}

    def add_to_hour(self, pane: int, pages: Pages, settled_before: int, plan: Plan) -> None:
        """Add the rows of a final pane to its hour, if that is kept."""
        start = open_hour(pane, plan)
        if start >= kept_from(settled_before, plan) and pages:
            into = self.hours.setdefault(start, PagedRows(self.width))
            for page, rows in pages.items():
                into.add_page(page, rows)
            self.hour_pages.update((start, page) for page in pages)

    def drop_hours(self, first: int) -> None:
        """Drop the hours that start before this one, among them any that this batch added to."""
        self.lost_hours = {start for start in self.lost_hours if start >= first}
        stored = [start for start in self.stored_hours if start < first]
        self._drop((start, self.stored_hours.pop(start)) for start in stored)
        changing = [start for start in self.hours if start < first]
        self._drop((start, self.hours.pop(start).page_numbers) for start in changing)
        self.hour_pages = {page for page in self.hour_pages if page[0] >= first}

    def drop_panes(self, timing: Timing, watermark_ms: int | None) -> None:
        """Drop the panes that no view can need any more."""
        if watermark_ms is None:
            return
        limits = [timing.dropped_before(span, watermark_ms) for span in timing.windows]
        for key in [key for key in self.panes if key[1] < limits[key[0]]]:
            self.dropped += [(key, page) for page in self.panes.pop(key).page_numbers]
        self.pages = {page for page in self.pages if page[0] in self.panes}

    def lose_hours(self, starts: Collection[int]) -> None:
        """Note that pages of these earlier hours are missing in the store: the rest of them is
        removed, and no sum may contain the hours."""
        lost = [start for start in starts if start in self.stored_hours]
        self.lost_hours.update(lost)
        self._drop((start, self.stored_hours.pop(start)) for start in lost)

    def _drop(self, hours: Iterator[tuple[int, Collection[int]]]) -> None:
        self.dropped_hours += [(start, page) for start, pages in hours for page in pages]

    def without_rows(self) -> Self:
        """The same without the rows in memory, for those under another plan. Between batches."""
        empty = replace(self, panes={}, hours={}, pages=set(), hour_pages=set())
        return replace(empty, dropped=[], dropped_hours=[])

    def mark_all_rows(self) -> None:
        """Let the next commit write all rows that are in memory."""
        self.pages |= {(key, page) for key, of in self.panes.items() for page in of.page_numbers}
        self.hour_pages |= {(at, page) for at, of in self.hours.items() for page in of.page_numbers}


@dataclass(kw_only=True)
class OptionalRows(RowSet):
    """Rows that a lane has where its plan asks for them, and that wait for no feedback. What came
    before a plan first asked is not in them."""

    since_ms: int = 0
    """The first hour that has such rows; 0: all have."""
    from_slot: int = 0
    """Impressions of earlier slots do not count: they were accepted before the rows began."""
    final_before: int | None = None
    """Rows of base panes that start before this instant are final, and in their hours; None while
    there is no watermark."""

    def begin(self, from_slot: int, since_ms: int) -> None:
        """Let the rows begin with the impression of this slot; the first whole hour starts at
        `since_ms`."""
        self.from_slot, self.since_ms = from_slot, since_ms

    def go_on_from(self, former: "OptionalRows") -> None:
        """Take over what does not depend on the plan from the rows under another one."""

    def settle(self, watermark_ms: int, settled_before: int, plan: Plan) -> None:
        """Add the panes that became final to their hours, once, and drop what is kept no longer.
        After the lane has settled, before `settled_before`."""
        before = plan.timing.final_before(watermark_ms)
        if self.final_before is None or before > self.final_before:
            since, self.final_before = self.final_before, before
            for pane, pages in self.newly_final(since, before) if plan.history_hours else ():
                self.add_to_hour(pane, pages, settled_before, plan)
        if plan.history_hours:
            self.drop_hours(kept_from(settled_before, plan))
        self.drop_panes(plan.timing, watermark_ms)
