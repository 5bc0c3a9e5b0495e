"""The tables of queries of a replay, of all hours of its lane, and what is listed of them."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from ..http import GAINED, LOST, UNIT_RANGE, Found, Queries, QueryExample, examples_of, queries
from ..lane import ExamplesByKey, Lane, Tables
from ..panes import pane_start
from ..plan import Plan
from ..queries import KEPT_HOURS, Page, usual_hours
from ..storage import Head, WriterState, writes_of
from ..views import ExamplesOfHour, QueryWindow, page_of
from .driver import Settled

ROWS: Final = 50
EVERY_ROW: Final = sys.maxsize
WITH_EXAMPLES: Final = 3
"""So many of the first rows come with their examples."""
COMPARED_HOURS: Final = 24
ALL_DAYS: Final = 1_200_000
"""A replay keeps the hours of so many days, more than event times can be apart."""


class NothingUsual(Exception):
    """Nothing says what was lost; the message says why."""


class QueriesShown(Queries, frozen=True, forbid_unknown_fields=True):
    """A list of queries, and searches of the first ones as they were shown."""

    examples: dict[str, tuple[QueryExample, ...]]


@dataclass
class QueryHours:
    """The hours that a replay has closed."""

    plan: Plan
    hours: dict[int, Tables] = field(default_factory=dict)
    taken: dict[int, ExamplesByKey] = field(default_factory=dict)
    """Their examples."""
    confirmed_ms: int | None = None
    """The watermark at the end of the files: a few later events may be of a clock that is wrong."""
    lost: frozenset[int] = frozenset()
    lost_examples: frozenset[int] = frozenset()

    def take(self, settled: Settled) -> None:
        """See `LaneSink`."""
        queries = settled.lane.queries
        assert queries is not None
        self.hours |= queries.closed
        self.taken |= queries.examples.closed

    def finish(self, settled: Settled) -> None:
        """See `LaneSink`: the hour that is open is closed."""
        assert settled.lane.queries is not None
        self.confirmed_ms = settled.watermark_ms
        settled.lane.queries.close()
        self.take(settled)

    def pages(self, kind: str, starts: Sequence[int]) -> list[Page]:
        """The tables of a kind of these hours."""
        tables = ((start, self.hours.get(start, {}).get(kind)) for start in starts)
        return [page_of(table, start) for start, table in tables if table is not None]

    def examples(self, starts: Sequence[int]) -> list[ExamplesOfHour]:
        """The examples of these hours."""
        assert self.plan.queries is not None
        # As a daemon has them: what a batch took of earlier hours depends on where it was cut.
        first = self._last_confirmed(0) - KEPT_HOURS * self.plan.hour_ms
        found = (self.taken.get(start) for start in starts if start >= first)
        return [(self.plan.queries.min_users, by_key) for by_key in found if by_key is not None]

    def _last_confirmed(self, default: int) -> int:
        """The last hour that other events confirm: what is said of the latest hours ends there."""
        last = max(self.hours, default=default)
        if self.confirmed_ms is None:
            return last
        return min(last, pane_start(self.confirmed_ms, self.plan.hour_ms))

    def listed(self, order: str, limit: int = ROWS) -> QueriesShown:
        """The first `limit` queries of all hours; what they lost or gained is that of the last 24
        confirmed hours, against the same hours of the days before. Raises NothingUsual."""
        hour_ms = self.plan.hour_ms
        first, last = min(self.hours, default=0), max(self.hours, default=-hour_ms)
        metric = self.plan.metrics[0].name
        window = QueryWindow(range(first, last + hour_ms, hour_ms))
        if order in (LOST, GAINED):
            hours = range(first, self._last_confirmed(-hour_ms) + hour_ms, hour_ms)
            window, metric = self._compared(hours, order), self._compared_metric(order)
        found = Found(self, window, metric)
        listed = queries(found, order, limit)
        shown = {row.query: examples_of(found, row.query) for row in listed.rows[:WITH_EXAMPLES]}
        return QueriesShown(
            **structs.asdict(listed), examples={key: of for key, of in shown.items() if of}
        )

    def _compared(self, hours: range, order: str) -> QueryWindow:
        last = hours[-COMPARED_HOURS:]
        usual = usual_hours(last, hours)
        if not usual:
            raise NothingUsual(
                f"--queries {order}: nothing is usual: that needs half of the last {COMPARED_HOURS}"
                f" hours on a day before, and these files span {len(hours)} h"
            )
        return QueryWindow(last, usual)

    def _compared_metric(self, order: str) -> str:
        """The first metric whose losses are known."""
        for metric in self.plan.metrics:
            if metric.entry.range == UNIT_RANGE:
                return metric.name
        raise NothingUsual(f"--queries {order}: needs a metric within 0 to 1 in metrics.names")

    def stored(self, lane: Lane) -> tuple[Head, dict[str, bytes]]:
        """All hours, and the open one so far, as a daemon stores them: the head, and the values by
        their keys. Of examples those of the last 24 hours."""
        of_lane = lane.queries
        assert of_lane is not None
        of_lane.closed, of_lane.examples.closed = dict(self.hours), dict(self.taken)
        if lane.settled_before is not None:
            of_lane.examples.keep_from(lane.settled_before, self.plan.hour_ms)
        of_lane.is_outdated = True
        writes = writes_of(lane, 0)
        assert writes is not None
        state = WriterState(settled_before=lane.settled_before)
        return Head("", 0, {}, state=state, queries=writes.head), dict(writes.blobs)
