"""Which segments are shown by name, and what the others amount to together.

Pure. A segment that is not shown by name counts in its grouping's `other`, beside what `other` was
given on arrival, so that the segments of a grouping always sum to the whole.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics.lists import Floats

from ..lane.paged_rows import Rows
from ..plan import OTHER, Plan
from .lane_view import Names
from .snapshot import LIVE, WHOLE, Segment, Snapshot, check_sum

Numbers = NDArray[np.intp]
Matrix = TypeVar("Matrix", Rows, Floats)


@dataclass(frozen=True)
class Selection:
    """The segments to show, in the order in which they are shown, and where their rows come
    from."""

    segments: tuple[Segment, ...]
    alone: tuple[tuple[int, int], ...]
    """(place among `segments`, number in the snapshot) of those shown by name."""
    together: tuple[tuple[int, Numbers], ...]
    """(place among `segments`, numbers in the snapshot) of each `other`."""

    def fold(self, rows: Matrix) -> Matrix:
        """(segments shown, columns) from the snapshot's (segments, columns)."""
        folded = np.zeros((len(self.segments), rows.shape[1]), rows.dtype)
        places = np.array([place for place, _ in self.alone], np.intp)
        numbers = np.array([number for _, number in self.alone], np.intp)
        folded[places] = rows.take(numbers, axis=0)
        for place, members in self.together:
            folded[place] = _column_sums(rows.take(members, axis=0))
        return folded

    @cached_property
    def _places(self) -> Mapping[Segment, int]:
        return {segment: place for place, segment in enumerate(self.segments)}

    def fold_pages(self, pages: Mapping[int, Matrix], names: Names, width: int) -> Floats:
        """(segments shown, columns) from rows by the numbers that these names have."""
        folded = np.zeros((len(self.segments) + 1, width))
        for page, rows in pages.items():
            places = self.places(names.of_page(page))
            np.add.at(folded, places, rows[: len(places)])
        return folded[:-1]

    def places(self, names: Sequence[Segment]) -> Numbers:
        """(names,): the place among `segments` where each counts, its own or that of `other`;
        behind the last one for those that nowhere do."""
        known, nowhere = self._places, len(self.segments)
        return np.array(
            [known.get(name, known.get((name[0], OTHER), nowhere)) for name in names], np.intp
        )


def select(
    snapshot: Snapshot, plan: Plan, named: Collection[Segment], *, empty_other: bool
) -> Selection:
    """Show the whole, each grouping's segments among `named`, and its `other`.

    Without `empty_other` an `other` without an impression in any window is left out.
    """
    members = _by_grouping(snapshot.segments, plan)
    seen = _seen(snapshot)
    segments: list[Segment] = [WHOLE]
    alone: list[tuple[int, int]] = [(0, snapshot.segments.index(WHOLE))]
    together: list[tuple[int, Numbers]] = []
    for grouping, numbers in members.items():
        kept = {number for number in numbers if snapshot.segments[number] in named}
        for number in sorted(kept):
            alone.append((len(segments), number))
            segments.append(snapshot.segments[number])
        rest = np.array([number for number in numbers if number not in kept], np.intp)
        if empty_other or seen[rest].any():
            together.append((len(segments), rest))
            segments.append((grouping, OTHER))
    return Selection(tuple(segments), tuple(alone), tuple(together))


def busiest(snapshot: Snapshot, plan: Plan) -> Selection:
    """What gauges show: the `max_segments` segments of each grouping with the most impressions.

    They are counted in the longest live window (where that is incomplete, in the next best); ties
    go by name. A segment without an impression in any window has vanished.
    """
    impressions, seen = _ranking(snapshot), _seen(snapshot)
    named: set[Segment] = set()
    for numbers in _by_grouping(snapshot.segments, plan).values():
        candidates = [n for n in numbers if seen[n] and snapshot.segments[n][1] != OTHER]
        candidates.sort(key=lambda n: (-impressions[n], snapshot.segments[n]))
        named.update(snapshot.segments[n] for n in candidates[: plan.max_segments])
    return select(snapshot, plan, named, empty_other=False)


def _by_grouping(segments: Sequence[Segment], plan: Plan) -> dict[str, list[int]]:
    """Numbers of the segments of each configured grouping, in the order of their names; the whole
    left out."""
    members: dict[str, list[int]] = {name: [] for name in plan.grouping_names[1:]}
    for number, (grouping, _) in enumerate(segments):
        if grouping in members:
            members[grouping].append(number)
    return members


def busiest_rows(snapshot: Snapshot) -> Rows:
    """The rows that busyness is read from: the longest live window's, or the next best."""
    ordered = sorted(snapshot.windows, key=lambda window: window.view == LIVE)
    return ordered[-1].rows if ordered else snapshot.totals


def _ranking(snapshot: Snapshot) -> list[int]:
    return [int(impressions) for impressions in busiest_rows(snapshot)[:, 0]]


def _seen(snapshot: Snapshot) -> NDArray[np.bool_]:
    """(segments,) True where any window holds an impression."""
    seen = np.zeros(len(snapshot.segments), np.bool_)
    for window in snapshot.windows:
        seen |= window.rows[:, 0] > 0
    return seen


def _column_sums(rows: Matrix) -> Matrix:
    # The sum of floats is off by far less than the room that is left below 2**63.
    largest = np.abs(rows.astype(np.float64)).sum(axis=0).max(initial=0.0)
    check_sum([2 * int(largest)])
    return np.asarray(rows.sum(axis=0), rows.dtype)
