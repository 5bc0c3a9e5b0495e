"""Simulated searches of queries by hour, for the claims about what lost most.

Queries follow Zipf's law over a million texts. Each has a success rate of its own, drawn from a
Beta distribution, which drifts by hour on the logit scale. An hour's table lists its most frequent
queries, exactly; a query that an hour does not list has no searches in it.
"""

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from relevanced.daemon.queries import (
    Searches,
    compare_with_usual,
    day_variation,
    fit_prior,
    order_lost,
)
from relevanced.metrics import Booleans, Floats, Integers, distinct

TEXTS: Final = 1_000_000
KEPT: Final = 500
DAYS: Final = 7
BROKEN: Final = 10
RATE_MEAN: Final = 0.6


@dataclass(frozen=True)
class Traffic:
    """What is simulated."""

    searches: int
    """In an hour."""
    drift: float = 0.15
    """Standard deviation of a query's logit from hour to hour."""
    zipf: float = 1.0
    rate_deviation: float = 0.2
    """Standard deviation of the queries' rates; their mean is 0.6."""
    broken_searches: int = 0
    """Searches in an hour of each of ten more queries that break."""
    left: float = 0.0
    """The part of their rate that is left when they are broken."""
    days: int = DAYS


@dataclass(frozen=True, eq=False)
class Simulated:
    """One window of an hour, and its usual."""

    listed: Searches
    """(kept,) queries that the window's hour lists."""
    other: Searches
    """(1,) all other searches."""
    is_broken: Booleans
    """(kept,)."""


@dataclass(frozen=True, eq=False)
class Hours:
    """The window's hour, and the same hour of each day before it."""

    scored: tuple[Integers, ...]
    """(queries,) of each hour; the queries are those that any of them has."""
    totals: tuple[Floats, ...]
    """(queries,) successful searches of each."""
    is_broken: Booleans
    """(queries,)."""


def simulate_hours(traffic: Traffic, rng: np.random.Generator) -> Hours:
    """An hour in which the ten queries are broken, and the same hour of the days before."""
    texts = [_searches(traffic, rng) for _ in range(traffic.days + 1)]
    searched = distinct(np.concatenate(texts))
    is_broken = searched >= TEXTS
    weight = RATE_MEAN * (1 - RATE_MEAN) / traffic.rate_deviation**2 - 1
    rates = rng.beta(RATE_MEAN * weight, (1 - RATE_MEAN) * weight, len(searched))
    scored = [_counts(each, searched) for each in texts]
    totals = [_successes(each, rates, traffic, rng) for each in scored]
    left = rng.binomial(totals[0].astype(int), traffic.left)
    totals[0] = np.where(is_broken, left, totals[0])
    return Hours(tuple(scored), tuple(totals), is_broken)


def simulate(traffic: Traffic, rng: np.random.Generator) -> Simulated:
    """The same hours as exact tables of the most frequent queries."""
    hours = simulate_hours(traffic, rng)
    listed = _listed(hours.scored[0])
    tables = [_table(*hour, listed) for hour in zip(hours.scored, hours.totals, strict=True)]
    (now, now_total, rest, rest_total), usual = tables[0], tables[1:]
    daily, daily_total, daily_rest, daily_rest_total = zip(*usual, strict=True)
    return Simulated(
        Searches(now, now_total, np.stack(daily), np.stack(daily_total)),
        Searches(rest, rest_total, np.stack(daily_rest), np.stack(daily_rest_total)),
        hours.is_broken[listed],
    )


@cache
def _cumulative(zipf: float) -> Floats:
    return np.cumsum(np.arange(1.0, TEXTS + 1) ** -zipf)


def _searches(traffic: Traffic, rng: np.random.Generator) -> Integers:
    """(searches,) the texts of one hour, ascending; those of the ten more queries behind all
    others."""
    extra = BROKEN if traffic.broken_searches else 0
    cumulative = _cumulative(traffic.zipf)
    others = traffic.searches - extra * traffic.broken_searches
    # Ascending numbers are found faster than all others are sorted.
    texts = np.searchsorted(cumulative, np.sort(rng.random(others)) * cumulative[-1])
    more = np.repeat(TEXTS + np.arange(extra), rng.poisson(traffic.broken_searches, extra))
    return np.concatenate((texts, more))


def _counts(texts: Integers, searched: Integers) -> Integers:
    """(searched,) how often each of them is among the texts, ascending."""
    ends = np.searchsorted(texts, [searched, searched + 1])
    return np.asarray(ends[1] - ends[0], np.int64)


def _successes(
    scored: Integers, rates: Floats, traffic: Traffic, rng: np.random.Generator
) -> Floats:
    """(queries,) successful searches of one hour, at rates that have drifted."""
    odds = rates / (1 - rates) * np.exp(traffic.drift * rng.standard_normal(len(rates)))
    return rng.binomial(scored, odds / (1 + odds)).astype(np.float64)


def _listed(scored: Integers) -> Integers:
    """The most frequent queries of an hour, ascending."""
    searched = np.flatnonzero(scored)
    most = np.argsort(-scored[searched], kind="stable")[:KEPT]
    return np.sort(searched[most])


def _table(
    scored: Integers, total: Floats, queries: Integers
) -> tuple[Integers, Floats, Integers, Floats]:
    """(scored, total) of `queries` where the hour lists them, and (1,) of all other searches."""
    named = np.intersect1d(queries, _listed(scored))
    at = np.searchsorted(queries, named)
    own, own_total = np.zeros(len(queries), np.int64), np.zeros(len(queries))
    own[at], own_total[at] = scored[named], total[named]
    rest, rest_total = scored.sum() - own.sum(), total.sum() - own_total.sum()
    return own, own_total, np.array([rest]), np.array([rest_total])


@dataclass(frozen=True)
class Claims:
    """What the runs of one kind of traffic came to."""

    quiet: float
    """The mean part of the listed queries, without the broken ones, of which a loss is said."""
    worst_quiet: float
    sure: float
    """The mean part that surely lost."""
    named: tuple[int, ...]
    """(runs,) how many of the ten broken queries are among the first ten."""

    @property
    def runs_with_nine(self) -> float:
        """The part of the runs in which at least nine are."""
        return sum(count >= 9 for count in self.named) / len(self.named)


def claims(traffic: Traffic, runs: int, rng: np.random.Generator) -> Claims:
    """Simulate so many windows and look at each as the table does."""
    quiet, sure, named = [], [], []
    for _ in range(runs):
        simulated = simulate(traffic, rng)
        listed, steady = simulated.listed, ~simulated.is_broken
        prior = fit_prior(listed.usual_scored, listed.usual_total)
        assert prior is not None
        variation = day_variation(listed.daily_scored, listed.daily_total)
        losses = compare_with_usual(listed, prior, variation)
        quiet.append(float((losses.lost_at_least[steady] > 0).mean()))
        sure.append(float(losses.surely_lost[steady].mean()))
        named.append(int(simulated.is_broken[order_lost(losses)[:BROKEN]].sum()))
    return Claims(float(np.mean(quiet)), max(quiet), float(np.mean(sure)), tuple(named))
