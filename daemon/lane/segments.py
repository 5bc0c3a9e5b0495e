"""Which segments an impression counts in: ids of segments and of combinations of them.

A grouping is a list of attribute names, a segment one value of it. A segment gets its id when a
lane first sees it, counting up, and keeps it for the lifetime of the lane; id 0 is the whole. A
combination is the tuple of segment ids of one impression, one per grouping: impressions share a few
hundred of them, so an impression stores one combination id instead of a segment id per grouping.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..plan import ALL, NONE, OTHER

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
class Segments:
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
    ) -> "Segments":
        """The segments of these stored names, by id."""
        listed = list(names)
        ids = {name: segment_id for segment_id, name in enumerate(listed)}
        return Segments(names=listed, grouping_ids=grouping_ids, _segment_ids=ids)

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
