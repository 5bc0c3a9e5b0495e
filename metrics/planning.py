"""What an experiment can still find out, and how much more traffic that takes."""

import math
from statistics import NormalDist
from typing import Final

from .estimates import Estimate
from .sequences import Design, boundary

POWER: Final = 0.8
_NEVER: Final = 1e18
"""More impressions than this will not come."""


def minimum_detectable_effect(found: Estimate, design: Design, power: float = POWER) -> float:
    """The least true effect that the interval at the planned total leaves 0 out for, so probably.

    (boundary + normal quantile of the power) standard errors, the variance carried on as 1 / n to
    the planned total (or kept, once that is passed). Having looked earlier only adds to the power.
    In the units of `found.value`, > 0. NaN where undefined. `power` is above 0 and below 1.

    >>> round(minimum_detectable_effect(Estimate(0.0, 1e-6, 10_000), Design(40_000)), 9)
    0.001938415
    """
    if not found.defined:
        return math.nan
    n = max(found.n, design.planned_impressions)
    reach = boundary(n, design.rate, design.alpha) + NormalDist().inv_cdf(power)
    return reach * math.sqrt(found.variance * found.n / n)


def further_impressions(found: Estimate, design: Design) -> float:
    """Impressions still to come until the interval leaves 0 out, if the value stays as it is.

    Of all arms together, in their present shares; an even chance that it takes more. 0 where the
    interval leaves 0 out now, infinite where the value is 0, NaN where undefined.

    >>> further_impressions(Estimate(0.002, 1e-6, 10_000), Design(40_000))
    13459.0
    """
    if not found.defined:
        return math.nan
    if _decides(found, design, found.n):
        return 0.0
    if found.value == 0.0 or not _decides(found, design, _NEVER):
        return math.inf
    too_few, enough = float(found.n), 2.0 * found.n
    while not _decides(found, design, enough):
        too_few, enough = enough, 2.0 * enough
    while enough - too_few > 1.0 and too_few < 0.5 * (too_few + enough) < enough:
        middle = 0.5 * (too_few + enough)
        too_few, enough = (too_few, middle) if _decides(found, design, middle) else (middle, enough)
    return math.ceil(enough) - float(found.n)


def _decides(found: Estimate, design: Design, n: float) -> bool:
    """Whether 0 lies outside the interval that the same value would have at n."""
    reach = boundary(n, design.rate, design.alpha) * math.sqrt(found.variance * found.n / n)
    return abs(found.value) > reach
