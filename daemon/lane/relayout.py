"""A lane under another plan: what stays is copied, what can be made is made, the rest begins; of
its searches, too. Pure.

Between two batches. Both plans must be of one join: the base pane, the waiting times, grades and
depth are the same. The rows of hours that cannot change any more are not here, and stay as they are
stored.

Rows keep the columns that both plans have. A column that is new begins at an instant, and a sum
that reaches further back must not be shown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec
import numpy as np

from relevanced.metrics import Integers

from ..panes import pane_start
from ..plan import COUNT_COLUMNS, METRIC_COLUMNS, NO_SURFACE, WEIGHT_COLUMNS, Plan
from . import kept_rows
from .attribute_texts import AttributeTexts
from .columns.arrays import new_column
from .gain_states import NO_STATE, GainStates
from .impression_columns import SearchColumns
from .lane import (
    BEFORE,
    BatchChanges,
    Lane,
    class_files_under,
    optional_rows_of,
)
from .queries import has_same_queries
from .query_settling import begin_queries
from .relaid_rows import ColumnPairs, Tiling, copied, relay, set_before, tilings_of
from .row_sets import PagedRows, RowSet
from .scoring import apply_changes
from .segment_admission import Admission, LaneSegments
from .unjudged_items import begin_missing, has_same_missing
from .watermarks import JUMP_MS

Instant = int | None
"""An event time in ms; None: the beginning of the lane."""


class Since(msgspec.Struct, frozen=True):
    """From which instants on, at borders of base panes, the rows of a lane are exact."""

    columns: Mapping[str, Instant] = {}
    """By `Plan.column_ids` and `Plan.weights_id`."""
    groupings: Mapping[str, Instant] = {}
    """By `Plan.grouping_ids`, which are names such as `country,device`."""
    windows: Mapping[int, Instant] = {}
    """By length in ms."""
    hours: Instant = None

    def of(self, column: str, grouping: str, window_ms: int) -> Instant:
        """Since when a column of a grouping holds in the panes of a window. Raises KeyError where
        one of them is not there at all."""
        return latest((self.columns[column], self.groupings.get(grouping), self.windows[window_ms]))


def latest(instants: Iterable[Instant]) -> Instant:
    """The latest of some instants."""
    return max((each for each in instants if each is not None), default=None)


Columns: TypeAlias = tuple[tuple[str, ...], str | None]
"""`Plan.column_ids` and `Plan.weights_id`."""


def columns_of(plan: Plan) -> Columns:
    """The columns of rows under a plan."""
    return plan.column_ids, plan.weights_id


def all_columns(plan: Plan) -> tuple[str, ...]:
    """The ids of everything that begins by itself in the rows of a plan: metrics and weights."""
    return plan.column_ids if plan.weights_id is None else (*plan.column_ids, plan.weights_id)


def kept_columns(old: Columns, new: Columns) -> tuple[Integers, Integers]:
    """The columns, in the old rows and in the new ones, that both have."""
    (old_ids, old_weights), (new_ids, new_weights) = old, new
    each, counts = len(METRIC_COLUMNS), len(COUNT_COLUMNS)
    pairs = [(n, n) for n in range(counts)]
    at = {id_: index for index, id_ in enumerate(old_ids)}
    for index, id_ in enumerate(new_ids):
        if id_ in at:
            pairs += [(counts + each * at[id_] + n, counts + each * index + n) for n in range(each)]
    if old_weights is not None and old_weights == new_weights:
        first, into = counts + each * len(old_ids), counts + each * len(new_ids)
        pairs += [(first + n, into + n) for n in range(len(WEIGHT_COLUMNS))]
    from_, to = zip(*pairs, strict=True)
    return np.array(from_), np.array(to)


def optional_rows_go_on(measure: str, one: Plan, other: Plan) -> bool:
    """Whether the rows of a measure go on from one plan to the other: they have the same columns,
    and open impressions keep their queries. Where hours begin or end all begin anew: those that
    are final were added to no hour."""
    columns = one.optional.get(measure)
    return (
        columns is not None
        and columns == other.optional.get(measure)
        and bool(one.history_hours) == bool(other.history_hours)
        and has_same_queries(one, other)
    )


def since_the_beginning(plan: Plan, lost_before: Instant = None) -> Since:
    """That of a lane that never had another plan, whose rows before an instant are lost."""
    return Since(
        dict.fromkeys(all_columns(plan)),
        dict.fromkeys(plan.grouping_ids),
        {window.length_ms: lost_before for window in plan.timing.windows},
        None if lost_before is None else -(-lost_before // plan.hour_ms) * plan.hour_ms,
    )


def begin_at(lane: Lane, pane_ms: int) -> Since:
    """Let a lane that has read nothing yet hold only from a base pane on: what it had before is
    lost, and no sum of lanes may reach further back."""
    if lane.queries is not None:
        begin_queries(lane, pane_ms)
        begin_missing(lane, pane_ms)
    hour_ms = lane.plan.hour_ms
    for rows in lane.optional_rows.values():
        rows.begin(lane.open.next_slot, -(-pane_ms // hour_ms) * hour_ms)
    if lane.plan.tracking is not None:
        lane.experiments.since_ms = dict.fromkeys(lane.plan.tracking.digests(), pane_ms)
    return since_the_beginning(lane.plan, pane_ms)


def next_pane_ms(lane: Lane) -> int | None:
    """Return the start of the first base pane without an impression so far; None before the first
    event of the lane."""
    marks = [mark for mark in lane.watermarks.values() if mark is not None]
    if not marks:
        return None
    base_ms = lane.plan.timing.base_ms
    # An impression of a wrong clock may lie in a pane of next year: no experiment waits for that.
    pending_ms = [time_ms for p in lane.pending.values() for time_ms in p.times_ms.values()]
    reach = max((*marks, *pending_ms)) + JUMP_MS
    reached = [pane for pane in lane.open.panes() if pane <= reach]
    return max((*reached, pane_start(min(marks), base_ms))) + base_ms


@dataclass(frozen=True)
class _Change:
    """From one plan to another, at one state of a lane."""

    old: Plan
    new: Plan
    settled_before: Instant
    next_pane_ms: Instant
    since: Since

    tilings: Sequence[Tiling]

    @property
    def kept(self) -> tuple[Integers, Integers]:
        """The columns, in the old rows and in the new ones, that stay."""
        return kept_columns(columns_of(self.old), columns_of(self.new))

    @property
    def windows(self) -> dict[int, Instant]:
        """Since when each new window holds, by its length in ms."""
        return {
            each.window.length_ms: latest((each.first_ms, self.since.windows[each.part.length_ms]))
            for each in self.tilings
        }

    @property
    def next_hour_ms(self) -> int:
        """The first hour whose impressions all come from now on."""
        return -(-(self.next_pane_ms or 0) // self.new.hour_ms) * self.new.hour_ms

    @property
    def same_surfaces(self) -> bool:
        return self.old.surfaces_id == self.new.surfaces_id

    @property
    def new_groupings(self) -> list[int]:
        """Indices of the groupings, of `grouping_ids`, that the old plan lacks."""
        ids = self.new.grouping_ids
        return [n for n, id_ in enumerate(ids) if id_ not in self.old.grouping_ids]


def relaid(lane: Lane, plan: Plan, since: Since) -> tuple[Lane, Since]:
    """The lane under another plan, which tracks the same experiments, and since when its columns
    hold; `since` is that of the lane as it is. All of it but past hours must be written anew.
    Raises OverflowError as scoring does."""
    assert not lane.changes.panes
    tilings = tilings_of(lane.plan.timing, plan.timing, lane.watermark_ms)
    change = _Change(lane.plan, plan, lane.settled_before, next_pane_ms(lane), since, tilings)
    new = replace(
        lane.without_rows(),
        plan=plan,
        states=GainStates(plan),
        texts=AttributeTexts(plan),
        width=plan.row_width,
        totals=PagedRows(plan.row_width),
        segments=_segments(lane, plan),
        groupings=_groupings(lane, plan),
        class_files=class_files_under(plan, lane.class_files),
        changes=BatchChanges(),
    )
    new.admissions = {topic: _admission(old, plan) for topic, old in lane.admissions.items()}
    _relay_rows(lane, new, change)
    _renumber_states(lane, new, change)
    _renumber_combinations(lane, new, change)
    if plan.timed and not lane.plan.timed:
        new.timed_from = lane.open.next_slot
    _make_new_columns(new, change)
    if not plan.history_hours:
        new.drop_hours(first=2**62)
    _begin_searches(new, change)
    return new, _since(change, lane)


def _relay_rows(lane: Lane, new: Lane, change: _Change) -> None:
    """Give the lane under the new plan the rows of each measure that go on."""
    new.totals = copied(lane.totals, new.width, change.kept)
    new.optional_rows = optional_rows_of(change.new)
    relaid: list[tuple[RowSet, RowSet, ColumnPairs]] = [(lane, new, change.kept)]
    for measure, rows in new.optional_rows.items():
        former = lane.optional_rows.get(measure)
        if former is not None and optional_rows_go_on(measure, change.old, change.new):
            rows = new.optional_rows[measure] = former.without_rows()
            same = np.arange(rows.width)
            relaid.append((former, rows, (same, same)))
        else:
            if former is not None:
                rows.go_on_from(former)
            rows.begin(lane.open.next_slot, change.next_hour_ms)
    befores = _befores(new, change)
    for old, into, columns in relaid:
        relay(old, into, columns, change.tilings, (change.old.timing, change.new.timing))
        if not change.new.history_hours:
            into.hours = {}
        for each in (*into.panes.values(), *into.hours.values()):
            for before, members in befores:
                set_before(each, before, members, keeps=False)
    for before, members in befores:
        set_before(new.totals, before, members, keeps=True)


def _befores(new: Lane, change: _Change) -> list[tuple[int, list[int]]]:
    """The segment of each new grouping that has what it did not see, and those of the grouping.
    One that returns has segments, with rows of panes that were not kept up: these go to the same
    segment."""
    found = list[tuple[int, list[int]]]()
    for grouping in change.new_groupings:
        grouping_id = (new.segments.grouping_ids or ())[grouping]
        members = [n for n, (of, _) in enumerate(new.segments.names) if of == grouping_id]
        found.append((new.segments.segment_id(grouping, BEFORE), members))
    return found


def _begin_searches(lane: Lane, change: _Change) -> None:
    """Begin what the plan of the lane asks for of queries and does not go on from the one before,
    with the first hour whose impressions all come from now on."""
    if not has_same_queries(change.old, lane.plan):
        begin_queries(lane, change.next_pane_ms)
    if lane.plan.searches is None:
        lane.open.searches = None
    elif lane.open.searches is None:
        lane.open.searches = SearchColumns()
        lane.open.searches.extend(None, len(lane.open.times_ms))
    if not has_same_missing(change.old, lane.plan):
        begin_missing(lane, change.next_pane_ms)


def _groupings(lane: Lane, plan: Plan) -> list[tuple[str, ...]]:
    return [*lane.groupings, *(each for each in plan.groupings if each not in lane.groupings)]


def _segments(lane: Lane, plan: Plan) -> LaneSegments:
    known = _groupings(lane, plan)
    ids = (0, *(known.index(grouping) + 1 for grouping in plan.groupings))
    return LaneSegments.of(lane.segments.names, ids)


def _admission(old: Admission, plan: Plan) -> Admission:
    """The values admitted so far, of groupings that mean what they meant. Panes of the longest
    window are numbered by its length."""
    before, after = old.plan.timing.longest.pane_ms, plan.timing.longest.pane_ms
    seen = {
        id_: {value: number * before // after for value, number in values.items()}
        for id_, values in zip(old.plan.grouping_ids[1:], old.seen, strict=True)
    }
    return Admission(plan, [seen.get(id_, {}) for id_ in plan.grouping_ids[1:]], changed=True)


def _renumber_states(lane: Lane, new: Lane, change: _Change) -> None:
    def surface(state_id: int) -> int:
        return lane.states.surface_id_of(state_id) if change.same_surfaces else NO_SURFACE

    ids = new_column(lane.open.states)
    used = np.unique(ids[np.frombuffer(lane.open.is_open, np.bool_)]).tolist()
    renamed = np.zeros(len(lane.states), np.int64)
    renamed[used] = [new.states.id_of(lane.states[n], surface(n)) for n in used]
    ids[:] = renamed[ids]


def _renumber_combinations(lane: Lane, new: Lane, change: _Change) -> None:
    """Open impressions stay in the segments that they have, and are `before` in new groupings."""
    at = {name: index for index, name in enumerate(change.old.grouping_names)}
    befores = {n: new.segments.segment_id(n, BEFORE) for n in change.new_groupings}
    renamed = np.zeros(max(1, len(lane.segments.combinations)), np.int64)
    for number, segments in enumerate(lane.segments.combinations):
        renamed[number] = new.segments.combination_id(
            tuple(
                befores[n] if n in befores else segments[at[name]]
                for n, name in enumerate(change.new.grouping_names)
            )
        )
    ids = new_column(lane.open.combinations)
    ids[:] = renamed[ids]


def _make_new_columns(new: Lane, change: _Change) -> None:
    """Add what open impressions contribute to the columns that are new."""
    index = np.flatnonzero(np.frombuffer(new.open.is_open, np.bool_))
    if not len(index):
        return
    panes = pane_start(new.open.times_ms.at(index), change.new.timing.base_ms)
    combinations = new_column(new.open.combinations)[index].astype(np.int64)
    states = new_column(new.open.states)[index].astype(np.int64)
    new.changes.add_many(panes, combinations, np.full(len(index), NO_STATE), states)
    for slot, delay_ms in new.open.delays_ms.items() if change.new.timed else ():
        at = new.open.index_of(slot)
        pane = pane_start(new.open.times_ms[at], change.new.timing.base_ms)
        new.changes.delays.append((pane, new.open.combinations[at], None, delay_ms))
    apply_changes(new, change.kept[1])
    new.changes = BatchChanges()


def _since(change: _Change, lane: Lane) -> Since:
    of, new, windows = change.since, change.new, change.windows
    columns: dict[str, Instant] = {}
    needs = (*(metric.needs for metric in new.metrics), "propensities")
    for id_, needed in zip(all_columns(new), needs, strict=False):
        is_made = needed == "impression" or (needed == "propensities" and change.same_surfaces)
        begins = change.settled_before if is_made else change.next_pane_ms
        columns[id_] = of.columns[id_] if id_ in of.columns else begins
    groupings = {
        id_: of.groupings[id_] if id_ in of.groupings else change.next_pane_ms
        for id_ in new.grouping_ids
    }
    hours_since = of.hours
    if new.history_hours > change.old.history_hours and lane.settled_before is not None:
        # Other lanes may still have hours that this one has dropped.
        known = (*lane.stored_hours, *lane.hours)
        first = kept_rows.has_hours_from(lane.settled_before, change.old, known)
        hours_since = latest((hours_since, first))
    return Since(
        columns,
        groupings,
        {
            length: windows[length] if length in windows else of.windows[length]
            for length in (window.length_ms for window in new.timing.windows)
        },
        hours_since,
    )
