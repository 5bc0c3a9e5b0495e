"""What is usual for a query before it is looked at, and how queries vary from day to day. Pure.

Both are measured on the table itself, on the days before the window: a Beta prior for the mean
score of a query, and the variation that chance does not explain.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from relevanced.metrics.lists import Booleans, Floats, Integers

STRENGTHS: Final = (0.5, 200.0)
"""Bounds of a prior's strength, in searches."""
TELLING_SEARCHES: Final = 100
"""Only queries with at least so many scored searches on the usual days tell how queries vary."""
TELLING_DAYS: Final = 3
"""They also need scored searches on at least so many days."""
LEAST_TELLING: Final = 20
"""With fewer such queries the variation is `ASSUMED_VARIATION`."""
ASSUMED_VARIATION: Final = 0.02
TRIMMED: Final = 0.05
"""The part of these queries, those that vary most, that does not count: a query that broke within
the week would make all others look unsteady."""
LEAST_VARIANCE: Final = 0.001
"""Floor for the variance of one score, so that a query that always or never succeeds counts."""


@dataclass(frozen=True)
class Prior:
    """A Beta distribution of the mean scores of queries."""

    mean: float
    """0 < mean < 1."""
    strength: float
    """The number of searches that it weighs as much as, within `STRENGTHS`."""


def fit_prior(scored: Integers, total: Floats) -> Prior | None:
    """Fit a prior to the usual days of the listed queries of one segment, by moments.

    scored (q,) searches, total (q,) sum of their scores, each score in 0…1. None where no query has
    a scored search. The strength of fewer than two queries is the least: nothing says how much
    queries differ. Source: Kleinman 1973, with his two steps for the weights.

    >>> prior = fit_prior(np.array([400, 400, 400]), np.array([80.0, 200.0, 320.0]))
    >>> round(prior.mean, 3), round(prior.strength, 3)
    (0.5, 1.79)
    """
    searched = scored > 0
    n, means = scored[searched].astype(np.float64), total[searched] / scored[searched]
    if not len(n):
        return None
    least, most = STRENGTHS
    # A table in which nothing (or everything) succeeded does not prove that nothing ever will.
    margin = 0.5 / (n.sum() + 1)
    correlation = 1.0
    for weights in (n, None):
        if weights is None:
            weights = n / (1 + correlation * (n - 1))
        mean = float(np.clip(weights @ means / weights.sum(), margin, 1 - margin))
        if len(n) < 2:
            return Prior(mean, least)
        correlation = _correlation(n, means, weights, mean)
    strength = most if correlation <= 0 else (1 - correlation) / correlation
    return Prior(mean, float(np.clip(strength, least, most)))


def _correlation(n: Floats, means: Floats, weights: Floats, mean: float) -> float:
    """The part of the variance of a score that lies between queries, 0…1; 1 / (strength + 1)."""
    spread = float(weights @ (means - mean) ** 2)
    free = weights * (1 - weights / weights.sum())
    by_chance = float((free / n).sum())
    variance = mean * (1 - mean)
    between = spread - variance * by_chance
    possible = variance * (float(free.sum()) - by_chance)
    return float(np.clip(between / possible, 0.0, 1.0)) if possible > 0 else 1.0


def day_variation(daily_scored: Integers, daily_total: Floats) -> float:
    """How much queries vary from day to day beyond chance: the variance of a mean, in units of
    (mean · (1 - mean))², which is about the variance of its logit.

    daily_scored (days, q), daily_total (days, q) -> one number for the table, at least 0. It is the
    excess of the chi-squared statistics of homogeneity, summed over the queries that tell, by what
    a variation of 1 would add to the sum. Trimming by the excess makes it low, 0.013 where 0.0225
    is true; by a scaled one it would be less so, but ten queries that broke would double it.
    """
    scored, days = daily_scored.sum(axis=0), (daily_scored > 0).sum(axis=0)
    telling = (scored >= TELLING_SEARCHES) & (days >= TELLING_DAYS)
    if telling.sum() < LEAST_TELLING:
        return ASSUMED_VARIATION
    statistic, weight = _homogeneity(daily_scored[:, telling], daily_total[:, telling])
    chance = days[telling] - 1.0
    kept = _without_most_variable(statistic - chance)
    return max(0.0, float((statistic - chance)[kept].sum() / weight[kept].sum()))


def _homogeneity(daily_scored: Integers, daily_total: Floats) -> tuple[Floats, Floats]:
    """((q,) chi-squared of equal means on all days, (q,) by what a variation of 1 raises it)."""
    n = daily_scored.astype(np.float64)
    whole = n.sum(axis=0)
    p = (daily_total.sum(axis=0) + 0.5) / (whole + 1)
    variance = np.maximum(p * (1 - p), LEAST_VARIANCE)
    deviations = (daily_total - n * p) ** 2
    statistic = np.divide(deviations, n * variance, out=np.zeros_like(n), where=n > 0).sum(axis=0)
    return statistic, variance * (whole - (n**2).sum(axis=0) / whole)


def _without_most_variable(excess: Floats) -> Booleans:
    """(q,) all but the part `TRIMMED` with the greatest excess; ties are kept in their order."""
    kept = np.ones(len(excess), np.bool_)
    kept[np.argsort(-excess, kind="stable")[: int(TRIMMED * len(excess))]] = False
    return kept
