"""Stored tables of queries as the values that are merged. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from relevanced.metrics.lists import Integers

from ..lane.queries import COUNT_COLUMNS, METRIC_COLUMNS, ZERO
from ..plan import Plan
from ..queries.merging import Page
from ..queries.table import Table
from ..queries.users import DAY_MS
from ..storage.head import whole_or_damaged
from ..storage.queries import StoredHour, table_of, unpacked_hour

Hours = Mapping[int, Sequence[Sequence[bytes]]]
"""Start of an hour → for each lane that has it, its page or its parts, as they are stored."""


@dataclass(frozen=True)
class QueryTables:
    """What was read of the tables of queries of all lanes."""

    plan: Plan
    hours: Hours = field(default_factory=dict)
    lost: frozenset[int] = frozenset()
    """Starts of hours of which a lane lost its page."""

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


def columns_of(plan: Plan, kind: str) -> int:
    """How many columns the tables of a kind have."""
    return 1 if kind == ZERO else len(COUNT_COLUMNS) + METRIC_COLUMNS * len(plan.metrics)


def page_of(table: Table, start: int) -> Page:
    """A table of the hour that begins at `start` as it is merged."""
    return Page(
        day=start // DAY_MS,
        keys=table.keys,
        sums=table.sums,
        missing=table.missing,
        users=table.users,
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
    if kind == ZERO or tuple(columns) == plan.column_ids:
        return sums
    moved = np.zeros((len(sums), columns_of(plan, kind)), np.int64)
    counts = len(COUNT_COLUMNS)
    moved[:, :counts] = sums[:, :counts]
    for to, id_ in enumerate(plan.column_ids):
        if id_ in columns:
            a, b = (counts + METRIC_COLUMNS * n for n in (columns.index(id_), to))
            moved[:, b : b + METRIC_COLUMNS] = sums[:, a : a + METRIC_COLUMNS]
    return moved
