"""An arm's tallies in user-hash buckets, and the mean and variance that they give.

All impressions of a user fall in one bucket, so the spread between buckets carries the correlation
within users that the spread between impressions hides. State is O(buckets), and adds over panes and
lanes exactly.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .estimates import Estimate
from .lists import Floats, Integers

BUCKETS: Final = 64
MINIMUM_BUCKETS: Final = 16.0
"""Fewer buckets of equal traffic tell too little of how users vary: A/A runs hold with 16."""
LARGEST_SUM: Final = 2**56
"""A tally that gets here is an error, while the sum over 64 buckets still fits in int64."""
_ROUNDING: Final = 1e-14
"""Relative error of a difference of two sums in floating point, and some."""
_ALMOST_HALF: Final = 0.5001
"""Rounds half up, and keeps float noise off the ties."""


@dataclass(frozen=True, eq=False)
class Buckets:
    """Tallies of one metric in one arm; leading axes, where there are any, are many such tallies.

    >>> arm = Buckets.of(np.array([0.5, 1.0, np.nan]), np.array([3, 0, 0]), buckets=4)
    >>> arm.counts.tolist(), arm.sums.tolist(), (arm + arm).squares.tolist()
    ([1, 0, 0, 1], [1000000, 0, 0, 500000], [2000000, 0, 0, 500000])
    """

    counts: Integers
    """(…, buckets) impressions for which the metric is defined."""
    sums: Integers
    """(…, buckets) of the metric, in steps of 1 / unit."""
    squares: Integers
    """(…, buckets) of its square, in steps of 1 / unit."""
    unit: int = 1_000_000

    @classmethod
    def empty(cls, *shape: int, unit: int = 1_000_000) -> "Buckets":
        """Nothing seen: tallies of this shape, one row of 64 where none is given."""
        counts, sums, squares = np.zeros((3, *(shape or (BUCKETS,))), dtype=np.int64)
        return cls(counts, sums, squares, unit)

    @classmethod
    def of(
        cls, values: Floats, numbers: Integers, *, buckets: int = BUCKETS, unit: int = 1_000_000
    ) -> "Buckets":
        """values (n,) with NaN where undefined, numbers (n,) of their buckets, 0…buckets - 1."""
        defined = ~np.isnan(values)
        values, numbers = values[defined], numbers[defined]
        arm = cls.empty(buckets, unit=unit)
        np.add.at(arm.counts, numbers, 1)
        for tally, powers in ((arm.sums, values), (arm.squares, values * values)):
            np.add.at(tally, numbers, np.floor(unit * powers + _ALMOST_HALF).astype(np.int64))
        return arm

    def __getitem__(self, rows: Any) -> "Buckets":
        """Some of the leading axes, as numpy chooses them: `[2]`, `[mask]`, `[None]` for one row.

        >>> Buckets.empty(3, BUCKETS)[1].counts.shape
        (64,)
        """
        return Buckets(self.counts[rows], self.sums[rows], self.squares[rows], self.unit)

    def __add__(self, other: "Buckets") -> "Buckets":
        """Both together. Raises ValueError for another unit, OverflowError from 2^56 on."""
        if self.unit != other.unit:
            raise ValueError(f"units {self.unit} and {other.unit}: must be the same to add up")
        both = Buckets(
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


def scored(arm: Buckets) -> Integers:
    """Impressions for which the metric is defined. (…, buckets) -> (…).

    >>> int(scored(Buckets.of(np.array([0.5, np.nan]), np.array([3, 3]))))
    1
    """
    return np.asarray(arm.counts.sum(axis=-1))


def mean(arm: Buckets) -> Floats:
    """Mean of the metric over impressions. (…, buckets) -> (…). NaN without a scored impression.

    >>> float(mean(Buckets.of(np.array([0.5, 1.0]), np.array([3, 0]))))
    0.75
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(arm.sums.sum(axis=-1) / arm.unit / scored(arm))


def residuals(arm: Buckets) -> Floats:
    """S_b - R N_b: what each bucket holds beyond its share at the arm's mean R.

    (…, buckets) -> the same. Where nothing was scored, NaN.

    >>> residuals(Buckets.of(np.array([0.5, 1.0]), np.array([1, 0]), buckets=2)).tolist()
    [0.25, -0.25]
    """
    sums = arm.sums / arm.unit
    left = np.asarray(sums - mean(arm)[..., None] * arm.counts)
    # What equal scores leave is rounding, and would pass for endless certainty.
    left[np.abs(left) <= _ROUNDING * np.abs(sums)] = 0.0
    return left


def mean_variance(arm: Buckets) -> Floats:
    """Variance of `mean` with users, not impressions, as the independent ones.

    K / (K - 1) x sum over buckets b of (S_b - R N_b)^2 / N^2: the delta method for the ratio of two
    sums over K buckets that hold anything.
    (…, buckets) -> (…), >= 0. NaN for fewer than two such buckets.
    Source: Cochran 1977, 6.3; Deng, Knoblich and Lu 2018.

    >>> tallies = np.array([[5, 8, 7, 10], [3, 5, 4, 6]])
    >>> round(float(mean_variance(Buckets(tallies[0], tallies[1], tallies[1], unit=1))), 12)
    0.000118518519
    """
    filled = (arm.counts > 0).sum(axis=-1)
    total = scored(arm)
    squares = (residuals(arm) ** 2).sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        correction = np.where(filled > 1, filled / (filled - 1.0), np.nan)
        return np.asarray(correction * squares / (1.0 * total * total))


def independent_variance(arm: Buckets) -> Floats:
    """Variance of `mean` if every impression came from a user of its own.

    (…, buckets) -> (…), >= 0. NaN for fewer than two scored impressions.

    >>> float(independent_variance(Buckets.of(np.array([0.0, 1.0]), np.array([0, 0]))))
    0.25
    """
    n = scored(arm).astype(np.float64)
    squares = arm.squares.sum(axis=-1) / arm.unit
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = squares - n * mean(arm) ** 2
        return np.where(n > 1, np.maximum(spread, 0.0) / (n * (n - 1.0)), np.nan)


def design_effect(arm: Buckets) -> Floats:
    """How many times as large the variance of the mean is for users' impressions being alike.

    (…, buckets) -> (…), >= 0; about 1 for independent impressions. NaN where nothing spreads.
    Source: Kish 1965.

    >>> alike = Buckets.of(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0, 0, 1, 1]))
    >>> round(float(design_effect(alike)), 6)
    3.0
    """
    naive = independent_variance(arm)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(naive > 0, mean_variance(arm) / naive, np.nan)


def effective_buckets(arm: Buckets) -> Floats:
    """How many buckets of equal traffic spread as much as these: N^2 / sum of N_b^2.

    Few users, or a user with much of the traffic, make it few. (…, buckets) -> (…), 0…buckets.
    Source: Kish 1965.

    >>> float(effective_buckets(Buckets.of(np.array([0.5, 0.5, 1.0]), np.array([0, 0, 1]))))
    1.8
    """
    counts = arm.counts.astype(np.float64)
    squares = (counts * counts).sum(axis=-1)
    return np.asarray(counts.sum(axis=-1) ** 2 / np.maximum(squares, 1.0))


def too_few_buckets(arm: Buckets) -> bool:
    """Whether one arm's traffic lies in too few buckets for a statement. (buckets,) -> one answer.

    >>> too_few_buckets(Buckets.of(np.ones(150), np.arange(150) % 15))
    True
    """
    return bool(effective_buckets(arm) < MINIMUM_BUCKETS)


def estimate(arm: Buckets) -> Estimate:
    """Mean and bucketed variance of one arm: (buckets,) -> an Estimate.

    Its value is undefined (NaN) without a scored impression, its variance with less than two
    buckets that hold anything.

    >>> estimate(Buckets.of(np.array([0.0, 1.0]), np.array([0, 1])))
    Estimate(value=0.5, variance=0.25, n=2)
    """
    return estimates(arm[None])[0]


def estimates(arms: Buckets) -> list[Estimate]:
    """The same of many arms at once: (rows, buckets) -> an Estimate for each row.

    >>> [found.n for found in estimates(Buckets.empty(2, BUCKETS))]
    [0, 0]
    """
    numbers = mean(arms).tolist(), mean_variance(arms).tolist(), scored(arms).tolist()
    return [Estimate(*row) for row in zip(*numbers, strict=True)]
