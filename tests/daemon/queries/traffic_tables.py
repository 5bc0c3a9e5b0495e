"""Simulated hours as the tables that lanes keep of them: pane by pane, cut and closed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from relevanced.daemon.http import LOST, ORDERS, Found
from relevanced.daemon.lane import QUERY_COUNT_COLUMNS, WHOLE
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.plan import Plan
from relevanced.daemon.queries import Page, PaneSums, QueryPlan, QueryTable, grouped_sums
from relevanced.daemon.views import QueryWindow, columns_of, page_of
from relevanced.metrics import Floats, Integers, parse
from tests.builders import plan_with
from tests.daemon.queries.query_traffic import BROKEN, KEPT, Hours

PANES: Final = 360
"""Of an hour."""
PLAN: Final = plan_with(metrics=(parse("P@1"),), queries=QueryPlan(kept=KEPT, min_users=0))
COLUMNS: Final = columns_of(PLAN, WHOLE)
DAY: Final = 24


@dataclass(frozen=True)
class Tables:
    """The pages of some hours, as an exporter has read them."""

    hours: Mapping[int, Sequence[Page]]
    plan: Plan = PLAN
    lost: frozenset[int] = frozenset()

    def pages(self, kind: str, starts: Sequence[int]) -> list[Page]:
        """The pages of these hours; there is one kind."""
        assert kind == WHOLE
        return [page for start in starts for page in self.hours.get(start, ())]


def found_in_tables(hours: Hours, lanes: int, rng: np.random.Generator) -> Found:
    """The window of the first of the hours, whose searches are spread over so many lanes."""
    now = 100 * DAY
    starts = [(now - DAY * back) * HOUR_MS for back in range(len(hours.scored))]
    pages = {
        start: _pages(scored, total, start, lanes, rng)
        for start, scored, total in zip(starts, hours.scored, hours.totals, strict=True)
    }
    window = QueryWindow(range(starts[0], starts[0] + HOUR_MS, HOUR_MS), [[s] for s in starts[1:]])
    return Found(Tables(pages), window, "P@1")


def named_by_tables(hours: Hours, lanes: int, rng: np.random.Generator) -> int:
    """How many of the ten broken queries are among the first ten by what they lost."""
    found = found_in_tables(hours, lanes, rng)
    first = np.argsort(-ORDERS[LOST](found), kind="stable")[:BROKEN]
    return sum(bool(hours.is_broken[int(found.merged.keys[index])]) for index in first)


def _pages(
    scored: Integers, total: Floats, start: int, lanes: int, rng: np.random.Generator
) -> list[Page]:
    """One hour: each search in a lane and a pane by chance."""
    queries = np.repeat(np.arange(len(scored)), scored)
    first = np.repeat(np.cumsum(scored) - scored, scored)
    succeeded = np.arange(len(queries)) - first < total[queries]
    cell = rng.integers(0, lanes * PANES, len(queries)) * len(scored) + queries
    sums = np.zeros((len(queries), COLUMNS), np.int64)
    sums[:, 0] = sums[:, len(QUERY_COUNT_COLUMNS)] = 1
    sums[:, len(QUERY_COUNT_COLUMNS) + 1] = succeeded * PLAN.metrics[0].unit
    cells, of_cells, _ = grouped_sums(cell, sums)
    bounds = np.searchsorted(cells, np.arange(lanes * PANES + 1) * len(scored))
    pages = []
    for lane in range(lanes):
        table = QueryTable(COLUMNS, KEPT, 0)
        for pane in range(lane * PANES, (lane + 1) * PANES):
            part = slice(bounds[pane], bounds[pane + 1])
            keys = [str(query) for query in (cells[part] % len(scored)).tolist()]
            table.settle(PaneSums(keys, of_cells[part]))
        table.close()
        pages.append(page_of(table, start))
    return pages
