"""Intervention harvesting: estimate propensities from the traffic of several rankers.

If several rankers showed the same item for the same query at different ranks, its click rates there
differ only by the probability that the ranks are examined.
Source: Agarwal, Zaitsev, Wang, Li, Najork and Joachims 2019.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from .distributions import student_t_critical, student_t_two_sided
from .lists import Booleans, Floats, Integers

BLOCKS: Final = 64
"""Groups of queries that the jackknife leaves out in turn."""
LEAST_BLOCKS: Final = 8
"""With fewer blocks a rank has no error, and counts as unknown. In simulations the interval covers
the true value from 8 on; with 4, a quarter of the harvests has none."""
DOUBTED_P: Final = 0.01
"""Below this p-value of `consistency` a table is not to be trusted."""
ALPHA: Final = 0.05
"""Share of the intervals that may miss the true value."""


@dataclass(frozen=True, eq=False)
class Exposures:
    """Impressions and clicks of items: one row for each (query, item, rank), all (n,)."""

    queries: Integers
    """Id of the query; queries are the independent units."""
    items: Integers
    """Id of the item within its query, the same at every rank."""
    ranks: Integers
    """Ranks from 1."""
    impressions: Integers
    """At least 1."""
    clicks: Integers
    """0…impressions."""


@dataclass(frozen=True, eq=False)
class Harvest:
    """Estimated propensities by rank; all arrays (depth,)."""

    values: Floats
    """Relative to the first rank; NaN for ranks that no chain of shared items links to it."""
    stderr: Floats
    """Jackknife standard error over blocks of queries; NaN where fewer than `LEAST_BLOCKS` of them
    have shared items at this rank, or where the value depends on a single one."""
    lower: Floats
    """Lower end of a 95 % interval; NaN where `stderr` is."""
    upper: Floats
    shared_items: Integers
    """Number of (query, item) pairs shown at this rank and at another one."""
    queries: Integers
    """Number of queries with such an item."""

    @property
    def known(self) -> Booleans:
        """(depth,) whether the value has an error. The first rank is 1 by definition."""
        return ~np.isnan(self.lower)

    def table(self, *, unsure: bool = False) -> tuple[float, ...]:
        """Values for a propensity table: never increasing; a rank that is not `known` gets the
        value before it. `unsure` takes values without an error, too."""
        usable = ~np.isnan(self.values) if unsure else self.known
        filled = np.where(usable, self.values, np.inf)
        return tuple(np.minimum.accumulate(filled).tolist())


def harvest(exposures: Exposures, depth: int) -> Harvest:
    """Estimate the propensities of ranks 1…depth, relative to the first, from all pairs of ranks.

    Each pair (k, k') gives p_k' / p_k, the ratio of the click rates summed over the items shown at
    both ranks; the logarithms of all ratios are fitted together, weighted by their precision.
    Ranks beyond depth are ignored. Values (depth,) > 0, NaN where undefined.

    The interval is value * exp(± t * stderr / value), with Student's t for the blocks that have
    shared items at the rank. In simulations it covers the true value in 93 to 96 % of harvests
    (tests/bench/harvest_coverage.py). Source: Agarwal et al. 2019, 4; Tukey 1958 (jackknife).

    >>> one_item = [[0, 0, 1, 1_000, 180], [0, 0, 2, 1_000, 95]]
    >>> other_item = [[1, 1, 1, 500, 40], [1, 1, 2, 1_500, 62]]
    >>> harvest(Exposures(*np.array(one_item + other_item).T), depth=3).values.round(6).tolist()
    [1.0, 0.524359, nan]
    """
    queries, rates, variances, shown = _by_item(exposures, depth)
    is_shared = shown.sum(axis=1) > 1
    queries, rates, variances, shown = (
        column[is_shared] for column in (queries, rates, variances, shown)
    )
    queries = np.unique(queries, return_inverse=True)[1].reshape(-1)
    blocks = queries % BLOCKS
    sums, sum_variances = _by_block(blocks, rates, variances, shown)
    total, variance = sums.sum(axis=0), sum_variances.sum(axis=0)
    values = propensities_of_pairs(total, variance)
    left_out = [
        propensities_of_pairs(total - sums[block], variance - sum_variances[block])
        for block in np.unique(blocks).tolist()
    ]
    blocks_at = _distinct_by_rank(blocks, shown)
    stderr = np.where(blocks_at >= LEAST_BLOCKS, _jackknife(left_out, depth), np.nan)
    stderr[0] = 0.0
    critical = [student_t_critical(max(count - 1, 1), ALPHA) for count in blocks_at.tolist()]
    reach = np.exp(np.array(critical) * stderr / values)
    return Harvest(
        values,
        stderr,
        lower=values / reach,
        upper=values * reach,
        shared_items=shown.sum(axis=0).astype(np.int64),
        queries=_distinct_by_rank(queries, shown),
    )


def consistency(exposures: Exposures, depth: int, *, seed: int = 0) -> float:
    """p-value that items which are clicked often and items which are clicked seldom have the same
    propensities, as they have where a click needs nothing but a look at the rank and the item's own
    appeal; NaN where it cannot be told.

    Half of the impressions of each cell, drawn at random, say how appealing an item is, and the
    others give the propensities of the upper and of the lower half: so no click counts for both.
    The mean difference of their logarithms is compared with its jackknife error over blocks of
    queries. A small value says that ranks are trusted, or that rankings follow who looks at them; a
    large one does not say that they do not.

    >>> one_item = [[0, 0, 1, 1_000, 180], [0, 0, 2, 1_000, 95]]
    >>> consistency(Exposures(*np.array(one_item).T), depth=2)  # one query cannot tell
    nan
    """
    rng = np.random.default_rng(seed)
    impressions, clicks = exposures.impressions, exposures.clicks
    of_values = (impressions + rng.integers(0, 2, len(impressions))) // 2
    clicks_of_values = rng.hypergeometric(clicks, impressions - clicks, of_values)
    is_upper = _appealing(
        exposures, impressions - of_values, clicks - clicks_of_values, of_values, depth
    )
    halves = []
    for half in (is_upper, ~is_upper):
        at = half & (of_values > 0)
        columns = (exposures.queries[at], exposures.items[at], exposures.ranks[at])
        part = Exposures(*columns, of_values[at], clicks_of_values[at])
        queries, rates, variances, shown = _by_item(part, depth)
        is_shared = shown.sum(axis=1) > 1
        of_shared = (column[is_shared] for column in (rates, variances, shown))
        halves.append(_by_block(queries[is_shared] % BLOCKS, *of_shared))

    def difference(without: int | None) -> float:
        logs = []
        for sums, variances in halves:
            left_out = [0.0, 0.0] if without is None else [sums[without], variances[without]]
            values = propensities_of_pairs(
                sums.sum(axis=0) - left_out[0], variances.sum(axis=0) - left_out[1]
            )
            logs.append(np.log(values[1:]))
        apart = logs[0] - logs[1]
        known = apart[~np.isnan(apart)]
        return float(known.mean()) if len(known) else math.nan

    blocks = np.flatnonzero(sum(sums.any(axis=(1, 2)) for sums, _ in halves)).tolist()
    if len(blocks) < LEAST_BLOCKS:
        return math.nan
    left_out = np.array([difference(block) for block in blocks])
    error = _jackknife([*left_out[:, None]], 1)[0]
    return student_t_two_sided(difference(None) / error, len(blocks) - 1) if error > 0 else math.nan


def _appealing(
    exposures: Exposures, impressions: Integers, clicks: Integers, weights: Integers, depth: int
) -> Booleans:
    """(n,) whether the item of a cell is of the half that is clicked more often for how often its
    ranks are looked at. `weights` are of the halves."""
    values = np.nan_to_num(harvest(exposures, depth).values, nan=1.0)
    ranks = np.minimum(exposures.ranks, depth) - 1
    keys = np.stack((exposures.queries, exposures.items))
    rows = np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)
    looks = np.bincount(rows, impressions * values[ranks])
    appeal = np.bincount(rows, clicks) / np.maximum(looks, 1e-9)
    order = np.argsort(appeal)
    upto = np.cumsum(np.bincount(rows, weights)[order])
    middle = appeal[order][np.searchsorted(upto, upto[-1] / 2)] if len(upto) else 0.0
    return np.asarray((appeal > middle)[rows], np.bool_)


def _by_block(
    blocks: Integers, rates: Floats, variances: Floats, shown: Floats
) -> tuple[Floats, Floats]:
    """(BLOCKS, depth, depth) sums of the rates, and of their variances, of the pairs of ranks."""
    depth = shown.shape[1]
    sums = np.zeros((BLOCKS, depth, depth))
    sum_variances = np.zeros((BLOCKS, depth, depth))
    for block in range(BLOCKS):
        rows = blocks == block
        sums[block] = rates[rows].T @ shown[rows]
        sum_variances[block] = variances[rows].T @ shown[rows]
    return sums, sum_variances


def _distinct_by_rank(labels: Integers, shown: Floats) -> Integers:
    """(depth,) number of distinct labels among the items that were shown at each rank."""
    counts = [len(np.unique(labels[column > 0])) for column in shown.T]
    return np.array(counts, np.int64)


def pair_rates(exposures: Exposures, depth: int) -> Floats:
    """Sum of the click rates at rank k of the items that were also shown at k': [k - 1, k' - 1].

    Every item has the same weight, however often it was shown, so that both ranks are compared on
    the same items. -> (depth, depth), >= 0; the diagonal has all items shown at a rank.
    Source: Agarwal et al. 2019, 4.1.

    >>> one_item = [[0, 0, 1, 1_000, 180], [0, 0, 2, 1_000, 95]]
    >>> other_item = [[1, 1, 1, 500, 40], [1, 1, 2, 1_500, 62]]
    >>> pair_rates(Exposures(*np.array(one_item + other_item).T), 2).round(6).tolist()
    [[0.26, 0.26], [0.136333, 0.136333]]
    """
    _, rates, _, shown = _by_item(exposures, depth)
    return rates.T @ shown


def propensities_of_pairs(rates: Floats, variances: Floats) -> Floats:
    """Fit propensities to the ratios of all pairs of ranks by weighted least squares of logarithms.

    The weight of a pair is 1 / variance of the logarithm of its ratio.
    rates (depth, depth) as from `pair_rates`, with their variances -> (depth,): 1 at the first
    rank, NaN at ranks that no chain of pairs links to it.

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
    unknowns = np.flatnonzero(_linked_to_first(usable))[1:]
    values = np.full(len(rates), np.nan)
    values[0] = 1.0
    normal_matrix = np.diag(weights.sum(axis=1)) - weights
    right_side = (weights * logs).sum(axis=0)
    logarithms = np.linalg.solve(normal_matrix[np.ix_(unknowns, unknowns)], right_side[unknowns])
    values[unknowns] = np.exp(logarithms)
    return values


def _by_item(exposures: Exposures, depth: int) -> tuple[Integers, Floats, Floats, Floats]:
    """For each (query, item): its query, (n,), and by rank, (n, depth), the click rate, the
    variance of that rate, and 1 where it was shown."""
    within = (exposures.ranks >= 1) & (exposures.ranks <= depth)
    keys = np.stack((exposures.queries[within], exposures.items[within]))
    pairs, rows = np.unique(keys, axis=1, return_inverse=True)
    impressions = np.zeros((pairs.shape[1], depth))
    clicks = np.zeros_like(impressions)
    cells = (rows.reshape(-1), exposures.ranks[within] - 1)
    np.add.at(impressions, cells, exposures.impressions[within])
    np.add.at(clicks, cells, exposures.clicks[within])
    shown = (impressions > 0).astype(np.float64)
    rates = clicks / np.maximum(impressions, 1.0)
    # Half a click is added, or an item without clicks would have a variance of 0.
    smoothed = (clicks + 0.5) / (impressions + 1.0)
    variances = shown * smoothed * (1.0 - smoothed) / np.maximum(impressions, 1.0)
    return pairs[0], rates, variances, shown


def _linked_to_first(linked: Booleans) -> Booleans:
    """(depth,) whether a chain of links, (depth, depth), leads from the first rank to each rank."""
    reached = np.zeros(len(linked), dtype=np.bool_)
    reached[0] = True
    for _ in range(len(linked)):
        reached = reached | linked[reached].any(axis=0)
    return reached


def _jackknife(estimates: list[Floats], depth: int) -> Floats:
    """(depth,) standard errors from the estimates with one block left out each."""
    if len(estimates) < 2:
        return np.full(depth, math.nan)
    results = np.array(estimates)
    factor = math.sqrt((len(results) - 1) / len(results))
    return np.asarray(factor * np.sqrt(((results - results.mean(axis=0)) ** 2).sum(axis=0)))
