"""The tables of queries of one lane, and the examples that go with the table of all traffic. Pure,
and like its hours a function of the log alone.

A base pane's sums by query are merged into the tables of the hour that contains its start, when the
pane settles: panes in ascending order, one after the other. An hour's tables are cut to what is
kept when settling reaches the end of the hour, and change no more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from relevanced.metrics import Integers

from ..panes import pane_start
from ..plan import Plan
from ..queries import KEPT_HOURS, Examples, QueryPlan, QueryTable
from .impression_columns import OpenSearches, QueryKeys

ExamplesByKey = Mapping[str, Examples]
"""Key of a query → its examples, in the order of the rows of its table."""


@dataclass
class LaneExamples:
    """Those of the hour that can still change, and what is stored of others."""

    by_key: dict[str, Examples] = field(default_factory=dict)
    """Of the rows of the open hour that have any."""
    changed: set[str] = field(default_factory=set)
    """Keys whose examples changed since they were stored."""
    closed: dict[int, ExamplesByKey] = field(default_factory=dict)
    """Hours that this batch closed."""
    stored: dict[int, int] = field(default_factory=dict)
    """Start of an hour that is over → bytes of its examples in the store."""
    lost: set[int] = field(default_factory=set)
    """Starts of hours of which the store lost the examples."""
    dropped: list[int] = field(default_factory=list)
    """Starts of stored hours that are kept no longer, or were lost."""

    def start_batch(self) -> None:
        """Forget what the last batch changed, which is durable by now."""
        self.changed, self.closed, self.dropped = set(), {}, []

    def put(self, key: str, examples: Examples) -> None:
        """Replace the examples of a row of the open hour."""
        self.by_key[key] = examples
        self.changed.add(key)

    def follow(self, table: QueryTable) -> None:
        """Drop the examples of rows that the table of the open hour no longer has."""
        for key in [key for key in self.by_key if table.row_of(key) is None]:
            del self.by_key[key]
            self.changed.discard(key)

    def close(self, hour_ms: int, table: QueryTable) -> None:
        """Close the open hour, after its table."""
        by_key = {key: self.by_key[key] for key in table.keys if key in self.by_key}
        if by_key:
            self.closed[hour_ms] = by_key
        self.by_key, self.changed = {}, set()

    def keep_from(self, settled_before: int, hour_ms: int) -> None:
        """Drop the hours that are kept no longer."""
        first = pane_start(settled_before, hour_ms) - KEPT_HOURS * hour_ms
        self.lost = {start for start in self.lost if start >= first}
        self.closed = {start: found for start, found in self.closed.items() if start >= first}
        for start in [start for start in self.stored if start < first]:
            del self.stored[start]
            self.dropped.append(start)

    def lose(self, start: int) -> None:
        """Note that the examples of an earlier hour are missing in the store."""
        if self.stored.pop(start, None) is not None:
            self.dropped.append(start)
            self.lost.add(start)

    def follow_plan(self, before: "LaneExamples", count: int) -> None:
        """Take over the stored hours of a lane whose tables begin anew, or drop them where no more
        examples are kept."""
        if count:
            self.stored, self.lost = before.stored, before.lost
        else:
            self.dropped = [*before.stored]


WHOLE: Final = "whole"
BY: Final = "by"
ZERO: Final = "zero"
MISSING: Final = "missing"
Tables = dict[str, QueryTable]
"""WHOLE: queries of all traffic; BY: queries in each segment; ZERO: those without results; MISSING:
items that were shown for judged queries and are not judged (see `unjudged_items`)."""
MISSING_ROWS: Final = 5
"""MISSING keeps so many times as many rows as the others: a list has several items."""

QUERY_COUNT_COLUMNS: Final = ("impressions", "zero_result_impressions", "impressions_with_feedback")
"""The first columns of WHOLE and BY; (scored, sum) of each metric follow. ZERO has one column, the
impressions without results."""
QUERY_METRIC_COLUMNS: Final = 2


@dataclass
class LaneQueries:
    """The tables of one lane, of the hour that can still change, and what is stored of others."""

    plan: QueryPlan
    keys: QueryKeys = field(default_factory=QueryKeys)
    since_ms: int | None = None
    """The first hour that has tables; None: all have."""
    missing_since_ms: int | None = None
    """The first hour that has MISSING, where the plan asks for it; None: all of them have."""
    kept_from_ms: int | None = None
    """The first hour that was never dropped: `queries.days` may have been less. None: nothing has
    settled."""
    hour_ms: int | None = None
    """Start of the hour whose tables can still change; None where no pane of it has settled."""
    tables: Tables = field(default_factory=dict)
    """Of that hour."""
    parts: list[int] = field(default_factory=list)
    """Numbers of the parts in which that hour is stored."""
    part_rows: int = 0
    """Rows in these parts but the first."""
    stored: dict[int, int] = field(default_factory=dict)
    """Start of an hour that is over → bytes of its page in the store."""
    lost: set[int] = field(default_factory=set)
    """Starts of hours of which the store lost the page."""
    closed: dict[int, Tables] = field(default_factory=dict)
    """Hours that this batch closed."""
    closed_parts: list[tuple[int, int]] = field(default_factory=list)
    """(start of the hour, number) of parts of hours that this batch closed."""
    dropped: list[int] = field(default_factory=list)
    """Starts of stored hours that are kept no longer, or were lost."""
    closed_ms: int | None = None
    """Start of the last hour that was closed."""
    last_counts: tuple[int, int] = (0, 0)
    """Impressions of that hour whose queries are not listed, and all of them."""
    unicode: str = ""
    """The version of Unicode of the writer before this process; "" where there was none."""
    examples: LaneExamples = field(default_factory=LaneExamples)
    is_outdated: bool = False
    """Whether the open hour must be stored anew, whatever changed."""

    def start_batch(self) -> None:
        """Forget what the last batch changed, which is durable by now."""
        self.closed, self.closed_parts, self.dropped = {}, [], []
        self.is_outdated = False
        self.examples.start_batch()
        for table in self.tables.values():
            table.written()

    def keep_from(self, first: int) -> None:
        """Drop the hours that begin earlier."""
        self.kept_from_ms = first if self.kept_from_ms is None else max(self.kept_from_ms, first)
        self.lost = {start for start in self.lost if start >= first}
        self.closed = {start: found for start, found in self.closed.items() if start >= first}
        for start in [start for start in self.stored if start < first]:
            del self.stored[start]
            self.dropped.append(start)

    def begin_hour(self, start: int, plan: Plan) -> None:
        """Close the open hour and open the one that begins then."""
        self.close()
        self.hour_ms, self.tables = start, new_tables(plan)
        if self.missing_since_ms is not None and start < self.missing_since_ms:
            self.tables.pop(MISSING, None)

    def lose(self, start: int) -> None:
        """Note that the page of an earlier hour is missing in the store."""
        if self.stored.pop(start, None) is not None:
            self.dropped.append(start)
            self.lost.add(start)

    def close(self) -> None:
        """Close the open hour."""
        if self.hour_ms is None:
            return
        for table in self.tables.values():
            table.close()
        self.closed[self.hour_ms] = self.tables
        whole = self.tables[WHOLE]
        self.examples.close(self.hour_ms, whole)
        self.closed_ms, self.last_counts = self.hour_ms, (int(whole.other[0]), int(whole.total[0]))
        self.closed_parts += [(self.hour_ms, number) for number in self.parts]
        self.hour_ms, self.tables, self.parts, self.part_rows = None, {}, [], 0


def queries_of(plan: Plan, since_ms: int | None = None) -> LaneQueries | None:
    """Those of a lane that begins, or begins to keep queries; None where it keeps none."""
    return None if plan.queries is None else LaneQueries(plan.queries, since_ms=since_ms)


def has_same_queries(one: Plan, other: Plan) -> bool:
    """Whether tables of queries go on from one plan to the other."""
    shapes = [
        None if of.queries is None else (of.queries.shape, of.grouping_id(of.queries.by))
        for of in (one, other)
    ]
    is_off = shapes == [None, None]
    return shapes[0] == shapes[1] and (is_off or one.column_ids == other.column_ids)


def new_tables(plan: Plan) -> Tables:
    """The empty tables of an hour."""
    assert plan.queries is not None
    kept, kept_zero, users = plan.queries.kept, plan.queries.kept_zero, plan.queries.min_users
    columns = len(QUERY_COUNT_COLUMNS) + QUERY_METRIC_COLUMNS * len(plan.metrics)
    tables = {WHOLE: QueryTable(columns, kept, users), ZERO: QueryTable(1, kept_zero, users)}
    tables |= {} if plan.queries.by is None else {BY: QueryTable(columns, kept, users)}
    return tables | ({MISSING: QueryTable(1, MISSING_ROWS * kept, users)} if plan.missing else {})


def queries_kept_from(settled_before: int, plan: QueryPlan, hour_ms: int) -> int:
    """Start of the first hour whose tables are kept."""
    return pane_start(settled_before, hour_ms) - plan.days * 24 * hour_ms


@dataclass(frozen=True)
class SettledSearches:
    """The n searches of a base pane that was just merged into WHOLE."""

    slots: Integers
    found: OpenSearches
    """Their keys and users."""
    keys: Sequence[str]
    """The distinct keys of their queries, (k,)."""
    which: Integers
    """For each search, the index of its key, (n,)."""
    lines: Integers
    """What each added to the table, (n, columns)."""
