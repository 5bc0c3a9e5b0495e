"""Welch's test, for a single look at a planned end. It is not valid at any other look.

Its interval is narrower than a confidence sequence, because it is valid at one look only. Tested
at each of 1,000 looks, it claims an effect in 30 to 50 % of experiments that have none.
"""

import math
from dataclasses import dataclass

from .distributions import student_t_critical, student_t_two_sided
from .estimates import Estimate, Interval, difference, relative_difference


@dataclass(frozen=True)
class PlannedEnd:
    """Welch's test at the planned end; numbers are NaN where it is undefined."""

    estimate: Estimate
    degrees: float
    """Degrees of freedom."""
    interval: Interval
    p_value: float


def welch_at_planned_end(
    control: Estimate,
    treatment: Estimate,
    *,
    units: tuple[int, int],
    relative: bool = False,
    alpha: float = 0.05,
) -> PlannedEnd:
    """Difference of the arms with Student's t, for the one look that was planned.

    `units` are the numbers of independent units of control and treatment, at least 2 each: buckets,
    if the variances were taken over buckets, or else users or impressions. `relative` takes the
    difference as a share of the control's mean.
    NaN where an arm is undefined or the variance is 0. Source: Welch 1947.

    >>> end = welch_at_planned_end(Estimate(0.6, 4e-6, 9), Estimate(0.59, 5e-6, 9), units=(64, 64))
    >>> round(end.degrees, 3), round(end.p_value, 6)
    (124.463, 0.001131)
    """
    change = (relative_difference if relative else difference)(control, treatment)
    if not change.defined:
        return PlannedEnd(change, math.nan, Interval(math.nan, math.nan), math.nan)
    pooled = (control.variance + treatment.variance) ** 2
    degrees = pooled / (
        control.variance**2 / (units[0] - 1) + treatment.variance**2 / (units[1] - 1)
    )
    half_width = student_t_critical(degrees, alpha) * change.stderr
    interval = Interval(change.value - half_width, change.value + half_width)
    return PlannedEnd(change, degrees, interval, student_t_two_sided(change.t, degrees))
