"""Impressions of a settling pane that are left out of their experiments: counted, not scored.
Pure."""

from collections.abc import Mapping

import numpy as np

from relevanced.metrics.arithmetic import distinct
from relevanced.metrics.buckets import BUCKETS
from relevanced.metrics.lists import Integers
from relevanced.metrics.users import bucket_indices

from ..experiments.tallies import Arm
from .lane import Lane
from .subjects import NO_UNIT


def leave_out(
    lane: Lane,
    start_ms: int,
    index: Integers,
    assignments: Integers,
    variants_of: Mapping[str, Mapping[int, str]],
) -> None:
    """Count the impressions and users of each variant that an excluded stretch left out.

    index, assignments (n,): place among the open impressions, and assignment id, of those of the
    base pane that starts at `start_ms`. variants_of: experiment → assignment id → variant.
    """
    tracking, subjects = lane.plan.tracking, lane.open.subjects
    assert tracking is not None and subjects is not None
    for name, by_id in variants_of.items():
        spec = tracking.spec(name)
        if spec is None or not spec.covers(start_ms):
            continue
        units = subjects.units()[index, tracking.units.index(spec.unit)]
        arms = lane.experiments.left_out.setdefault(name, {})
        for assignment_id, variant in by_id.items():
            _add(arms.setdefault(variant, Arm.empty(0)), units[assignments == assignment_id])


def _add(arm: Arm, units: Integers) -> None:
    known = units[units != NO_UNIT].view(np.uint64)
    arm.without_unit += len(units) - len(known)
    arm.tallies[:, 0] += np.bincount(bucket_indices(known), minlength=BUCKETS)
    arm.add_users(distinct(known))
