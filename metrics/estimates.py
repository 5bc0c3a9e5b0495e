"""A number with its sampling variance, and differences of two of them. Knows nothing of where they
come from."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A mean or a difference, estimated from so much traffic."""

    value: float
    """NaN where it is undefined."""
    variance: float
    """Of the value, not of one impression: it falls as 1 / n. NaN where it is undefined."""
    n: int
    """Information time: the impressions behind it, in both arms for a difference."""

    @property
    def defined(self) -> bool:
        """Whether there is anything to state: a value, and a spread to judge it by."""
        return not math.isnan(self.value) and self.variance > 0.0

    @property
    def stderr(self) -> float:
        """Standard error of the value; NaN where it is undefined."""
        return math.sqrt(self.variance)

    @property
    def z(self) -> float:
        """The value in standard errors; NaN where it is undefined or nothing spreads."""
        return self.value / self.stderr if self.defined else math.nan


@dataclass(frozen=True)
class Interval:
    """What is compatible with the data, from `lower` to `upper`; NaN where undefined."""

    lower: float
    upper: float


def difference(control: Estimate, treatment: Estimate) -> Estimate:
    """treatment - control, in the metric's own units: the arms are independent, variances add.

    >>> change = difference(Estimate(0.6, 3e-6, 100), Estimate(0.585, 1e-6, 50))
    >>> round(change.value, 6), change.variance, change.n
    (-0.015, 4e-06, 150)
    """
    return Estimate(
        treatment.value - control.value,
        treatment.variance + control.variance,
        treatment.n + control.n,
    )


def relative_difference(control: Estimate, treatment: Estimate) -> Estimate:
    """(treatment - control) / control, as a share of the control's mean, by the delta method.

    Undefined (NaN) where the control's mean is not above 0. Source: Fieller 1954, first order.

    >>> change = relative_difference(Estimate(0.6, 3e-6, 100), Estimate(0.585, 1e-6, 50))
    >>> round(change.value, 6), round(change.variance, 12)
    (-0.025, 1.0699653e-05)
    """
    n = treatment.n + control.n
    if not control.value > 0.0:
        return Estimate(math.nan, math.nan, n)
    ratio = treatment.value / control.value
    variance = (treatment.variance + control.variance * ratio**2) / control.value**2
    return Estimate(ratio - 1.0, variance, n)
