"""An experiment of a lane with its days, which are unpacked only when they are asked for. Pure."""

from dataclasses import replace

from ..experiments.tallies import Tallies
from ..storage.experiments import of_names, read_days
from ..storage.head import whole_or_damaged
from .lane_view import LaneView


def with_days(lane: LaneView, experiment: str) -> Tallies:
    """Return the tallies of an experiment that the lane has, with its ended days. Raises
    Damaged."""
    found = lane.experiments[experiment]
    found = replace(found, ends=dict(found.ends))
    with whole_or_damaged(f"lane {lane.lane}, days of experiments"):
        read_days({experiment: found}, of_names(lane.experiment_days, [experiment]))
    return found
