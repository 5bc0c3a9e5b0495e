"""Which values of each grouping are admitted, and which combination an impression counts in.

Pure. What was worked out for some values, or for a text of attributes, is remembered for as long as
it cannot change; `Admission` alone reads and fills what it remembers.
"""

from collections import Counter
from collections.abc import KeysView, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from relevanced.metrics.lists import Integers

from ..plan import OTHER, Plan, Values
from .attribute_texts import ParsedAttributes, once_per_text
from .segments import Segments, segment_of

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

    def is_valid(self, table: Sequence[ParsedAttributes], pane: int) -> bool:
        """True for attribute ids of the same table, which may have grown, in the same pane."""
        return self.table is table and self.pane == pane

    def grow(self) -> None:
        """Make room for texts that the table got since."""
        missing = len(self.table) - len(self.combination_ids)
        if missing:
            new = np.full(missing, NO_COMBINATION)
            self.combination_ids = np.append(self.combination_ids, new)


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
        segments: Segments,
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
        segments: Segments,
        overflow: Counter[str],
    ) -> Integers:
        """The same for a batch of accepted impressions, (n,), all at watermarks in one pane: a
        gather for the texts in the cache, and one look-up for each of the others."""
        pane = self._pane_of(watermark_ms)
        if self._by_text is None or not self._by_text.is_valid(table, pane):
            self._by_text = _TextCache(table, pane)
        cache = self._by_text
        cache.grow()

        def look_up(attribute_id: int, impressions: int) -> int:
            values = table[attribute_id].values
            counted = self._counted(values, watermark_ms, segments, overflow, impressions)
            if not counted.left_out:
                cache.combination_ids[attribute_id] = counted.combination_id
            return counted.combination_id

        combination_ids = cache.combination_ids[attribute_ids]
        is_new = combination_ids == NO_COMBINATION
        if is_new.any():
            combination_ids[is_new] = once_per_text(attribute_ids[is_new], len(table), look_up)
        return combination_ids

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

    def _remembered(self, watermark_ms: int) -> dict[Values, Counted]:
        pane = watermark_ms // self.plan.timing.longest.pane_ms
        if pane != self._pane:
            self._by_values, self._pane = {}, pane
        return self._by_values

    def _counted(
        self,
        values: Values,
        watermark_ms: int,
        segments: Segments,
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

    def _admit_all(self, values: Values, watermark_ms: int, segments: Segments) -> Counted:
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
        oldest = pane - self.plan.timing.longest.pane_count
        kept = {v: last for v, last in self.seen[grouping].items() if last >= oldest}
        self.changed = self.changed or len(kept) < len(self.seen[grouping])
        self.seen[grouping] = kept


def admitted_of(stored: Mapping[str, Admitted], topic: str, plan: Plan) -> Admission:
    """A topic-partition's admission as it was stored, or an empty one."""
    if topic not in stored:
        return Admission.empty(plan)
    return Admission(plan, [dict(values) for values in stored[topic]])
