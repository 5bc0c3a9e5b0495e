"""Which segments an impression counts in, and which values are let in.

A grouping is a list of attribute names, a segment one value of it. Segments are numbered in the
order in which a lane first meets them, and keep their number for the life of the lane; number 0 is
the whole. A combination is the tuple of segment numbers of one impression, one per grouping:
impressions share a few hundred of them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics.lists import Integers

from ..plan import ALL, NONE, OTHER, Plan, Values

Combination: TypeAlias = tuple[int, ...]
"""Segment number per grouping, the whole first."""
Admitted: TypeAlias = list[dict[str, int]]
"""Per grouping (the whole left out): value → longest pane, by number, in which it was last seen."""


class Known(NamedTuple):
    """What values come to within a pane."""

    combination: int
    left_out: tuple[str, ...]
    """Groupings in which a value found no place."""


NO_COMBINATION: Final = -1

REMEMBERED_VALUES: Final = 50_000
"""Distinct values of one pane that are remembered."""
MOST_COMBINATIONS: Final = 50_000
"""Beyond this, those are forgotten that no open impression counts in."""
_RESERVED = frozenset((ALL, OTHER))


def escape(value: str) -> str:
    """An attribute's value as a part of a segment: `,` `\\` and the reserved words get a backslash
    in front."""
    if value in _RESERVED:
        return "\\" + value
    if "\\" in value or "," in value:
        return value.replace("\\", "\\\\").replace(",", "\\,")
    return value


def segment_of(values: Iterable[str | None]) -> str:
    """The segment of these values of a grouping's attributes."""
    return ",".join([NONE if value is None else escape(value) for value in values])


@dataclass
class Segments:
    """The dictionaries of one lane. Append-only: what is stored of them is only what is new since
    the last commit."""

    names: list[tuple[int, str]] = field(default_factory=lambda: [(0, ALL)])
    """(grouping number, segment) by segment number."""
    combinations: list[Combination] = field(default_factory=list)
    _numbers: dict[tuple[int, str], int] = field(default_factory=lambda: {(0, ALL): 0})
    _combination_numbers: dict[Combination, int] = field(default_factory=dict)
    _table: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    _room: int = MOST_COMBINATIONS

    @staticmethod
    def of(names: Iterable[tuple[int, str]]) -> "Segments":
        """The dictionaries that begin with these stored names."""
        listed = list(names)
        numbers = {name: number for number, name in enumerate(listed)}
        return Segments(names=listed, _numbers=numbers)

    def segment_id(self, grouping: int, segment: str) -> int:
        """The number of a segment, a new one if it was not met before."""
        known = self._numbers.get((grouping, segment))
        if known is None:
            known = self._numbers[(grouping, segment)] = len(self.names)
            self.names.append((grouping, segment))
        return known

    def combination_id(self, segments: Combination) -> int:
        """The number of a combination, a new one if it was not met before."""
        known = self._combination_numbers.get(segments)
        if known is None:
            known = self._combination_numbers[segments] = len(self.combinations)
            self.combinations.append(segments)
        return known

    @property
    def is_full(self) -> bool:
        """True where there are so many combinations that most must be gone."""
        return len(self.combinations) > self._room

    def keep_combinations(self, used: NDArray[np.int64]) -> NDArray[np.int64]:
        """Forget all combinations but these, ascending; the new number of each old one."""
        renamed = np.zeros(max(1, len(self.combinations)), np.int64)
        renamed[used] = np.arange(len(used))
        self.combinations = [self.combinations[number] for number in used.tolist()]
        self._combination_numbers = {c: number for number, c in enumerate(self.combinations)}
        self._table = np.zeros((0, 0), np.int64)
        self._room = max(MOST_COMBINATIONS, 2 * len(used))
        return renamed

    def combination_table(self) -> NDArray[np.int64]:
        """(combinations, groupings) of segment numbers."""
        known = len(self._table)
        if known < len(self.combinations):
            fresh = np.array(self.combinations[known:], np.int64)
            self._table = np.concatenate([self._table, fresh]) if known else fresh
        return self._table


@dataclass
class Admission:
    """Which values of each grouping one topic-partition lets in, by its own order of records alone.

    The first `plan.admitted_values` have a place; one that was not seen for the longest window
    gives its place back.
    """

    plan: Plan
    seen: Admitted
    changed: bool = False
    """True where `seen` differs from what is stored."""
    _recent: dict[Values, Known] = field(default_factory=dict)
    _recent_pane: int | None = None
    _by_text: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    _table: Sequence[object] = ()
    _swept: dict[int, int] = field(default_factory=dict)
    """Grouping → longest pane in which places were last looked for: no more come free within it."""

    @staticmethod
    def empty(plan: Plan) -> "Admission":
        """Nothing admitted yet."""
        return Admission(plan, [{} for _ in plan.groupings])

    def recent(self, time_ms: int) -> dict[Values, Known]:
        """What is known of the current longest pane, by attribute values: seeing the same again
        changes nothing while the pane is the same. A value that found no place finds none later:
        places come free once a pane."""
        pane = time_ms // self.plan.timing.longest.pane_ms
        if pane != self._recent_pane:
            self.forget_recent()
            self._recent_pane = pane
        return self._recent

    def by_text(self, time_ms: int, table: Sequence[object]) -> Integers:
        """What `recent` knows of texts, (the table's length,), whole batches of which are looked
        up: the combination of each whose values all have a place, NO_COMBINATION of others. It is
        written to by whoever learns of one."""
        self.recent(time_ms)
        if self._table is not table:
            self._by_text, self._table = np.zeros(0, np.int64), table
        missing = len(table) - len(self._by_text)
        if missing:
            self._by_text = np.append(self._by_text, np.full(missing, NO_COMBINATION))
        return self._by_text

    def forget_recent(self) -> None:
        """Look everything up anew: combinations have other numbers now."""
        self._recent, self._table = {}, ()

    def admit(self, grouping: int, value: str, time_ms: int) -> bool:
        """True where the value has or gets a place at this watermark.

        `grouping` counts without the whole. A False means that the impression counts in `other`.
        """
        seen = self.seen[grouping]
        pane = time_ms // self.plan.timing.longest.pane_ms
        last = seen.get(value)
        if last is None:
            if len(seen) >= self.plan.admitted_values:
                self._give_back(grouping, pane)
            if len(self.seen[grouping]) >= self.plan.admitted_values:
                return False
            self.seen[grouping][value] = pane
            self.changed = True
        elif last < pane:
            seen[value] = pane
            self.changed = True
        return True

    def _give_back(self, grouping: int, pane: int) -> None:
        if self._swept.get(grouping) == pane:
            return
        self._swept[grouping] = pane
        oldest = pane - self.plan.timing.longest.pane_count
        kept = {v: last for v, last in self.seen[grouping].items() if last >= oldest}
        self.changed = self.changed or len(kept) < len(self.seen[grouping])
        self.seen[grouping] = kept


def combination_of(
    values: Values,
    time_ms: int,
    admission: Admission,
    segments: Segments,
    overflow: Counter[str],
    impressions: int = 1,
) -> int:
    """The number of the combination that accepted impressions of these values count in, at the
    watermark `time_ms` that they met.

    Adds to `overflow` (by grouping) where a value found no place.
    """
    recent = admission.recent(time_ms)
    known = recent.get(values)
    if known is None:
        if len(recent) >= REMEMBERED_VALUES:
            recent.clear()
        known = recent[values] = _admit_all(values, time_ms, admission, segments)
    combination, left_out = known
    for grouping in left_out:
        overflow[grouping] += impressions
    return combination


def _admit_all(values: Values, time_ms: int, admission: Admission, segments: Segments) -> Known:
    plan, numbers, left_out = admission.plan, [0], []
    for position, places in enumerate(plan.value_indices):
        segment = segment_of([values[place] for place in places])
        if not admission.admit(position, segment, time_ms):
            segment = OTHER
            left_out.append(plan.grouping_names[position + 1])
        numbers.append(segments.segment_id(position + 1, segment))
    return Known(segments.combination_id(tuple(numbers)), tuple(left_out))


def admitted_of(stored: Mapping[str, Admitted], topic: str, plan: Plan) -> Admission:
    """A topic-partition's admission as it was stored, or an empty one."""
    if topic not in stored:
        return Admission.empty(plan)
    return Admission(plan, [dict(values) for values in stored[topic]])
