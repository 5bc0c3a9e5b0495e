"""What is kept of the searches of a lane that goes to another plan: tables of queries, judged rows.
Pure."""

import numpy as np

from ..plan import Plan
from .judged_rows import ShownInBatch, judged_rows_of
from .lane import Lane
from .missing_settling import begin_missing, has_same_missing
from .queries import has_same_queries
from .query_settling import begin_queries
from .searches import SearchColumns


def has_same_judged(one: Plan, other: Plan) -> bool:
    """Whether judged rows go on from one plan to the other: they have the same columns, panes and
    segments, and open impressions keep their queries."""
    return (
        one.judged == other.judged
        and one.timing == other.timing
        and one.grouping_ids == other.grouping_ids
        and bool(one.history_hours) == bool(other.history_hours)
        and has_same_queries(one, other)
    )


def begin_searches(lane: Lane, before: Plan, next_pane_ms: int | None) -> None:
    """Begin what the plan of the lane asks for and does not go on from the one before, with the
    first hour whose impressions all come from now on: in panes from `next_pane_ms` on."""
    if not has_same_queries(before, lane.plan):
        begin_queries(lane, next_pane_ms)
    if not has_same_judged(before, lane.plan):
        begin_judged(lane, next_pane_ms)
    if not has_same_missing(before, lane.plan):
        begin_missing(lane, next_pane_ms)


def begin_judged(lane: Lane, next_pane_ms: int | None) -> None:
    """Begin the judged rows that the plan of the lane asks for, with the first hour whose
    impressions all come from now on: in panes from `next_pane_ms` on. The files that grade go on
    where lists were judged before."""
    before, lane.judged = lane.judged, judged_rows_of(lane.plan)
    if lane.plan.searches is None:
        lane.open.searches = None
    elif lane.open.searches is None:
        lane.open.searches = SearchColumns()
        lane.open.searches.extend(None, len(lane.open.times_ms))
    judged = lane.judged
    if judged is None:
        return
    if before is not None:
        judged.timeline, judged.judgements = before.timeline, before.judgements
        judged.latest_ms = before.latest_ms
        judged.keys = before.keys
    marks = [mark for mark in lane.watermarks.values() if mark is not None]
    of_open = np.flatnonzero(np.frombuffer(lane.open.is_open, np.bool_))
    latest = [int(lane.open.times_ms.at(of_open).max())] if len(of_open) else []
    judged.latest_ms = max((judged.latest_ms, *marks, *latest))
    if next_pane_ms is not None:
        judged.since_ms = -(-next_pane_ms // lane.plan.hour_ms) * lane.plan.hour_ms
    judged.from_slot = lane.open.next_slot
    judged.shown = ShownInBatch(judged.from_slot)
