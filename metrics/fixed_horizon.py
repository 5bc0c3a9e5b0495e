"""The classic test, for one look at an end that was planned: wrong at every other look.

It is narrower than a confidence sequence because it pays for one look only. Looking at it while an
experiment runs finds "effects" in half of all experiments that have none.
"""

import math
from dataclasses import dataclass

from .distributions import student_t_critical, student_t_two_sided
from .estimates import Estimate, Interval, difference, relative_difference


@dataclass(frozen=True)
class PlannedEnd:
    """Welch's test at the planned end; NaN where it is undefined."""

    found: Estimate
    degrees: float
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

    `units` of control and treatment are what varies independently: buckets where the variances come
    from buckets, users or impressions where they come from those; at least 2 each.
    Undefined where an arm is, or where nothing spreads. Source: Welch 1947.

    >>> end = welch_at_planned_end(Estimate(0.6, 4e-6, 9), Estimate(0.59, 5e-6, 9), units=(64, 64))
    >>> round(end.degrees, 3), round(end.p_value, 6)
    (124.463, 0.001131)
    """
    found = (relative_difference if relative else difference)(control, treatment)
    if not found.defined:
        return PlannedEnd(found, math.nan, Interval(math.nan, math.nan), math.nan)
    pooled = (control.variance + treatment.variance) ** 2
    degrees = pooled / (
        control.variance**2 / (units[0] - 1) + treatment.variance**2 / (units[1] - 1)
    )
    reach = student_t_critical(degrees, alpha) * found.stderr
    interval = Interval(found.value - reach, found.value + reach)
    return PlannedEnd(found, degrees, interval, student_t_two_sided(found.z, degrees))
