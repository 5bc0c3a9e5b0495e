"""What happens to rows once the watermark has passed their pane: base panes settle into totals and
hours, and panes that no view needs are dropped.

Pure. A base pane settles when no accepted event can change it any more, so its rows are added once
and totals never fall.
"""

from ..panes import pane_start
from . import row_set
from .experiments import settle_pane
from .lane import Lane
from .query_settling import close_hours, settle_queries


def settle(lane: Lane) -> None:
    """Add the base panes that the watermark has passed to the totals and to their hours, once, and
    close their impressions.

    Raises OverflowError where a counter could reach 2^62.
    """
    watermark = lane.watermark_ms
    if watermark is None:
        return
    timing = lane.plan.timing
    before = pane_start(watermark - timing.settle_ms, timing.base_ms)
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
        lane.drop_hours(row_set.kept_from(before, lane.plan))
    _close_panes(lane, before)
    lane.open.trim()


def _close_panes(lane: Lane, before: int) -> None:
    for pane in lane.open.panes():
        if pane < before:
            settle_pane(lane, pane)
            if lane.queries is not None:
                settle_queries(lane, pane)
            lane.open.close_pane(pane)
    if lane.queries is not None:
        close_hours(lane, before)


def drop_old_panes(lane: Lane) -> None:
    """Drop the panes that no view can need any more."""
    lane.drop_panes(lane.plan.timing, lane.watermark_ms)
