"""Asymptotic confidence sequences: intervals and e-values that are valid at all looks together.

The data may be looked at after every pane and the experiment stopped at any look: the probability
that the interval ever misses the true value is at most alpha, once there is enough traffic for
means to be nearly normal. The intervals are wider than those for a single look; the difference is
smallest at the planned total, which is fixed before the start.

Why it holds. Let theta be the true value and F_n what is known after n impressions: the arm, the
bucket and the metric of each. If the estimate is a mean of units that are assigned independently,
S_n = n (estimate - theta) / sigma is close to a Brownian motion W_n. For every l the process
exp(l W_n - l^2 n / 2) is a martingale in F_n with expectation 1, and so is its average over l from
a normal distribution with mean 0 and variance r, which is

    E_n = exp(n r z^2 / (2 (n r + 1))) / sqrt(n r + 1),    z = S_n / sqrt(n).

A nonnegative martingale that starts at 1 reaches 1 / alpha with a probability of at most alpha
(Ville 1939): `log_evalue` is ln E_n for theta = 0, and the interval is the set of all theta whose
E_n is below 1 / alpha. The one-sided statements average over l > 0 only.
What is asymptotic: that S_n is Brownian, and that sigma is known. For the second, z is the normal
deviate that is as unlikely as the estimate in standard errors under Student's t with the degrees of
freedom of the variance (`Estimate.z`): exact at one look at normal data, an approximation over all
looks together, whose error rates deploy/guide/metrics.md gives.
Source: Howard, Ramdas, McAuliffe and Sekhon 2021 (normal mixture); Waudby-Smith, Arbour, Sinha,
Kennedy and Ramdas 2024 (asymptotic).

The relative difference of two arms: (treatment - control) / control, with its interval.

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

The effect that an experiment can detect, and the traffic it still needs for a verdict.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Literal, TypeAlias

import numpy as np

from .buckets import BUCKETS
from .estimates import Estimate, Interval
from .lists import Floats

_FAR_LEFT: Final = -30.0
"""Below this erfc is close to underflow, and the series of the tail is exact to 11 digits."""
_MAX_STEPS: Final = 50


@dataclass(frozen=True)
class Design:
    """The design of an experiment: fixed before the first look, and not changed afterwards.

    >>> round(Design(planned_impressions=5_000).rate, 12)
    0.00158723092
    """

    planned_impressions: int
    """Impressions of all arms together when the decision is due. The interval is tightest there."""
    alpha: float = 0.05
    """Highest probability that the interval ever misses the true value, 0 < alpha < 0.5."""

    def __post_init__(self) -> None:
        if self.planned_impressions < 1:
            raise ValueError(f"planned_impressions={self.planned_impressions}: must be >= 1")
        if not 0.0 < self.alpha < 0.5:
            raise ValueError(f"alpha={self.alpha}: must be above 0 and below 0.5")

    @property
    def rate(self) -> float:
        """Rate of the two-sided mixture, per impression."""
        return mixture_rate(self.planned_impressions, self.alpha)

    @property
    def one_sided_rate(self) -> float:
        """Rate of the one-sided mixture, per impression: that of a two-sided one with 2 alpha."""
        return mixture_rate(self.planned_impressions, 2.0 * self.alpha)


def mixture_rate(planned_total: float, alpha: float) -> float:
    """r = (-2 ln alpha + ln(1 - 2 ln alpha)) / N*: the boundary is lowest near n = N*.

    Above 0, per unit of N*. Source: Howard et al. 2021, 3.5; the approximation that confseq,
    GrowthBook and Eppo use too.

    >>> round(mixture_rate(500, 0.05), 12)
    0.015872309203
    """
    evidence = -2.0 * math.log(alpha)
    return (evidence + math.log1p(evidence)) / planned_total


def boundary(n: float, rate: float, alpha: float) -> float:
    """Half-width at n of the two-sided interval, in standard errors of the estimate.

    sqrt((1 + 1 / (n r)) (ln(n r + 1) + 2 ln(1 / alpha))). Infinite at n = 0.

    >>> round(boundary(5_000, mixture_rate(5_000, 0.05), 0.05), 9)
    3.03520899
    """
    information = n * rate
    if information <= 0.0:
        return math.inf
    evidence = math.log1p(information) - 2.0 * math.log(alpha)
    return math.sqrt((1.0 + 1.0 / information) * evidence)


def confidence_sequence(estimate: Estimate, design: Design) -> Interval:
    """The two-sided interval at this look. NaN if the estimate is undefined.

    The probability that it excludes the true value at any look is asymptotically at most alpha.

    >>> interval = confidence_sequence(Estimate(-0.015, 1.2264e-5, 40_000), Design(5_000))
    >>> round(interval.lower, 6), round(interval.upper, 6)
    (-0.026249, -0.003751)
    """
    if not estimate.defined:
        return Interval(math.nan, math.nan)
    half_width = estimate.reach(boundary(estimate.n, design.rate, design.alpha))
    return Interval(estimate.value - half_width, estimate.value + half_width)


def log_evalue(estimate: Estimate, design: Design) -> float:
    """ln of the two-sided e-value against a true value of 0.

    At least ln(1 / alpha) exactly where the interval excludes 0. An e-process: if the true value is
    0, its expectation is at most 1 at any stopping time. NaN if the estimate is undefined.

    >>> round(log_evalue(Estimate(-0.015, 1.2264e-5, 40_000), Design(5_000)), 3)
    6.948
    """
    information = estimate.n * design.rate
    return information * estimate.z**2 / (2.0 * (information + 1.0)) - 0.5 * math.log1p(information)


def always_valid_p(log_e: float) -> float:
    """min(1, 1 / E), from ln E: a p-value valid at any look; so is its running minimum.

    0…1; NaN for NaN.

    >>> round(always_valid_p(6.947429), 6), always_valid_p(-2.0)
    (0.000961, 1.0)
    """
    return math.nan if math.isnan(log_e) else math.exp(-max(log_e, 0.0))


def one_sided_log_evalue(estimate: Estimate, design: Design) -> float:
    """ln of the one-sided e-value for a true value above 0, against 0 or less.

    The half-normal mixture 2 Phi(x) exp(x^2 / 2) / sqrt(n r + 1), x = z sqrt(n r / (n r + 1)).
    NaN if the estimate is undefined. For a value below 0, negate the estimate.

    >>> round(one_sided_log_evalue(Estimate(0.015, 1.2264e-5, 40_000), Design(5_000)), 3)
    7.717
    """
    information = estimate.n * design.one_sided_rate
    x = estimate.z * math.sqrt(information / (information + 1.0))
    return math.log(2.0) + log_scaled_cdf(x) - 0.5 * math.log1p(information)


def one_sided_boundary(n: float, rate: float, alpha: float) -> float:
    """Standard errors above 0 at which the one-sided e-value at n is 1 / alpha.

    Infinite at n = 0. Solved by Newton's method, which starts above, at `one_sided_closed_form`,
    and descends only, since the log of the e-value is convex in x.

    >>> round(one_sided_boundary(1_000, mixture_rate(1_000, 0.1), 0.05) * 1_000**0.5, 9)
    87.4708416
    """
    information = n * rate
    if information <= 0.0:
        return math.inf
    scale = math.sqrt(1.0 + 1.0 / information)
    target = 0.5 * math.log1p(information) - math.log(2.0 * alpha)
    x = one_sided_closed_form(n, rate, alpha) / scale
    for _ in range(_MAX_STEPS):
        hazard = math.exp(-0.5 * math.log(2.0 * math.pi) - log_scaled_cdf(x))
        step = (log_scaled_cdf(x) - target) / (x + hazard)
        x -= step
        if abs(step) <= 1e-15 * x:
            break
    return x * scale


def one_sided_closed_form(n: float, rate: float, alpha: float) -> float:
    """An upper bound of `one_sided_boundary` without iteration, 0.1 to 2 % above it.

    sqrt((1 + 1 / (n r)) 2 ln(1 + sqrt(n r + 1) / (2 alpha))), n > 0.
    Source: Waudby-Smith et al. 2024, as GrowthBook uses it.

    >>> round(one_sided_closed_form(1_000, mixture_rate(1_000, 0.1), 0.05) * 1_000**0.5, 9)
    87.882676158
    """
    information = n * rate
    evidence = 2.0 * math.log1p(math.sqrt(information + 1.0) / (2.0 * alpha))
    return math.sqrt((1.0 + 1.0 / information) * evidence)


def one_sided_interval(estimate: Estimate, design: Design) -> Interval:
    """The one-sided interval [lower, infinity) at this look. NaN if the estimate is undefined.

    Its lower end is above 0 exactly where `one_sided_log_evalue` is at least ln(1 / alpha).

    >>> round(one_sided_interval(Estimate(0.015, 1.2264e-5, 40_000), Design(5_000)).lower, 6)
    0.004658
    """
    if not estimate.defined:
        return Interval(math.nan, math.nan)
    deviate = one_sided_boundary(estimate.n, design.one_sided_rate, design.alpha)
    return Interval(estimate.value - estimate.reach(deviate), math.inf)


def log_scaled_cdf(x: float) -> float:
    """ln(Phi(x) exp(x^2 / 2)), with Phi the standard normal CDF: finite for x far below 0, too.

    >>> round(log_scaled_cdf(0.0), 9), round(log_scaled_cdf(-1e6), 6)
    (-0.693147181, -14.734449)
    """
    if not x < _FAR_LEFT:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2.0))) + 0.5 * x * x
    inverse = 1.0 / (x * x)
    series = inverse * (-1.0 + inverse * (3.0 - inverse * (15.0 - 105.0 * inverse)))
    return math.log1p(series) - math.log(-x) - 0.5 * math.log(2.0 * math.pi)


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
