"""What an experiment says: two arms' buckets in, statements that hold at every look out.

Buckets ─▶ Estimate of each arm ─▶ difference, absolute and relative ─▶ Statement: interval,
evidence, verdict
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from .buckets import MINIMUM_BUCKETS, Buckets, effective_buckets, estimates, independent_variance
from .estimates import Estimate, Interval, difference, relative_difference
from .metric import Direction
from .planning import further_impressions, minimum_detectable_effect
from .sequences import (
    Design,
    always_valid_p,
    confidence_sequence,
    log_evalue,
    one_sided_interval,
    one_sided_log_evalue,
)

Verdict: TypeAlias = Literal["better", "worse", "undecided"]
Undefined: TypeAlias = Literal[
    "no control traffic", "no treatment traffic", "too few buckets", "no spread"
]


@dataclass(frozen=True)
class Statement:
    """All that is said of one value at this look; numbers are NaN where the value is undefined."""

    found: Estimate
    interval: Interval
    """Confidence sequence: misses the truth at any look with a probability of at most alpha."""
    log_evalue: float
    """ln of the evidence against 0."""
    p_value: float
    """Always valid."""
    guardrail_log_evalue: float
    """ln of the one-sided evidence that it is worse; NaN for a metric without a direction."""
    guardrail_interval: Interval
    """What is compatible with that evidence, open on the side of harm."""
    minimum_detectable_effect: float
    """At the planned total, with a power of 0.8."""
    further_impressions: float
    """Until a verdict, if the value stays as it is; 0 with a verdict, infinite for a value of 0."""
    verdict: Verdict

    @classmethod
    def of(cls, found: Estimate, design: Design, direction: Direction = "up") -> "Statement":
        """Of a difference, a relative difference, or a mean credit: whatever is 0 without effect.

        >>> Statement.of(Estimate(-0.015, 1.2264e-5, 40_000), Design(5_000)).verdict
        'worse'
        """
        interval = confidence_sequence(found, design)
        evidence = log_evalue(found, design)
        return cls(
            found=found,
            interval=interval,
            log_evalue=evidence,
            p_value=always_valid_p(evidence),
            guardrail_log_evalue=guardrail_log_evalue(found, design, direction),
            guardrail_interval=guardrail_interval(found, design, direction),
            minimum_detectable_effect=minimum_detectable_effect(found, design),
            further_impressions=further_impressions(found, design),
            verdict=verdict(interval, direction),
        )


@dataclass(frozen=True)
class ArmComparison:
    """A treatment against its control, for one metric."""

    control: Estimate
    treatment: Estimate
    absolute: Statement
    """Of treatment - control."""
    relative: Statement
    """Of the same as a share of the control's mean."""
    design_effect: float
    """Variance of the difference / what it were if every impression had a user of its own."""
    undefined: Undefined | None
    """Why there is no statement; the arms' means may still be there."""


def compare_arms(
    control: Buckets,
    treatment: Buckets,
    design: Design,
    direction: Direction = "up",
    *,
    impressions: int | None = None,
) -> ArmComparison:
    """Everything at once for two arms' tallies of one metric, (buckets,) each.

    `impressions` of both arms, scored or not, are what the planned total is counted in; where they
    are not given it is the scored ones.

    >>> users = np.arange(4_000) % 61
    >>> arms = [Buckets.of(np.arange(4_000) % 7 < limit, users) for limit in (5, 4)]
    >>> found = compare_arms(*arms, Design(planned_impressions=8_000))
    >>> round(found.absolute.found.value, 3), found.absolute.verdict, found.undefined
    (-0.143, 'worse', None)
    """
    totals = None if impressions is None else [impressions]
    return compare_rows(control[None], treatment[None], design, direction, impressions=totals)[0]


def compare_rows(
    controls: Buckets,
    treatments: Buckets,
    design: Design,
    direction: Direction = "up",
    *,
    impressions: Sequence[int] | None = None,
) -> list[ArmComparison]:
    """The same for many pairs of arms of one metric, as of segments, several times as fast.

    (rows, buckets) each, `impressions` one a row -> a comparison for each row.

    >>> found = compare_rows(Buckets.empty(2, 64), Buckets.empty(2, 64), Design(8_000))
    >>> [row.undefined for row in found]
    ['no control traffic', 'no control traffic']
    """
    arms = list(zip(estimates(controls), estimates(treatments), strict=True))
    totals = [c.n + t.n for c, t in arms] if impressions is None else impressions
    spread = np.minimum(effective_buckets(controls), effective_buckets(treatments)).tolist()
    independent = (independent_variance(controls) + independent_variance(treatments)).tolist()
    comparisons = []
    rows = zip(arms, totals, spread, independent, strict=True)
    for (control, treatment), n, buckets, naive in rows:
        undefined = why_undefined(control, treatment, buckets)
        changes = difference(control, treatment), relative_difference(control, treatment)
        absolute, relative = (
            Estimate(math.nan, math.nan, n) if undefined else replace(change, n=n)
            for change in changes
        )
        comparisons.append(
            ArmComparison(
                control,
                treatment,
                absolute=Statement.of(absolute, design, direction),
                relative=Statement.of(relative, design, direction),
                design_effect=absolute.variance / naive if naive > 0.0 else math.nan,
                undefined=undefined,
            )
        )
    return comparisons


def why_undefined(control: Estimate, treatment: Estimate, buckets: float) -> Undefined | None:
    """Why these arms cannot be compared, the first reason that holds; None if they can.

    `buckets` are the effective ones of the arm that has fewer.

    >>> why_undefined(Estimate(0.5, 1e-4, 90), Estimate(0.6, 1e-4, 90), buckets=9.7)
    'too few buckets'
    """
    if not control.n:
        return "no control traffic"
    if not treatment.n:
        return "no treatment traffic"
    if buckets < MINIMUM_BUCKETS:
        return "too few buckets"
    return None if difference(control, treatment).defined else "no spread"


def guardrail_log_evalue(found: Estimate, design: Design, direction: Direction) -> float:
    """ln of the one-sided evidence that the value means harm: alarm at ln(1 / alpha).

    Against "no change or better". NaN where undefined, or for a metric without a direction.

    >>> drop = Estimate(-0.015, 1.2264e-5, 40_000)
    >>> round(guardrail_log_evalue(drop, Design(5_000), "up"), 3)
    7.717
    >>> guardrail_log_evalue(drop, Design(5_000), "down") < 0
    True
    """
    return one_sided_log_evalue(_harm(found, direction), design)


def guardrail_interval(found: Estimate, design: Design, direction: Direction) -> Interval:
    """How good it may still be: open on the side of harm, good at every look like the evidence.

    It lies on the side of harm alone exactly where the evidence is at least ln(1 / alpha).
    NaN where undefined, or for a metric without a direction.

    >>> drop = Estimate(-0.015, 1.2264e-5, 40_000)
    >>> interval = guardrail_interval(drop, Design(5_000), "up")
    >>> interval.lower, round(interval.upper, 6)
    (-inf, -0.004658)
    """
    least_harm = one_sided_interval(_harm(found, direction), design).lower
    if math.isnan(least_harm):
        return Interval(math.nan, math.nan)
    if direction == "up":
        return Interval(-math.inf, -least_harm)
    return Interval(least_harm, math.inf)


def _harm(found: Estimate, direction: Direction) -> Estimate:
    """The same value with harm above 0."""
    signs = {"up": -1.0, "down": 1.0, "none": math.nan}
    return Estimate(signs[direction] * found.value, found.variance, found.n)


def verdict(interval: Interval, direction: Direction) -> Verdict:
    """Which side of 0 the interval lies on, read by the metric's direction.

    Undecided where it holds 0, is undefined, or the metric has no direction.

    >>> verdict(Interval(0.01, 0.03), "up"), verdict(Interval(0.01, 0.03), "down")
    ('better', 'worse')
    """
    if direction == "none" or not (interval.lower > 0.0 or interval.upper < 0.0):
        return "undecided"
    return "better" if (interval.lower > 0.0) == (direction == "up") else "worse"
