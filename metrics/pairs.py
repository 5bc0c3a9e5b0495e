"""Pairs of arms: their means, with the variances that statements about the pair rest on.

The variance of an arm is taken between its own buckets, and its degrees of freedom are its
effective buckets less one. Where the spread of an arm rests on a few outcomes, that variance can be
far too small: an arm of 20 impressions without any success has none, and would be certain of its
mean of 0. There, the arm gets at least the variance that as many impressions of the other arm have.
If both arms have the same distribution, that is an estimate of the same variance from more data, so
errors of the first kind become rarer; if they differ, the statement needs more traffic.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from .buckets import Buckets, effective_buckets, mean, mean_variance, residuals, scored
from .deviates import normal_deviate, welch_degrees
from .estimates import Estimate
from .lists import Booleans, Floats, Integers

FEW_OUTCOMES: Final = 30.0
"""A spread that rests on fewer outcomes than this is not trusted alone."""
NORMAL_KURTOSIS: Final = 3.0


@dataclass(frozen=True, eq=False)
class Moments:
    """Means or differences of means, with their variances: (…,) each."""

    value: Floats
    variance: Floats
    n: Integers
    degrees: Floats

    @property
    def z(self) -> Floats:
        """(…,) `Estimate.z` of each; NaN where the variance is not above 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(self.variance > 0.0, self.value / np.sqrt(self.variance), np.nan)
            return np.asarray(normal_deviate(t, self.degrees))

    def estimates(self) -> list[Estimate]:
        """The rows, (rows,), one by one."""
        columns = (column.tolist() for column in (self.value, self.variance, self.n, self.degrees))
        return [Estimate(*row) for row in zip(*columns, strict=True)]


def moments(arm: Buckets) -> Moments:
    """Of each arm by itself: (…, buckets) -> (…).

    The variance is NaN for fewer than two buckets that are not empty.

    >>> arm = Buckets.of(np.arange(640) % 2 * 1.0, np.arange(640) // 2 % 64)
    >>> moments(arm[None]).estimates()[0].degrees
    63.0
    """
    degrees = np.maximum(effective_buckets(arm) - 1.0, 1.0)
    return Moments(mean(arm), mean_variance(arm), scored(arm), degrees)


def paired(control: Buckets, treatment: Buckets) -> tuple[Moments, Moments]:
    """Of both arms: (…, buckets) each -> two Moments of (…).

    >>> none = Buckets.of(np.zeros(20), np.arange(20))
    >>> some = Buckets.of(np.arange(640) % 3 // 2 * 1.0, np.arange(640) % 64)
    >>> float(mean_variance(none)), round(float(paired(none, some)[0].variance), 4)
    (0.0, 0.0011)
    """
    arms = moments(control), moments(treatment)
    few = rests_on_few(control), rests_on_few(treatment)
    return _floored(arms[0], arms[1], few[0]), _floored(arms[1], arms[0], few[1])


def changed(control: Moments, treatment: Moments) -> Moments:
    """treatment - control, as `estimates.difference` of each pair.

    >>> arms = (Buckets.of(np.arange(640) % n * 1.0, np.arange(640) // n % 64) for n in (3, 2))
    >>> changed(*paired(*arms)).value.round(3).tolist()
    -0.498
    """
    variances = treatment.variance, control.variance
    return Moments(
        treatment.value - control.value,
        treatment.variance + control.variance,
        treatment.n + control.n,
        np.asarray(welch_degrees(*variances, treatment.degrees, control.degrees)),
    )


def rests_on_few(arm: Buckets) -> Booleans:
    """Whether the spread between the buckets of an arm rests on fewer than `FEW_OUTCOMES` outcomes.

    (…, buckets) -> (…). True without any spread. The sum over K equal buckets of x rare outcomes,
    each as large as the others, has a kurtosis of 3 + K / x; buckets of unequal traffic are counted
    by `effective_buckets`, which by itself makes the kurtosis 3 K / effective buckets.

    >>> draws, users = np.random.default_rng(7).random(6_400), np.arange(6_400) % 64
    >>> [bool(rests_on_few(Buckets.of((draws < p) * 1.0, users))) for p in (0.001, 0.1)]
    [True, False]
    """
    squares = residuals(arm) ** 2
    fourth, buckets = (squares * squares).sum(axis=-1), effective_buckets(arm)
    with np.errstate(divide="ignore", invalid="ignore"):
        kurtosis = buckets * fourth / squares.sum(axis=-1) ** 2
    return np.asarray(~(kurtosis <= NORMAL_KURTOSIS + buckets / FEW_OUTCOMES))


def _floored(arm: Moments, other: Moments, few: Booleans) -> Moments:
    """The arm with at least the variance that as many impressions of the other arm have, where its
    own rests on few outcomes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        least = other.variance * other.n / arm.n
        raised = few & (least > arm.variance)
        # The sum of both variances is then a multiple of the other's, and as uncertain.
        ratio = least / other.variance
        degrees = ratio * other.degrees / (2.0 + ratio)
    return Moments(
        arm.value,
        np.where(raised, least, arm.variance),
        arm.n,
        np.where(raised, degrees, arm.degrees),
    )
