"""What recorded data says of an experiment beside its finding: its effect by day, and
what an exclusion left out. Pure."""

import msgspec

from relevanced.metrics.users import Sketch

from ...experiments.by_day import by_day
from ...experiments.exclusion import excluded_of, nothing_left
from ...experiments.findings import sample_ratio
from ...experiments.tallies import Arm
from ...experiments.types import DayEffect, Findings
from ...lane.lane import Lane


def days_of(lane: Lane, experiment: str) -> tuple[DayEffect, ...]:
    """The effect of one experiment by day; none where the lane has no such experiment."""
    tracking, tallies = lane.plan.tracking, lane.experiments.by_name.get(experiment)
    spec = None if tracking is None else tracking.spec(experiment)
    if spec is None or tallies is None:
        return ()
    return by_day(spec, [tallies], lane.plan.metrics)


class NothingLeft(Exception):
    """An exclusion covers all impressions of the experiment."""


def with_excluded(found: Findings, lane: Lane, experiment: str) -> Findings:
    """The findings, with what was left out of one experiment. Raises NothingLeft."""
    tracking = lane.plan.tracking
    spec = None if tracking is None else tracking.spec(experiment)
    if tracking is None or spec is None or not tracking.excluded:
        return found
    counted = lane.experiments.by_name.get(experiment)
    # An arm that lost nothing belongs to the ratio too.
    arms = {variant: Arm.empty(0) for variant in (counted.arms if counted else ())}
    arms |= lane.experiments.left_out.get(experiment, {})
    srm = sample_ratio(spec, {name: Sketch(arm.users) for name, arm in arms.items()})
    excluded = excluded_of(spec, tracking.excluded, arms, srm)
    kept = {one.experiment: one.impressions for one in found.experiments}
    if excluded.impressions and not kept.get(experiment):
        raise NothingLeft(nothing_left(experiment, tracking.excluded, excluded.impressions))
    return Findings(
        found.as_of,
        tuple(
            msgspec.structs.replace(one, excluded=excluded) if one.experiment == experiment else one
            for one in found.experiments
        ),
    )
