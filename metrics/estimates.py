"""An estimate with its sampling variance, and the difference of two, whatever they estimate."""

import math
from dataclasses import dataclass

from .deviates import normal_deviate, student_deviate, welch_degrees


@dataclass(frozen=True)
class Estimate:
    """An estimated mean or difference, with its variance and the traffic behind it."""

    value: float
    """NaN if undefined."""
    variance: float
    """Variance of the value, not of one impression: it decreases as 1 / n. NaN if undefined."""
    n: int
    """Information time: number of impressions, of both arms for a difference."""
    degrees: float = math.inf
    """Degrees of freedom of the variance: how many independent units it was estimated from, less
    one. Infinite for a variance that is known."""

    @property
    def defined(self) -> bool:
        """Whether the value is a number and the variance is above 0."""
        return not math.isnan(self.value) and self.variance > 0.0

    @property
    def stderr(self) -> float:
        """Standard error of the value; NaN if undefined."""
        return math.sqrt(self.variance)

    @property
    def t(self) -> float:
        """The value in standard errors; NaN if not `defined`."""
        return self.value / self.stderr if self.defined else math.nan

    @property
    def z(self) -> float:
        """The normal deviate as unlikely as `t`, which has Student's distribution."""
        return self.t if math.isinf(self.degrees) else float(normal_deviate(self.t, self.degrees))

    def reach(self, deviate: float) -> float:
        """Distance from the value at which `z` is this normal deviate, in units of the value."""
        if math.isinf(self.degrees):
            return deviate * self.stderr
        return float(student_deviate(deviate, self.degrees)) * self.stderr


@dataclass(frozen=True)
class Interval:
    """An interval estimate, from `lower` to `upper`; both NaN if undefined."""

    lower: float
    upper: float


def difference(control: Estimate, treatment: Estimate) -> Estimate:
    """treatment - control, in the units of the metric. The arms are independent: variances add.

    The degrees of freedom are those of Welch and Satterthwaite.

    >>> change = difference(Estimate(0.6, 3e-6, 100), Estimate(0.585, 1e-6, 50))
    >>> round(change.value, 6), change.variance, change.n
    (-0.015, 4e-06, 150)
    """
    return Estimate(
        treatment.value - control.value,
        treatment.variance + control.variance,
        treatment.n + control.n,
        _welch(treatment, control),
    )


def relative_difference(control: Estimate, treatment: Estimate) -> Estimate:
    """(treatment - control) / control, with its variance by the delta method.

    For a single look at plenty of data. At every look, and for rare outcomes, use `relative.py`.
    Undefined (NaN) if the mean of the control is not above 0. Source: Fieller 1954, first order.

    >>> change = relative_difference(Estimate(0.6, 3e-6, 100), Estimate(0.585, 1e-6, 50))
    >>> round(change.value, 6), round(change.variance, 12)
    (-0.025, 1.0699653e-05)
    """
    n = treatment.n + control.n
    if not control.value > 0.0:
        return Estimate(math.nan, math.nan, n)
    ratio = treatment.value / control.value
    variance = (treatment.variance + control.variance * ratio**2) / control.value**2
    return Estimate(ratio - 1.0, variance, n, _welch(treatment, control))


def _welch(first: Estimate, second: Estimate) -> float:
    if math.isinf(first.degrees) and math.isinf(second.degrees):
        return math.inf
    variances = first.variance, second.variance
    return float(welch_degrees(*variances, first.degrees, second.degrees))
