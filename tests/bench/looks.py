"""Many runs of an experiment at once: tallies at every look, and what is stated there.

A run is a Poisson stream of impressions into the buckets of its arms. A metric has a few values,
each with its probability. What a bucket's users have in common is a factor on the probabilities of
all values but 0. Statements are those of the product, for all runs and looks in one array.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import (
    BUCKETS,
    MINIMUM_BUCKETS,
    Design,
    Moments,
    UserBuckets,
    boundary,
    changed,
    effective_buckets,
    one_sided_boundary,
    paired,
    wilson_interval,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
UNIT: Final = 1_000_000
AT_ONCE: Final = 4_000_000
"""Cells of one block of runs: 32 MB for each array."""
MAX_MISLEADING: Final = 0.05
ALIKE: Final = 0.0
"""Variance of the factor of a bucket: none, if impressions are independent."""
CLUSTERED: Final = 0.02


@dataclass(frozen=True)
class Schedule:
    """When there are looks: at totals that grow by the same factor, up to `times` the plan."""

    planned: int
    times: float = 10.0
    looks: int = 120
    first: int = 100

    @property
    def design(self) -> Design:
        """The design of the experiment."""
        return Design(self.planned)

    @property
    def totals(self) -> Floats:
        """(looks,) expected impressions of both arms at each look."""
        return np.geomspace(self.first, self.times * self.planned, self.looks)

    @property
    def two_sided(self) -> Floats:
        """(looks,) normal deviates at which there is a verdict."""
        rate, alpha = self.design.rate, self.design.alpha
        return np.array([boundary(n, rate, alpha) for n in self.totals])

    @property
    def one_sided(self) -> Floats:
        """(looks,) normal deviates at which the guardrail alarms."""
        rate, alpha = self.design.one_sided_rate, self.design.alpha
        return np.array([one_sided_boundary(n, rate, alpha) for n in self.totals])


@dataclass(frozen=True)
class Outcomes:
    """The values of a metric other than 0, and the probability of each: (values,) both."""

    values: Sequence[float]
    chances: Sequence[float]

    def scaled(self, factor: float) -> "Outcomes":
        """The same values, so many times as likely."""
        return Outcomes(self.values, [factor * chance for chance in self.chances])


def equal(buckets: int) -> Floats:
    """(BUCKETS,) shares of traffic of so many buckets; the others are empty."""
    return np.where(np.arange(BUCKETS) < buckets, 1.0 / buckets, 0.0)


def unequal(effective: float) -> Floats:
    """(BUCKETS,) shares that fall by a constant factor, of so many effective buckets."""
    low, high = 0.0, 1.0
    for _ in range(60):
        factor = 0.5 * (low + high)
        shares = factor ** np.arange(BUCKETS)
        few = shares.sum() ** 2 / (shares**2).sum() < effective
        low, high = (factor, high) if few else (low, factor)
    return np.asarray(shares / shares.sum())


def arm(
    random: np.random.Generator,
    runs: int,
    steps: Floats,
    shares: Floats,
    outcomes: Outcomes,
    clustering: float,
) -> UserBuckets:
    """The tallies of one arm: (runs, looks, …, buckets), from (looks,) impressions that arrive
    before each look and (…, buckets) their shares."""
    return arm_and_others(random, runs, steps, shares, outcomes, clustering)[0]


def arm_and_others(
    random: np.random.Generator,
    runs: int,
    steps: Floats,
    shares: Floats,
    outcomes: Outcomes,
    clustering: float,
) -> tuple[UserBuckets, Integers]:
    """The same, and how many of its impressions have another value than 0."""
    size = (runs, 1, *shares.shape)
    taste = random.gamma(1 / clustering, clustering, size) if clustering else np.ones(size)
    expected = steps.reshape(1, -1, *(1,) * shares.ndim) * shares
    left = np.maximum(1.0 - sum(outcomes.chances) * taste, 0.0)
    counts = random.poisson(expected * left)
    others, sums, squares = np.zeros((3, *counts.shape), np.int64)
    for value, chance in zip(outcomes.values, outcomes.chances, strict=True):
        found = random.poisson(expected * chance * taste)
        others += found
        sums += found * round(UNIT * value)
        squares += found * round(UNIT * value * value)
    tallies = (counts + others, sums, squares, others)
    *made, others = (np.cumsum(tally, axis=1) for tally in tallies)
    return UserBuckets(*made, unit=UNIT), others


def blocks(runs: int, cells: int) -> Iterator[int]:
    """Numbers of runs that are simulated at once, given the cells of one run."""
    at_once = max(1, min(runs, AT_ONCE // cells))
    for start in range(0, runs, at_once):
        yield min(at_once, runs - start)


def change_of(control: UserBuckets, treatment: UserBuckets) -> Moments:
    """The difference at each look, (runs, looks)."""
    return changed(*paired(control, treatment))


def deviates(control: UserBuckets, treatment: UserBuckets) -> Floats:
    """(runs, looks) `Estimate.z` of the difference; 0 where there is no statement."""
    fewer = np.minimum(effective_buckets(control), effective_buckets(treatment))
    z = change_of(control, treatment).z
    return np.where((fewer >= MINIMUM_BUCKETS) & ~np.isnan(z), z, 0.0)


def ever(hits: NDArray[np.bool_]) -> list[bool]:
    """(runs, looks) -> of each run, whether there is a hit at any look."""
    return np.asarray(hits.any(axis=1)).tolist()  # type: ignore[no-any-return]


def share_text(hits: Sequence[bool], digits: int = 1) -> str:
    """A share in percent with its 95 % interval (Wilson)."""
    shares = (float(np.mean(hits)), *wilson_interval(sum(hits), len(hits)))
    return "{} [{}, {}]".format(*(f"{share:.{digits}%}" for share in shares))


def kept(name: str, hits: Sequence[bool], most: float = MAX_MISLEADING, digits: int = 1) -> bool:
    """Print the share and whether it is at most what it may be."""
    holds = float(np.mean(hits)) <= most
    print(f"  {name:<60} {share_text(hits, digits):>22}{'' if holds else '  MISLEADS'}", flush=True)
    return holds


def collected(
    runs: int, cells: int, of_block: Callable[[int], dict[str, list[bool]]]
) -> dict[str, list[bool]]:
    """The hits of all blocks of runs, by name."""
    found: dict[str, list[bool]] = {}
    for block in blocks(runs, cells):
        for name, hits in of_block(block).items():
            found.setdefault(name, []).extend(hits)
    return found
