"""Effects by day: differences of cumulative tallies, and an interval that may be watched."""

from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from relevanced.daemon.experiments.by_day import by_day
from relevanced.daemon.experiments.specs import Spec
from relevanced.daemon.experiments.tallies import DAY_MS, Arm, Days, Tallies
from relevanced.metrics.buckets import Buckets
from relevanced.metrics.distributions import wilson_interval
from relevanced.metrics.users import bucket_indices, user_hashes
from tests.arms import SPEC, dealt_arms, finding
from tests.lane_views import PLAN

FIRST_DAY_MS: Final = 20_000 * DAY_MS
RUNS: Final = 300
DAYS: Final = 10
USERS: Final = 400
ALPHA: Final = 0.05
ONE_METRIC: Final = replace(SPEC, metrics=("RR@10",), guardrails=(), planned_impressions=4_000)
HASHES: Final = user_hashes(f"u{number}" for number in range(USERS))


def day_of(rng: np.random.Generator, tendencies: np.ndarray, users: range) -> np.ndarray:
    """(buckets, 4): what one day of an arm adds, 200 impressions of users who are not alike."""
    shown = rng.integers(users.start, users.stop, 200)
    buckets = bucket_indices(HASHES[shown])
    found = Buckets.of((rng.random(200) < tendencies[shown]).astype(np.float64), buckets)
    counts = np.bincount(buckets, minlength=64)
    return np.stack((counts, found.counts, found.sums, found.squares), axis=1)


def ends_of(spec: Spec, added: dict[str, list[np.ndarray]]) -> dict[int, list[Tallies]]:
    """The cumulative tallies at the end of each day."""
    return {
        FIRST_DAY_MS
        + day
        * DAY_MS: [
            Tallies(
                spec.digest,
                {name: Arm(np.sum(days[: day + 1], axis=0)) for name, days in added.items()},
            )
        ]
        for day in range(len(added["control"]))
    }


def random_days(seed: int) -> dict[str, list[np.ndarray]]:
    """Two arms that do not differ, day by day."""
    rng = np.random.default_rng(seed)
    tendencies = rng.beta(2, 2, USERS)
    halves = {"control": range(USERS // 2), "treatment": range(USERS // 2, USERS)}
    return {
        name: [day_of(rng, tendencies, users) for _ in range(DAYS)]
        for name, users in halves.items()
    }


def test_the_last_day_ends_with_the_effect_of_the_report() -> None:
    arms = dealt_arms()
    rows = by_day(SPEC, {FIRST_DAY_MS: [Tallies(SPEC.digest, arms)]}, PLAN.metrics)
    reported = {metric.metric: metric for metric in finding(arms).variants[1].metrics}
    assert [row.metric for row in rows] == list(reported)
    for row in rows:
        metric = reported[row.metric]
        assert (row.difference, row.lower, row.upper) == (
            metric.difference,
            metric.lower,
            metric.upper,
        )
        assert row.difference is not None and row.day == "2024-10-04"


@pytest.mark.parametrize("seed", range(20))
def test_a_day_is_what_it_would_be_as_the_only_one(seed: int) -> None:
    print(f"seed {seed}")
    added = random_days(seed)
    rows = by_day(ONE_METRIC, ends_of(ONE_METRIC, added), PLAN.metrics)
    for day, row in enumerate(rows):
        alone = {name: [days[day]] for name, days in added.items()}
        (only,) = by_day(ONE_METRIC, ends_of(ONE_METRIC, alone), PLAN.metrics)
        assert (row.day_difference, row.day_lower, row.day_upper) == (
            only.difference,
            only.lower,
            only.upper,
        )
        assert (row.day_control_impressions, row.day_impressions) == (200, 200)
        assert (row.control_impressions, row.impressions) == (200 * (day + 1),) * 2


def test_an_arm_that_begins_later_has_no_difference_before() -> None:
    added = random_days(1)
    ends = ends_of(ONE_METRIC, added)
    for day_ms in list(ends)[:4]:
        del ends[day_ms][0].arms["treatment"]
    rows = by_day(ONE_METRIC, ends, PLAN.metrics)
    assert [row.difference is None for row in rows] == [True] * 4 + [False] * 6
    assert rows[4].day_impressions == 1_000


def test_the_cumulative_interval_of_two_equal_arms_rarely_leaves_out_zero_on_any_day() -> None:
    print(f"seeds 0 to {RUNS - 1}")
    wrong = 0
    for seed in range(RUNS):
        rows = by_day(ONE_METRIC, ends_of(ONE_METRIC, random_days(seed)), PLAN.metrics)
        assert len(rows) == DAYS and all(row.lower is not None for row in rows)
        wrong += any((row.lower or 0) > 0 or (row.upper or 0) < 0 for row in rows)
    low, high = wilson_interval(wrong, RUNS)
    print(f"{wrong} of {RUNS} runs, {100 * low:.1f} to {100 * high:.1f} %")
    assert wrong <= ALPHA * RUNS


def test_days_keep_copies_and_forget_what_is_dropped() -> None:
    tallies, days = {"x": Tallies("d", {"control": Arm.empty(0)})}, Days()
    for day in (0, 0, 2):
        days.settle(day * DAY_MS + 60_000, tallies)
        tallies["x"].arms["control"].tallies[0, 0] += 5
    counts = {
        day_ms // DAY_MS: by_name["x"].arms["control"].impressions
        for day_ms, by_name in days.finished(tallies).items()
    }
    assert counts == {0: 10, 2: 15}
    days.forget("x")
    assert days.ends == {0: {}}
