"""Rows of one measure of a lane: those of panes, and those of hours, which are kept for weeks.

Clicks and judgements are two measures. They differ in their columns, in when a pane is final, and
in the keys under which `storage` writes them; what happens to their rows is the same, and stands
here. Pure, and like totals a function of the log alone: a base pane's rows are added to those of
the hour that contains its start, once, when it is final. So an hour changes only while its own
panes become final, and a writer needs only the one hour that may still change.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from relevanced.metrics.lists import Integers

from ..panes import PaneKey, Timing, pane_start
from ..plan import Plan
from .paged_rows import PagedRows, Pages, Rows


def open_hour(settled_before: int, plan: Plan) -> int:
    """Start of the first hour that can still change."""
    return pane_start(settled_before, plan.hour_ms)


def kept_from(settled_before: int, plan: Plan) -> int:
    """Start of the first hour that is kept."""
    return open_hour(settled_before, plan) - plan.history_hours * plan.hour_ms


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

    def mark_all_rows(self) -> None:
        """Let the next commit write all rows that are in memory."""
        self.pages |= {(key, page) for key, of in self.panes.items() for page in of.page_numbers}
        self.hour_pages |= {(at, page) for at, of in self.hours.items() for page in of.page_numbers}
