"""Experiments by a metric that some lists leave undefined, such as nDCG without any feedback.

Which lists are defined is an outcome: a treatment that brings clicks to lists that had none makes
more of them defined. An average over defined lists compares different lists of the two arms, and
can fall although no list got worse. So an experiment averages over all impressions of an arm, and
an undefined list counts as the worst value: 0, or the highest where less is better. The estimand is
then the same function of the same kind of users in both arms, and what `inference`
says of a difference holds for it.
The average over defined lists stands beside it, without a verdict. It answers another question, and
compares like with like only if the treatment does not influence which lists are defined. Whether
the shares of defined lists differ is a difference of two means (1 for a defined list, 0 for
another), with the same filtration, sequence and error rate as any other. That no difference has
been found yet does not show that there is none: in simulations, 60 % of treatments that only
add clicks would be called worse over defined lists before their shares are known to differ.
"""

from dataclasses import dataclass, replace
from math import isfinite

from .buckets import UserBuckets
from .inference import ArmComparison, compare_periods
from .lists import Integers
from .metric import Metric
from .sequences import Design
from .stratification import balanced_impressions


@dataclass(frozen=True)
class Defined:
    """Two arms compared over the lists for which the metric is defined."""

    comparison: ArmComparison
    """Over those lists alone. Its verdict does not know of the shares: it is not to be shown."""
    shares: ArmComparison
    """Of the share of lists that are defined, 0…1."""

    @property
    def shares_differ(self) -> bool:
        """Whether the interval of the difference of the shares leaves out 0."""
        interval = self.shares.absolute.interval
        return interval.lower > 0.0 or interval.upper < 0.0


def worst_value(metric: Metric) -> float | None:
    """What an undefined list counts in an experiment; None if no value is the worst.

    >>> from relevanced.metrics.catalog import parse
    >>> [worst_value(parse(name)) for name in ("nDCG@10", "Abandonment", "FirstClickRank")]
    [0.0, 1.0, None]
    """
    if metric.direction != "down" or metric.entry.undefined == "never":
        return 0.0
    highest = metric.entry.range[1]
    return highest if isfinite(highest) else None


def over_all(arm: UserBuckets, impressions: Integers, worst: float = 0.0) -> UserBuckets:
    """The same tallies with undefined lists counted as this value. impressions (…, buckets).

    >>> import numpy as np
    >>> arm = UserBuckets.of(np.array([0.5, np.nan]), np.array([0, 0]), buckets=2)
    >>> all_lists = over_all(arm, np.array([2, 0]), worst=1.0)
    >>> all_lists.counts.tolist(), all_lists.sums.tolist(), all_lists.squares.tolist()
    ([2, 0], [1500000, 0], [1250000, 0])
    """
    undefined = impressions - arm.counts
    return replace(
        arm,
        counts=impressions,
        sums=arm.sums + undefined * round(worst * arm.unit),
        squares=arm.squares + undefined * round(worst * worst * arm.unit),
    )


def compare_defined(
    control: UserBuckets,
    treatment: UserBuckets,
    impressions: tuple[Integers, Integers],
    design: Design,
) -> Defined:
    """Compare both arms, (periods, buckets) each, over the lists that are defined.

    `impressions` (periods, buckets) of control and treatment count all of their lists.

    >>> import numpy as np
    >>> users = np.arange(4_000) % 61
    >>> some = UserBuckets.of(np.where(users % 3 > 0, 0.5 + users % 2 / 4, np.nan), users)[None]
    >>> counts = np.bincount(users, minlength=64)[None]
    >>> compare_defined(some, some, (counts, counts), Design(8_000)).shares_differ
    False
    """
    total = balanced_impressions(*(counts.sum(axis=-1) for counts in impressions))
    flags = [
        UserBuckets(counts, arm.counts, arm.counts, unit=1)
        for arm, counts in zip((control, treatment), impressions, strict=True)
    ]
    return Defined(
        compare_periods(control, treatment, design, "none", impressions=total),
        compare_periods(flags[0], flags[1], design, "none", impressions=total),
    )
