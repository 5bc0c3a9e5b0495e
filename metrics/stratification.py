"""Post-stratification: the difference of two arms as if both had the same mix of segments.

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
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from .buckets import (
    MINIMUM_BUCKETS,
    Moments,
    UserBuckets,
    effective_buckets,
    mean,
    paired,
    residuals,
    scored,
)
from .distributions import welch_degrees
from .estimates import Estimate
from .lists import Booleans, Floats

LEAST_COVERED: Final = 0.5
"""With a smaller share of the traffic in segments that count there is no statement: it would be
about the lesser part of the traffic."""


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
    control, treatment (segments, buckets), with the same buckets. Undefined (NaN) if less than
    `LEAST_COVERED` of the scored impressions is covered.

    >>> scores, buckets = np.arange(640) % 3 / 2, np.arange(640) % 64
    >>> arms = [UserBuckets.of(factor * scores, buckets)[None] for factor in (1.0, 0.8)]
    >>> round(post_stratified(*arms).estimate.value, 4)
    -0.0998
    """
    change, covered = post_stratified_rows(control[None], treatment[None])
    return StratifiedEffect(change.estimates()[0], float(covered[0]))


def post_stratified_rows(control: UserBuckets, treatment: UserBuckets) -> tuple[Moments, Floats]:
    """`post_stratified` of many: (…, segments, buckets) each -> Moments and shares covered, (…).

    >>> arms = UserBuckets.empty(5, 2, 64), UserBuckets.empty(5, 2, 64)
    >>> post_stratified_rows(*arms)[1].tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0]
    """
    fewer = np.minimum(effective_buckets(control), effective_buckets(treatment))
    counted = fewer >= MINIMUM_BUCKETS
    both = scored(control) + scored(treatment)
    traffic = np.where(counted, both, 0)
    n, total = traffic.sum(axis=-1), both.sum(axis=-1)
    covered = n / np.maximum(total, 1)
    shares = traffic / np.maximum(n, 1)[..., None]
    moments = paired(control, treatment)
    with np.errstate(invalid="ignore"):
        differences = np.where(counted, mean(treatment) - mean(control), 0.0)
    sides = [
        _weighted(arm, of_segments, shares, counted)
        for arm, of_segments in zip((control, treatment), moments, strict=True)
    ]
    stated = covered >= LEAST_COVERED
    change = Moments(
        np.where(stated, (shares * differences).sum(axis=-1), np.nan),
        np.where(stated, sides[0][0] + sides[1][0], np.nan),
        n,
        np.asarray(welch_degrees(sides[0][0], sides[1][0], sides[0][1], sides[1][1])),
    )
    return change, covered


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
