"""The effect that an experiment can detect, and the traffic it still needs for a verdict."""

import math
from statistics import NormalDist
from typing import Final

from .buckets import BUCKETS
from .estimates import Estimate
from .sequences import Design, boundary

POWER: Final = 0.8
_NEVER: Final = 1e18
"""A number of impressions that is treated as infinite."""


def minimum_detectable_effect(estimate: Estimate, design: Design, power: float = POWER) -> float:
    """The least true effect for which the interval at the planned total excludes 0 with this power.

    (boundary + normal quantile of the power) standard errors, with the variance extrapolated as
    1 / n to the planned total, or taken as it is once that is passed. Earlier looks only add to the
    power. In the units of `estimate.value`, > 0. NaN if undefined. 0 < power < 1.

    >>> round(minimum_detectable_effect(Estimate(0.0, 1e-6, 10_000), Design(40_000)), 9)
    0.001938415
    """
    if not estimate.defined:
        return math.nan
    n = max(estimate.n, design.planned_impressions)
    reach = boundary(n, design.rate, design.alpha) + NormalDist().inv_cdf(power)
    return estimate.reach(reach) * math.sqrt(estimate.n / n)


def planned_impressions(
    effect: float, variance: float, treated: float = 0.5, power: float = POWER, alpha: float = 0.05
) -> int:
    """The least planned total of both arms whose `minimum_detectable_effect` is at most `effect`.

    `variance` is that of one impression, times the design effect; `treated` is the share of the
    impressions in the treatment, 0 < treated < 1. Degrees of freedom are those of two arms with all
    64 buckets. Raises ValueError for an effect or a variance that is not above 0.

    >>> planned_impressions(0.0055, 2 * 0.55 * 0.45)
    1049248
    """
    for name, value in (("effect", effect), ("variance", variance)):
        if not value > 0:
            raise ValueError(f"{name}={value}: must be > 0")
    total = variance * (1 / treated + 1 / (1 - treated))

    def detects(n: int) -> bool:
        estimate = Estimate(0.0, total / n, n, 2.0 * (BUCKETS - 1))
        return minimum_detectable_effect(estimate, Design(n, alpha), power) <= effect

    # The boundary at the planned total does not depend on it: only the standard error does.
    one = Estimate(0.0, total, 1, 2.0 * (BUCKETS - 1))
    near = math.ceil((minimum_detectable_effect(one, Design(1, alpha), power) / effect) ** 2)
    return next((n for n in (near - 1, near) if n > 0 and detects(n)), near + 1)


def further_impressions(estimate: Estimate, design: Design) -> float:
    """Impressions still needed until the interval excludes 0, if the value stays the same.

    Of all arms together, in their present shares; with a probability of one half it takes more.
    0 if the interval excludes 0 now, infinite if the value is 0, NaN if undefined.

    >>> further_impressions(Estimate(0.002, 1e-6, 10_000), Design(40_000))
    13459.0
    """
    if not estimate.defined:
        return math.nan
    if _decides(estimate, design, estimate.n):
        return 0.0
    if estimate.value == 0.0 or not _decides(estimate, design, _NEVER):
        return math.inf
    too_few, enough = float(estimate.n), 2.0 * estimate.n
    while not _decides(estimate, design, enough):
        too_few, enough = enough, 2.0 * enough
    while enough - too_few > 1.0 and too_few < 0.5 * (too_few + enough) < enough:
        middle = 0.5 * (too_few + enough)
        too_few, enough = (
            (too_few, middle) if _decides(estimate, design, middle) else (middle, enough)
        )
    return math.ceil(enough) - float(estimate.n)


def _decides(estimate: Estimate, design: Design, n: float) -> bool:
    """Whether the interval that the same value would have at n excludes 0."""
    reach = estimate.reach(boundary(n, design.rate, design.alpha)) * math.sqrt(estimate.n / n)
    return abs(estimate.value) > reach
