"""The relative difference of two arms: (treatment - control) / control, with its interval.

Why it holds. Let m_C and m_T be the true means of the arms. The true relative difference is the rho
for which m_T - (1 + rho) m_C is 0. For each rho, D_rho = mean_T - (1 + rho) mean_C is a mean of
independent users like the difference itself, with the variance V_T + (1 + rho)^2 V_C, so that
`sequences.py` gives it a confidence sequence in the same filtration, valid at all looks together.
The set of all rho whose sequence contains 0 at a look holds the true one unless the sequence of
that one misses: with a probability of at most alpha over all looks, asymptotically. No expansion
of the ratio is involved, so the control's mean may be small.
At rho = 0 the sequence is that of the absolute difference: so the set leaves 0 out exactly where
that one does. It solves

    (D - rho mean_C)^2 <= m^2 (V_T + (1 + rho)^2 V_C),

with m the boundary in standard errors. It is an interval where mean_C > m sqrt(V_C). Elsewhere the
control is too near 0: the set is unbounded, and there is no statement.
What is asymptotic besides: m is taken with the degrees of freedom at rho = 0.
Source: Fieller 1954.
"""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from .estimates import Estimate, Interval
from .lists import Floats
from .sequences import Design, boundary

Unstated: TypeAlias = Literal["no difference", "the control is too near 0"]


@dataclass(frozen=True)
class Relative:
    """The relative difference at one look; numbers are NaN where there is no statement."""

    value: float
    interval: Interval
    """The probability that it ever misses the true value is at most alpha. It leaves 0 out exactly
    where the interval of the absolute difference does."""
    undefined: Unstated | None


def relative_statement(
    control: Estimate, difference: Estimate, design: Design, *, lowest: float = -math.inf
) -> Relative:
    """The statement about difference / control.

    `lowest` is the lowest value of the metric: from 0 on, no relative difference is below -1.

    >>> arm, change = Estimate(0.6, 3e-6, 100), Estimate(-0.015, 4e-6, 40_000)
    >>> found = relative_statement(arm, change, Design(40_000))
    >>> round(found.value, 3), round(found.interval.lower, 4), round(found.interval.upper, 4)
    (-0.025, -0.0349, -0.015)
    >>> rare, change = Estimate(0.008, 7.9e-6, 1_000), Estimate(-0.007, 8.9e-6, 2_000)
    >>> relative_statement(rare, change, Design(20_000)).undefined
    'the control is too near 0'
    """
    nothing = Interval(math.nan, math.nan)
    if not difference.defined:
        return Relative(math.nan, nothing, "no difference")
    half_width = difference.reach(boundary(difference.n, design.rate, design.alpha))
    bounds = relative_bounds(
        np.array(control.value),
        np.array(control.variance),
        np.array(difference.value),
        np.array(half_width / difference.stderr),
        np.array(half_width),
    )
    lower, upper = (float(bound) for bound in bounds)
    if math.isnan(lower):
        return Relative(math.nan, nothing, "the control is too near 0")
    value, least = difference.value / control.value, -1.0 if lowest >= 0.0 else -math.inf
    # A rounding error must not leave the value outside.
    interval = Interval(max(min(lower, value), least), max(upper, value))
    return Relative(value, interval, None)


def relative_bounds(
    control: Floats, control_variance: Floats, difference: Floats, reach: Floats, half_width: Floats
) -> tuple[Floats, Floats]:
    """Both ends of the interval: (…,) each -> two (…,), NaN where the set is unbounded.

    `half_width` is that of the absolute difference, `reach` the same in its standard errors.

    >>> ends = relative_bounds(*np.array([[0.5], [1e-4], [0.1], [3.0], [0.04]]))
    >>> [np.round(end, 3).tolist() for end in ends]
    [[0.115], [0.294]]
    """
    noise = reach * reach * control_variance
    with np.errstate(invalid="ignore", divide="ignore"):
        # a rho^2 - 2 b rho + c <= 0, where c has the sign by which the absolute interval has 0.
        a, b = control * control - noise, difference * control + noise
        size = np.abs(difference)
        c = (size - half_width) * (size + half_width)
        root = np.sqrt(np.maximum(b * b - a * c, 0.0))
        far = b + np.copysign(root, b)
        ends = far / a, c / far
        bounded = (control > 0.0) & (a > 0.0)
    lower, upper = np.minimum(*ends), np.maximum(*ends)
    return np.where(bounded, lower, np.nan), np.where(bounded, upper, np.nan)
