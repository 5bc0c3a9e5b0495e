"""Stored tables of queries as the values that are merged, and which hours of them a window has, or
are usual for it. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from relevanced.metrics import Integers

from ..lane import MISSING, QUERY_COUNT_COLUMNS, QUERY_METRIC_COLUMNS, ZERO
from ..panes import pane_start
from ..plan import Plan
from ..queries import DAY_MS, Examples, Page, QueryTable, usual_hours
from ..storage import (
    QueryHead,
    StoredHour,
    by_key_of,
    row_pages,
    table_of,
    unpacked_hour,
    whole_or_damaged,
)

Hours = Mapping[int, Sequence[Sequence[bytes]]]
"""Start of an hour → for each lane that has it, its page or its parts, as they are stored."""


ExamplesOfHour = tuple[int, Mapping[str, Examples]]
"""(how many users a query had before an example was taken, key → examples)."""


@dataclass(frozen=True)
class QueryPages:
    """What was read of the tables of queries of all lanes."""

    plan: Plan
    hours: Hours = field(default_factory=dict)
    lost: frozenset[int] = frozenset()
    """Starts of hours of which a lane lost its page."""
    closed_examples: Mapping[int, Sequence[bytes]] = field(default_factory=dict)
    """Start of an hour → the examples of each lane that has closed it, as they are stored."""
    open_hours: Hours = field(default_factory=dict)
    """Of the hours that lanes have not closed, the parts."""
    lost_examples: frozenset[int] = frozenset()
    """Starts of hours of which a lane lost its examples."""

    def examples(self, starts: Sequence[int]) -> list[ExamplesOfHour]:
        """The examples of these hours, of every lane. Raises Damaged."""
        found: list[ExamplesOfHour] = []
        for start in starts:
            with whole_or_damaged(f"examples of queries of {start}"):
                closed = map(row_pages.unpacked_hour, self.closed_examples.get(start, ()))
                found += [(one.min_users, by_key_of(one.examples)) for one in closed]
                opened = self.open_hours.get(start, ())
                found += [_of_parts([unpacked_hour(part) for part in parts]) for parts in opened]
        return found

    def pages(self, kind: str, starts: Sequence[int]) -> list[Page]:
        """The tables of a kind of these hours. Raises Damaged."""
        found: list[Page] = []
        for start in starts:
            for parts in self.hours.get(start, ()):
                with whole_or_damaged(f"tables of queries of {start}"):
                    page = _page(self.plan, kind, start, [unpacked_hour(part) for part in parts])
                if page is not None:
                    found.append(page)
        return found


def _of_parts(parts: Sequence[StoredHour]) -> ExamplesOfHour:
    by_key: dict[str, Examples] = {}
    for part in parts:
        by_key = ({} if part.is_whole else by_key) | by_key_of(part.examples)
    return parts[0].min_users, by_key


def columns_of(plan: Plan, kind: str) -> int:
    """How many columns the tables of a kind have."""
    return (
        1
        if kind in (ZERO, MISSING)
        else len(QUERY_COUNT_COLUMNS) + QUERY_METRIC_COLUMNS * len(plan.metrics)
    )


def page_of(table: QueryTable, start: int) -> Page:
    """A table of the hour that begins at `start` as it is merged."""
    return Page(
        day=start // DAY_MS,
        keys=table.keys,
        sums=table.sums,
        missing=table.missing,
        users=list(table.users),
        min_users=table.min_users,
        other=table.other,
        bound=table.bound,
    )


def _page(plan: Plan, kind: str, start: int, parts: Sequence[StoredHour]) -> Page | None:
    first = parts[0]
    if kind not in first.tables:
        return None
    table = table_of([part.tables[kind] for part in parts], first.min_users)
    page = page_of(table, start)
    return replace(
        page,
        sums=_translated(page.sums, first.columns, plan, kind),
        other=_translated(page.other[np.newaxis], first.columns, plan, kind)[0],
    )


def _translated(sums: Integers, columns: Sequence[str], plan: Plan, kind: str) -> Integers:
    """(n, columns) under the metrics of the plan: 0 in those that the table does not have."""
    if kind in (ZERO, MISSING) or tuple(columns) == plan.column_ids:
        return sums
    moved = np.zeros((len(sums), columns_of(plan, kind)), np.int64)
    counts = len(QUERY_COUNT_COLUMNS)
    moved[:, :counts] = sums[:, :counts]
    for to, id_ in enumerate(plan.column_ids):
        if id_ in columns:
            a, b = (counts + QUERY_METRIC_COLUMNS * n for n in (columns.index(id_), to))
            moved[:, b : b + QUERY_METRIC_COLUMNS] = sums[:, a : a + QUERY_METRIC_COLUMNS]
    return moved


NOW: Final = "now"
WINDOWS: Final[Mapping[str, int]] = {NOW: 1, "1h": 1, "6h": 6, "24h": 24, "7d": 168}
"""Window → its hours: the last ones that all lanes have closed; NOW is the open hour so far."""


@dataclass(frozen=True)
class LaneHours:
    """What a lane has of tables of queries."""

    lane: int
    head: QueryHead
    settled_before: int


@dataclass(frozen=True)
class QueryWindow:
    """The hours of a window. Starts, in ms."""

    hours: range
    usual: Sequence[Sequence[int]] = ()
    """A list for each usual day that counts, the latest day first."""

    @property
    def from_ms(self) -> int:
        """Where it begins."""
        return self.hours.start

    @property
    def until_ms(self) -> int:
        """Where its last hour ends."""
        return self.hours.stop

    @property
    def starts(self) -> set[int]:
        """The starts of all hours, usual ones too."""
        return {*self.hours, *(start for day in self.usual for start in day)}


def window_of(
    lanes: Sequence[LaneHours], name: str, hour_ms: int, outages: frozenset[int] = frozenset()
) -> QueryWindow:
    """The hours of a window, those that tables cover, and its usual hours without `outages`. Empty
    where no lane has tables yet."""
    if not lanes:
        return QueryWindow(range(0, 0, hour_ms))
    open_ms = min(pane_start(lane.settled_before, hour_ms) for lane in lanes)
    covered = range(_covered_from(lanes, open_ms), open_ms, hour_ms)
    if name == NOW:
        return _with_usual(range(open_ms, open_ms + hour_ms, hour_ms), lanes, covered, outages)
    start = max(open_ms - WINDOWS[name] * hour_ms, covered.start)
    return _with_usual(range(start, open_ms, hour_ms), lanes, covered, outages)


def of_hours(
    lanes: Sequence[LaneHours], hours: range, outages: frozenset[int] = frozenset()
) -> QueryWindow:
    """The window of these hours, with its usual ones."""
    if not lanes:
        return QueryWindow(hours)
    open_ms = min(pane_start(lane.settled_before, hours.step) for lane in lanes)
    return _with_usual(
        hours, lanes, range(_covered_from(lanes, open_ms), open_ms, hours.step), outages
    )


def missing_window(lanes: Sequence[LaneHours], name: str, hour_ms: int) -> QueryWindow:
    """The hours of a window that have the table of items without a judgement in all lanes; none
    where it begins later."""
    hours = window_of(lanes, name, hour_ms).hours
    since_ms = max((lane.head.missing_since_ms or 0 for lane in lanes), default=0)
    return QueryWindow(range(min(max(hours.start, since_ms), hours.stop), hours.stop, hour_ms))


def _with_usual(
    hours: range, lanes: Sequence[LaneHours], covered: range, outages: frozenset[int]
) -> QueryWindow:
    lost = {start for lane in lanes for start in lane.head.lost}
    return QueryWindow(hours, usual_hours(hours, covered, outages | lost))


def _covered_from(lanes: Sequence[LaneHours], open_ms: int) -> int:
    """The first hour that all lanes cover. Where nothing says since when, it is the earliest hour
    that any lane has: one without searches has no page."""
    stored = [start for lane in lanes for start in lane.head.hours]
    since = [lane.head.since_ms for lane in lanes if lane.head.since_ms is not None]
    return min(max([min(stored, default=open_ms), *since]), open_ms)
