"""What keeps a counter from ever going down, so that its growth can be read as a rate.

Pure. Two things could lower one. A store that lost its last second shows a lane as it was before:
`HighestTotals` holds the highest values until the lane has caught up. And a segment that is newly
shown by name leaves `other`: `show` leaves in `other` what it had counted there, and starts the
segment's own counter at 0.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from relevanced.metrics.lists import Integers

from ..lane.paged_rows import PAGE_ROWS, Rows, take
from ..plan import OTHER, Plan
from .lane_view import Counts, LaneView, Names
from .selection import Selection, select
from .snapshot import WHOLE, Segment, Snapshot


class HighestTotals:
    """The highest totals and counts seen of each lane since its life began."""

    def __init__(self) -> None:
        self._highest: dict[int, LaneView] = {}

    def hold(self, views: Iterable[LaneView]) -> list[LaneView]:
        """The lanes with no total, count or offset below what was held of them before.

        Lanes that are not among them have ended: should one come again, it starts anew. So does one
        that ended and began again in between.
        """
        held = [_raised(view, self._highest.get(view.lane)) for view in views]
        self._highest = {view.lane: replace(view, panes={}) for view in held}
        return held


def _raised(view: LaneView, before: LaneView | None) -> LaneView:
    """The lane with totals and counts raised to those it had before; panes stay as they are."""
    if before is None or _has_begun_anew(view, before):
        return view
    view = replace(
        view,
        counts=_highest_counts(view.counts, before.counts),
        offsets=_highest_of(view.offsets, before.offsets),
    )
    if view.token == before.token and view.sequence >= before.sequence and not before.raised:
        return view  # totals only grow from commit to commit
    names = _with_lost(view.names, before.names)
    totals, raised = dict(view.totals), dict[str, Integers]()
    for page, highest in before.totals.items():
        named = before.names.of_page(page)
        numbers = np.array([names.ids[name] for name in named], np.intp)
        missing = highest[: len(named)] - take(totals, numbers, highest.shape[1])
        for line in np.flatnonzero((missing > 0).any(axis=1)).tolist():
            more, grouping = np.maximum(missing[line], 0), named[line][0]
            _add_row(totals, int(numbers[line]), more)
            raised[grouping] = raised.get(grouping, 0) + more
    return replace(view, names=names, totals=totals, raised=raised)


def _has_begun_anew(view: LaneView, before: LaneView) -> bool:
    """Whether the lane counts fewer events though it has read as far: its life began behind what
    the one before had read. One that was rolled back is not as far yet, and counts the same when it
    is. Where the log lost records meanwhile it never will, and is taken for new: its counters start
    again, which readers know how to read; for a new lane to stand still they would not."""
    as_far = before.offsets and all(
        view.offsets.get(topic, -1) >= offset for topic, offset in before.offsets.items()
    )
    return bool(as_far) and _events(view) < _events(before)


def _events(view: LaneView) -> int:
    return sum(view.counts.get("events", {}).values())


def _with_lost(names: Names, before: Names) -> Names:
    """The names, and behind them those that were there before and no longer are."""
    lost = [name for name in before.segments if name not in names.ids]
    return Names([*names.segments, *lost]) if lost else names


def _add_row(pages: dict[int, Rows], segment: int, row: Integers) -> None:
    page, line = divmod(segment, PAGE_ROWS)
    held = pages.get(page)
    pages[page] = np.zeros((PAGE_ROWS, len(row)), np.int64) if held is None else held.copy()
    pages[page][line] += row


def _highest_counts(counts: Counts, before: Counts) -> Counts:
    return {
        family: _highest_of(counts.get(family, {}), before.get(family, {}))
        for family in {**before, **counts}
    }


def _highest_of(counts: Mapping[str, int], before: Mapping[str, int]) -> Mapping[str, int]:
    return {
        label: max(counts.get(label, 0), before.get(label, 0)) for label in {**before, **counts}
    }


class PreviousSelection(msgspec.Struct, frozen=True):
    """The segments that counters have shown, and what of each stays counted in `other`.

    Plain enough to be stored (`msgspec.json`) and given to the next process that serves the
    counters: with it they go on where they were, without it they may fall once, which readers take
    for a restart.
    """

    begun: bool = False
    """True once counters other than 0 were shown: from then on `other` has counted what joins."""
    in_other: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
    """(grouping, segment, row that `other` keeps)."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Those that counters have shown: the next snapshot must tell them, whether they live or
        not."""
        return tuple((grouping, segment) for grouping, segment, _ in self.in_other)


@dataclass(frozen=True)
class Counters:
    """(segments, columns) of what has settled since the beginning, as it is shown."""

    segments: tuple[Segment, ...]
    rows: Rows


def show(
    snapshot: Snapshot, gauges: Selection, plan: Plan, before: PreviousSelection
) -> tuple[Counters, PreviousSelection]:
    """The counters of what gauges show and of everything that was ever shown, which the snapshot
    was asked for.

    No counter is lower than it was with the memory `before`, and the segments of a grouping sum to
    all that has settled in it. Up to `plan.admitted_values` of a grouping are shown; after that the
    rest stays in `other`. Only the end of a lane's life lowers counters: then `other` hands back
    what it kept beyond the segment's total.
    """
    kept = {(grouping, segment): row for grouping, segment, row in before.in_other}
    number_of = {segment: number for number, segment in enumerate(snapshot.segments)}
    named = [segment for segment in kept if segment in number_of]
    joining = [segment for segment in gauges.segments if _may_join(segment, kept)]
    named += _within_room(joining, named, plan)
    bases: dict[Segment, Rows] = {}
    for segment in named:
        total = snapshot.totals[number_of[segment]]
        base = kept.get(segment, total if before.begun else 0)
        bases[segment] = np.minimum(total, np.asarray(base, np.int64))
    counters = _moved_to_other(snapshot, plan, bases)
    in_other = tuple((*segment, tuple(map(int, base))) for segment, base in bases.items())
    return counters, PreviousSelection(before.begun or bool(snapshot.totals.any()), in_other)


def _may_join(segment: Segment, kept: Mapping[Segment, object]) -> bool:
    return segment[1] != OTHER and segment != WHOLE and segment not in kept


def _within_room(joining: list[Segment], named: list[Segment], plan: Plan) -> list[Segment]:
    room = {grouping: plan.admitted_values for grouping in plan.grouping_names}
    for grouping, _ in named:
        room[grouping] -= 1
    admitted = []
    for segment in joining:
        if room[segment[0]] > 0:
            room[segment[0]] -= 1
            admitted.append(segment)
    return admitted


def _moved_to_other(snapshot: Snapshot, plan: Plan, bases: Mapping[Segment, Rows]) -> Counters:
    selection = select(snapshot, plan, bases, empty_other=True)
    rows = selection.fold(snapshot.totals)
    place_of = {segment: place for place, segment in enumerate(selection.segments)}
    for grouping, row in snapshot.elsewhere.items():
        rows[place_of[grouping, OTHER]] += row
    for segment, base in bases.items():
        rows[place_of[segment]] -= base
        rows[place_of[segment[0], OTHER]] += base
    return Counters(selection.segments, rows)
