"""Integers that are not what the log proves, with rows matched by the names of segments. Pure.

Ids are given in the order in which a lane first saw its segments. Where topics were read in another
order, or the log lost its beginning, that is another order. So experiments go by name as well.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec
import numpy as np

from relevanced.metrics import Hashes, Integers

from ...events import timestamp_text
from ...experiments import Arm, Spec, Tallies
from ...lane import PAGE_ROWS, Pages, take
from ...plan import ALL, COUNT_COLUMNS, METRIC_COLUMNS, WEIGHT_COLUMNS, Plan

CREDIT_COLUMNS = ("credits", "sum of credits", "squares of credits")


def integers_of(name: str, tallies: Tallies, spec: Spec) -> dict[str, int]:
    """What is counted → the count, of every count of an experiment that is not 0."""
    of_metrics = [f"{metric} {column}" for metric in spec.metrics for column in METRIC_COLUMNS]
    columns = ["impressions", *of_metrics]
    panes = {"first": tallies.began_ms, "last": tallies.last_ms}
    found = {f"{name}, {which} pane in ms": at_ms for which, at_ms in panes.items() if at_ms}
    for variant, arm in tallies.arms.items():
        found |= _of_arm(f"{name}, {variant}", arm, columns)
    for day_ms, arms in tallies.ends.items():
        for variant, arm in arms.items():
            found |= _of_arm(
                f"{name} at the end of {timestamp_text(day_ms)}, {variant}", arm, columns
            )
    return found


def without_strata(tallies: Tallies | None) -> Tallies | None:
    """The counts of an experiment, but for those by segment."""
    if tallies is None:
        return None
    ends = {day_ms: _unstratified(arms) for day_ms, arms in tallies.ends.items()}
    return replace(tallies, arms=_unstratified(tallies.arms), ends=ends)


def _unstratified(arms: Mapping[str, Arm]) -> dict[str, Arm]:
    return {variant: replace(arm, strata={}, homes={}) for variant, arm in arms.items()}


def _of_arm(where: str, arm: Arm, columns: Sequence[str]) -> dict[str, int]:
    found = dict(_cells(where, arm.tallies, columns))
    found |= _cells(where, arm.credits, CREDIT_COLUMNS)
    for segment, part in arm.strata.items():
        found |= _cells(f"{where}, segment {segment}", part, columns)
    hours = enumerate(arm.hours.tolist())
    found |= {f"{where}, impressions of hour {hour}": count for hour, count in hours if count}
    if arm.beyond_cap:
        found[f"{where}, impressions beyond the daily cap"] = arm.beyond_cap
    if arm.without_unit:
        found[f"{where}, impressions without a unit"] = arm.without_unit
    return found


def _cells(where: str, table: Integers, columns: Sequence[str]) -> Iterator[tuple[str, int]]:
    for bucket, column in zip(*(axis.tolist() for axis in table.nonzero()), strict=True):
        yield f"{where}, bucket {bucket}, {columns[column]}", int(table[bucket, column])


def users_apart(
    name: str, stored: Tallies | None, proven: Tallies | None
) -> tuple[dict[str, int], dict[str, int]]:
    """What is counted → how many hashes of users only the stored, and only the proven arms have:
    each beside 0, as one that was replaced is one of both."""
    if stored and proven and stored.users_since_ms != proven.users_since_ms:
        # A change of shares that was declared late: users were counted from then on.
        return {}, {}
    of_stored, of_proven = _users(name, stored), _users(name, proven)
    counts = dict[str, int](), dict[str, int]()
    for where in of_stored.keys() | of_proven.keys():
        ours, theirs = of_stored.get(where, set()), of_proven.get(where, set())
        counts[0][f"{where}, users that the log does not have"] = len(ours - theirs)
        counts[1][f"{where}, users that are missing"] = len(theirs - ours)
    return counts


def _users(name: str, tallies: Tallies | None) -> Mapping[str, set[int]]:
    arms = {} if tallies is None else tallies.arms
    return {
        f"{name}, {variant}{segment and f', first seen in {segment}'}": _hashes(users)
        for variant, arm in arms.items()
        for segment, users in {"": arm.users, **arm.homes}.items()
    }


def _hashes(users: Hashes) -> set[int]:
    return set(users.tolist())


MOST_NAMED: Final = 20
"""So many differences of a lane are named; all are counted."""


class Difference(msgspec.Struct, frozen=True):
    """One integer that is stored and another one that the log proves. None: there is none."""

    what: str
    """`pane`, `hour`, `judged pane`, `judged hour`, `totals`, `watermark`, `count`, `experiment`,
    `queries`, `examples`, `open impressions`, `waiting feedback`, `admitted`, `file`, or what the
    head of the lane says."""
    column: str
    """The column of a row, such as `RR@10 sum`; of anything else, what is counted."""
    stored: int | None
    proven: int | None
    start: str | None = None
    """Of a pane or an hour."""
    window: str | None = None
    """The window that the pane is of."""
    grouping: str | None = None
    segment: str | None = None

    def text(self) -> str:
        """The difference in one line."""
        window = "" if self.window is None else f" of window {self.window}"
        start = "" if self.start is None else f" {self.start}"
        whole = self.grouping in (None, ALL)
        segment = f", {self.segment}" if whole else f", {self.grouping}={self.segment}"
        where = f"{self.what}{window}{start}{'' if self.segment is None else segment}"
        stored, proven = (_text(value) for value in (self.stored, self.proven))
        return f"{where}, {self.column}: stored {stored}, proven {proven}"


def _text(value: int | None) -> str:
    return "none" if value is None else str(value)


class LeftOut(msgspec.Struct, frozen=True):
    """What is stored and not compared."""

    what: str
    reason: str


@dataclass
class Differences:
    """Those of one lane."""

    count: int = 0
    first: list[Difference] = field(default_factory=list)
    """At most MOST_NAMED."""
    compared: int = 0
    """Integers that were compared."""
    left_out: list[LeftOut] = field(default_factory=list)

    def note(self, found: Iterable[Difference], count: int) -> None:
        """Note so many differences. No more of `found` are taken than there is room for."""
        self.count += count
        room = MOST_NAMED - len(self.first)
        if room > 0:
            self.first += [difference for difference, _ in zip(found, range(room), strict=False)]

    def compare(self, what: str, stored: Mapping[str, int], proven: Mapping[str, int]) -> None:
        """Compare integers by name; one that is missing is 0."""
        names = sorted(stored.keys() | proven.keys())
        pairs = [(name, stored.get(name, 0), proven.get(name, 0)) for name in names]
        unequal = [Difference(what, name, s, p) for name, s, p in pairs if s != p]
        self.compared += len(pairs)
        self.note(unequal, len(unequal))

    def compare_values(
        self, what: str, stored: Mapping[str, int | None], proven: Mapping[str, int | None]
    ) -> None:
        """Compare instants and the like by name; one that is missing is None."""
        names = sorted(stored.keys() | proven.keys())
        pairs = [(name, stored.get(name), proven.get(name)) for name in names]
        unequal = [Difference(what, *pair) for pair in pairs if pair[1] != pair[2]]
        self.compared += len(pairs)
        self.note(unequal, len(unequal))


NO_SEGMENT = -1
Name = tuple[int, str]
"""(grouping index, segment)."""


def columns_of(plan: Plan) -> list[str]:
    """The names of the columns of a row."""
    of_metrics = [f"{metric.name} {column}" for metric in plan.metrics for column in METRIC_COLUMNS]
    weights = () if plan.surfaces is None else WEIGHT_COLUMNS
    return [*COUNT_COLUMNS, *of_metrics, *weights]


@dataclass(frozen=True)
class Unequal:
    """One column of one segment, or of all segments of a grouping together (segment None)."""

    grouping: int
    segment: str | None
    column: int
    stored: int
    proven: int


class Matching:
    """Which segment of a stored lane is which of the proven one."""

    def __init__(self, stored: Sequence[Name], proven: Sequence[Name]) -> None:
        self._stored = stored
        self.proven = proven
        """They may grow."""
        self._stored_ids = {name: id_ for id_, name in enumerate(stored)}
        self._to_stored = np.zeros(0, np.int64)

    def ids(self) -> tuple[Integers, Integers]:
        """(proven id of each stored one, stored id of each proven one), or NO_SEGMENT."""
        known = len(self._to_stored)
        new = [self._stored_ids.get(name, NO_SEGMENT) for name in self.proven[known:]]
        self._to_stored = np.append(self._to_stored, np.array(new, np.int64))
        to_proven = np.full(len(self._stored), NO_SEGMENT, np.int64)
        both = self._to_stored != NO_SEGMENT
        to_proven[self._to_stored[both]] = np.flatnonzero(both)
        return to_proven, self._to_stored

    def name(self, stored_id: int, proven_id: int) -> Name:
        """The name of a segment, of which one id may be missing."""
        if stored_id != NO_SEGMENT:
            if stored_id >= len(self._stored):
                return (NO_SEGMENT, f"(segment id {stored_id}, which has no name)")
            return self._stored[stored_id]
        return self.proven[proven_id]


@dataclass(frozen=True)
class RowsCompared:
    """Rows beside one another, n of each: of the same segments."""

    matching: Matching
    stored_ids: Integers
    proven_ids: Integers
    stored: Integers
    """(n, columns)."""
    proven: Integers

    def names(self) -> list[Name]:
        """The segment of each row."""
        pairs = zip(self.stored_ids.tolist(), self.proven_ids.tolist(), strict=True)
        return [self.matching.name(*pair) for pair in pairs]

    def unequal(self, summed: Collection[int]) -> tuple[int, int, Iterator[Unequal]]:
        """How many rows are compared, how many integers differ, and each of them. Of the groupings
        in `summed`, only the sum over all segments is compared."""
        whole_groupings = []
        stored, proven, compared = self.stored, self.proven, len(self.stored)
        if summed:
            groupings = np.array([grouping for grouping, _ in self.names()], np.int64)
            for grouping in sorted(summed):
                rows = groupings == grouping
                sums = stored[rows].sum(axis=0), proven[rows].sum(axis=0)
                whole_groupings += [
                    Unequal(grouping, None, column, int(sums[0][column]), int(sums[1][column]))
                    for column in np.flatnonzero(sums[0] != sums[1]).tolist()
                ]
            kept = ~np.isin(groupings, list(summed))
            compared = int(kept.sum()) + len(summed)
            stored, proven = np.where(kept[:, None], stored, 0), np.where(kept[:, None], proven, 0)
        cells = np.argwhere(stored != proven)

        def each() -> Iterator[Unequal]:
            yield from whole_groupings
            for row, column in cells.tolist():
                ids = int(self.stored_ids[row]), int(self.proven_ids[row])
                values = int(stored[row, column]), int(proven[row, column])
                yield Unequal(*self.matching.name(*ids), column, *values)

        return compared, len(whole_groupings) + len(cells), each()


def beside(matching: Matching, stored: Pages, proven: Pages, width: int) -> RowsCompared:
    """Return the rows of two lanes beside one another. A row that one of them lacks is zeros."""
    to_proven, to_stored = matching.ids()
    ids, rows = _ids_of(stored), np.concatenate([np.zeros((0, width), np.int64), *stored.values()])
    used = (ids < len(to_proven)) | rows.any(axis=1)  # the last page has room for more segments
    ids, rows = ids[used], rows[used]
    named = ids < len(to_proven)
    proven_of_ids = np.full(len(ids), NO_SEGMENT, np.int64)
    proven_of_ids[named] = to_proven[ids[named]]
    others = _ids_of(proven)
    others = others[others < len(to_stored)]
    stored_of_others = to_stored[others]
    others = others[~np.isin(stored_of_others // PAGE_ROWS, list(stored))]
    return RowsCompared(
        matching,
        np.concatenate([ids, to_stored[others]]),
        np.concatenate([proven_of_ids, others]),
        np.concatenate([rows, np.zeros((len(others), width), np.int64)]),
        take(proven, np.concatenate([proven_of_ids, others]), width),
    )


def _ids_of(pages: Pages) -> Integers:
    firsts = np.fromiter(pages, np.int64, len(pages)) * PAGE_ROWS
    ids: Integers = (firsts[:, None] + np.arange(PAGE_ROWS)).reshape(-1)
    return ids
