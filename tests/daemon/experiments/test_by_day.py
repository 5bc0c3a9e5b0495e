"""Effects by day: differences of cumulative tallies, and an interval that may be watched."""

from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from relevanced.daemon.experiments import (
    DAY_MS,
    DAYS_KEPT,
    Arm,
    DayEffect,
    Experiments,
    Spec,
    Tallies,
    effects_by_day,
    first_known,
    left_out_arms,
)
from relevanced.metrics import UserBuckets, bucket_indices, user_hashes, wilson_interval
from tests.arms import SPEC, dealt_arms, finding
from tests.lane_views import PLAN
from tests.seeds import seeds

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
    found = UserBuckets.of((rng.random(200) < tendencies[shown]).astype(np.float64), buckets)
    counts = np.bincount(buckets, minlength=64)
    return np.stack((counts, found.counts, found.sums, found.squares), axis=1)


def tallies_of(spec: Spec, added: dict[str, list[np.ndarray]]) -> Tallies:
    """The tallies of one lane to which these days were added, one after the other."""
    experiments = Experiments()
    experiments.begin(spec.name, spec.digest)
    tallies = experiments.by_name[spec.name]
    for day in range(len(added["control"])):
        experiments.reach(spec, FIRST_DAY_MS + day * DAY_MS + 60_000)
        for name, days in added.items():
            if days[day].any():
                arm = tallies.arms.setdefault(name, Arm(np.zeros_like(days[day])))
                arm.tallies += days[day]
    return tallies


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
    one = Tallies(SPEC.digest, arms, FIRST_DAY_MS + 1, began_ms=FIRST_DAY_MS + 1)
    rows = effects_by_day(SPEC, [one], PLAN.metrics)
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


@pytest.mark.parametrize("seed", seeds(20))
def test_a_day_is_what_it_would_be_as_the_only_one(seed: int) -> None:
    print(f"seed {seed}")
    added = random_days(seed)
    rows = effects_by_day(ONE_METRIC, [tallies_of(ONE_METRIC, added)], PLAN.metrics)
    for day, row in enumerate(rows):
        alone = {name: [days[day]] for name, days in added.items()}
        (only,) = effects_by_day(ONE_METRIC, [tallies_of(ONE_METRIC, alone)], PLAN.metrics)
        assert (row.day_difference, row.day_lower, row.day_upper) == (
            only.difference,
            only.lower,
            only.upper,
        )
        assert (row.day_control_impressions, row.day_impressions) == (200, 200)
        assert (row.control_impressions, row.impressions) == (200 * (day + 1),) * 2


def test_an_arm_that_begins_later_has_no_difference_before() -> None:
    added = random_days(1)
    for day in range(4):
        added["treatment"][day] *= 0
    rows = effects_by_day(ONE_METRIC, [tallies_of(ONE_METRIC, added)], PLAN.metrics)
    assert [row.difference is None for row in rows] == [True] * 4 + [False] * 6
    assert rows[4].day_impressions == 200


def test_the_cumulative_interval_of_two_equal_arms_rarely_leaves_out_zero_on_any_day() -> None:
    print(f"seeds 0 to {RUNS - 1}")
    wrong = 0
    for seed in range(RUNS):
        rows = effects_by_day(ONE_METRIC, [tallies_of(ONE_METRIC, random_days(seed))], PLAN.metrics)
        assert len(rows) == DAYS and all(row.lower is not None for row in rows)
        wrong += any((row.lower or 0) > 0 or (row.upper or 0) < 0 for row in rows)
    low, high = wilson_interval(wrong, RUNS)
    print(f"{wrong} of {RUNS} runs, {100 * low:.1f} to {100 * high:.1f} %")
    assert wrong <= ALPHA * RUNS


@pytest.mark.parametrize("seed", seeds(5))
def test_lanes_sum_to_what_one_lane_would_have(seed: int) -> None:
    """Also where a lane saw nothing on some days."""
    print(f"seed {seed}")
    rng, whole = np.random.default_rng(seed), random_days(seed)
    parts = []
    for lane in range(3):
        chosen = {name: [day * 0 for day in days] for name, days in whole.items()}
        for name, days in whole.items():
            for day, one in enumerate(days):
                chosen[name][day] = one if (day + rng.integers(2)) % 3 == lane else one * 0
        parts.append(chosen)
    summed = {
        name: [sum(part[name][day] for part in parts) for day in range(DAYS)] for name in whole
    }
    rows = effects_by_day(ONE_METRIC, [_silent_on_empty_days(part) for part in parts], PLAN.metrics)
    assert rows == effects_by_day(ONE_METRIC, [_silent_on_empty_days(summed)], PLAN.metrics)


def _silent_on_empty_days(added: dict[str, list[np.ndarray]]) -> Tallies:
    experiments = Experiments()
    experiments.begin(ONE_METRIC.name, ONE_METRIC.digest)
    tallies = experiments.by_name[ONE_METRIC.name]
    for day in range(DAYS):
        shown = {name: days[day] for name, days in added.items() if days[day].any()}
        if shown:
            experiments.reach(ONE_METRIC, FIRST_DAY_MS + day * DAY_MS)
        for name, one in shown.items():
            tallies.arms.setdefault(name, Arm(np.zeros_like(one))).tallies += one
    return tallies


@pytest.mark.parametrize("seed", seeds(5))
def test_days_that_are_left_out_might_never_have_been(seed: int) -> None:
    print(f"seed {seed}")
    rng, added = np.random.default_rng(seed), random_days(seed)
    chosen = sorted(rng.choice(DAYS - 1, 3, replace=False).tolist())
    tallies = tallies_of(ONE_METRIC, added)
    rows = effects_by_day(
        ONE_METRIC, [tallies], PLAN.metrics, [FIRST_DAY_MS + day * DAY_MS for day in chosen]
    )
    kept = {
        name: [one * 0 if day in chosen else one for day, one in enumerate(days)]
        for name, days in added.items()
    }
    expected = effects_by_day(ONE_METRIC, [_silent_on_empty_days(kept)], PLAN.metrics)
    assert rows == expected and len(rows) == DAYS - 3
    arms = left_out_arms(ONE_METRIC, [tallies], [FIRST_DAY_MS + day * DAY_MS for day in chosen])
    assert {name: arm.impressions for name, arm in arms.items()} == {
        "control": 600,
        "treatment": 600,
    }


def test_what_is_older_than_the_days_that_are_kept_is_in_none_of_them() -> None:
    days = random_days(2)
    more = {name: (each * (DAYS_KEPT // DAYS + 1))[: DAYS_KEPT + 5] for name, each in days.items()}
    tallies = tallies_of(ONE_METRIC, more)
    assert len(tallies.ends) == DAYS_KEPT and not tallies.has_all_days
    rows = effects_by_day(ONE_METRIC, [tallies], PLAN.metrics)
    everything = effects_by_day(ONE_METRIC, [_whole(more)], PLAN.metrics)
    assert len(rows) == DAYS_KEPT + 1 and len(everything) == 1
    assert rows[0].day_impressions is None and rows[0].day_difference is None
    assert rows[0].impressions == 200 * 5 and rows[1].day_impressions == 200
    last = _cumulative(rows[-1])
    assert last == _cumulative(everything[0])


def _whole(added: dict[str, list[np.ndarray]]) -> Tallies:
    """All in one day: what an experiment looks like that began before days were kept."""
    tallies = tallies_of(ONE_METRIC, {name: [sum(days)] for name, days in added.items()})
    tallies.began_ms = 0
    return tallies


def _cumulative(row: DayEffect) -> tuple[object, ...]:
    """What is cumulative in a row."""
    return row.difference, row.lower, row.upper, row.impressions, row.control_impressions


def test_an_experiment_that_began_before_days_were_kept_says_so() -> None:
    days = random_days(3)
    older = _whole(days)
    assert first_known(ONE_METRIC, [older]) == FIRST_DAY_MS
    rows = effects_by_day(ONE_METRIC, [older, tallies_of(ONE_METRIC, days)], PLAN.metrics)
    assert [row.day_impressions for row in rows] == [None] + [200] * (DAYS - 1)
    assert [row.impressions for row in rows] == [2_000 + 200 * day for day in range(1, DAYS + 1)]


def test_a_day_is_a_copy_and_goes_with_its_experiment() -> None:
    experiments = Experiments()
    experiments.begin("x", "d")
    tallies = experiments.by_name["x"]
    tallies.arms["control"] = Arm.empty(0)
    for day in (1, 1, 3):
        experiments.reach(replace(ONE_METRIC, name="x"), day * DAY_MS + 60_000)
        tallies.arms["control"].tallies[0, 0] += 5
    (end,) = tallies.ends.items()
    assert end[0] == DAY_MS and end[1]["control"].impressions == 10
    assert experiments.ended == {("x", DAY_MS)}
    experiments.drop("x")
    assert experiments.ended == set() and experiments.dropped_days == {("x", DAY_MS)}
