"""Compare two runs over the same queries: wins, ties, losses, and three significance tests."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from .distributions import fair_coin_two_sided, student_t_two_sided
from .lists import Floats

EXACT_PAIRS: Final = 14
"""Up to so many pairs that differ, the randomisation test enumerates all assignments of signs."""
_CHUNK_SIGNS: Final = 2_000_000
"""Signs drawn at once: 16 MB of memory."""
_SLACK: Final = 1e-12
"""Sums with a smaller relative difference are taken to be equal but for the order of additions."""


@dataclass(frozen=True)
class Comparison:
    """The first run compared with the second, over the queries where both have a value."""

    pairs: int
    """Queries where both have a value."""
    wins: int
    """Queries where the first run is higher."""
    ties: int
    losses: int
    mean_difference: float
    """First minus second; NaN without pairs."""
    t: float
    """Paired t statistic; NaN for fewer than two pairs or where all differ by the same amount."""
    t_test_p: float
    """Two-sided, like the others; NaN where `t` is."""
    sign_test_p: float
    randomisation_p: float


def compare(first: Floats, second: Floats, *, rounds: int = 100_000, seed: int = 0) -> Comparison:
    """Count wins, ties and losses of one metric for two runs, with three two-sided p-values.

    first (n,), second (n,): the same queries in the same order, NaN where undefined; queries that
    are undefined for either run are left out. `rounds` and `seed` are those of the randomisation
    test, which draws assignments only if there are too many to enumerate.
    Raises ValueError for runs of different shapes.
    Source: Smucker, Allan and Carterette 2007.

    >>> result = compare(np.array([0.5, 0.4, 0.9]), np.array([0.3, 0.4, 0.6]))
    >>> result.wins, result.ties, result.losses, round(result.randomisation_p, 3)
    (2, 1, 0, 0.5)
    """
    if first.shape != second.shape or first.ndim != 1:
        raise ValueError(
            f"runs of shapes {first.shape} and {second.shape}: must be (n,) and the same queries"
        )
    differences = first - second
    differences = differences[~np.isnan(differences)]
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    t, t_test_p = paired_t_test(differences)
    return Comparison(
        pairs=len(differences),
        wins=wins,
        ties=len(differences) - wins - losses,
        losses=losses,
        mean_difference=float(differences.mean()) if len(differences) else math.nan,
        t=t,
        t_test_p=t_test_p,
        sign_test_p=fair_coin_two_sided(wins, wins + losses),
        randomisation_p=randomisation_test(differences, rounds=rounds, seed=seed),
    )


def paired_t_test(differences: Floats) -> tuple[float, float]:
    """Student's paired t and its two-sided p.

    differences (n,) -> (t, p); both NaN for fewer than two pairs, and where all differences are
    equal but for rounding: their variance says nothing of other queries.
    Source: Student 1908.

    >>> t, p = paired_t_test(np.array([1.0, 2.0, 3.0]))
    >>> round(t, 6), round(p, 6)
    (3.464102, 0.07418)
    """
    if len(differences) < 2 or np.ptp(differences) <= _SLACK * float(np.abs(differences).max()):
        return math.nan, math.nan
    error = float(differences.std(ddof=1)) / math.sqrt(len(differences))
    mean = float(differences.mean())
    t = mean / error
    return t, student_t_two_sided(t, len(differences) - 1)


def randomisation_test(differences: Floats, *, rounds: int = 100_000, seed: int = 0) -> float:
    """Two-sided p of the mean difference if the sign of each difference were random.

    Exact for up to `EXACT_PAIRS` pairs that differ; else from `rounds` random assignments, with the
    observed one counted too, so that p is never 0.
    differences (n,) -> above 0, at most 1; 1 if all are 0. Source: Fisher 1935.

    >>> randomisation_test(np.array([1.0, 2.0, 3.0]))
    0.25
    """
    magnitudes = np.abs(differences[differences != 0])
    if not len(magnitudes):
        return 1.0
    observed = abs(float(differences.sum())) - _SLACK * float(magnitudes.sum())
    if len(magnitudes) <= EXACT_PAIRS:
        signs = np.arange(2 ** len(magnitudes))[:, None] >> np.arange(len(magnitudes)) & 1
        return float((np.abs((2 * signs - 1) @ magnitudes) >= observed).mean())
    random, extreme = np.random.default_rng(seed), 0
    at_once = max(1, _CHUNK_SIGNS // len(magnitudes))
    for start in range(0, rounds, at_once):
        signs = random.integers(0, 2, (min(at_once, rounds - start), len(magnitudes)))
        extreme += int((np.abs((2 * signs - 1) @ magnitudes) >= observed).sum())
    return (extreme + 1) / (rounds + 1)


def relative_increase(before: float, after: float) -> float:
    """(after - before) / before; NaN if `before` is 0.

    >>> relative_increase(0.25, 0.5)
    1.0
    """
    return (after - before) / before if before else math.nan
