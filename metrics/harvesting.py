"""Propensities from traffic alone: intervention harvesting.

Where several rankers showed the same item for the same query at different ranks, what it earned
there differs by how likely the ranks are looked at, and by nothing else: the rankers intervened.
Source: Agarwal, Zaitsev, Wang, Li, Najork and Joachims 2019.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from .lists import Booleans, Floats, Integers

BLOCKS: Final = 64
"""Queries are left out by 64ths to learn how much the result depends on which there were."""


@dataclass(frozen=True, eq=False)
class Exposures:
    """What items earned at ranks: one line for each (query, item, rank), all (n,)."""

    queries: Integers
    """Number of the query: queries vary independently."""
    items: Integers
    """Number of the query's item; the same at all ranks it was shown at."""
    ranks: Integers
    """From 1."""
    impressions: Integers
    """At least 1."""
    clicks: Integers
    """0…impressions."""


@dataclass(frozen=True, eq=False)
class Harvest:
    """Propensities by rank; all arrays (depth,)."""

    values: Floats
    """Relative to the first rank. NaN where no chain of shared items leads there."""
    stderr: Floats
    """Jackknifed over queries; NaN where it hangs on one block of queries alone."""
    shared_items: Integers
    """(query, item) pairs shown at this rank and at another one."""

    def table(self) -> tuple[float, ...]:
        """Values for a table: the first rank 1, no rank above the one before it, gaps as above."""
        filled = np.where(np.isnan(self.values), np.inf, self.values)
        return tuple(np.minimum.accumulate(filled).tolist())


def harvest(exposures: Exposures, depth: int) -> Harvest:
    """Propensities of ranks 1…depth, relative to the first, from all pairs of ranks.

    Each pair (k, k') gives p_k' / p_k, the ratio of click rates summed over the items shown at
    both; the logarithms of all ratios are fitted together, weighted by how well each is known.
    Ranks beyond depth are ignored. -> (depth,) values > 0.

    >>> one_item = [[0, 0, 1, 1_000, 180], [0, 0, 2, 1_000, 95]]
    >>> other_item = [[1, 1, 1, 500, 40], [1, 1, 2, 1_500, 62]]
    >>> harvest(Exposures(*np.array(one_item + other_item).T), depth=3).values.round(6).tolist()
    [1.0, 0.524359, nan]
    """
    blocks, rates, noise, shown = _by_item(exposures, depth)
    sums = np.zeros((BLOCKS, depth, depth))
    spread = np.zeros((BLOCKS, depth, depth))
    for block in range(BLOCKS):
        inside = blocks == block
        sums[block] = rates[inside].T @ shown[inside]
        spread[block] = noise[inside].T @ shown[inside]
    total, variance = sums.sum(axis=0), spread.sum(axis=0)
    values = propensities_of_pairs(total, variance)
    without = [
        propensities_of_pairs(total - sums[block], variance - spread[block])
        for block in np.unique(blocks).tolist()
    ]
    elsewhere = shown.sum(axis=1) > 1
    return Harvest(
        values, _jackknife(without, depth), shown[elsewhere].sum(axis=0).astype(np.int64)
    )


def pair_rates(exposures: Exposures, depth: int) -> Floats:
    """Click rates at rank k of the items that were shown at k' too, summed: [k - 1, k' - 1].

    Every item counts alike, however often it was shown: so both ranks see the same items.
    -> (depth, depth), >= 0; the diagonal holds all items. Source: Agarwal et al. 2019, 4.1.

    >>> one_item = [[0, 0, 1, 1_000, 180], [0, 0, 2, 1_000, 95]]
    >>> other_item = [[1, 1, 1, 500, 40], [1, 1, 2, 1_500, 62]]
    >>> pair_rates(Exposures(*np.array(one_item + other_item).T), 2).round(6).tolist()
    [[0.26, 0.26], [0.136333, 0.136333]]
    """
    _, rates, _, shown = _by_item(exposures, depth)
    return rates.T @ shown


def propensities_of_pairs(rates: Floats, variances: Floats) -> Floats:
    """The propensities whose ratios fit those of all pairs of ranks best, in logarithms.

    Least squares, each pair weighted by 1 / variance of the logarithm of its ratio.
    rates, variances (depth, depth) as of `pair_rates` -> (depth,), 1 at the first rank, NaN at
    ranks that no chain of pairs leads to.

    >>> rates = np.array([[0.0, 0.4, 0.2], [0.2, 0.0, 0.1], [0.05, 0.05, 0.0]])
    >>> propensities_of_pairs(rates, rates / 100).round(6).tolist()
    [1.0, 0.5, 0.25]
    """
    usable = (rates > 0.0) & (rates.T > 0.0) & (variances + variances.T > 0.0)
    np.fill_diagonal(usable, False)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = variances / rates**2
        weights = np.where(usable, 1.0 / (relative + relative.T), 0.0)
        logs = np.where(usable, np.log(rates.T / rates), 0.0)
    known = _reached(usable)
    free = np.flatnonzero(known)[1:]
    values = np.full(len(rates), np.nan)
    values[0] = 1.0
    normal = np.diag(weights.sum(axis=1)) - weights
    pulls = (weights * logs).sum(axis=0)
    values[free] = np.exp(np.linalg.solve(normal[np.ix_(free, free)], pulls[free]))
    return values


def _by_item(exposures: Exposures, depth: int) -> tuple[Integers, Floats, Floats, Floats]:
    """Per (query, item): its query's block (n,), and per rank (n, depth) the click rate, that
    rate's own variance, and 1 where it was shown."""
    inside = (exposures.ranks >= 1) & (exposures.ranks <= depth)
    keys = np.stack((exposures.queries[inside], exposures.items[inside]))
    pairs, rows = np.unique(keys, axis=1, return_inverse=True)
    impressions = np.zeros((pairs.shape[1], depth))
    clicks = np.zeros_like(impressions)
    places = (rows.reshape(-1), exposures.ranks[inside] - 1)
    np.add.at(impressions, places, exposures.impressions[inside])
    np.add.at(clicks, places, exposures.clicks[inside])
    shown = (impressions > 0).astype(np.float64)
    rates = clicks / np.maximum(impressions, 1.0)
    # Half a click more: an item without any is not known to be never clicked.
    likely = (clicks + 0.5) / (impressions + 1.0)
    noise = shown * likely * (1.0 - likely) / np.maximum(impressions, 1.0)
    _, query_numbers = np.unique(pairs[0], return_inverse=True)
    return query_numbers.reshape(-1) % BLOCKS, rates, noise, shown


def _reached(joined: Booleans) -> Booleans:
    """(depth,) ranks that a chain of joined ones leads to from the first."""
    reached = np.zeros(len(joined), dtype=np.bool_)
    reached[0] = True
    for _ in range(len(joined)):
        reached = reached | joined[reached].any(axis=0)
    return reached


def _jackknife(without: list[Floats], depth: int) -> Floats:
    """Standard errors from the results with each block left out."""
    if len(without) < 2:
        return np.full(depth, math.nan)
    results = np.array(without)
    factor = math.sqrt((len(results) - 1) / len(results))
    return np.asarray(factor * np.sqrt(((results - results.mean(axis=0)) ** 2).sum(axis=0)))
