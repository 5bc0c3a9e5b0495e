"""Simulated searches of queries by hour, for the claims about what lost most.

Queries follow Zipf's law over a million texts. Each has a success rate of its own, drawn from a
Beta distribution, which drifts by hour on the logit scale. A window's table lists its most frequent
queries, exactly; a query that a window does not list has no searches in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from relevanced.daemon.queries import (
    Searches,
    compare_with_usual,
    decompose_change,
    order_lost,
    share_carried,
    usual_of,
)
from relevanced.metrics import Booleans, Floats, Integers, distinct

TEXTS: Final = 1_000_000
KEPT: Final = 500
DAYS: Final = 7
DAY: Final = 24
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
    hours: int = 1
    """Of a window."""
    memory: float = 0.0
    """Hours after which the drift is correlated by 1/e; 0: each hour drifts by itself."""
    in_a_row: int = 1
    """How often a user searches for the same text."""
    alike: float = 0.5
    """The correlation of the successes of one user's searches."""
    whole: float = 1.0
    """The part of every query's rate that is left in the window."""


@dataclass(frozen=True, eq=False)
class Simulated:
    """One window, and its usual."""

    listed: Searches
    """(kept,) queries that the window lists."""
    other: Searches
    """(1,) all other searches."""
    is_broken: Booleans
    """(kept,)."""
    expected: Searches
    """(kept + 1,) the listed queries and all others, with what their rates give without chance."""


@dataclass(frozen=True, eq=False)
class Hours:
    """The window, and the same hours of each day before it."""

    scored: tuple[Integers, ...]
    """(queries,) of each window; the queries are those that any of them has."""
    totals: tuple[Floats, ...]
    """(queries,) successful searches of each."""
    expected: tuple[Floats, ...]
    """(queries,) the same without chance."""
    is_broken: Booleans
    """(queries,)."""


def simulate_hours(traffic: Traffic, rng: np.random.Generator) -> Hours:
    """A window in which the ten queries are broken, and the same hours of the days before."""
    texts = [_searches(traffic, rng) for _ in range(traffic.days + 1)]
    searched = distinct(np.concatenate(texts))
    is_broken = searched >= TEXTS
    weight = RATE_MEAN * (1 - RATE_MEAN) / traffic.rate_deviation**2 - 1
    rates = rng.beta(RATE_MEAN * weight, (1 - RATE_MEAN) * weight, len(searched))
    scored = [_counts(each, searched) for each in texts]
    drifts = np.linalg.cholesky(_drift(traffic)) @ rng.standard_normal((len(scored), len(rates)))
    odds = rates / (1 - rates) * np.exp(drifts)
    drifted = odds / (1 + odds)
    drifted[0] *= traffic.whole * np.where(is_broken, traffic.left, 1.0)
    totals = [_successes(*each, traffic, rng) for each in zip(scored, drifted, strict=True)]
    expected = [n * rate for n, rate in zip(scored, drifted, strict=True)]
    return Hours(tuple(scored), tuple(totals), tuple(expected), is_broken)


def _drift(traffic: Traffic) -> Floats:
    """(windows, windows) the covariance of the drift of the windows."""
    hours = DAY * np.arange(traffic.days + 1)[:, np.newaxis] + np.arange(traffic.hours)
    apart = np.abs(hours.reshape(-1, 1) - hours.reshape(1, -1))
    alike = np.exp(-apart / traffic.memory) if traffic.memory else (apart == 0) * 1.0
    shape = (traffic.days + 1, traffic.hours) * 2
    return np.asarray(traffic.drift**2 * alike.reshape(shape).mean(axis=(1, 3)), np.float64)


def simulate(traffic: Traffic, rng: np.random.Generator) -> Simulated:
    """The same hours as exact tables of the most frequent queries."""
    hours = simulate_hours(traffic, rng)
    listed = _listed(hours.scored[0])
    of_listed, other = _tables(hours.scored, hours.totals, listed)
    expected = Searches.joined(_tables(hours.scored, hours.expected, listed))
    return Simulated(of_listed, other, hours.is_broken[listed], expected)


def _tables(
    scored: Sequence[Integers], totals: Sequence[Floats], listed: Integers
) -> tuple[Searches, Searches]:
    """(listed queries, all others) of the window and its usual."""
    tables = [_table(*hour, listed) for hour in zip(scored, totals, strict=True)]
    (now, now_total, rest, rest_total), usual = tables[0], tables[1:]
    daily, daily_total, daily_rest, daily_rest_total = zip(*usual, strict=True)
    return (
        Searches(now, now_total, np.stack(daily), np.stack(daily_total)),
        Searches(rest, rest_total, np.stack(daily_rest), np.stack(daily_rest_total)),
    )


@cache
def _cumulative(zipf: float) -> Floats:
    return np.cumsum(np.arange(1.0, TEXTS + 1) ** -zipf)


def _searches(traffic: Traffic, rng: np.random.Generator) -> Integers:
    """(searches,) the texts of one hour, ascending; those of the ten more queries behind all
    others."""
    extra = BROKEN if traffic.broken_searches else 0
    cumulative = _cumulative(traffic.zipf)
    users, broken = (
        each * traffic.hours // traffic.in_a_row
        for each in (traffic.searches - extra * traffic.broken_searches, traffic.broken_searches)
    )
    # Ascending numbers are found faster than all others are sorted.
    texts = np.searchsorted(cumulative, np.sort(rng.random(users)) * cumulative[-1])
    more = np.repeat(TEXTS + np.arange(extra), rng.poisson(broken, extra))
    return np.repeat(np.concatenate((texts, more)), traffic.in_a_row)


def _counts(texts: Integers, searched: Integers) -> Integers:
    """(searched,) how often each of them is among the texts, ascending."""
    ends = np.searchsorted(texts, [searched, searched + 1])
    return np.asarray(ends[1] - ends[0], np.int64)


def _successes(
    scored: Integers, rates: Floats, traffic: Traffic, rng: np.random.Generator
) -> Floats:
    """(queries,) successful searches of one window."""
    if traffic.in_a_row == 1:
        return rng.binomial(scored, rates).astype(np.float64)
    users = scored // traffic.in_a_row
    query = np.repeat(np.arange(len(users)), users)
    strength = 1 / traffic.alike - 1
    own = np.clip(rates[query], 1e-9, 1 - 1e-9)
    own = rng.beta(own * strength, (1 - own) * strength)
    found = rng.binomial(traffic.in_a_row, own)
    return np.bincount(query, found, len(users))


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
    carried: Floats
    """(runs in which it is said, 4) the part of the change of all that the first ten carry: what is
    true, what is said, and its bounds."""

    @property
    def runs_with_nine(self) -> float:
        """The part of the runs in which at least nine are."""
        return sum(count >= 9 for count in self.named) / len(self.named)

    @property
    def covered(self) -> float:
        """In which part of those runs the truth lies within the bounds."""
        true, _, least, most = self.carried.T
        return float(((least <= true) & (true <= most)).mean())


def claims(traffic: Traffic, runs: int, rng: np.random.Generator) -> Claims:
    """Simulate so many windows and look at each as the table does."""
    quiet, sure, named, carried = [], [], [], []
    for _ in range(runs):
        simulated = simulate(traffic, rng)
        listed, steady = simulated.listed, ~simulated.is_broken
        usual = usual_of(listed)
        assert usual is not None
        losses = compare_with_usual(listed, usual)
        quiet.append(float((losses.lost_at_least[steady] > 0).mean()))
        sure.append(float(losses.surely_lost[steady].mean()))
        first = order_lost(losses)[:BROKEN]
        named.append(int(simulated.is_broken[first].sum()))
        said = share_carried(listed, simulated.other, usual, first)
        truth = decompose_change(simulated.expected)
        if said is not None and truth is not None:
            true = float(truth.within[first].sum() / truth.within.sum())
            carried.append((true, said.share, said.least, said.most))
    return Claims(
        float(np.mean(quiet)),
        max(quiet),
        float(np.mean(sure)),
        tuple(named),
        np.array(carried).reshape(-1, 4),
    )
