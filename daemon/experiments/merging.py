"""One experiment over all lanes: the sum of their arms. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from relevanced.metrics.lists import Integers
from relevanced.metrics.users import Sketch, merged

from .specs import CONTROLS, INTERLEAVED, Spec
from .tallies import Arm, Tallies


@dataclass(frozen=True)
class Merged:
    """One experiment with the arms of all lanes."""

    spec: Spec
    control: str
    arms: Mapping[str, Arm]

    @property
    def impressions(self) -> int:
        """Settled impressions of all arms."""
        return sum(arm.impressions for arm in self.arms.values())

    @property
    def without_control(self) -> bool:
        """Whether variants have traffic and the control has none."""
        with_traffic = {variant for variant, arm in self.arms.items() if arm.impressions} - {
            INTERLEAVED
        }
        return bool(with_traffic) and self.control not in with_traffic

    def without_unit(self, variant: str) -> int:
        """Settled impressions of one arm that lack the unit."""
        arm = self.arms.get(variant)
        return 0 if arm is None else arm.without_unit


def merge(spec: Spec, tallies: Sequence[Tallies]) -> Merged:
    """The sum of the lanes' arms, without those that were counted under another configuration.

    The control of an undeclared experiment is the first of `CONTROLS` that has an arm.
    """
    arms: dict[str, list[Arm]] = {}
    for of_lane in tallies:
        if of_lane.digest == spec.digest:
            for variant, arm in of_lane.arms.items():
                arms.setdefault(variant, []).append(arm)
    control = spec.control
    if not spec.declared:
        control = next((name for name in CONTROLS if name in arms), spec.control)
    ordered = sorted(arms, key=lambda variant: (variant != control, variant))
    return Merged(spec, control, {variant: _sum(arms[variant]) for variant in ordered})


def _sum(arms: Sequence[Arm]) -> Arm:
    tallies: Integers = np.sum([arm.tallies for arm in arms], axis=0)
    users = merged([Sketch(arm.users) for arm in arms]).hashes
    credits: Integers = np.sum([arm.credits for arm in arms], axis=0)
    parts: dict[str, list[Integers]] = {}
    for arm in arms:
        for segment, part in arm.strata.items():
            parts.setdefault(segment, []).append(part)
    strata: dict[str, Integers] = {
        segment: np.sum(of_lanes, axis=0) for segment, of_lanes in parts.items()
    }
    return Arm(tallies, sum(arm.without_unit for arm in arms), credits, users, strata)
