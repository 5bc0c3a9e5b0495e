"""One experiment over all lanes: their arms summed. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from relevanced.metrics.lists import Integers
from relevanced.metrics.users import Sketch, merged

from .specs import CONTROLS, INTERLEAVED, Spec
from .tallies import Arm, Tallies


@dataclass(frozen=True)
class Merged:
    """One experiment over all lanes."""

    spec: Spec
    control: str
    arms: Mapping[str, Arm]

    @property
    def impressions(self) -> int:
        """Those that have settled."""
        return sum(arm.impressions for arm in self.arms.values())

    @property
    def without_control(self) -> bool:
        """Whether there is traffic, and none of it is the control's."""
        dealt = {variant for variant, arm in self.arms.items() if arm.impressions} - {INTERLEAVED}
        return bool(dealt) and self.control not in dealt


def merge(spec: Spec, tallies: Sequence[Tallies]) -> Merged:
    """The lanes' arms summed; those that were counted under another configuration left out."""
    arms: dict[str, list[Arm]] = {}
    for one in tallies:
        if one.digest == spec.digest:
            for variant, arm in one.arms.items():
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
    strata: dict[str, Integers] = {one: np.sum(of, axis=0) for one, of in parts.items()}
    return Arm(tallies, sum(arm.without_unit for arm in arms), credits, users, strata)
