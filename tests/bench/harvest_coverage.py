"""How often the intervals of estimated propensities cover the truth.

    python -m tests.bench.harvest_coverage [--runs N] [--seed N]

A harvest is of a few to many queries. Two rankers show the five items of a query at different
ranks; an item is clicked where its rank is examined and with a probability of its own. Traffic is
even, or heavy-tailed over queries, so that one of them may have most of it. A line has, of the rank
from 2 to 5 that is covered least, the share of intervals that cover the true propensity, with its
binomial interval by the number of harvests; `known` is the share of ranks that have an interval.
Fails if a share is surely below 95 %, or if intervals are so wide that it is surely above 98 %, or
if the test of the model doubts harvests surely more often than it may. `doubted` is that share, and
that of harvests in which higher ranks are trusted more.
"""

import argparse
from dataclasses import dataclass
from typing import Final

import numpy as np

from relevanced.metrics import (
    ALPHA,
    DOUBTED_P,
    LEAST_BLOCKS,
    Exposures,
    consistency,
    harvest,
    wilson_interval,
)

SEED: Final = 20_261_122
TRUE: Final = np.array([1.0, 0.6, 0.4, 0.2, 0.1])
TRUSTED: Final = np.array([0.5, 0.35, 0.25, 0.2, 0.15])
"""How often a look at a rank is a click on an item without appeal, where ranks are trusted."""


@dataclass(frozen=True)
class Design:
    """The traffic of a harvest."""

    name: str
    shown: tuple[int, int]
    """Impressions of a query by one ranker, from the first to below the second."""
    worth: float
    """Highest probability of a click on an item whose rank is examined."""
    heavy_tailed: bool = False


DESIGNS: Final = (
    Design("even", (20, 200), 1.0),
    Design("rare clicks", (200, 2_000), 0.1),
    Design("heavy-tailed", (5, 20), 0.5, heavy_tailed=True),
)
QUERIES: Final = (LEAST_BLOCKS + 2, 16, 64, 200)
SURE: Final = 5.0
"""Standard errors of a share at which it is surely another: 48 shares are looked at here and 12 in
each run of the tests, which so fail for nothing once in 10,000 runs."""
TOO_WIDE: Final = 0.98


@dataclass(frozen=True)
class Coverage:
    """Intervals of one rank over all harvests, and those that cover the truth; (ranks - 1,)."""

    runs: int
    known: np.ndarray[tuple[int], np.dtype[np.int64]]
    covering: np.ndarray[tuple[int], np.dtype[np.int64]]

    @property
    def lowest(self) -> tuple[int, int]:
        """Intervals that cover the truth, and all, of the rank that is covered least."""
        rank = int((self.covering / np.maximum(self.known, 1)).argmin())
        return int(self.covering[rank]), int(self.known[rank])

    @property
    def holds(self) -> bool:
        """Whether the lowest coverage may be that of 95 % intervals."""
        low, high = wilson_interval(*self.lowest, SURE)
        return high >= 1 - ALPHA and low <= TOO_WIDE


def exposures(
    rng: np.random.Generator, queries: int, design: Design, *, trusted: bool = False
) -> Exposures:
    """The traffic of one harvest."""
    depth, lines = len(TRUE), []
    for query in range(queries):
        worth = rng.random(depth) * design.worth
        busy = 1.0 + rng.pareto(1.2) if design.heavy_tailed else 1.0
        for _ in range(2):
            ranks = rng.permutation(depth)
            shown = int(min(rng.integers(*design.shown) * busy, 1e6))
            appeal = worth + (1 - worth) * TRUSTED[ranks] if trusted else worth
            clicks = rng.binomial(shown, appeal * TRUE[ranks])
            lines += [(query, item, ranks[item] + 1, shown, clicks[item]) for item in range(depth)]
    return Exposures(*np.array(lines, dtype=np.int64).T)


def coverage(rng: np.random.Generator, queries: int, design: Design, runs: int) -> Coverage:
    """Count how often the intervals of `runs` harvests cover the truth."""
    known = np.zeros(len(TRUE) - 1, np.int64)
    covering = np.zeros_like(known)
    for _ in range(runs):
        found = harvest(exposures(rng, queries, design), len(TRUE))
        known += found.known[1:]
        covering += ((found.lower <= TRUE) & (TRUE <= found.upper))[1:]
    return Coverage(runs, known, covering)


def doubted(
    rng: np.random.Generator, queries: int, design: Design, runs: int, *, trusted: bool
) -> tuple[int, int]:
    """(harvests whose model is doubted, harvests)."""
    found = [
        consistency(exposures(rng, queries, design, trusted=trusted), len(TRUE))
        for _ in range(runs)
    ]
    return sum(p < DOUBTED_P for p in found), runs


def main() -> int:
    """Print the table; 1 if an interval covers less often than it says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    rng, failed = np.random.default_rng(given.seed), False
    print(f"seed {given.seed}, {given.runs:,} harvests a line; the rank that is covered least")
    print(f"{'traffic':<14}{'queries':>8}{'known':>8}{'covered':>9}   95 % binomial interval")
    for design in DESIGNS:
        for queries in QUERIES:
            found = coverage(rng, queries, design, given.runs)
            share, (low, high) = found.lowest[0] / found.lowest[1], wilson_interval(*found.lowest)
            known = found.known.sum() / (found.runs * len(found.known))
            print(
                f"{design.name:<14}{queries:>8}{known:>8.1%}{share:>9.1%}   {low:.1%} to {high:.1%}"
            )
            failed |= not found.holds
        for trusted in (False, True):
            shares = [
                doubted(rng, queries, design, given.runs // 5, trusted=trusted)
                for queries in QUERIES
            ]
            failed |= not trusted and any(
                wilson_interval(*share, SURE)[0] > DOUBTED_P for share in shares
            )
            print(f"{'':14}doubted{', ranks trusted' * trusted}:", end="")
            print(*(f"{count / runs:>7.1%}" for count, runs in shares))
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
