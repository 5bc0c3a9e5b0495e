"""Runs with rare outcomes: absolute and relative intervals, with and without an effect."""

from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from relevanced.metrics import (
    BUCKETS,
    MINIMUM_BUCKETS,
    UserBuckets,
    changed,
    effective_buckets,
    mean,
    mean_variance,
    paired,
    relative_bounds,
    student_deviate,
)
from tests.bench.looks import (
    CLUSTERED,
    MAX_MISLEADING,
    Floats,
    Outcomes,
    Schedule,
    arm,
    collected,
    equal,
    ever,
    kept,
)

RATES: Final = (0.0005, 0.005, 0.05)
LIFTS: Final = (0.0, 0.5, -0.5)
SPLITS: Final = (0.5, 0.1, 0.01)


@dataclass(frozen=True)
class Case:
    """A success rate, the true relative difference, and the treatment's share of the traffic."""

    rate: float
    lift: float
    treated: float


def rates(case: Case, runs: int, seed: int, schedule: Schedule) -> dict[str, list[bool]]:
    """Of each run, whether at any look: the absolute and the relative interval leave out the truth;
    the relative one contradicts the absolute one; the delta method misses."""
    random = np.random.default_rng(seed)
    steps = np.diff(schedule.totals, prepend=0.0)
    bars = schedule.two_sided
    truth = case.rate * case.lift

    def of_block(block: int) -> dict[str, list[bool]]:
        base = Outcomes((1.0,), (case.rate,))
        sides = (
            arm(random, block, share * steps, equal(BUCKETS), outcomes, CLUSTERED)
            for share, outcomes in (
                (1.0 - case.treated, base),
                (case.treated, base.scaled(1.0 + case.lift)),
            )
        )
        control, treatment = sides
        pair = paired(control, treatment)
        change = changed(*pair)
        stated = np.minimum(effective_buckets(control), effective_buckets(treatment))
        stated = (stated >= MINIMUM_BUCKETS) & (change.variance > 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = student_deviate(bars, change.degrees)
            half = reach * np.sqrt(change.variance)
            lower, upper = relative_bounds(
                pair[0].value, pair[0].variance, change.value, reach, half
            )
            lower = np.maximum(lower, -1.0)
            bounded = stated & ~np.isnan(lower)
            excludes = np.abs(change.value) > half
            left_out = (lower > 0.0) | (upper < 0.0)
            delta_lower, delta_upper = _by_the_delta_method(control, treatment, bars)
        return {
            "absolute misses": ever(stated & (np.abs(change.value - truth) > half)),
            "relative misses": ever(bounded & ((lower > case.lift) | (upper < case.lift))),
            "contradicts": ever(bounded & (excludes != left_out)),
            "relative at the plan": bounded[:, np.searchsorted(schedule.totals, schedule.planned)]
            .astype(bool)
            .tolist(),
            "delta method misses": ever(
                stated & ((delta_lower > case.lift) | (delta_upper < case.lift))
            ),
        }

    return collected(runs, schedule.looks * 2 * BUCKETS, of_block)


def _by_the_delta_method(
    control: UserBuckets, treatment: UserBuckets, bars: Floats
) -> tuple[Floats, Floats]:
    """The relative interval as it is often built: by the first order of the ratio."""
    ratio = mean(treatment) / mean(control)
    variance = mean_variance(treatment) + mean_variance(control) * ratio**2
    half = bars * np.sqrt(variance) / mean(control)
    return ratio - 1.0 - half, ratio - 1.0 + half


def print_rare_outcomes(runs: int, seed: int) -> bool:
    """Print the table; returns whether the error rates are within the limits."""
    schedule = Schedule(20_000, first=400)
    print(f"\nrare outcomes: {runs:,} runs, {schedule.looks} looks up to 10 x the plan")
    holds = []
    for rate, lift, treated in product(RATES, LIFTS, SPLITS):
        found = rates(Case(rate, lift, treated), runs, seed, schedule)
        print(f" rate {rate}, true relative difference {lift:+.0%}, {treated:.0%} treated")
        for name, most in (
            ("absolute misses", MAX_MISLEADING),
            ("relative misses", MAX_MISLEADING),
            ("contradicts", 0.0),
        ):
            holds.append(kept(name, found[name], most))
        kept("relative at the plan", found["relative at the plan"], 1.0)
        kept("delta method misses (not the product)", found["delta method misses"], 1.0)
    return all(holds)
