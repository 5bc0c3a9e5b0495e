"""Post-stratification: the difference of two arms as if both had the same mix of segments, or the
same mix of periods of time.

Why it holds. Let d_s be the difference in segment s and w_s its share of the traffic of both arms
together, in the segments that count. The estimand is the sum of w_s d_s: if the arms differ in no
segment it is 0, whatever mix each arm got. The estimate puts the differences of the means in place
of d_s. Given the counts, the mean of an arm in a segment is unbiased there, and the weights depend
on counts alone: so under no difference the estimate is a weighted sum of users' deviations with
weights that the metric does not influence, and nearly normal with the variance below; what
`sequences.py` says of a difference holds for it in the same filtration. Asymptotic are the
normality, the variances, and the weights, which are taken as if they were fixed.
A segment counts only where both arms have `MINIMUM_BUCKETS` effective buckets in it: a single
impression has no deviation from its own mean, and would be taken for certain. Which segments count
depends on counts alone, too. The others are not covered.
Source: Miratrix, Sekhon and Yu 2013.

Periods. Where the shares of the arms change, as in a ramp, the arms live through different times,
and whatever changes with time looks like an effect. Within a period of constant shares it does not.
All said above holds for periods, with another weight: n_T n_C / (n_T + n_C), the information of a
period. The numerator of the estimate is then a sum over periods of the score of each, and nearly a
Brownian motion in the sum of these weights, which is the information time. By traffic alone, three
days at 1 % would weigh as much as three at 50 %, and make a variance five times as large. If the
effect changes with time, the estimand is its average with these weights.
Source: Mantel and Haenszel 1959; Li, Morgan and Zaslavsky 2018 (overlap weights).
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from .buckets import (
    MINIMUM_BUCKETS,
    Moments,
    UserBuckets,
    changed,
    effective_buckets,
    mean,
    paired,
    residuals,
    scored,
)
from .estimates import Estimate
from .lists import Booleans, Floats, Integers

LEAST_COVERED: Final = 0.5
"""With a smaller share of the traffic in segments that count there is no statement: it would be
about the lesser part of the traffic."""
_ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class StratifiedEffect:
    """A difference weighted over segments."""

    estimate: Estimate
    """treatment - control; NaN where it is undefined."""
    covered: float
    """Share of the scored impressions in segments that count, 0…1."""


def post_stratified(control: UserBuckets, treatment: UserBuckets) -> StratifiedEffect:
    """treatment - control: the differences of the segments, weighted by the traffic of both arms.

    The variance is that of the weighted residuals over buckets, so that a user with impressions in
    several segments still counts as one unit.
    control, treatment (segments, buckets) or (segments, periods, buckets), with the same buckets;
    in a segment, periods are weighted by their information. Undefined (NaN) if less than
    `LEAST_COVERED` of the scored impressions is covered.

    >>> scores, buckets = np.arange(640) % 3 / 2, np.arange(640) % 64
    >>> arms = [UserBuckets.of(factor * scores, buckets)[None] for factor in (1.0, 0.8)]
    >>> round(post_stratified(*arms).estimate.value, 4)
    -0.0998
    """
    if control.counts.ndim == 2:
        control, treatment = control[:, None], treatment[:, None]
    change, covered = post_stratified_rows(control[None], treatment[None])
    return StratifiedEffect(change.estimates()[0], float(covered[0]))


def post_stratified_rows(control: UserBuckets, treatment: UserBuckets) -> tuple[Moments, Floats]:
    """`post_stratified` of many: (…, segments, periods, buckets) each -> Moments and shares
    covered, (…).

    >>> arms = UserBuckets.empty(5, 2, 1, 64), UserBuckets.empty(5, 2, 1, 64)
    >>> post_stratified_rows(*arms)[1].tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0]
    """
    both = scored(control) + scored(treatment)
    counted = _counted(control, treatment)
    information = np.where(counted, _information(scored(control), scored(treatment)), 0.0)
    of_segment = information.sum(axis=-1, keepdims=True)
    traffic = both.sum(axis=-1, keepdims=True)
    # What is not counted keeps its traffic, so that it is missing from what is covered.
    weights = np.where(
        of_segment > 0.0, traffic * information / np.where(of_segment > 0.0, of_segment, 1.0), both
    )
    cells = [_cells(arm) for arm in (control, treatment)]
    flat = weights.reshape(*weights.shape[:-2], -1)
    _, change, covered = _common_mix(cells[0], cells[1], flat)
    return change, covered


def _cells(arm: UserBuckets) -> UserBuckets:
    """(…, segments, periods, buckets) -> (…, segments x periods, buckets)."""
    shape = (*arm.counts.shape[:-3], -1, arm.counts.shape[-1])
    return UserBuckets(
        arm.counts.reshape(shape), arm.sums.reshape(shape), arm.squares.reshape(shape), arm.unit
    )


def over_periods(
    control: UserBuckets, treatment: UserBuckets
) -> tuple[Moments, Moments, Moments, Floats]:
    """Control, treatment, and their difference, with the periods weighted by their information:
    (…, periods, buckets) each -> three Moments and the weights (…, periods), which sum to 1.

    Undefined (NaN) where periods with enough buckets have less than `LEAST_COVERED` of the
    information.

    >>> levels = np.array([1, 3])[:, None] + np.arange(64) % 2 / 10
    >>> control, treatment = np.array([[95], [50]]), np.array([[5], [50]])
    >>> ones = np.ones((1, 64))
    >>> arms = (UserBuckets(n * ones, n * levels, n * levels, 1) for n in (control, treatment))
    >>> found = over_periods(*arms)
    >>> float(found[2].value), found[3].round(2).tolist()
    (0.0, [0.16, 0.84])
    """
    information = _information(scored(control), scored(treatment))
    sides, change, _ = _common_mix(control, treatment, information)
    counted = np.where(_counted(control, treatment), information, 0.0)
    total = counted.sum(axis=-1, keepdims=True)
    return *sides, change, np.asarray(counted / np.where(total > 0.0, total, 1.0))


def balanced_impressions(control: Integers, treatment: Integers) -> int:
    """Information time over periods, in impressions at the shares of the period in which an
    impression tells most: (periods,) impressions of each arm -> all of them in a single period.

    >>> balanced_impressions(np.array([95, 50]), np.array([5, 50]))
    119
    >>> balanced_impressions(np.array([30]), np.array([70]))
    100
    """
    both, information = control + treatment, _information(control, treatment)
    most = float((information / np.maximum(both, 1)).max(initial=0.0))
    return round(float(information.sum()) / most) if most else int(both.sum())


def share_deviate(before: Integers, after: Integers) -> float:
    """How far the shares of the arms moved: the greatest change of the logarithm of the ratio of an
    arm to the first one, in standard errors. (arms, buckets) impressions each -> >= 0.

    The errors are those of the shares of buckets, which moved against each other: users who come
    again are no change. An arm without impressions counts as half of one.

    >>> halves, others = np.full((2, 64), 100), np.full((2, 64), 190)
    >>> others[1] = 10
    >>> share_deviate(halves, halves), share_deviate(halves, others) > 3.0
    (0.0, True)
    """
    logs, parts, missing = [], [], []
    for counts in (before, after):
        totals = counts.sum(axis=1, dtype=np.float64)
        logs.append(np.log(np.maximum(totals, 0.5)))
        parts.append(counts / np.maximum(totals, 1.0)[:, None])
        missing.append(np.where(totals > 0.0, 0.0, 2.0))
    buckets = before.shape[1]
    variances = ((parts[1] - parts[0]) ** 2).sum(axis=1) * buckets / (buckets - 1) + sum(missing)
    moved = (logs[1] - logs[1][0]) - (logs[0] - logs[0][0])
    errors = np.maximum(np.sqrt(variances + variances[0]), _ROUNDING)
    return float(np.abs(moved / errors).max(initial=0.0))


def _information(control: Integers, treatment: Integers) -> Floats:
    """What an equal number of impressions in both arms would be half of."""
    return np.asarray(control * treatment / np.maximum(control + treatment, 1))


def _counted(control: UserBuckets, treatment: UserBuckets) -> Booleans:
    fewer = np.minimum(effective_buckets(control), effective_buckets(treatment))
    return np.asarray(fewer >= MINIMUM_BUCKETS)


def _common_mix(
    control: UserBuckets, treatment: UserBuckets, weights: Floats | Integers
) -> tuple[tuple[Moments, Moments], Moments, Floats]:
    """The means of both arms and their difference, with the strata that count weighted alike in
    both, and the share of the weights that they have."""
    counted = _counted(control, treatment)
    traffic = np.where(counted, weights, 0)
    n, total = traffic.sum(axis=-1), weights.sum(axis=-1)
    covered = n / np.where(total > 0, total, 1)
    shares = traffic / np.where(n > 0, n, 1)[..., None]
    stated = covered >= LEAST_COVERED
    sides = []
    for arm, of_strata in zip((control, treatment), paired(control, treatment), strict=True):
        variance, degrees = _weighted(arm, of_strata, shares, counted)
        with np.errstate(invalid="ignore"):
            value = (shares * np.where(counted, mean(arm), 0.0)).sum(axis=-1)
        sides.append(
            Moments(
                np.where(stated, value, np.nan),
                np.where(stated, variance, np.nan),
                scored(arm).sum(axis=-1),
                degrees,
            )
        )
    change = replace(
        changed(sides[0], sides[1]),
        n=np.where(counted, scored(control) + scored(treatment), 0).sum(axis=-1),
    )
    return (sides[0], sides[1]), change, np.asarray(covered)


def _weighted(
    arm: UserBuckets, segments: Moments, shares: Floats, counted: Booleans
) -> tuple[Floats, Floats]:
    """(variance, degrees of freedom) of one arm's weighted mean over segments, (…) each.

    The degrees are Satterthwaite's over segments, at most those of the buckets, which the segments
    share.
    """
    filled = (arm.counts > 0).sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        correction = np.sqrt(filled / (filled - 1.0))
        factors = np.where(counted, shares * correction / scored(arm), 0.0)
        weights = np.where(counted, shares / scored(arm), 0.0)
        own = ((factors[..., None] * np.where(counted[..., None], residuals(arm), 0.0)) ** 2).sum(
            axis=-1
        )
        parts = np.where(counted, shares**2 * segments.variance, 0.0)
    per_bucket = (factors[..., None] * np.where(counted[..., None], residuals(arm), 0.0)).sum(
        axis=-2
    )
    # What a segment got above its own variance, because its spread rests on few outcomes.
    raised = np.maximum(parts - own, 0.0).sum(axis=-1)
    variance = (per_bucket**2).sum(axis=-1) + raised
    shared = (weights[..., None] * arm.counts).sum(axis=-2)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_segments = parts.sum(axis=-1) ** 2 / (parts**2 / segments.degrees).sum(axis=-1)
        of_buckets = shared.sum(axis=-1) ** 2 / (shared**2).sum(axis=-1) - 1.0
    degrees = np.fmax(np.fmin(of_segments, of_buckets), 1.0)
    return variance, degrees
