"""Random searches of queries, as arrays and as the oracle takes them."""

from fractions import Fraction
from typing import Final

import numpy as np

from relevanced.daemon.queries import Searches
from relevanced.metrics import Floats, Integers
from tests.daemon.queries.loss_oracle import Query

UNIT: Final = 1_000_000


def random_searches(
    rng: np.random.Generator, queries: int | None = None, days: int | None = None
) -> Searches:
    """Queries that are frequent or rare, never searched, without a usual, all good or all bad."""
    queries = int(rng.integers(1, 120)) if queries is None else queries
    days = int(rng.integers(1, 8)) if days is None else days
    frequent = rng.choice([0.3, 5.0, 60.0, 2_000.0], queries)
    scored = rng.poisson(frequent) * (rng.random(queries) < 0.8)
    daily = rng.poisson(frequent, (days, queries)) * (rng.random((days, queries)) < 0.9)
    daily[:, rng.random(queries) < 0.2] = 0
    rates = rng.choice([0.0, 1.0, 0.2, 0.6], queries) * rng.choice([1.0, 1.0, 0.9], queries)
    return Searches(
        scored.astype(np.int64),
        _totals(scored, rates * rng.choice([1.0, 1.0, 0.3], queries), rng),
        daily.astype(np.int64),
        _totals(daily, rates, rng),
    )


def _totals(scored: Integers, rates: Floats, rng: np.random.Generator) -> Floats:
    """Sums of fixed-point scores, about rates · scored, in units of 1."""
    grades = rng.choice([1.0, 0.630930, 0.5])
    return np.asarray(np.floor(rng.binomial(scored, rates) * grades * UNIT) / UNIT)


def as_queries(searches: Searches) -> list[Query]:
    """The same, for the oracle; sums are whole numbers of fixed-point units again."""
    return [
        Query(
            int(searches.scored[index]),
            _exact(searches.total[index]),
            [
                (int(n), _exact(total))
                for n, total in zip(
                    searches.daily_scored[:, index], searches.daily_total[:, index], strict=True
                )
            ],
        )
        for index in range(len(searches))
    ]


def _exact(total: float) -> Fraction:
    return Fraction(round(total * UNIT), UNIT)


def taken(searches: Searches, queries: Integers) -> Searches:
    """Some of the queries, in this order."""
    return Searches(
        searches.scored[queries],
        searches.total[queries],
        searches.daily_scored[:, queries],
        searches.daily_total[:, queries],
    )
