"""Undefined lists, interleaving and inverse propensities: how often their statements mislead."""

from typing import Final

import numpy as np

from relevanced.metrics import (
    BUCKETS,
    MINIMUM_BUCKETS,
    UserBuckets,
    effective_buckets,
    moments,
    over_all,
)
from tests.bench.looks import (
    CLUSTERED,
    UNIT,
    Outcomes,
    Schedule,
    arm,
    arm_and_others,
    collected,
    deviates,
    equal,
    ever,
    kept,
)

CLICKED: Final = Outcomes((1.0, 1 / np.log2(3), 0.5, 1 / np.log2(5)), (0.25, 0.1, 0.05, 0.05))
"""nDCG of the lists with a click, at rank 1 to 4; the other lists are undefined."""
MORE_CLICKS: Final = Outcomes((*CLICKED.values, 1 / np.log2(6)), (*CLICKED.chances, 0.135))
"""The same, and clicks at rank 5 on lists that had none: 30 % more lists have a click."""
RANKS: Final = np.arange(1, 11)
WEIGHTED: Final = Outcomes(
    (np.minimum(RANKS, 10) / np.log2(RANKS + 1)).tolist(), (0.12 / RANKS).tolist()
)
"""IPS-DCG of one click, examined with a probability of 1 / rank."""


def undefined_rates(
    treated: Outcomes, runs: int, seed: int, schedule: Schedule
) -> dict[str, list[bool]]:
    """Of each run, whether the treatment ever appears better or worse: over all lists, over the
    defined ones, and over those before their shares are known to differ."""
    random = np.random.default_rng(seed)
    steps = np.diff(schedule.totals, prepend=0.0) / 2.0
    bars = schedule.two_sided

    def of_block(block: int) -> dict[str, list[bool]]:
        all_lists, defined, flags = [], [], []
        for outcomes in (CLICKED, treated):
            everything, counts = arm_and_others(
                random, block, steps, equal(BUCKETS), outcomes, CLUSTERED
            )
            of_defined = UserBuckets(counts, everything.sums, everything.squares, UNIT)
            all_lists.append(over_all(of_defined, everything.counts))
            defined.append(of_defined)
            flags.append(UserBuckets(everything.counts, counts, counts, 1))
        z, of_those, of_shares = (deviates(*arms) for arms in (all_lists, defined, flags))
        differ = np.abs(of_shares) > bars
        return {
            "better": ever(z > bars),
            "worse": ever(-z > bars),
            "defined worse": ever(-of_those > bars),
            "defined worse, shares alike": ever((-of_those > bars) & ~differ),
            "either": ever(np.abs(z) > bars),
        }

    return collected(runs, schedule.looks * 2 * BUCKETS, of_block)


def credit_rates(runs: int, seed: int, schedule: Schedule) -> dict[str, list[bool]]:
    """Of each run, whether the preference of interleaved lists ever leaves out 0. Users lean to one
    ranker or the other, but not all together."""
    random = np.random.default_rng(seed)
    steps = np.diff(schedule.totals, prepend=0.0) / 2.0

    def of_block(block: int) -> dict[str, list[bool]]:
        sides = [
            arm(random, block, steps, equal(BUCKETS), Outcomes((credit,), (0.3,)), CLUSTERED)
            for credit in (1.0, -1.0)
        ]
        tallies = sides[0] + sides[1]
        z = np.nan_to_num(moments(tallies).z, nan=0.0)
        stated = effective_buckets(tallies) >= MINIMUM_BUCKETS
        return {"misleads": ever(stated & (np.abs(z) > schedule.two_sided))}

    return collected(runs, schedule.looks * 2 * BUCKETS, of_block)


def weighted_rates(
    treated: float, runs: int, seed: int, schedule: Schedule
) -> dict[str, list[bool]]:
    """Of each run, whether a difference in IPS-DCG is ever claimed where there is none."""
    random = np.random.default_rng(seed)
    steps = np.diff(schedule.totals, prepend=0.0)

    def of_block(block: int) -> dict[str, list[bool]]:
        control, treatment = (
            arm(random, block, share * steps, equal(BUCKETS), WEIGHTED, CLUSTERED)
            for share in (1.0 - treated, treated)
        )
        return {"misleads": ever(np.abs(deviates(control, treatment)) > schedule.two_sided)}

    return collected(runs, schedule.looks * 2 * BUCKETS, of_block)


def print_other_statements(runs: int, seed: int) -> bool:
    """Print the tables; returns whether the error rates are within the limits."""
    schedule = Schedule(10_000)
    print(f"\nundefined lists: {runs:,} runs, {schedule.looks} looks up to 10 x the plan")
    same = undefined_rates(CLICKED, runs, seed, schedule)
    more = undefined_rates(MORE_CLICKS, runs, seed, schedule)
    holds = [
        kept("no effect: a verdict over all lists", same["either"]),
        kept("more clicks: called worse over all lists", more["worse"]),
    ]
    kept("more clicks: called better over all lists", more["better"], 1.0)
    print(" had the average over defined lists a verdict (not the product):")
    kept("more clicks: worse over defined lists", more["defined worse"], 1.0)
    kept("the same, while their shares may be alike", more["defined worse, shares alike"], 1.0)
    print(f"interleaving without a preference: {runs:,} runs")
    holds.append(kept("a preference", credit_rates(runs, seed, schedule)["misleads"]))
    print(f"IPS-DCG without an effect: {runs:,} runs")
    for treated in (0.5, 0.1):
        found = weighted_rates(treated, runs, seed, schedule)
        holds.append(kept(f"{treated:.0%} treated", found["misleads"]))
    return all(holds)
