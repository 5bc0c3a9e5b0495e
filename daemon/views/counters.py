"""What keeps a counter from ever going down, so that its growth can be read as a rate. Pure.

Two things would lower a counter. A store that lost its last second shows a lane as it was
before: `HighestTotals` keeps the highest values until the lane has caught up. And a segment that
newly gets a series of its own would leave `other`: `counters_of` leaves in `other` what was counted
there, and starts the segment's own counter at 0.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from relevanced.metrics import Integers

from ..changes import WHOLE
from ..lane import PAGE_ROWS, Columns, Rows, columns_of, kept_columns, take
from ..plan import OTHER, Plan
from .lane_view import Counts, LaneView, Names
from .selection import Selection, select
from .snapshot import Segment, Snapshot


class HighestTotals:
    """The highest totals, counts and offsets of each lane since it began."""

    def __init__(self) -> None:
        self._highest: dict[int, LaneView] = {}

    def raised(self, views: Iterable[LaneView]) -> list[LaneView]:
        """The lanes with no total, count or offset below what was returned for them before.

        A lane that is not among `views` has ended: if it comes back, it starts anew. So does one
        that ended and began again in between.
        """
        lanes = [_raised(view, self._highest.get(view.lane)) for view in views]
        self._highest = {view.lane: replace(view, panes={}) for view in lanes}
        return lanes


def _raised(view: LaneView, before: LaneView | None) -> LaneView:
    """The lane with totals and counts raised to those it had before; panes stay as they are,
    because gauges may go down."""
    if before is None or _has_begun_anew(view, before):
        return view
    view = replace(
        view,
        counts=_highest_counts(view.counts, before.counts),
        offsets=_highest_offsets(view, before),
    )
    if view.token == before.token and view.sequence >= before.sequence and not before.raised:
        return view  # totals only grow from commit to commit
    names = _with_lost(view.names, before.names)
    totals, raised = dict(view.totals), dict[str, Integers]()
    for page, highest in before.totals.items():
        segments = before.names.of_page(page)
        ids = np.array([names.ids[segment] for segment in segments], np.intp)
        missing = highest[: len(segments)] - take(totals, ids, highest.shape[1])
        for line in np.flatnonzero((missing > 0).any(axis=1)).tolist():
            more, grouping = np.maximum(missing[line], 0), segments[line][0]
            _add_row(totals, int(ids[line]), more)
            raised[grouping] = raised.get(grouping, 0) + more
    return replace(view, names=names, totals=totals, raised=raised)


def _has_begun_anew(view: LaneView, before: LaneView) -> bool:
    """Whether the lane counts fewer events though it has read as far as before.

    A store that was emptied and claimed again within a second looks like one that was rolled back.
    A lane that was rolled back has not read as far yet, and counts as many events once it has; a
    new one that began further on in the log never will. A lane that counts fewer because Kafka
    deleted records meanwhile is taken for new as well: its counters restart, which readers of
    counters understand, while counters that stand still for a new lane would mislead them.
    """
    as_far = before.offsets and all(
        _reads_another_log(view, before, topic) or view.offsets.get(topic, -1) >= offset
        for topic, offset in before.offsets.items()
    )
    return bool(as_far) and _events(view) < _events(before)


def _reads_another_log(view: LaneView, before: LaneView, topic: str) -> bool:
    """Whether a topic was created again meanwhile: its offsets mean something else."""
    ids = view.topic_ids.get(topic), before.topic_ids.get(topic)
    return None not in ids and ids[0] != ids[1]


def _highest_offsets(view: LaneView, before: LaneView) -> Mapping[str, int]:
    same = {t: o for t, o in before.offsets.items() if not _reads_another_log(view, before, t)}
    return _highest_by_label(view.offsets, same)


def _events(view: LaneView) -> int:
    return sum(view.counts.get("events", {}).values())


def _with_lost(names: Names, before: Names) -> Names:
    """The names, followed by those of before that are missing now."""
    lost = [segment for segment in before.segments if segment not in names.ids]
    return Names([*names.segments, *lost]) if lost else names


def _add_row(pages: dict[int, Rows], segment_id: int, row: Integers) -> None:
    """Add to one row, on a copy of its page: the view that the page came from stays as it is."""
    page, line = divmod(segment_id, PAGE_ROWS)
    rows = pages.get(page)
    pages[page] = np.zeros((PAGE_ROWS, len(row)), np.int64) if rows is None else rows.copy()
    pages[page][line] += row


def _highest_counts(counts: Counts, before: Counts) -> Counts:
    return {
        family: _highest_by_label(counts.get(family, {}), before.get(family, {}))
        for family in {**before, **counts}
    }


def _highest_by_label(counts: Mapping[str, int], before: Mapping[str, int]) -> Mapping[str, int]:
    return {
        label: max(counts.get(label, 0), before.get(label, 0)) for label in {**before, **counts}
    }


class PreviousSelection(msgspec.Struct, frozen=True):
    """The segments that counters have shown, and the part of each that stays counted in `other`.

    It is stored as JSON and restored by the next process that serves the counters: they go on
    where they were. Without it they may fall once, which Prometheus takes for a restart.
    """

    begun: bool = False
    """True once counters other than 0 were shown: a segment that joins later has been counted in
    `other` until then."""
    in_other: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
    """(grouping, segment, row that `other` keeps)."""
    columns: Columns = ((), None)
    """The columns of these rows."""

    def __post_init__(self) -> None:
        """Raise ValueError where a row lacks some of them: stored bytes are refused then."""
        most = int(kept_columns(self.columns, self.columns)[0].max())
        if short := [segment for _, segment, row in self.in_other if len(row) <= most]:
            raise ValueError(f"the row of {short[0]!r} lacks columns")

    def under(self, plan: Plan) -> "PreviousSelection":
        """The same with the columns of a plan: those that are new begin at 0."""
        columns = columns_of(plan)
        if self.columns == columns:
            return self
        from_, to = kept_columns(self.columns, columns)
        moved = np.zeros((len(self.in_other), plan.row_width), np.int64)
        for row, (_, _, kept) in zip(moved, self.in_other, strict=True):
            row[to] = np.array(kept)[from_]
        in_other = tuple(
            (grouping, segment, tuple(row))
            for (grouping, segment, _), row in zip(self.in_other, moved.tolist(), strict=True)
        )
        return PreviousSelection(self.begun, in_other, columns)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments that counters have shown. The next snapshot must contain them, also where
        no pane has them any more."""
        return tuple((grouping, segment) for grouping, segment, _ in self.in_other)


@dataclass(frozen=True)
class Counters:
    """(segments, columns) of what has settled since the beginning, as counters show it."""

    segments: tuple[Segment, ...]
    rows: Rows


def counters_of(
    snapshot: Snapshot, gauges: Selection, plan: Plan, before: PreviousSelection
) -> tuple[Counters, PreviousSelection]:
    """The counters of the segments that gauges show and of those that counters have ever shown;
    the snapshot must have been evaluated with `before.segments`.

    No counter is lower than it was with `before`, and the segments of a grouping sum to all that
    has settled in it. At most `plan.admitted_values` segments of a grouping get counters, so that
    the set stays bounded; the rest stays in `other`. Only the end of a lane lowers counters: then
    `other` gives up what it kept beyond the segment's total.
    """
    before = before.under(plan)
    kept = {(grouping, segment): row for grouping, segment, row in before.in_other}
    row_of = {segment: row for row, segment in enumerate(snapshot.segments)}
    named = [segment for segment in kept if segment in row_of]
    joining = [segment for segment in gauges.segments if _may_join(segment, kept)]
    named += _within_limit(joining, named, plan)
    bases: dict[Segment, Rows] = {}
    for segment in named:
        total = snapshot.totals[row_of[segment]]
        base = kept.get(segment, total if before.begun else 0)
        bases[segment] = np.minimum(total, np.asarray(base, np.int64))
    counters = _moved_to_other(snapshot, plan, bases)
    in_other = tuple((*segment, tuple(map(int, base))) for segment, base in bases.items())
    begun = before.begun or bool(snapshot.totals.any())
    return counters, PreviousSelection(begun, in_other, columns_of(plan))


def _may_join(segment: Segment, kept: Mapping[Segment, object]) -> bool:
    return segment[1] != OTHER and segment != WHOLE and segment not in kept


def _within_limit(joining: list[Segment], named: list[Segment], plan: Plan) -> list[Segment]:
    """The segments that may join before their grouping has `plan.admitted_values`."""
    left = {grouping: plan.admitted_values for grouping in plan.grouping_names}
    for grouping, _ in named:
        left[grouping] -= 1
    admitted = []
    for segment in joining:
        if left[segment[0]] > 0:
            left[segment[0]] -= 1
            admitted.append(segment)
    return admitted


def _moved_to_other(snapshot: Snapshot, plan: Plan, bases: Mapping[Segment, Rows]) -> Counters:
    """The totals of the segments in `bases` less their base, which `other` has instead."""
    selection = select(snapshot, plan, bases, empty_other=True)
    rows = selection.fold(snapshot.totals)
    row_of = {segment: row for row, segment in enumerate(selection.segments)}
    for grouping, elsewhere in snapshot.elsewhere.items():
        rows[row_of[grouping, OTHER]] += elsewhere
    for segment, base in bases.items():
        rows[row_of[segment]] -= base
        rows[row_of[segment[0], OTHER]] += base
    return Counters(selection.segments, rows)
