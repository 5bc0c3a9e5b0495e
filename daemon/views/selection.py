"""Which segments get series of their own, and the sum of the others. Pure.

A segment without series of its own counts in `other` of its grouping, beside what was counted
in `other` on arrival, so that the segments of a grouping always sum to the whole.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import Booleans, Floats

from ..changes import WHOLE
from ..lane import Rows
from ..plan import OTHER, Plan
from .lane_view import Names
from .snapshot import Segment, Snapshot, check_sum

Indices: TypeAlias = NDArray[np.intp]
Matrix = TypeVar("Matrix", Rows, Floats)


@dataclass(frozen=True)
class Selection:
    """The selected segments, in the order of their series, and the rows of a snapshot that each
    is the sum of."""

    segments: tuple[Segment, ...]
    alone: tuple[tuple[int, int], ...]
    """(row of the selection, row of the snapshot) of each segment with series of its own."""
    together: tuple[tuple[int, Indices], ...]
    """(row of the selection, rows of the snapshot) of each `other`."""

    def fold(self, rows: Matrix) -> Matrix:
        """(selected segments, columns) from (segments of the snapshot, columns). Raises
        OverflowError."""
        folded = np.zeros((len(self.segments), rows.shape[1]), rows.dtype)
        into = np.array([row for row, _ in self.alone], np.intp)
        from_ = np.array([row for _, row in self.alone], np.intp)
        folded[into] = rows.take(from_, axis=0)
        for row, members in self.together:
            folded[row] = _column_sums(rows.take(members, axis=0))
        return folded

    def ranking(self, snapshot: Snapshot) -> list[int]:
        """The `Snapshot.ranking` of each selected segment."""
        counted: list[int] = self.fold(snapshot.ranking[:, np.newaxis])[:, 0].tolist()
        return counted

    @cached_property
    def _row_of(self) -> Mapping[Segment, int]:
        return {segment: row for row, segment in enumerate(self.segments)}

    def fold_pages(self, pages: Mapping[int, Matrix], names: Names, width: int) -> Floats:
        """(selected segments, columns) from pages of rows by the ids of `names`."""
        folded = np.zeros((len(self.segments) + 1, width))
        for page, rows in pages.items():
            into = self.rows_of(names.of_page(page))
            np.add.at(folded, into, rows[: len(into)])
        return folded[:-1]

    def rows_of(self, segments: Sequence[Segment]) -> Indices:
        """(segments,): the row of the selection where each counts, its own or that of `other`; one
        past the last row for those that count nowhere."""
        row_of, nowhere = self._row_of, len(self.segments)
        return np.array(
            [row_of.get(name, row_of.get((name[0], OTHER), nowhere)) for name in segments], np.intp
        )


def select(
    snapshot: Snapshot, plan: Plan, named: Collection[Segment], *, empty_other: bool
) -> Selection:
    """Select the whole, each grouping's segments among `named`, and its `other`.

    Without `empty_other` an `other` that has no impression in any window is left out.
    """
    members = _by_grouping(snapshot.segments, plan)
    seen = _have_impressions(snapshot)
    segments: list[Segment] = [WHOLE]
    alone: list[tuple[int, int]] = [(0, snapshot.segments.index(WHOLE))]
    together: list[tuple[int, Indices]] = []
    for grouping, rows in members.items():
        kept = {row for row in rows if snapshot.segments[row] in named}
        for row in sorted(kept):
            alone.append((len(segments), row))
            segments.append(snapshot.segments[row])
        rest = np.array([row for row in rows if row not in kept], np.intp)
        if empty_other or seen[rest].any():
            together.append((len(segments), rest))
            segments.append((grouping, OTHER))
    return Selection(tuple(segments), tuple(alone), tuple(together))


def busiest(snapshot: Snapshot, plan: Plan) -> Selection:
    """The selection that gauges show: the `max_segments` segments of each grouping with the most
    impressions.

    They are counted in the longest live window (where that is incomplete, in the next best), also
    while not all of it has the grouping; ties go by name. A segment without an impression in any
    window is left out.
    """
    impressions = snapshot.ranking.tolist()
    seen = _have_impressions(snapshot)
    named: set[Segment] = set()
    for rows in _by_grouping(snapshot.segments, plan).values():
        candidates = [row for row in rows if seen[row] and snapshot.segments[row][1] != OTHER]
        candidates.sort(key=lambda row: (-impressions[row], snapshot.segments[row]))
        named.update(snapshot.segments[row] for row in candidates[: plan.max_segments])
    return select(snapshot, plan, named, empty_other=False)


def _by_grouping(segments: Sequence[Segment], plan: Plan) -> dict[str, list[int]]:
    """Grouping → rows of its segments, in the order of their names; without the whole."""
    members: dict[str, list[int]] = {name: [] for name in plan.grouping_names[1:]}
    for row, (grouping, _) in enumerate(segments):
        if grouping in members:
            members[grouping].append(row)
    return members


def _have_impressions(snapshot: Snapshot) -> Booleans:
    """(segments of the snapshot,) True where any window contains an impression."""
    seen = snapshot.ranking > 0
    for window in snapshot.windows:
        seen |= window.rows[:, 0] > 0
    return seen


def _column_sums(rows: Matrix) -> Matrix:
    # The sum as floats is off by far less than the factor of two that is kept free below 2**63.
    largest = np.abs(rows.astype(np.float64)).sum(axis=0).max(initial=0.0)
    check_sum([2 * int(largest)])
    return np.asarray(rows.sum(axis=0), rows.dtype)
