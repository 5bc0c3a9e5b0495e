"""An experiment that a request names. Pure."""

from collections.abc import Sequence

from ...experiments.specs import Spec
from ...exporter.lane_view import LaneView
from ...exporter.pane_reader import Reading
from .parameters import BadRequest


def tracked(reading: Reading, experiment: str) -> tuple[Spec, Sequence[LaneView]]:
    """How the experiment is counted, and the lanes that have tallies of it. Raises BadRequest for
    one that is not tracked."""
    tracking = reading.plan.tracking
    spec = None if tracking is None else tracking.spec(experiment)
    lanes = [lane for lane in reading.views if experiment in lane.experiments]
    declared = tracking is not None and experiment in tracking.declared
    if spec is None or not (lanes or declared):
        raise BadRequest(
            404,
            f"experiment={experiment}: is not tracked; /api/v1/experiments lists those that are",
        )
    return spec, lanes
