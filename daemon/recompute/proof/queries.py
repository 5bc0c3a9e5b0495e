"""Stored tables of queries against those that the log proves. Pure.

An hour's tables follow from the log as its rows do, so they are compared where rows are, with what
is not listed, and its bound. A row is named by its number, because `verify` shows no query.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
from msgspec.structs import replace

from relevanced.metrics import Integers

from ...events import timestamp_text
from ...lane import (
    BY,
    MISSING,
    QUERY_COUNT_COLUMNS,
    QUERY_METRIC_COLUMNS,
    WHOLE,
    ZERO,
    ExamplesByKey,
    Lane,
    Tables,
    new_tables,
    queries_kept_from,
)
from ...plan import Plan
from ...queries import ENOUGH, UNICODE_VERSION, Examples, QueryTable, Users, secret_fingerprint
from ...storage import (
    QueryHead,
    StoredHour,
    put_part,
    queries_hour_key,
    row_pages,
    rows_of,
    unpacked_hour,
    whole_or_damaged,
)
from ...views import NEVER
from ..driver import Settled
from .differences import Difference, Differences
from .files import Classes
from .rows import left_out_hours
from .stored import StoredLane

OFF: Final = "the lane has tables of queries, and this configuration keeps none: not compared"
OTHER_KEY: Final = (
    "queries are hashed with another key than this one: their tables are not compared"
)
BEFORE: Final = "tables of queries from before {} were kept under another layout: not compared"
NOT_ADMITTED: Final = (
    "of the grouping of tables of queries more values were seen than are admitted, and the log no"
    " longer has all records: the tables by segment are not compared"
)
MOVED: Final = "the tables of the open hour of queries changed while they were read: not compared"
_OTHER, _UNLISTED = "(other)", "a query that is not stored"


def other_unicode(stored: str) -> str:
    """The note where another version of Unicode decided what one query is."""
    return (
        f"the lane's writer has Unicode {stored}, this program {UNICODE_VERSION}: tables of queries"
        " are not compared"
    )


@dataclass
class QueryComparison:
    """What was compared of the tables of one lane."""

    stored: StoredLane
    plan: Plan
    summed: Callable[[int], Collection[int]]
    """Start → groupings of which it is not known which segment an impression is in."""
    classes: Classes
    differences: Differences
    hours: int = 0
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._head = self.stored.head.queries or QueryHead()
        self._seen: set[int] = set()
        self._missing_from: int | None = None
        self.notes += self._reasons()
        self._is_off = bool(self.notes) or self.plan.queries is None
        since = max(self.stored.coverage.hours, self._head.since_ms or 0)
        self._since = max(since, min(self._head.hours, default=0))
        if not self._is_off and since > min(self._head.hours, default=since):
            self.notes.append(BEFORE.format(timestamp_text(since)))
        if not self._is_off and self._is_crowded(NEVER):
            self.notes.append(NOT_ADMITTED)

    def _reasons(self) -> Iterator[str]:
        """Why no table can be compared."""
        if self.stored.head.queries is None:
            return
        if self.plan.queries is None:
            yield OFF
        elif self._head.key != secret_fingerprint(self.plan.queries.key):
            yield OTHER_KEY
        elif self._head.unicode != UNICODE_VERSION:
            yield other_unicode(self._head.unicode)

    def take(self, settled: Settled) -> None:
        """Compare the hours that this batch closed."""
        lane, first_ms = settled.lane, settled.first_ms
        if lane.queries is None or self._is_off:
            return
        self._missing_from = self._missing_since(lane)
        for start, tables in lane.queries.closed.items():
            self._seen.add(start)
            if self._is_proven(start, first_ms):
                self._hour(start, tables)
                self._examples(start, lane.queries.examples.closed.get(start, {}))

    def finish(self, settled: Settled) -> None:
        """Compare all that is left."""
        lane, first_ms = settled.lane, settled.first_ms
        if lane.queries is None or self._is_off:
            return
        self._missing_from = self._missing_since(lane)
        for start in sorted(self._head.hours.keys() - self._seen):
            if self._is_proven(start, first_ms):
                self._hour(start, new_tables(self.plan))
        self._left_out(first_ms)
        self._last_hour(lane, first_ms)
        hour_ms = self._head.hour_ms if self._head.parts else lane.queries.hour_ms
        if hour_ms is not None and self._is_proven(hour_ms, first_ms):
            is_same = hour_ms == lane.queries.hour_ms
            tables = lane.queries.tables if is_same else new_tables(self.plan)
            self._open_hour(hour_ms, tables, lane.queries.examples.by_key if is_same else {})

    def _left_out(self, first_ms: int | None) -> None:
        before, queries = self.stored.head.state.settled_before, self.plan.queries
        if before is None or queries is None:
            return
        kept_from = queries_kept_from(before, queries, self.plan.hour_ms)
        sets = {
            "hours of queries": (self._head.hours, self._head.lost),
            "hours of examples": (self._head.examples, self._head.lost_examples),
        }
        for what, (stored, lost) in sets.items():
            kept = [start for start in {*stored, *lost} if start >= kept_from]
            self.differences.left_out += left_out_hours(
                what, kept, self.plan, first_ms, lost, self._since
            )

    def _last_hour(self, lane: Lane, first_ms: int | None) -> None:
        """Compare what the head says of the last hour that is over."""
        queries, head = lane.queries, self._head
        if queries is None or queries.closed_ms is None:
            return
        if self._is_proven(queries.closed_ms, first_ms):
            names = ("start in ms", "impressions that are not listed", "impressions")
            stored = dict(zip(names, (head.closed_ms, *head.last_counts), strict=True))
            proven = dict(zip(names, (queries.closed_ms, *queries.last_counts), strict=True))
            self.differences.compare_values("last hour of queries", stored, proven)

    def _min_users(self, what: str, start: int, stored: int) -> None:
        """Compare under how many users the queries of an hour were counted."""
        if self.plan.queries is not None:
            name = f"least users, {timestamp_text(start)}"
            pair = {name: stored}, {name: self.plan.queries.min_users}
            self.differences.compare(what, *pair)

    def _bytes(self, key: str, said: int, data: bytes) -> None:
        """Compare the size of a value with what the head says of it."""
        self.differences.compare("bytes", {key: said}, {key: len(data)})

    def _missing_since(self, lane: Lane) -> int | None:
        """Since when the table of items without a judgement is compared; None where the files of
        judgements are not known, as `row_proof` says. Of earlier hours they may be known no more,
        because those of judged rows may be kept for fewer days."""
        judgements = self.stored.head.judgements
        if not self.plan.missing or lane.judged is None or lane.judged.files.timeline is None:
            return None
        if judgements is None or not judgements.history.entries:
            return None
        return max(self._head.missing_since_ms or 0, judgements.history.entries[0].start_ms)

    def _is_compared(self, kind: str, start: int) -> bool:
        if kind == MISSING:
            return self._missing_from is not None and start >= self._missing_from
        return not (kind == BY and self._is_crowded(start))

    def _is_crowded(self, start: int) -> bool:
        """Whether it is not known which segment of the grouping of BY a search is in."""
        by = None if self.plan.queries is None else self.plan.queries.by
        return by is not None and self.plan.grouping_names.index(by) in self.summed(start)

    def _is_proven(self, start: int, first_ms: int | None) -> bool:
        before, queries = self.stored.head.state.settled_before, self.plan.queries
        if first_ms is None or before is None or queries is None or start in self._head.lost:
            return False
        kept = queries_kept_from(before, queries, self.plan.hour_ms)
        return start >= max(first_ms, self._since, kept)

    def _hour(self, start: int, proven: Tables) -> None:
        tables = new_tables(self.plan)
        if start in self._head.hours:
            data = self.stored.queries.get(queries_hour_key(start))
            if data is None:
                return  # dropped since the head was read
            self._bytes(queries_hour_key(start), self._head.hours[start], data)
            with whole_or_damaged(f"lane {self.stored.lane}"):
                put_part(tables, hour := unpacked_hour(data))
            self._shape(start, hour, is_whole=True)
        self.hours += 1
        self._tables(start, tables, proven)

    def _open_hour(self, start: int, proven: Tables, proven_examples: ExamplesByKey) -> None:
        tables, examples, rows = new_tables(self.plan), dict[str, Examples](), 0
        for number, key in enumerate(self._head.part_keys):
            data = self.stored.queries.get(key)
            if data is None:
                self.notes.append(MOVED)
                return
            with whole_or_damaged(f"lane {self.stored.lane}"):
                part = unpacked_hour(data)
                tables = _with(tables, part, self.plan)
                examples |= row_pages.by_key_of(part.examples)
                rows += sum(len(rows_of(t).keys) for t in part.tables.values()) if number else 0
            self._shape(start, part, is_whole=not number)
        self.hours += 1
        self.differences.compare(
            "queries", {"rows of parts": self._head.part_rows}, {"rows of parts": rows}
        )
        self._tables(start, tables, proven)
        if start not in self._head.lost_examples:
            self._examples_of(start, examples, proven_examples)

    def _shape(self, start: int, hour: StoredHour, *, is_whole: bool) -> None:
        """Compare what an hour or a part of it says of its rows."""
        self._min_users("queries", start, hour.min_users)
        columns = self.plan.column_ids
        same = sum(a == b for a, b in zip(hour.columns, columns, strict=False))
        at = timestamp_text(start)
        stored = {f"columns, {at}": same, f"whole parts, {at}": int(hour.is_whole)}
        proven = {f"columns, {at}": len(columns), f"whole parts, {at}": int(is_whole)}
        self.differences.compare("queries", stored, proven)

    def _examples(self, start: int, proven: ExamplesByKey) -> None:
        """Compare the examples of an hour that is over: how many of each query are the same."""
        key = row_pages.examples_hour_key(start)
        data = self.stored.queries.get(key) if start in self._head.examples else None
        if start in self._head.lost_examples or not self._keeps_examples(start):
            return
        if start in self._head.examples and data is None:
            return  # dropped since the head was read
        stored: ExamplesByKey = {}
        if data is not None:
            self._bytes(key, self._head.examples[start], data)
            with whole_or_damaged(f"lane {self.stored.lane}"):
                hour = row_pages.unpacked_hour(data)
                stored = row_pages.by_key_of(hour.examples)
            self._min_users("examples", start, hour.min_users)
        self._examples_of(start, stored, proven)

    def _examples_of(self, start: int, stored: ExamplesByKey, proven: ExamplesByKey) -> None:
        if 0 in self.classes.metrics(start):
            return  # by the first metric examples are chosen
        names = _row_names(stored, proven)
        stored, proven = (self._as_known(by_key, start) for by_key in (stored, proven))
        pairs = [(names[key], stored.get(key, ()), proven.get(key, ())) for key in names]
        at = partial(Difference, "examples", start=timestamp_text(start), grouping=WHOLE)
        self.differences.compared += len(pairs)
        unequal = [
            at("that are the same", len(one), len({*one} & {*other}), segment=name)
            for name, one, other in (
                (name, [*map(repr, s)], [*map(repr, p)]) for name, s, p in pairs
            )
            if one != other
        ]
        self.differences.note(unequal, len(unequal))

    def _as_known(self, by_key: ExamplesByKey, start: int) -> ExamplesByKey:
        """Examples without attributes and segments of groupings of which these are not known."""
        unknown = self.summed(start)
        if not unknown:
            return by_key
        names = {name for n in unknown for name in self.plan.groupings[n - 1]}
        is_crowded = self._is_crowded(start)
        return {
            key: tuple(
                replace(
                    one,
                    attributes={n: v for n, v in one.attributes.items() if n not in names},
                    segment="" if is_crowded else one.segment,
                )
                for one in examples
            )
            for key, examples in by_key.items()
        }

    def _keeps_examples(self, start: int) -> bool:
        return start in self._head.examples or start > max(self._head.examples, default=start)

    def _tables(self, start: int, stored: Tables, proven: Tables) -> None:
        for kind in (WHOLE, BY, ZERO, MISSING):
            if kind in proven and self._is_compared(kind, start):
                at = partial(Difference, "queries", start=timestamp_text(start), grouping=kind)
                unknown = self.classes.metrics(start) if kind in (WHOLE, BY) else ()
                columns = _columns(self.plan, kind)
                compared = QueriesCompared(stored[kind], proven[kind], columns, unknown)
                self.differences.compared += compared.count
                unequal = [
                    at(column, *values, segment=name)
                    for name, column, *values in compared.unequal()
                ]
                self.differences.note(unequal, len(unequal))


def _with(tables: Tables, part: StoredHour, plan: Plan) -> Tables:
    """The tables with a later part of theirs."""
    tables = new_tables(plan) if part.is_whole else tables
    put_part(tables, part)
    return tables


def _columns(plan: Plan, kind: str) -> list[str]:
    if kind == ZERO:
        return [QUERY_COUNT_COLUMNS[1]]
    if kind == MISSING:
        return ["impressions"]
    names = [metric.name for metric in plan.metrics]
    return [
        *QUERY_COUNT_COLUMNS,
        *(f"{name} {part}" for name in names for part in ("scored", "sum")),
    ]


def _row_names(stored: Iterable[str], proven: Iterable[str]) -> dict[str, str]:
    """Key → what it is called: its number among those that are stored."""
    names = {key: f"row {number}" for number, key in enumerate(stored, 1)}
    return names | {key: _UNLISTED for key in proven if key not in names}


@dataclass(frozen=True)
class QueriesCompared:
    """A stored table beside the one that the log proves."""

    stored: QueryTable
    proven: QueryTable
    columns: list[str]
    unknown: Sequence[int] = ()
    """The indices of metrics that are not compared."""

    @property
    def _left_out(self) -> list[int]:
        first, each = len(QUERY_COUNT_COLUMNS), QUERY_METRIC_COLUMNS
        return [first + each * metric + n for metric in self.unknown for n in range(each)]

    @property
    def count(self) -> int:
        """How many integers are compared."""
        rows = len({*self.stored.keys, *self.proven.keys})
        columns = len(self.columns) - len(self._left_out)
        return rows * (columns + 2) + columns + 1

    def unequal(self) -> Iterator[tuple[str, str, int | None, int | None]]:
        """(what the row is called, column, stored, proven) of each integer that differs."""
        names = _row_names(self.stored.keys, self.proven.keys)
        columns = [*self.columns, "missing at most"]
        one, other = (self._integers(table, names) for table in (self.stored, self.proven))
        one[:, self._left_out] = other[:, self._left_out] = 0
        keys = list(names)
        for row, column in np.argwhere(one != other).tolist():
            values = int(one[row, column]), int(other[row, column])
            yield names[keys[row]], columns[column], *values
        users = [
            dict(zip(table.keys, table.users, strict=True)) for table in (self.stored, self.proven)
        ]
        for key, name in names.items():
            yield from self._users(name, *(of.get(key, frozenset()) for of in users))
        others = [[*of.other.tolist(), of.bound] for of in (self.stored, self.proven)]
        for index, (name, *sums) in enumerate(zip([*self.columns, "bound"], *others, strict=True)):
            if sums[0] != sums[1] and index not in self._left_out:
                yield _OTHER, name, *sums

    def _integers(self, table: QueryTable, names: Mapping[str, str]) -> Integers:
        """(rows, columns and what may be missing) by the keys of both tables; 0 where one has no
        such row."""
        found = np.zeros((len(names), len(self.columns) + 1), np.int64)
        known = [(n, row) for n, key in enumerate(names) if (row := table.row_of(key)) is not None]
        at, rows = np.array(known, np.int64).reshape(-1, 2).T
        found[at, :-1], found[at, -1] = table.sums[rows], table.missing[rows]
        return found

    def _users(
        self, name: str, one: Users, other: Users
    ) -> Iterator[tuple[str, str, int | None, int | None]]:
        counts = [self.proven.min_users if of is ENOUGH else len(of) for of in (one, other)]
        if counts[0] != counts[1]:
            yield name, "users", counts[0], counts[1]
        elif one != other and one is not ENOUGH and other is not ENOUGH:
            yield name, "users that are the same", counts[0], len(one & other)
