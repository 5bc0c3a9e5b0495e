"""Which segments an impression counts in: which values of each grouping are admitted, and the ids
of segments and of combinations of them. Pure.

A grouping is a list of attribute names, a segment one value of it. A segment gets its id when a
lane first sees it, counting up, and keeps it for the lifetime of the lane; id 0 is the whole. A
combination is the tuple of segment ids of one impression, one per grouping: impressions share a few
hundred of them, so an impression stores one combination id instead of a segment id per grouping.

What was worked out for some values, or for a text of attributes, is remembered for as long as it
cannot change; `Admission` alone reads and fills what it remembers.
"""

import re
from collections import Counter
from collections.abc import Iterable, KeysView, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import Integers, distinct

from ..plan import ALL, NONE, OTHER, Plan, Values
from .attribute_texts import ParsedAttributes, once_per_text

Combination: TypeAlias = tuple[int, ...]
"""Segment id per grouping, the whole first."""
MOST_COMBINATIONS: Final = 50_000
"""Beyond this, combinations are forgotten that no open impression counts in."""
_RESERVED = frozenset((ALL, OTHER))
_PARTS: Final = re.compile(r"(?:[^,\\]|\\.)*", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


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


def attribute_values(segment: str) -> list[str]:
    """The attribute values that a segment joins, unescaped.

    >>> attribute_values("US,a\\\\,b")
    ['US', 'a,b']
    """
    if "\\" not in segment:
        return segment.split(",")
    parts = []
    start = 0
    while start <= len(segment):
        found = _PARTS.match(segment, start)
        end = found.end() if found else start
        parts.append(_ESCAPED.sub(r"\1", segment[start:end]))
        start = end + 1
    return parts


@dataclass
class LaneSegments:
    """The segment and combination ids of one lane. Names are append-only: a commit stores only
    those that are new since the last one."""

    names: list[tuple[int, str]] = field(default_factory=lambda: [(0, ALL)])
    """(grouping id, segment) by segment id."""
    combinations: list[Combination] = field(default_factory=list)
    """By combination id."""
    grouping_ids: tuple[int, ...] | None = None
    """The id, in `names`, of each grouping of the plan, the whole first; None: its index."""
    _segment_ids: dict[tuple[int, str], int] = field(default_factory=lambda: {(0, ALL): 0})
    _combination_ids: dict[Combination, int] = field(default_factory=dict)
    _table: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    _capacity: int = MOST_COMBINATIONS

    @staticmethod
    def of(
        names: Iterable[tuple[int, str]], grouping_ids: tuple[int, ...] | None = None
    ) -> "LaneSegments":
        """The segments of these stored names, by id."""
        listed = list(names)
        ids = {name: segment_id for segment_id, name in enumerate(listed)}
        return LaneSegments(names=listed, grouping_ids=grouping_ids, _segment_ids=ids)

    def segment_id(self, grouping: int, segment: str) -> int:
        """The id of a segment of the plan's grouping, a new one if it has none yet."""
        grouping = grouping if self.grouping_ids is None else self.grouping_ids[grouping]
        segment_id = self._segment_ids.get((grouping, segment))
        if segment_id is None:
            segment_id = self._segment_ids[(grouping, segment)] = len(self.names)
            self.names.append((grouping, segment))
        return segment_id

    def combination_id(self, segments: Combination) -> int:
        """The id of a combination, a new one if it has none yet."""
        combination_id = self._combination_ids.get(segments)
        if combination_id is None:
            combination_id = self._combination_ids[segments] = len(self.combinations)
            self.combinations.append(segments)
        return combination_id

    @property
    def is_full(self) -> bool:
        """True where there are so many combinations that most must be unused."""
        return len(self.combinations) > self._capacity

    def keep_combinations(self, used: NDArray[np.int64]) -> NDArray[np.int64]:
        """Forget all combinations but these, ascending; returns the new id of each old one."""
        renamed = np.zeros(max(1, len(self.combinations)), np.int64)
        renamed[used] = np.arange(len(used))
        self.combinations = [self.combinations[old_id] for old_id in used.tolist()]
        self._combination_ids = {c: new_id for new_id, c in enumerate(self.combinations)}
        self._table = np.zeros((0, 0), np.int64)
        self._capacity = max(MOST_COMBINATIONS, 2 * len(used))
        return renamed

    def combination_table(self) -> NDArray[np.int64]:
        """(combinations, groupings) of segment ids."""
        rows = len(self._table)
        if rows < len(self.combinations):
            new = np.array(self.combinations[rows:], np.int64)
            self._table = np.concatenate([self._table, new]) if rows else new
        return self._table


Admitted: TypeAlias = list[dict[str, int]]
"""Per grouping (the whole left out): value → index of the longest window's pane in which it was
last seen."""

NO_COMBINATION: Final = -1
REMEMBERED_VALUES: Final = 50_000
"""Distinct values of one pane that are remembered."""


class Counted(NamedTuple):
    """What impressions of some values count in, within one pane."""

    combination_id: int
    left_out: tuple[str, ...]
    """Groupings in which a value was not admitted."""


@dataclass
class _TextCache:
    """The combination id of each attribute id, where all its values are admitted."""

    table: Sequence[ParsedAttributes]
    """The table that the attribute ids index."""
    pane: int
    """Index of the longest window's pane. In the next one, values may be admitted or dropped."""
    combination_ids: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    """NO_COMBINATION for texts that were not looked up yet, or have a value that was left out:
    that must be counted each time."""
    of_earlier: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    """The same in the last pane in which each was looked up."""

    def reach(self, pane: int) -> None:
        """Make room for texts that the table got since, and begin a pane if it is another one."""
        missing = len(self.table) - len(self.combination_ids)
        if missing:
            new = np.full(missing, NO_COMBINATION)
            self.combination_ids = np.append(self.combination_ids, new)
            self.of_earlier = np.append(self.of_earlier, new)
        if pane != self.pane:
            known = self.combination_ids != NO_COMBINATION
            self.of_earlier[known] = self.combination_ids[known]
            self.combination_ids[:] = NO_COMBINATION
            self.pane = pane


@dataclass
class Admission:
    """Which values of each grouping one topic-partition admits, by its own order of records alone.

    The first `plan.admitted_values` are admitted. When they are complete and another value comes,
    those that were not seen for the longest window are dropped.

    Values are dropped at most once in each pane of the longest window. So within a pane a value
    that is admitted stays admitted, one that is left out stays left out, and what values and texts
    count in can be remembered.
    """

    plan: Plan
    seen: Admitted
    changed: bool = False
    """True where `seen` differs from what is stored."""
    _by_values: dict[Values, Counted] = field(default_factory=dict)
    _pane: int | None = None
    """The pane of what is remembered in `_by_values`."""
    _by_text: _TextCache | None = None
    _swept: dict[int, int] = field(default_factory=dict)
    """Grouping → pane in which it was last tried to drop values: no more can be dropped in it."""

    @staticmethod
    def empty(plan: Plan) -> "Admission":
        """Nothing admitted yet."""
        return Admission(plan, [{} for _ in plan.groupings])

    def seen_values(self, watermark_ms: int) -> KeysView[Values]:
        """The values that accepted impressions of this pane had: more impressions of them admit
        nothing new."""
        return self._remembered(watermark_ms).keys()

    def combination_of(
        self,
        values: Values,
        watermark_ms: int,
        segments: LaneSegments,
        overflow: Counter[str],
        impressions: int = 1,
    ) -> int:
        """The id of the combination that accepted impressions of these values count in, at the
        watermark that they arrived at.

        Adds to `overflow` (by grouping) where a value is not admitted.
        """
        return self._counted(values, watermark_ms, segments, overflow, impressions).combination_id

    def combinations_of(
        self,
        attribute_ids: Integers,
        table: Sequence[ParsedAttributes],
        watermark_ms: int,
        segments: LaneSegments,
        overflow: Counter[str],
    ) -> Integers:
        """The same for a batch of accepted impressions, (n,), all at watermarks in one pane: a
        gather for the texts in the cache, and one look-up for each of the others."""
        pane = self._pane_of(watermark_ms)
        if self._by_text is None or self._by_text.table is not table:
            self._by_text = _TextCache(table, pane)
        cache = self._by_text
        cache.reach(pane)

        def look_up(attribute_id: int, impressions: int) -> int:
            values = table[attribute_id].values
            counted = self._counted(values, watermark_ms, segments, overflow, impressions)
            if not counted.left_out:
                cache.combination_ids[attribute_id] = counted.combination_id
            return counted.combination_id

        combination_ids = cache.combination_ids[attribute_ids]
        is_new = combination_ids == NO_COMBINATION
        if is_new.any():
            self._see_again(distinct(attribute_ids[is_new]), watermark_ms, segments)
            combination_ids = cache.combination_ids[attribute_ids]
            is_new = combination_ids == NO_COMBINATION
        if is_new.any():
            combination_ids[is_new] = once_per_text(attribute_ids[is_new], len(table), look_up)
        return combination_ids

    def _see_again(
        self, attribute_ids: Integers, watermark_ms: int, segments: LaneSegments
    ) -> None:
        """Note that impressions of these texts came in a pane, if that admits no value, and if none
        of theirs may be dropped in it: then their order makes no difference."""
        cache, pane = self._by_text, self._pane_of(watermark_ms)
        assert cache is not None
        known = attribute_ids[cache.of_earlier[attribute_ids] != NO_COMBINATION]
        combination_ids = cache.of_earlier[known]
        if not len(known):
            return
        table = segments.combination_table()[combination_ids, 1:]
        names, oldest = segments.names, self._oldest_of(pane)
        columns = [distinct(column).tolist() for column in table.T]
        for seen, column in zip(self.seen, columns, strict=True):
            if any(seen.get(names[segment_id][1], -1) < oldest for segment_id in column):
                return
        for seen, column in zip(self.seen, columns, strict=True):
            again = {names[segment_id][1]: pane for segment_id in column}
            self.changed = self.changed or any(seen[segment] < pane for segment in again)
            seen.update(again)
        cache.combination_ids[known] = combination_ids
        remembered = self._remembered(watermark_ms)
        if len(remembered) + len(known) <= REMEMBERED_VALUES:
            for number, combination_id in zip(known.tolist(), combination_ids.tolist()):
                remembered[cache.table[number].values] = Counted(combination_id, ())

    def forget_combinations(self) -> None:
        """Look everything up again: combinations have other ids now."""
        self._by_values, self._by_text = {}, None

    def admit(self, grouping: int, value: str, watermark_ms: int) -> bool:
        """True where the value is or becomes admitted at this watermark.

        `grouping` counts without the whole. A False means that the impression counts in `other`.
        """
        seen = self.seen[grouping]
        pane = self._pane_of(watermark_ms)
        last = seen.get(value)
        if last is None:
            if len(seen) >= self.plan.admitted_values:
                self._drop_unseen(grouping, pane)
            if len(self.seen[grouping]) >= self.plan.admitted_values:
                return False
            self.seen[grouping][value] = pane
            self.changed = True
        elif last < pane:
            seen[value] = pane
            self.changed = True
        return True

    def _pane_of(self, watermark_ms: int) -> int:
        return watermark_ms // self.plan.timing.longest.pane_ms

    def _oldest_of(self, pane: int) -> int:
        """A value that was last seen in an earlier pane than this may be dropped."""
        return pane - self.plan.timing.longest.pane_count

    def _remembered(self, watermark_ms: int) -> dict[Values, Counted]:
        pane = watermark_ms // self.plan.timing.longest.pane_ms
        if pane != self._pane:
            self._by_values, self._pane = {}, pane
        return self._by_values

    def _counted(
        self,
        values: Values,
        watermark_ms: int,
        segments: LaneSegments,
        overflow: Counter[str],
        impressions: int,
    ) -> Counted:
        remembered = self._remembered(watermark_ms)
        counted = remembered.get(values)
        if counted is None:
            if len(remembered) >= REMEMBERED_VALUES:
                remembered.clear()
            counted = remembered[values] = self._admit_all(values, watermark_ms, segments)
        for grouping in counted.left_out:
            overflow[grouping] += impressions
        return counted

    def _admit_all(self, values: Values, watermark_ms: int, segments: LaneSegments) -> Counted:
        segment_ids, left_out = [0], []
        for grouping, indices in enumerate(self.plan.value_indices):
            segment = segment_of([values[index] for index in indices])
            if not self.admit(grouping, segment, watermark_ms):
                segment = OTHER
                left_out.append(self.plan.grouping_names[grouping + 1])
            segment_ids.append(segments.segment_id(grouping + 1, segment))
        return Counted(segments.combination_id(tuple(segment_ids)), tuple(left_out))

    def _drop_unseen(self, grouping: int, pane: int) -> None:
        if self._swept.get(grouping) == pane:
            return
        self._swept[grouping] = pane
        oldest = self._oldest_of(pane)
        kept = {v: last for v, last in self.seen[grouping].items() if last >= oldest}
        self.changed = self.changed or len(kept) < len(self.seen[grouping])
        self.seen[grouping] = kept


def admitted_of(stored: Mapping[str, Admitted], topic: str, plan: Plan) -> Admission:
    """A topic-partition's admission as it was stored, or an empty one."""
    if topic not in stored:
        return Admission.empty(plan)
    return Admission(plan, [dict(values) for values in stored[topic]])
