"""Tallies of an arm in buckets of users, and the mean and variance of a metric from them.

Impressions of one user are correlated, so a variance taken between impressions is too small: of
A/A tests with a design effect of 7, 32 % then claim an effect, instead of 0.3 %. All impressions of
a user fall in one bucket, by a hash of the user id, so the variance between buckets includes that
correlation. The state is O(buckets), not O(users), and its integers add up exactly over panes and
lanes.

Pairs of arms: their means, with the variances that statements about the pair rest on.

The variance of an arm is taken between its own buckets, and its degrees of freedom are its
effective buckets less one. Where the spread of an arm rests on a few outcomes, that variance can be
far too small: an arm of 20 impressions without any success has none, and would be certain of its
mean of 0. There, the arm gets at least the variance that as many impressions of the other arm have.
If both arms have the same distribution, that is an estimate of the same variance from more data, so
errors of the first kind become rarer; if they differ, the statement needs more traffic.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .distributions import normal_deviate, welch_degrees
from .estimates import Estimate
from .lists import Booleans, Floats, Integers

BUCKETS: Final = 64
MINIMUM_BUCKETS: Final = 16.0
"""With fewer effective buckets the variance is too uncertain; A/A tests hold from 16 on, to ten
times the planned total (deploy/guide/metrics.md)."""
LARGEST_SUM: Final = 2**56
"""A tally of this size is an error; the sum over 64 buckets below it still fits in int64."""
_ROUNDING: Final = 1e-14
"""More than the relative rounding error of a difference of two sums in float64."""
_ALMOST_HALF: Final = 0.5001
"""Rounds half up; the odd fraction keeps float noise away from ties."""


@dataclass(frozen=True, eq=False)
class UserBuckets:
    """Tallies of one metric in one arm by bucket; leading axes, if any, are many such tallies.

    >>> arm = UserBuckets.of(np.array([0.5, 1.0, np.nan]), np.array([3, 0, 0]), buckets=4)
    >>> arm.counts.tolist(), arm.sums.tolist(), (arm + arm).squares.tolist()
    ([1, 0, 0, 1], [1000000, 0, 0, 500000], [2000000, 0, 0, 500000])
    """

    counts: Integers
    """(…, buckets) number of impressions for which the metric is defined."""
    sums: Integers
    """(…, buckets) sum of the metric, in steps of 1 / unit."""
    squares: Integers
    """(…, buckets) sum of the squared metric, in steps of 1 / unit."""
    unit: int = 1_000_000
    """Integer steps of a value of 1."""

    @classmethod
    def empty(cls, *shape: int, unit: int = 1_000_000) -> "UserBuckets":
        """Tallies of 0 in this shape; (64,) by default."""
        counts, sums, squares = np.zeros((3, *(shape or (BUCKETS,))), dtype=np.int64)
        return cls(counts, sums, squares, unit)

    @classmethod
    def of(
        cls, values: Floats, indices: Integers, *, buckets: int = BUCKETS, unit: int = 1_000_000
    ) -> "UserBuckets":
        """The tallies of values (n,), NaN where undefined, whose buckets are indices (n,)."""
        defined = ~np.isnan(values)
        values, indices = values[defined], indices[defined]
        arm = cls.empty(buckets, unit=unit)
        np.add.at(arm.counts, indices, 1)
        for tally, powers in ((arm.sums, values), (arm.squares, values * values)):
            np.add.at(tally, indices, np.floor(unit * powers + _ALMOST_HALF).astype(np.int64))
        return arm

    def __getitem__(self, rows: Any) -> "UserBuckets":
        """Index the leading axes as in numpy: `[2]`, `[mask]`, or `[None]` to add one of length 1.

        >>> UserBuckets.empty(3, BUCKETS)[1].counts.shape
        (64,)
        """
        return UserBuckets(self.counts[rows], self.sums[rows], self.squares[rows], self.unit)

    def __add__(self, other: "UserBuckets") -> "UserBuckets":
        """Sum of both. Raises ValueError for different units, OverflowError for a tally >= 2^56."""
        if self.unit != other.unit:
            raise ValueError(f"units {self.unit} and {other.unit}: must be the same to add up")
        both = UserBuckets(
            self.counts + other.counts,
            self.sums + other.sums,
            self.squares + other.squares,
            self.unit,
        )
        tallies = (both.counts, both.sums, both.squares)
        highest = max(int(np.abs(tally).max(initial=0)) for tally in tallies)
        if highest >= LARGEST_SUM:
            raise OverflowError(f"a bucket's tally of {highest}: must stay below {LARGEST_SUM}")
        return both


def scored(arm: UserBuckets) -> Integers:
    """Number of impressions for which the metric is defined: (…, buckets) -> (…).

    >>> int(scored(UserBuckets.of(np.array([0.5, np.nan]), np.array([3, 3]))))
    1
    """
    return np.asarray(arm.counts.sum(axis=-1))


def mean(arm: UserBuckets) -> Floats:
    """Mean of the metric over impressions: (…, buckets) -> (…). NaN without a scored impression.

    >>> float(mean(UserBuckets.of(np.array([0.5, 1.0]), np.array([3, 0]))))
    0.75
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(arm.sums.sum(axis=-1) / arm.unit / scored(arm))


def residuals(arm: UserBuckets) -> Floats:
    """S_b - R N_b: the sum of each bucket less what N_b impressions at the arm's mean R would give.

    (…, buckets) -> (…, buckets). NaN without a scored impression.

    >>> residuals(UserBuckets.of(np.array([0.5, 1.0]), np.array([1, 0]), buckets=2)).tolist()
    [0.25, -0.25]
    """
    sums = arm.sums / arm.unit
    differences = np.asarray(sums - mean(arm)[..., None] * arm.counts)
    # Equal scores leave rounding errors only: as a variance they would mean endless certainty.
    differences[np.abs(differences) <= _ROUNDING * np.abs(sums)] = 0.0
    return differences


def mean_variance(arm: UserBuckets) -> Floats:
    """Variance of `mean`, with users as the independent units.

    K / (K - 1) x sum over buckets b of (S_b - R N_b)^2 / N^2: the delta method for the ratio of two
    sums over the K buckets that are not empty.
    (…, buckets) -> (…), >= 0. NaN for fewer than two such buckets.
    Source: Cochran 1977, 6.3; Deng, Knoblich and Lu 2018.

    >>> tallies = np.array([[5, 8, 7, 10], [3, 5, 4, 6]])
    >>> round(float(mean_variance(UserBuckets(tallies[0], tallies[1], tallies[1], unit=1))), 12)
    0.000118518519
    """
    filled = (arm.counts > 0).sum(axis=-1)
    total = scored(arm)
    squares = (residuals(arm) ** 2).sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        correction = np.where(filled > 1, filled / (filled - 1.0), np.nan)
        return np.asarray(correction * squares / (1.0 * total * total))


def independent_variance(arm: UserBuckets) -> Floats:
    """Variance of `mean` if all impressions were independent, each from another user.

    (…, buckets) -> (…), >= 0. NaN for fewer than two scored impressions.

    >>> float(independent_variance(UserBuckets.of(np.array([0.0, 1.0]), np.array([0, 0]))))
    0.25
    """
    n = scored(arm).astype(np.float64)
    squares = arm.squares.sum(axis=-1) / arm.unit
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = squares - n * mean(arm) ** 2
        return np.where(n > 1, np.maximum(spread, 0.0) / (n * (n - 1.0)), np.nan)


def design_effect(arm: UserBuckets) -> Floats:
    """`mean_variance` / `independent_variance`: the factor due to correlation within users.

    (…, buckets) -> (…), >= 0; about 1 for independent impressions. NaN if the variance is 0.
    Source: Kish 1965.

    >>> alike = UserBuckets.of(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0, 0, 1, 1]))
    >>> round(float(design_effect(alike)), 6)
    3.0
    """
    naive = independent_variance(arm)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(naive > 0, mean_variance(arm) / naive, np.nan)


def effective_buckets(arm: UserBuckets) -> Floats:
    """Number of buckets of equal traffic that would vary as much: N^2 / sum of N_b^2.

    Low for few users, or for one user with much of the traffic. (…, buckets) -> (…), 0…buckets.
    Source: Kish 1965.

    >>> float(effective_buckets(UserBuckets.of(np.array([0.5, 0.5, 1.0]), np.array([0, 0, 1]))))
    1.8
    """
    counts = arm.counts.astype(np.float64)
    squares = (counts * counts).sum(axis=-1)
    return np.asarray(counts.sum(axis=-1) ** 2 / np.maximum(squares, 1.0))


def too_few_buckets(arm: UserBuckets) -> bool:
    """Whether one arm, (buckets,), has fewer effective buckets than `MINIMUM_BUCKETS`.

    >>> too_few_buckets(UserBuckets.of(np.ones(150), np.arange(150) % 15))
    True
    """
    return bool(effective_buckets(arm) < MINIMUM_BUCKETS)


def estimate(arm: UserBuckets) -> Estimate:
    """Mean of one arm, (buckets,), with its variance over buckets.

    The value is NaN without a scored impression, the variance for fewer than two buckets that are
    not empty. The degrees of freedom are the effective buckets less one.

    >>> estimate(UserBuckets.of(np.array([0.0, 1.0]), np.array([0, 1])))
    Estimate(value=0.5, variance=0.25, n=2, degrees=1.0)
    """
    degrees = max(float(effective_buckets(arm)) - 1.0, 1.0)
    return Estimate(float(mean(arm)), float(mean_variance(arm)), int(scored(arm)), degrees)


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


def moments(arm: UserBuckets) -> Moments:
    """Of each arm by itself: (…, buckets) -> (…).

    The variance is NaN for fewer than two buckets that are not empty.

    >>> arm = UserBuckets.of(np.arange(640) % 2 * 1.0, np.arange(640) // 2 % 64)
    >>> moments(arm[None]).estimates()[0].degrees
    63.0
    """
    degrees = np.maximum(effective_buckets(arm) - 1.0, 1.0)
    return Moments(mean(arm), mean_variance(arm), scored(arm), degrees)


def paired(control: UserBuckets, treatment: UserBuckets) -> tuple[Moments, Moments]:
    """Of both arms: (…, buckets) each -> two Moments of (…).

    >>> none = UserBuckets.of(np.zeros(20), np.arange(20))
    >>> some = UserBuckets.of(np.arange(640) % 3 // 2 * 1.0, np.arange(640) % 64)
    >>> float(mean_variance(none)), round(float(paired(none, some)[0].variance), 4)
    (0.0, 0.0011)
    """
    arms = moments(control), moments(treatment)
    few = rests_on_few(control), rests_on_few(treatment)
    return _floored(arms[0], arms[1], few[0]), _floored(arms[1], arms[0], few[1])


def changed(control: Moments, treatment: Moments) -> Moments:
    """treatment - control, as `estimates.difference` of each pair.

    >>> arms = (UserBuckets.of(np.arange(640) % n * 1.0, np.arange(640) // n % 64) for n in (3, 2))
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


def rests_on_few(arm: UserBuckets) -> Booleans:
    """Whether the spread between the buckets of an arm rests on fewer than `FEW_OUTCOMES` outcomes.

    (…, buckets) -> (…). True without any spread. The sum over K equal buckets of x rare outcomes,
    each as large as the others, has a kurtosis of 3 + K / x; buckets of unequal traffic are counted
    by `effective_buckets`, which by itself makes the kurtosis 3 K / effective buckets.

    >>> draws, users = np.random.default_rng(7).random(6_400), np.arange(6_400) % 64
    >>> [bool(rests_on_few(UserBuckets.of((draws < p) * 1.0, users))) for p in (0.001, 0.1)]
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
