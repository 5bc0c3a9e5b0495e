"""A/A runs of post-stratification, over strata of all shapes."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from relevanced.metrics import BUCKETS, post_stratified_rows
from tests.bench.looks import (
    ALIKE,
    CLUSTERED,
    Floats,
    Outcomes,
    Schedule,
    arm,
    collected,
    equal,
    ever,
    kept,
)

TAIL: Final = tuple(round(5_000 * 0.6**rank) for rank in range(16))
SHAPES: Final[Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "two alike": ((5_000, 5_000), (5_000, 5_000)),
    "a single impression": ((5_000, 1), (5_000, 5_000)),
    "a single impression in both": ((5_000, 1), (5_000, 1)),
    "20 impressions": ((5_000, 20), (5_000, 5_000)),
    "50 impressions": ((5_000, 50), (5_000, 5_000)),
    "200 impressions": ((5_000, 200), (5_000, 5_000)),
    "opposite mixes": ((9_000, 1_000), (1_000, 9_000)),
    "extreme mixes": ((9_900, 100), (100, 9_900)),
    "a tenth treated": ((9_000, 9_000, 900), (1_000, 1_000, 100)),
    "ten small ones": ((1_000,) * 10, (1_000,) * 10),
    "sixteen of a long tail": (TAIL, TAIL),
    "long tails, in opposite order": (TAIL, TAIL[::-1]),
    "without a common one": ((5_000, 0), (0, 5_000)),
}
"""Impressions of the control and of the treatment in each stratum at the planned total."""
SCORES: Final = {
    "scores": Outcomes((0.4, 0.6, 1.0), (0.3, 0.2, 0.3)),
    "rare successes": Outcomes((1.0,), (0.01,)),
}


def rates(
    sizes: tuple[tuple[int, ...], tuple[int, ...]],
    outcomes: Outcomes,
    clustering: float,
    runs: int,
    seed: int,
    schedule: Schedule,
) -> dict[str, list[bool]]:
    """Of each run: whether it ever claims a difference, and whether it makes a statement at the
    planned total."""
    random = np.random.default_rng(seed)
    steps = np.diff(schedule.totals, prepend=0.0) / schedule.planned
    at_plan = int(np.searchsorted(schedule.totals, schedule.planned))

    def of_block(block: int) -> dict[str, list[bool]]:
        control, treatment = (
            arm(random, block, steps, _shares(side), outcomes, clustering) for side in sizes
        )
        change, _ = post_stratified_rows(control[..., None, :], treatment[..., None, :])
        z = np.nan_to_num(change.z, nan=0.0)
        return {
            "misleads": ever(np.abs(z) > schedule.two_sided),
            "states": (~np.isnan(change.value[:, at_plan])).tolist(),
        }

    return collected(runs, schedule.looks * 2 * BUCKETS * len(sizes[0]), of_block)


def _shares(impressions: tuple[int, ...]) -> Floats:
    """(strata, buckets) impressions at the planned total."""
    return np.asarray(np.array(impressions, np.float64)[:, None] * equal(BUCKETS))


def schedule_of(sizes: tuple[tuple[int, ...], tuple[int, ...]], looks: int = 60) -> Schedule:
    """Looks at these strata, whose sizes add up to the plan."""
    return Schedule(sum(map(sum, sizes)), looks=looks)


def print_uneven_strata(runs: int, seed: int) -> bool:
    """Print the table; returns whether the error rates are within the limits."""
    print(f"\nstrata, no effect: {runs:,} runs, 60 looks up to 10 x the plan")
    holds = []
    for name, sizes in SHAPES.items():
        for kind, outcomes in SCORES.items():
            for alike, clustering in (("independent", ALIKE), ("clustered", CLUSTERED)):
                found = rates(sizes, outcomes, clustering, runs, seed, schedule_of(sizes))
                stated = f"{np.mean(found['states']):.0%}"
                title = f"{name}, {kind}, {alike} ({stated} state)"
                holds.append(kept(title, found["misleads"]))
    return all(holds)
