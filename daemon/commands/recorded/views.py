"""The lane of a replay as a reader of the store would see it. Pure."""

from ...exporter import selection, snapshot
from ...exporter.lane_view import LaneView, Names
from ...lane.lane import Lane


def view_of(lane: Lane) -> LaneView:
    """The view of the lane in memory, without hours and experiments."""
    names = lane.plan.grouping_names
    return LaneView(
        lane=lane.number,
        token="",
        sequence=0,
        names=Names((names[grouping], segment) for grouping, segment in lane.segments.names),
        panes={key: rows.pages for key, rows in lane.panes.items()},
        totals=lane.totals.pages,
        counts=lane.counts,
        watermark_ms=lane.watermark_ms,
    )


def selection_of(lane: Lane) -> selection.Selection:
    """The segments whose scores are shown: the busiest of all that the lane has counted."""
    view = view_of(lane)
    whole = snapshot.evaluate([view], lane.plan, view.names.segments)
    return selection.busiest(snapshot.with_everything(whole, [view], lane.plan), lane.plan)
