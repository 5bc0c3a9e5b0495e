"""Stored tables of queries as the values that are merged. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from relevanced.metrics import Integers

from ..lane import MISSING, QUERY_COUNT_COLUMNS, QUERY_METRIC_COLUMNS, ZERO
from ..plan import Plan
from ..queries import DAY_MS, Examples, Page, QueryTable
from ..storage import (
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
    """Starts of hours of which a part is missing: a lane lost its page, or went quiet."""
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
