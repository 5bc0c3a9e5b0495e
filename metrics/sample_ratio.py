"""Sample-ratio test: whether users were assigned to the arms in the planned shares.

A mismatch means that the assignment or the logging is broken, so no other result can be trusted.

Why it holds. If each new user falls in arm i with the planned probability p_i, whatever came
before, then for any other shares q the likelihood ratio of the users so far, the product of
(q_i / p_i) ^ count_i, is a martingale with expectation 1 in the filtration of the users in the
order of their first impressions. So is its average over q from a Dirichlet distribution around the
plan, and the average of several such: a nonnegative martingale, which by Ville's inequality ever
reaches 1,000 with a probability of at most 1 / 1,000. Counts are exact and nothing is asymptotic.
The e-value depends on the counts alone, so looks may come at any time.
A concentrated Dirichlet distribution finds small mismatches among many users, and is blind to gross
ones among few, which it deems impossible. The mixture of several concentrations finds both.
Source: Lindon and Malek 2022; Ville 1939.
"""

import math
from collections.abc import Sequence
from typing import Final

from .distributions import chi_square_tail

CONCENTRATIONS: Final = (10.0, 1_000.0, 10_000.0)
"""How close to the planned shares the alternatives of the mixture are, each with equal weight: the
higher, the smaller the mismatches that are found first."""
ALARM_LOG_EVALUE: Final = math.log(1_000.0)
"""Log e-value from which to alarm: at most one in 1,000 sound experiments ever reaches it."""


def sample_ratio_log_evalue(
    counts: Sequence[int],
    weights: Sequence[float],
    concentrations: Sequence[float] = CONCENTRATIONS,
) -> float:
    """ln of the e-value against the planned shares of the arms, valid at every look.

    The mean over the concentrations of Dirichlet-multinomial mixtures around the planned shares.
    counts (arms,): distinct users that were in one arm only. weights (arms,) > 0, on any scale.
    0 for one arm or no user.
    Raises ValueError as `planned_shares` does.

    >>> round(sample_ratio_log_evalue([5_000, 5_400], [1, 1]), 6)
    4.97083
    >>> [sample_ratio_log_evalue(counts, [1, 1]) > 6.9 for counts in ([10, 200], [500, 700])]
    [True, True]
    """
    shares = planned_shares(counts, weights)
    each = [_of_concentration(counts, shares, concentration) for concentration in concentrations]
    highest = max(each)
    mean = math.fsum(math.exp(one - highest) for one in each) / len(each)
    return highest + math.log(mean)


def _of_concentration(
    counts: Sequence[int], shares: Sequence[float], concentration: float
) -> float:
    total = math.lgamma(concentration) - math.lgamma(concentration + sum(counts))
    for count, share in zip(counts, shares, strict=True):
        prior = concentration * share
        total += math.lgamma(prior + count) - math.lgamma(prior) - count * math.log(share)
    return total


def sample_ratio_chi_square_p(counts: Sequence[int], weights: Sequence[float]) -> float:
    """p of Pearson's chi-square test of the same, for a single look at a planned end.

    counts (arms,), weights (arms,) -> 0…1; 1 for one arm or no user. Source: Pearson 1900.

    >>> round(sample_ratio_chi_square_p([5_000, 5_200], [1, 1]), 6)
    0.04767
    """
    shares = planned_shares(counts, weights)
    users = sum(counts)
    if not users:
        return 1.0
    expected = [users * share for share in shares]
    value = sum((c - e) ** 2 / e for c, e in zip(counts, expected, strict=True))
    return chi_square_tail(value, len(counts) - 1) if len(counts) > 1 else 1.0


def planned_shares(counts: Sequence[int], weights: Sequence[float]) -> list[float]:
    """The weights, scaled to a sum of 1.

    Raises ValueError if their number is not that of the counts, or one is not above 0.

    >>> planned_shares([90, 10], [3, 1])
    [0.75, 0.25]
    """
    if len(weights) != len(counts):
        raise ValueError(f"{len(weights)} weights for {len(counts)} arms: must be one for each arm")
    if not all(0.0 < weight < math.inf for weight in weights):
        raise ValueError(f"weights={list(weights)}: must be above 0")
    return [weight / math.fsum(weights) for weight in weights]
