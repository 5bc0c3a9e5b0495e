"""The tables of queries of a replay: all hours of its lane, kept in memory. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ...exporter.query_pages import page_of
from ...exporter.query_windows import QueryWindow
from ...http.api.queries import queries
from ...http.api.query_lists import Found
from ...http.api.query_rows import Queries
from ...lane.lane import Lane
from ...lane.queries import Tables
from ...lane.query_settling import settle_queries
from ...plan import Plan
from ...queries.merging import Page

ROWS: Final = 50
ALL_DAYS: Final = 100_000
"""A replay keeps the hours of so many days."""


@dataclass
class QueryHours:
    """The hours that a replay has closed."""

    plan: Plan
    hours: dict[int, Tables] = field(default_factory=dict)
    lost: frozenset[int] = frozenset()

    def take(self, lane: Lane) -> None:
        """Take over the hours that a batch closed. Before the lane starts its next batch."""
        if lane.queries is not None:
            self.hours |= lane.queries.closed

    def finished(self, lane: Lane, order: str) -> Queries:
        """Merge the panes that are still open too, and close the hours: the lane can take no more
        events afterwards. Return the queries of all hours."""
        assert lane.queries is not None
        for pane in lane.open.panes():
            settle_queries(lane, pane)
        lane.queries.close()
        self.take(lane)
        return self.listed(order)

    def pages(self, kind: str, starts: Sequence[int]) -> list[Page]:
        """The tables of a kind of these hours."""
        tables = ((start, self.hours.get(start, {}).get(kind)) for start in starts)
        return [page_of(table, start) for start, table in tables if table is not None]

    def listed(self, order: str) -> Queries:
        """The queries of all hours in an order that needs nothing usual."""
        hour_ms = self.plan.hour_ms
        first, last = min(self.hours, default=0), max(self.hours, default=-hour_ms)
        window = QueryWindow(range(first, last + hour_ms, hour_ms))
        return queries(Found(self, window, self.plan.metrics[0].name), order, ROWS)
