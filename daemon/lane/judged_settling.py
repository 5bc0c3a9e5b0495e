"""What a batch adds to judged rows, and what happens to them once the watermark has passed their
pane. Pure.

Judged panes are final at their end + lateness: they are added to their hours half an hour before
those of clicks settle, and dropped with them.
"""

from typing import Final

import numpy as np

from ..judgements.index import Entry
from ..judgements.timeline import pruned
from ..panes import pane_start
from . import row_set
from .columns.column import column
from .judged import ShownLists, final_before_ms
from .judged_rows import DecodedLists, LaneJudged, ShownInBatch, items_of
from .lane import Lane
from .scoring import spread, summed_by_pane

IMPRESSION: Final = "impression"
PAGE: Final = "page"
"""Labels of `judged_late`: a new impression, and what changed the list of one."""


def grade_shown(lane: Lane) -> None:
    """Grade the lists that the batch has shown so far, and add them to the judged rows. Raises
    OverflowError where a counter could reach 2^62."""
    judged = lane.judged
    if judged is None:
        return
    shown, judged.shown = judged.shown, ShownInBatch(judged.from_slot)
    marks = [mark for mark in lane.watermarks.values() if mark is not None]
    judged.latest_ms = max(judged.latest_ms, *marks) if marks else judged.latest_ms
    if not len(shown) or judged.timeline is None:  # a command that has no files grades nothing
        return
    assert lane.open.searches is not None and lane.query_keys is not None
    index, watermarks_ms = lane.open.index_of(shown.slots), shown.watermarks_ms
    times_ms = lane.open.times_ms.at(index)
    judged.latest_ms = max(judged.latest_ms, int(times_ms.max()))
    texts, now = lane.open.items, DecodedLists(shown.now)
    lists = ShownLists(
        queries=lane.open.searches.at(index).numbers,
        keys=lane.query_keys,
        times_ms=times_ms,
        watermarks_ms=watermarks_ms,
        items=lambda n: now[n] if n in now else items_of(texts[int(index[n])]),
        before=DecodedLists(shown.before),
    )
    graded = judged.grader.grade(lists, judged.timeline, judged.judgements, judged.since_ms)
    late = np.flatnonzero(graded.is_late).tolist()
    pages = sum(n in shown.before for n in late)
    for label, count in ((IMPRESSION, len(late) - pages), (PAGE, pages)):
        if count:
            lane.count("judged_late", label, count)
    which = np.flatnonzero(graded.is_judged)
    if not len(which):
        return
    base_ms = lane.plan.timing.base_ms
    combinations = column(lane.open.combinations)[index[which]].astype(np.int64)
    starts, combinations, rows = summed_by_pane(
        base_ms, pane_start(times_ms[which], base_ms), combinations, graded.rows[which]
    )
    for key, segments, added in spread(lane.plan.timing, lane.segments, starts, combinations, rows):
        judged.add_rows(key, segments, added)


def settle_judged(lane: Lane) -> None:
    """Add the panes that became final to their hours, once, drop what is kept no longer, and let
    files go that nothing needs any more. After the lane has settled."""
    judged, watermark = lane.judged, lane.watermark_ms
    if judged is None or watermark is None:
        return
    timing = lane.plan.timing
    before = final_before_ms(watermark, timing)
    if judged.final_before is None or before > judged.final_before:
        since, judged.final_before = judged.final_before, before
        for pane, pages in judged.newly_final(since, before) if lane.plan.history_hours else ():
            judged.add_to_hour(pane, pages, lane.settled_before or 0, lane.plan)
    if lane.plan.history_hours:
        judged.drop_hours(_kept_from(lane))
    judged.drop_panes(timing, watermark)
    panes_from = min(timing.dropped_before(span, watermark) for span in timing.windows)
    _let_files_go(lane, judged, watermark, panes_from)


def _kept_from(lane: Lane) -> int:
    """Start of the first hour that is kept: as that of the hours of clicks."""
    assert lane.settled_before is not None
    return row_set.kept_from(lane.settled_before, lane.plan)


def _let_files_go(lane: Lane, judged: LaneJudged, watermark: int, panes_from: int) -> None:
    """Move the files that no accepted impression needs any more behind the timeline, as long as an
    hour or a pane that they graded is kept."""
    if judged.timeline is None:
        return
    timing = lane.plan.timing
    left = pruned(judged.timeline, watermark, timing.base_ms, timing.settle_ms)
    gone = len(judged.timeline.entries) - len(left.entries)
    past = (*judged.past, *judged.timeline.entries[:gone])
    kept_from = min(panes_from, _kept_from(lane)) if lane.plan.history_hours else panes_from
    judged.past, judged.timeline = _in_force_from(past, left.entries, kept_from), left


def _in_force_from(
    past: tuple[Entry, ...], entries: tuple[Entry, ...], kept_from: int
) -> tuple[Entry, ...]:
    """Those of the past files that were in force at this instant or later."""
    ends = [each.start_ms for each in (*past[1:], *entries[:1])]
    return tuple(each for each, end in zip(past, ends) if end > kept_from)
