"""A/A runs of arms with few buckets, of equal and unequal traffic, to ten times the plan."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from relevanced.metrics import BUCKETS, mean, mean_variance
from tests.bench.looks import (
    ALIKE,
    CLUSTERED,
    Floats,
    Outcomes,
    Schedule,
    arm,
    collected,
    deviates,
    equal,
    ever,
    kept,
    unequal,
)

SHAPES: Final[Mapping[str, Floats]] = {
    **{f"{buckets} equal buckets": equal(buckets) for buckets in (17, 20, 24, 32, 48, 64)},
    "buckets of unequal traffic, 17 effective": unequal(17),
    "buckets of unequal traffic, 32 effective": unequal(32),
}
SPLITS: Final = (0.5, 0.1)
"""Shares of the traffic in the treatment."""
SCORES: Final = Outcomes((0.4, 0.6, 1.0), (0.3, 0.2, 0.3))


def rates(
    shape: Floats, treated: float, clustering: float, runs: int, seed: int, schedule: Schedule
) -> dict[str, list[bool]]:
    """Of each run: whether the sequence, the guardrail, and the sequence with normal errors ever
    claim a difference."""
    random = np.random.default_rng(seed)
    steps = np.diff(schedule.totals, prepend=0.0)
    bars, harm = schedule.two_sided, schedule.one_sided

    def of_block(block: int) -> dict[str, list[bool]]:
        control, treatment = (
            arm(random, block, share * steps, shape, SCORES, clustering)
            for share in (1.0 - treated, treated)
        )
        z = deviates(control, treatment)
        variance = mean_variance(control) + mean_variance(treatment)
        with np.errstate(divide="ignore", invalid="ignore"):
            naive = np.where(z == 0.0, 0.0, (mean(treatment) - mean(control)) / np.sqrt(variance))
        return {
            "sequence": ever(np.abs(z) > bars),
            "guardrail": ever(-z > harm),
            "normal": ever(np.abs(naive) > bars),
        }

    return collected(runs, schedule.looks * 2 * BUCKETS, of_block)


def print_few_buckets(runs: int, seed: int) -> bool:
    """Print the table; returns whether the error rates are within the limits."""
    schedule = Schedule(10_000)
    print(f"\nfew buckets, no effect: {runs:,} runs, {schedule.looks} looks up to 10 x the plan")
    holds = []
    for name, shape in SHAPES.items():
        for treated in SPLITS:
            for alike, clustering in (("independent", ALIKE), ("clustered", CLUSTERED)):
                found = rates(shape, treated, clustering, runs, seed, schedule)
                title = f"{name}, {treated:.0%} treated, {alike}"
                holds.append(kept(title, found["sequence"]))
                holds.append(kept("    guardrail", found["guardrail"]))
                kept("    normal in place of Student's t (not the product)", found["normal"], 1.0)
    return all(holds)
