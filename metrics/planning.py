"""What an experiment can still find out, and how much more traffic that takes."""

import math
from statistics import NormalDist
from typing import Final

from .estimates import Estimate
from .sequences import Design, boundary

POWER: Final = 0.8
_NEVER: Final = 1e18
"""More impressions than this will not come."""


def minimum_detectable_effect(estimate: Estimate, design: Design, power: float = POWER) -> float:
    """The least true effect that the interval at the planned total leaves 0 out for, so probably.

    (boundary + normal quantile of the power) standard errors, the variance carried on as 1 / n to
    the planned total (or kept, once that is passed). Having looked earlier only adds to the power.
    In the units of `estimate.value`, > 0. NaN where undefined. `power` is above 0 and below 1.

    >>> round(minimum_detectable_effect(Estimate(0.0, 1e-6, 10_000), Design(40_000)), 9)
    0.001938415
    """
    if not estimate.defined:
        return math.nan
    n = max(estimate.n, design.planned_impressions)
    reach = boundary(n, design.rate, design.alpha) + NormalDist().inv_cdf(power)
    return reach * math.sqrt(estimate.variance * estimate.n / n)


def further_impressions(estimate: Estimate, design: Design) -> float:
    """Impressions still to come until the interval leaves 0 out, if the value stays as it is.

    Of all arms together, in their present shares; an even chance that it takes more. 0 where the
    interval leaves 0 out now, infinite where the value is 0, NaN where undefined.

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
    """Whether 0 lies outside the interval that the same value would have at n."""
    reach = boundary(n, design.rate, design.alpha) * math.sqrt(estimate.variance * estimate.n / n)
    return abs(estimate.value) > reach
