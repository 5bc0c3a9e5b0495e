"""What happens to rows once the watermark has passed their pane: base panes settle into totals and
hours, and panes that no view needs are dropped.

Pure. A base pane settles when no accepted event can change it any more, so its rows are added once
and totals never fall.
"""

from ..panes import pane_start
from . import hours
from .experiments import settle_pane
from .lane import Lane
from .paged_rows import PagedRows, Pages
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
    for key in sorted(key for key in lane.panes if key[0] == 0 and key[1] < before):
        # Panes stay after they have settled, for the windows: the earlier ones were added before.
        if since is None or key[1] >= since:
            pages = {page: rows for page, rows in lane.panes[key].pages.items() if rows.any()}
            _settle_rows(lane, pages)
            if lane.plan.history_hours:
                _add_to_hour(lane, key[1], before, pages)
    if lane.plan.history_hours:
        _drop_old_hours(lane, before)
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


def _settle_rows(lane: Lane, pages: Pages) -> None:
    for page, rows in pages.items():
        lane.totals.add_page(page, rows)
    lane.changes.total_pages.update(pages)


def _add_to_hour(lane: Lane, pane: int, settled_before: int, pages: Pages) -> None:
    start = hours.open_hour(pane, lane.plan)
    if start < hours.kept_from(settled_before, lane.plan):
        return
    into = lane.hours.setdefault(start, PagedRows(lane.plan.row_width))
    for page, rows in pages.items():
        into.add_page(page, rows)
    lane.changes.hour_pages.update((start, page) for page in pages)


def _drop_old_hours(lane: Lane, before: int) -> None:
    """Drop the hours that are no longer kept, among them any that this batch itself settled."""
    first = hours.kept_from(before, lane.plan)
    lane.changes.dropped_hours += hours.drop_before(lane, first)
    lane.changes.hour_pages = {page for page in lane.changes.hour_pages if page[0] >= first}


def drop_old_panes(lane: Lane) -> None:
    """Drop the panes that no view can need any more."""
    watermark = lane.watermark_ms
    if watermark is None:
        return
    lane.changes.dropped += hours.drop_panes(lane.panes, lane.plan.timing, watermark)
    lane.changes.pages = {page for page in lane.changes.pages if page[0] in lane.panes}
