"""Post-stratification: the difference of two arms as if both had the same mix of segments."""

from dataclasses import dataclass

import numpy as np

from .buckets import Buckets, mean, residuals, scored, too_few_buckets
from .estimates import Estimate
from .lists import Floats


@dataclass(frozen=True)
class Stratified:
    """A difference weighted over segments."""

    estimate: Estimate
    """treatment - control; NaN where it is undefined."""
    covered: float
    """Share of the scored impressions in segments where both arms have traffic, 0…1."""


def post_stratified(control: Buckets, treatment: Buckets) -> Stratified:
    """treatment - control: the differences of the segments, weighted by the traffic of both arms.

    The variance is that of the weighted residuals over buckets, so that a user with impressions in
    several segments still counts as one unit. Segments that lack scored impressions in an arm are
    left out.
    control, treatment (segments, buckets), with the same buckets. Undefined (NaN) if no segment is
    left, or if the segments left fill too few buckets. Source: Miratrix, Sekhon and Yu 2013.

    >>> scores, buckets = np.arange(640) % 3 / 2, np.arange(640) % 64
    >>> arms = [Buckets.of(factor * scores, buckets)[None] for factor in (1.0, 0.8)]
    >>> round(post_stratified(*arms).estimate.value, 4)
    -0.0998
    """
    both = (scored(control) > 0) & (scored(treatment) > 0)
    traffic = np.where(both, scored(control) + scored(treatment), 0)
    n, total = int(traffic.sum()), int(scored(control).sum() + scored(treatment).sum())
    if not n or any(too_few_buckets(_pooled(arm[both])) for arm in (control, treatment)):
        return Stratified(Estimate(np.nan, np.nan, n), n / max(total, 1))
    shares = traffic[both] / n
    change = float((shares * (mean(treatment) - mean(control))[both]).sum())
    variance = sum(_weighted_variance(arm[both], shares) for arm in (control, treatment))
    return Stratified(Estimate(change, variance, n), n / total)


def _pooled(arm: Buckets) -> Buckets:
    """The sum over segments."""
    return Buckets(arm.counts.sum(axis=0), arm.sums.sum(axis=0), arm.squares.sum(axis=0), arm.unit)


def _weighted_variance(arm: Buckets, shares: Floats) -> float:
    """Variance over buckets of one arm's weighted mean over segments."""
    per_bucket = (shares / scored(arm)) @ residuals(arm)
    filled = int((arm.counts.sum(axis=0) > 0).sum())
    return filled / (filled - 1.0) * float(per_bucket @ per_bucket)
