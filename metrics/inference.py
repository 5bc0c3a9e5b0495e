"""Compare the two arms of an experiment: from their buckets to statements valid at every look.

Buckets ─▶ Estimate of each arm ─▶ difference ─▶ Statement: interval, evidence, verdict; Relative

What is claimed of a difference. The estimand is m_T - m_C: the mean of an arm is what its sum over
all users, divided by their impressions, comes to if ever more users like these are assigned to it.
Users are assigned independently of each other and of what they do, so the sums of the buckets are
independent, and the ratio of two sums is nearly linear in them. The filtration is that of
`sequences.py`: what every settled impression showed, in the order in which panes settle. Asymptotic
are the linearity, the normality and the variance; `buckets.paired` and `Estimate.z` say what stands
against few buckets and few outcomes.
Source: Deng, Knoblich and Lu 2018 (ratios over users).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from .buckets import (
    MINIMUM_BUCKETS,
    Moments,
    UserBuckets,
    changed,
    effective_buckets,
    independent_variance,
    paired,
)
from .estimates import Estimate, Interval
from .lists import Floats
from .metric import Direction
from .sequences import (
    Design,
    Relative,
    always_valid_p,
    confidence_sequence,
    further_impressions,
    log_evalue,
    minimum_detectable_effect,
    one_sided_interval,
    one_sided_log_evalue,
    relative_statement,
)
from .stratification import over_periods

Verdict: TypeAlias = Literal["better", "worse", "undecided"]
Undefined: TypeAlias = Literal[
    "no control traffic",
    "no treatment traffic",
    "no period of constant shares",
    "too few buckets",
    "no spread",
    "no worst value",
]


@dataclass(frozen=True)
class Statement:
    """Inference about one value at one look; numbers are NaN where the value is undefined."""

    estimate: Estimate
    interval: Interval
    """Confidence sequence: the probability that it ever misses the true value is at most alpha."""
    log_evalue: float
    """ln of the e-value against a true value of 0."""
    p_value: float
    """Always-valid p-value."""
    guardrail_log_evalue: float
    """ln of the one-sided e-value for harm; NaN for a metric without a direction."""
    guardrail_interval: Interval
    """The interval that belongs to it, unbounded on the side of harm."""
    minimum_detectable_effect: float
    """Least true effect found at the planned total with a power of 0.8."""
    further_impressions: float
    """Impressions until a verdict if the value stays the same: 0 with a verdict, infinite for 0."""
    verdict: Verdict

    @classmethod
    def of(cls, estimate: Estimate, design: Design, direction: Direction = "up") -> "Statement":
        """Of any estimate that is 0 without an effect: a difference or a mean credit.

        >>> Statement.of(Estimate(-0.015, 1.2264e-5, 40_000), Design(5_000)).verdict
        'worse'
        """
        interval = confidence_sequence(estimate, design)
        evidence = log_evalue(estimate, design)
        return cls(
            estimate=estimate,
            interval=interval,
            log_evalue=evidence,
            p_value=always_valid_p(evidence),
            guardrail_log_evalue=guardrail_log_evalue(estimate, design, direction),
            guardrail_interval=guardrail_interval(estimate, design, direction),
            minimum_detectable_effect=minimum_detectable_effect(estimate, design),
            further_impressions=further_impressions(estimate, design),
            verdict=verdict(interval, direction),
        )


@dataclass(frozen=True)
class ArmComparison:
    """A treatment compared with its control by one metric."""

    control: Estimate
    treatment: Estimate
    absolute: Statement
    """About treatment - control."""
    relative: Relative
    """About (treatment - control) / control."""
    design_effect: float
    """Variance of the difference, divided by that of independent impressions; NaN if undefined."""
    undefined: Undefined | None
    """Why the statements are undefined, or None; the arms' means may still be defined."""


def compare_arms(
    control: UserBuckets,
    treatment: UserBuckets,
    design: Design,
    direction: Direction = "up",
    *,
    impressions: int | None = None,
    lowest: float = -math.inf,
) -> ArmComparison:
    """Compare two arms by their tallies of one metric, (buckets,) each.

    `impressions` is the number of impressions of both arms, scored or not, in which the planned
    total is counted; by default the scored ones. `lowest` is the lowest value of the metric.
    Undefined (NaN) for the reasons of `why_undefined`.

    >>> users = np.arange(4_000) % 61
    >>> arms = [UserBuckets.of(np.arange(4_000) % 7 < limit, users) for limit in (5, 4)]
    >>> result = compare_arms(*arms, Design(planned_impressions=8_000))
    >>> round(result.absolute.estimate.value, 3), result.absolute.verdict, result.undefined
    (-0.143, 'worse', None)
    """
    totals = None if impressions is None else [impressions]
    rows = control[None], treatment[None]
    return compare_rows(*rows, design, direction, impressions=totals, lowest=lowest)[0]


def compare_rows(
    controls: UserBuckets,
    treatments: UserBuckets,
    design: Design,
    direction: Direction = "up",
    *,
    impressions: Sequence[int] | None = None,
    lowest: float = -math.inf,
) -> list[ArmComparison]:
    """`compare_arms` for many pairs of arms of one metric, such as segments, several times as fast.

    controls and treatments (rows, buckets), impressions (rows,) -> one comparison for each row.

    >>> rows = compare_rows(UserBuckets.empty(2, 64), UserBuckets.empty(2, 64), Design(8_000))
    >>> [row.undefined for row in rows]
    ['no control traffic', 'no control traffic']
    """
    arms = paired(controls, treatments)
    effective = np.minimum(effective_buckets(controls), effective_buckets(treatments))
    independent = independent_variance(controls) + independent_variance(treatments)
    moments = (*arms, changed(*arms))
    return _comparisons(moments, effective, independent, design, direction, impressions, lowest)


def compare_periods(
    controls: UserBuckets,
    treatments: UserBuckets,
    design: Design,
    direction: Direction = "up",
    *,
    impressions: int,
    lowest: float = -math.inf,
) -> ArmComparison:
    """`compare_arms` of periods of time, (periods, buckets) each: differences within periods,
    weighted as `over_periods` says, so that nothing that changes with time looks like an effect.

    `impressions` is the information time, as of `balanced_impressions`. A single period is compared
    as `compare_arms` does.

    >>> users = np.arange(4_000) % 61
    >>> arms = [UserBuckets.of(np.arange(4_000) % 7 < limit, users)[None] for limit in (5, 4)]
    >>> compare_periods(*arms, Design(8_000), impressions=8_000).absolute.verdict
    'worse'
    """
    totals = [impressions]
    if len(controls.counts) == 1:
        return compare_rows(
            controls, treatments, design, direction, impressions=totals, lowest=lowest
        )[0]
    *moments, weights = over_periods(controls[None], treatments[None])
    effective = np.minimum(effective_buckets(controls), effective_buckets(treatments))
    enough = np.where(np.isnan(moments[2].value), 0.0, effective.max(initial=0.0))
    with np.errstate(invalid="ignore"):
        each = independent_variance(controls) + independent_variance(treatments)
        independent = np.where(weights > 0.0, weights**2 * each, 0.0).sum(axis=-1)
    return _comparisons(moments, enough, independent, design, direction, totals, lowest)[0]


def _comparisons(
    moments: Sequence[Moments],
    effective: Floats,
    independent: Floats,
    design: Design,
    direction: Direction,
    impressions: Sequence[int] | None,
    lowest: float,
) -> list[ArmComparison]:
    """From control, treatment and difference, the effective buckets of the arm with fewer, and the
    variance if impressions were independent: (rows,) of each."""
    columns = [side.estimates() for side in moments]
    totals = [change.n for change in columns[2]] if impressions is None else impressions
    comparisons = []
    rows = zip(*columns, totals, effective.tolist(), independent.tolist(), strict=True)
    for control, treatment, change, n, buckets, independent_of_row in rows:
        undefined = why_undefined(control, treatment, change, buckets)
        absolute = Estimate(math.nan, math.nan, n) if undefined else replace(change, n=n)
        comparisons.append(
            ArmComparison(
                control,
                treatment,
                absolute=Statement.of(absolute, design, direction),
                relative=relative_statement(control, absolute, design, lowest=lowest),
                design_effect=_design_effect(absolute.variance, independent_of_row),
                undefined=undefined,
            )
        )
    return comparisons


def why_undefined(
    control: Estimate, treatment: Estimate, change: Estimate, buckets: float
) -> Undefined | None:
    """The first reason why these arms cannot be compared; None if they can.

    `change` is their difference, `buckets` the number of effective buckets of the arm with fewer.

    >>> arms = Estimate(0.5, 1e-4, 90), Estimate(0.6, 1e-4, 90)
    >>> why_undefined(*arms, Estimate(0.1, 2e-4, 180), buckets=9.7)
    'too few buckets'
    """
    if not control.n:
        return "no control traffic"
    if not treatment.n:
        return "no treatment traffic"
    if buckets < MINIMUM_BUCKETS:
        return "too few buckets"
    return None if change.defined else "no spread"


def guardrail_log_evalue(estimate: Estimate, design: Design, direction: Direction) -> float:
    """ln of the one-sided e-value for harm, against "no change or better"; alarm at ln(1 / alpha).

    NaN where undefined, or for a metric without a direction.

    >>> drop = Estimate(-0.015, 1.2264e-5, 40_000)
    >>> round(guardrail_log_evalue(drop, Design(5_000), "up"), 3)
    7.717
    >>> guardrail_log_evalue(drop, Design(5_000), "down") < 0
    True
    """
    return one_sided_log_evalue(_harm(estimate, direction), design)


def guardrail_interval(estimate: Estimate, design: Design, direction: Direction) -> Interval:
    """One-sided interval, unbounded on the side of harm: the best value that is still plausible.

    Valid at every look. It excludes 0 exactly where `guardrail_log_evalue` reaches ln(1 / alpha).
    NaN where undefined, or for a metric without a direction.

    >>> drop = Estimate(-0.015, 1.2264e-5, 40_000)
    >>> interval = guardrail_interval(drop, Design(5_000), "up")
    >>> interval.lower, round(interval.upper, 6)
    (-inf, -0.004658)
    """
    least_harm = one_sided_interval(_harm(estimate, direction), design).lower
    if math.isnan(least_harm):
        return Interval(math.nan, math.nan)
    if direction == "up":
        return Interval(-math.inf, -least_harm)
    return Interval(least_harm, math.inf)


def _harm(estimate: Estimate, direction: Direction) -> Estimate:
    """The same value with the sign under which harm is above 0."""
    signs = {"up": -1.0, "down": 1.0, "none": math.nan}
    return Estimate(signs[direction] * estimate.value, estimate.variance, estimate.n)


def verdict(interval: Interval, direction: Direction) -> Verdict:
    """Which side of 0 the interval lies on, read by the metric's direction.

    `undecided` if it contains 0, is undefined, or the metric has no direction.

    >>> verdict(Interval(0.01, 0.03), "up"), verdict(Interval(0.01, 0.03), "down")
    ('better', 'worse')
    """
    if direction == "none" or not (interval.lower > 0.0 or interval.upper < 0.0):
        return "undecided"
    return "better" if (interval.lower > 0.0) == (direction == "up") else "worse"


def _design_effect(variance: float, independent: float) -> float:
    return variance / independent if independent > 0.0 else math.nan
