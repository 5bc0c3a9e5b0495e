"""Whether users were dealt to the arms as planned: a mismatch makes all other numbers suspect."""

import math
from collections.abc import Sequence
from typing import Final

from .distributions import chi_square_tail

CONCENTRATION: Final = 10_000.0
"""How near to the planned shares the mixture's alternatives lie: it looks for small mismatches."""
ALARM_LOG_EVALUE: Final = math.log(1_000.0)
"""Evidence that deserves an alarm: at most one sound experiment in 1,000 ever gets there."""


def sample_ratio_log_evalue(
    counts: Sequence[int], weights: Sequence[float], concentration: float = CONCENTRATION
) -> float:
    """ln of the evidence that the arms' shares differ from their weights, good at every look.

    A Dirichlet-multinomial mixture around the planned shares. counts (arms,) are different users
    of one arm only, weights (arms,) > 0 in any scale. 0 for one arm or no user.
    Source: Lindon and Malek 2022.

    >>> round(sample_ratio_log_evalue([5_000, 5_400], [1, 1]), 6)
    3.565525
    """
    shares = planned_shares(counts, weights)
    total = math.lgamma(concentration) - math.lgamma(concentration + sum(counts))
    for count, share in zip(counts, shares, strict=True):
        prior = concentration * share
        total += math.lgamma(prior + count) - math.lgamma(prior) - count * math.log(share)
    return total


def sample_ratio_chi_square_p(counts: Sequence[int], weights: Sequence[float]) -> float:
    """Pearson's chi-square p of the same, for one look at a planned end. 1 without a user.

    >>> round(sample_ratio_chi_square_p([5_000, 5_200], [1, 1]), 6)
    0.04767
    """
    shares = planned_shares(counts, weights)
    everybody = sum(counts)
    if not everybody:
        return 1.0
    expected = [everybody * share for share in shares]
    value = sum((c - e) ** 2 / e for c, e in zip(counts, expected, strict=True))
    return chi_square_tail(value, len(counts) - 1) if len(counts) > 1 else 1.0


def planned_shares(counts: Sequence[int], weights: Sequence[float]) -> list[float]:
    """The weights as shares of 1. Raises ValueError where they do not fit the counts.

    >>> planned_shares([90, 10], [3, 1])
    [0.75, 0.25]
    """
    if len(weights) != len(counts):
        raise ValueError(f"{len(weights)} weights for {len(counts)} arms: must be one an arm")
    if not all(0.0 < weight < math.inf for weight in weights):
        raise ValueError(f"weights={list(weights)}: must be above 0")
    return [weight / math.fsum(weights) for weight in weights]
