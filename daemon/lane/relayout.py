"""A lane under another plan: what stays is copied, what can be made is made, the rest begins; of
its searches, too. Pure.

Between two batches. Both plans must be of one join: the base pane, the waiting times, grades and
depth are the same. The rows of hours that cannot change any more are not here, and stay as they are
stored.

Rows keep the columns that both plans have. A column that is new begins at an instant, and a sum
that reaches further back must not be shown.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec
import numpy as np

from relevanced.metrics import Integers

from ..panes import PaneKey, Window, pane_start
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
from .row_sets import PAGE_ROWS, PagedRows
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


def begin_searches(lane: Lane, before: Plan, next_pane_ms: int | None) -> None:
    """Begin what the plan of the lane asks for and does not go on from the one before, with the
    first hour whose impressions all come from now on: in panes from `next_pane_ms` on."""
    if not has_same_queries(before, lane.plan):
        begin_queries(lane, next_pane_ms)
    _begin_optional_rows(lane, before, next_pane_ms)
    if not has_same_missing(before, lane.plan):
        begin_missing(lane, next_pane_ms)


def _begin_optional_rows(lane: Lane, before: Plan, next_pane_ms: int | None) -> None:
    plan, former = lane.plan, lane.optional_rows
    if plan.searches is None:
        lane.open.searches = None
    elif lane.open.searches is None:
        lane.open.searches = SearchColumns()
        lane.open.searches.extend(None, len(lane.open.times_ms))
    since_ms = -(-(next_pane_ms or 0) // plan.hour_ms) * plan.hour_ms
    lane.optional_rows = optional_rows_of(plan)
    for measure, rows in lane.optional_rows.items():
        if measure in former and optional_rows_go_on(measure, before, plan):
            lane.optional_rows[measure] = former[measure]
            continue
        if measure in former:
            rows.go_on_from(former[measure])
        rows.begin(lane.open.next_slot, since_ms)


def optional_rows_go_on(measure: str, one: Plan, other: Plan) -> bool:
    """Whether the rows of a measure go on from one plan to the other: they have the same columns,
    panes and segments, and open impressions keep their queries."""
    return (
        one.optional[measure] == other.optional[measure]
        and one.timing == other.timing
        and one.grouping_ids == other.grouping_ids
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

    @property
    def kept(self) -> tuple[Integers, Integers]:
        """The columns, in the old rows and in the new ones, that stay."""
        return kept_columns(columns_of(self.old), columns_of(self.new))

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
    change = _Change(lane.plan, plan, lane.settled_before, next_pane_ms(lane), since)
    new = replace(
        lane,
        plan=plan,
        states=GainStates(plan),
        texts=AttributeTexts(plan),
        width=plan.row_width,
        panes={},
        hours={},
        pages=set(),
        hour_pages=set(),
        dropped=[],
        dropped_hours=[],
        totals=PagedRows(plan.row_width),
        segments=_segments(lane, plan),
        groupings=_groupings(lane, plan),
        class_files=class_files_under(plan, lane.class_files),
        changes=BatchChanges(),
    )
    new.admissions = {topic: _admission(old, plan) for topic, old in lane.admissions.items()}
    _copy_rows(lane, new, change)
    windows = _tile(lane, new, change)
    _fill_before(new, change)
    _renumber_states(lane, new, change)
    _renumber_combinations(lane, new, change)
    if plan.timed and not lane.plan.timed:
        new.timed_from = lane.open.next_slot
    _make_new_columns(new, change)
    if not plan.history_hours:
        new.drop_hours(first=2**62)
    begin_searches(new, lane.plan, change.next_pane_ms)
    return new, _since(change, windows, lane)


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


def _copy_rows(lane: Lane, new: Lane, change: _Change) -> None:
    windows = {window: n for n, window in enumerate(change.new.timing.windows)}
    index = {n: windows.get(window) for n, window in enumerate(change.old.timing.windows)}
    new.totals = _copied(lane.totals, change)
    for (window, start), rows in lane.panes.items():
        into = index[window]
        if into is not None:
            new.panes[into, start] = _copied(rows, change)
    if change.new.history_hours:
        new.hours = {start: _copied(rows, change) for start, rows in lane.hours.items()}


def _copied(rows: PagedRows, change: _Change) -> PagedRows:
    from_, to = change.kept
    copied = PagedRows(change.new.row_width)
    for page, old in rows.pages.items():
        into = np.zeros((PAGE_ROWS, change.new.row_width), np.int64)
        into[:, to] = old[:, from_]
        copied.set_page(page, into)
    return copied


def _tile(lane: Lane, new: Lane, change: _Change) -> dict[int, Instant]:
    """Sum the panes of new windows from those of others that divide them; returns since when each
    new window holds, by its length in ms."""
    old = change.old.timing.windows
    found: dict[int, Instant] = {}
    for index, window in enumerate(change.new.timing.windows):
        if window in old:
            continue
        parts = [(n, o) for n, o in enumerate(old) if window.pane_ms % o.pane_ms == 0]
        first = {n: _tiled_from(lane, change, window, o) for n, o in parts}
        best, part = min(parts, key=lambda each: (first[each[0]] or 0, -each[1].pane_ms))
        found[window.length_ms] = latest((first[best], change.since.windows[part.length_ms]))
        for (which, start), rows in lane.panes.items():
            into = pane_start(start, window.pane_ms)
            if which == best and into >= (first[best] or 0):
                _add_pages(new, (index, into), _copied(rows, change))
    return found


def _tiled_from(lane: Lane, change: _Change, window: Window, part: Window) -> Instant:
    """The first pane of a window that the panes of another one make whole."""
    if lane.watermark_ms is None:
        return None
    kept_from = change.old.timing.dropped_before(part, lane.watermark_ms)
    return -(-kept_from // window.pane_ms) * window.pane_ms


def _add_pages(lane: Lane, key: PaneKey, rows: PagedRows) -> None:
    into = lane.panes.setdefault(key, PagedRows(lane.plan.row_width))
    for page, added in rows.pages.items():
        into.add_page(page, added)


def _fill_before(new: Lane, change: _Change) -> None:
    """Give each new grouping the segment that has what it did not see. One that returns has
    segments, with rows of panes that were not kept up: these go to the same segment."""
    for grouping in change.new_groupings:
        grouping_id = (new.segments.grouping_ids or ())[grouping]
        members = [n for n, (of, _) in enumerate(new.segments.names) if of == grouping_id]
        before = new.segments.segment_id(grouping, BEFORE)
        for rows in (*new.panes.values(), *new.hours.values()):
            _set_before(rows, before, members, keeps=False)
        _set_before(new.totals, before, members, keeps=True)


def _set_before(rows: PagedRows, before: int, members: list[int], *, keeps: bool) -> None:
    """`keeps`: the segments keep their rows, and `before` has the rest of the whole."""
    if 0 not in rows.pages:
        return
    rest = rows.page(0)[0].copy()
    for member in members:
        page, line = divmod(member, PAGE_ROWS)
        if page in rows.pages and member != before:
            if keeps:
                rest -= rows.page(page)[line]
            else:
                rows.page(page)[line] = 0
    page, line = divmod(before, PAGE_ROWS)
    if page not in rows.pages:
        rows.set_page(page, np.zeros((PAGE_ROWS, len(rest)), np.int64))
    rows.page(page)[line] = rest


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


def _since(change: _Change, windows: Mapping[int, Instant], lane: Lane) -> Since:
    of, new = change.since, change.new
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
