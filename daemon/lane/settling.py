"""What happens once the watermark has passed a pane: base panes settle into totals and hours, panes
that no view needs are dropped, and files of classes come into use and leave. Pure.

A base pane settles when no accepted event can change it any more, so its rows are added once and
totals never fall.

An impression has the class that the file in force at its own time gives its query. It is accepted
until its base pane settles, so a file is needed until every pane before its successor has.
"""

from ..judgements import NOTHING_READ, Timeline
from . import kept_rows
from .experiments import settle_experiments
from .lane import Lane
from .query_examples import take_examples
from .query_settling import close_hours, settle_queries
from .unjudged_items import settle_missing


def settle(lane: Lane) -> None:
    """Add the base panes that the watermark has passed to the totals and to their hours, once, and
    close their impressions.

    Raises OverflowError where a counter could reach 2^62.
    """
    watermark = lane.watermark_ms
    if watermark is None:
        return
    before = lane.plan.timing.settled_before(watermark)
    if lane.settled_before is not None and before <= lane.settled_before:
        return
    since, lane.settled_before = lane.settled_before, before
    for pane, pages in lane.newly_final(since, before):
        for page, rows in pages.items():
            lane.totals.add_page(page, rows)
        lane.changes.total_pages.update(pages)
        if lane.plan.history_hours:
            lane.add_to_hour(pane, pages, before, lane.plan)
    if lane.plan.history_hours:
        lane.drop_hours(kept_rows.kept_from(before, lane.plan))
    closing = lane.open.slots_before(before)
    settle_experiments(lane, closing)
    if lane.queries is not None:
        for pane in lane.open.panes():
            if pane < before:
                _settle_searches(lane, pane)
        close_hours(lane, before)
    lane.open.close(closing, before)
    lane.open.trim()
    lane.origins.forget(lane.open.base)


def _settle_searches(lane: Lane, pane_ms: int) -> None:
    """Settle what a base pane says of queries."""
    settled = settle_queries(lane, pane_ms)
    if settled is not None:
        take_examples(lane, settled)
        settle_missing(lane, settled)


def drop_old_panes(lane: Lane) -> None:
    """Drop the panes that no view can need any more."""
    lane.drop_panes(lane.plan.timing, lane.watermark_ms)


def class_by_files(lane: Lane) -> None:
    """Let the next batch be read by the files that the lane was given."""
    if not lane.class_files:
        return
    given = {name: files for name, files in lane.class_files.items() if files.contents is not None}
    timelines = dict.fromkeys(lane.class_files, Timeline())
    timelines |= {name: files.in_use for name, files in given.items()}
    lane.texts.use_files(
        timelines,
        {
            entry: found.by_query
            for files in given.values()
            for entry, found in (files.contents or {}).items()
        },
    )


def let_class_files_go(lane: Lane) -> None:
    """Let the files go that no impression can need any more, and name those of kept rows: by them
    `verify` proves these. After the lane has settled."""
    watermark, settled_before = lane.watermark_ms, lane.settled_before
    if watermark is None or settled_before is None:
        return
    kept_from = kept_rows.rows_kept_from(watermark, settled_before, lane.plan)
    for files in lane.class_files.values():
        files.let_go(watermark, lane.plan.timing, kept_from)


def latest_ms(lane: Lane) -> int:
    """The latest event time of the lane: a file that starts later can be adopted.

    The greatest of its watermarks and of the times of its accepted impressions: those that are not
    open any more are behind its watermarks.
    """
    marks = [mark for mark in lane.watermarks.values() if mark is not None]
    for pane in lane.open.panes()[-1:]:
        index = lane.open.index_of(lane.open.pane_slots(pane))
        marks.append(int(lane.open.times_ms.at(index).max()))
    return max(marks, default=NOTHING_READ)
