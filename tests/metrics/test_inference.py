"""Statements about two arms: verdicts by the metric's direction, reasons where undefined."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from relevanced.metrics import (
    BUCKETS,
    ArmComparison,
    Design,
    Direction,
    Estimate,
    Interval,
    UserBuckets,
    compare_arms,
    compare_rows,
    discoveries,
    guardrail_interval,
    guardrail_log_evalue,
    sample_ratio_chi_square_p,
    sample_ratio_log_evalue,
    verdict,
)
from tests.metrics.arms import stacked

DESIGN = Design(20_000)


def arm(rng: np.random.Generator, level: float, impressions: int = 10_000) -> UserBuckets:
    """Users whose means vary around a level."""
    users = rng.integers(0, 1_000, impressions)
    tastes = rng.beta(6 * level, 6 * (1 - level), 1_000)
    buckets = rng.integers(0, BUCKETS, 1_000)
    return UserBuckets.of(
        np.where(rng.random(impressions) < tastes[users], 1.0, 0.0), buckets[users]
    )


def constant(value: float) -> UserBuckets:
    return UserBuckets.of(np.full(640, value), np.arange(640) % BUCKETS)


def numbers(comparison: ArmComparison) -> list[float]:
    """The numbers stated about the difference."""
    absolute = comparison.absolute
    evidence = [absolute.log_evalue, absolute.p_value]
    return [absolute.interval.lower, *evidence, absolute.further_impressions]


def test_verdict_on_a_true_change_follows_the_direction(rng: np.random.Generator) -> None:
    control, treatment = arm(rng, 0.6), arm(rng, 0.4)
    expected: dict[Direction, str] = {"up": "worse", "down": "better", "none": "undecided"}
    for direction, called in expected.items():
        found = compare_arms(control, treatment, DESIGN, direction)
        assert found.absolute.verdict == called
    interval = found.absolute.interval  # five standard errors beside the truth, it would be wrong
    assert interval.lower < -0.15 and -0.25 < interval.upper


def test_guardrail_sees_harm_only(rng: np.random.Generator) -> None:
    worse = compare_arms(arm(rng, 0.6), arm(rng, 0.4), DESIGN).absolute
    better = compare_arms(arm(rng, 0.4), arm(rng, 0.6), DESIGN).absolute
    assert min(worse.guardrail_log_evalue, worse.log_evalue) > math.log(20)
    assert better.guardrail_log_evalue < 0 < math.log(20) < better.log_evalue


@pytest.mark.parametrize("direction", ["up", "down"])
def test_guardrail_interval_agrees_with_its_evidence(direction: Direction) -> None:
    for value in (-0.05, -0.03, -0.01, 0.0, 0.01, 0.03, 0.05):
        found = Estimate(value, 1e-4, 10_000)
        interval = guardrail_interval(found, DESIGN, direction)
        harm_alone = interval.upper < 0 if direction == "up" else interval.lower > 0
        assert harm_alone == (guardrail_log_evalue(found, DESIGN, direction) >= math.log(20))
        assert interval.lower < value < interval.upper


def test_metric_without_direction_has_no_guardrail() -> None:
    found = Estimate(0.05, 1e-4, 10_000)
    interval = guardrail_interval(found, DESIGN, "none")
    undefined = [interval.lower, interval.upper, guardrail_log_evalue(found, DESIGN, "none")]
    assert all(map(math.isnan, undefined))


def test_many_rows_equal_each_row_alone(rng: np.random.Generator) -> None:
    pairs = [(arm(rng, 0.5), arm(rng, 0.6)), (constant(0.5), constant(0.6))]
    pairs.append((UserBuckets.empty(), constant(0.5)))
    controls, treatments = (stacked(*side) for side in zip(*pairs, strict=True))
    alone = [compare_arms(*pair, DESIGN, impressions=7_000) for pair in pairs]
    together = compare_rows(controls, treatments, DESIGN, impressions=[7_000] * 3)
    assert repr(together) == repr(alone)


def test_swapped_arms_give_the_opposite(rng: np.random.Generator) -> None:
    arms = arm(rng, 0.6), arm(rng, 0.55)
    first, second = (compare_arms(*pair, DESIGN).absolute for pair in (arms, arms[::-1]))
    assert first.interval == Interval(-second.interval.upper, -second.interval.lower)
    assert first.log_evalue == second.log_evalue


def test_users_alike_widen_the_interval(rng: np.random.Generator) -> None:
    found = compare_arms(arm(rng, 0.5), arm(rng, 0.5), DESIGN)
    assert 1.5 < found.design_effect < 6


def test_planned_total_counts_all_impressions(rng: np.random.Generator) -> None:
    """Also for a metric that is rarely defined, the interval is tightest at the planned total."""
    arms = arm(rng, 0.5), arm(rng, 0.5)
    scored, all_of_them = (compare_arms(*arms, DESIGN, impressions=n) for n in (None, 40_000))
    assert (scored.absolute.estimate.n, all_of_them.absolute.estimate.n) == (20_000, 40_000)
    assert scored.absolute.estimate.stderr == all_of_them.absolute.estimate.stderr


UNDEFINED = {
    "no control traffic": (UserBuckets.empty(), constant(0.5)),
    "no treatment traffic": (constant(0.5), UserBuckets.empty()),
    "too few buckets": (constant(0.5), UserBuckets.of(np.arange(640) / 640, np.arange(640) % 15)),
    "no spread": (constant(0.5), constant(0.6)),
}


@pytest.mark.parametrize("reason", UNDEFINED)
def test_undefined_is_named_and_stays_undecided(reason: str) -> None:
    found = compare_arms(*UNDEFINED[reason], DESIGN)
    assert found.undefined == reason
    assert all(map(math.isnan, numbers(found)))
    assert found.absolute.verdict == "undecided"


def test_control_of_zero_has_no_relative_change() -> None:
    some = UserBuckets.of(np.repeat([0.0, 1.0], 640), np.arange(1_280) * 7 // 9 % BUCKETS)
    found = compare_arms(constant(0.0), some, DESIGN)
    assert found.undefined is None and found.absolute.estimate.value > 0
    assert found.relative.undefined == "the control is too near 0"
    assert math.isnan(found.relative.value) and math.isnan(found.relative.interval.upper)


def test_interval_with_zero_gives_no_verdict() -> None:
    for lower, upper in ((-0.1, 0.1), (0.0, 0.1), (-0.1, 0.0), (math.nan, math.nan)):
        assert verdict(Interval(lower, upper), "up") == "undecided"


@pytest.mark.parametrize("weights", [[1.0, 1.0], [0.9, 0.1]])
def test_evidence_of_a_mismatch_is_a_fair_bet(weights: list[float]) -> None:
    """Its expectation is 1 if users are assigned as planned."""
    users, share = 300, weights[0] / sum(weights)
    chances = stats.binom.pmf(np.arange(users + 1), users, share)
    evidence = [
        math.exp(sample_ratio_log_evalue([first, users - first], weights, [100.0, 7.0]))
        for first in range(users + 1)
    ]
    assert chances @ evidence == pytest.approx(1.0)


@pytest.mark.parametrize("counts", [(10, 200), (80, 320), (500, 700)])
def test_gross_mismatch_of_few_users_is_found(counts: tuple[int, int]) -> None:
    assert sample_ratio_log_evalue(counts, [1.0, 1.0]) > math.log(1_000)
    # The alternatives nearest to the plan alone are blind to it.
    assert sample_ratio_log_evalue(counts, [1.0, 1.0], [10_000.0]) < math.log(20)


def test_no_user_and_one_arm_give_no_evidence_of_a_mismatch() -> None:
    for counts, weights in (([0, 0], [1.0, 1.0]), ([7], [3.0])):
        assert sample_ratio_log_evalue(counts, weights) == pytest.approx(0.0, abs=1e-9)
        assert sample_ratio_chi_square_p(counts, weights) == 1.0


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, math.nan], [1.0, -1.0]])
def test_weights_that_do_not_fit_the_arms_are_an_error(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weights.*must be"):
        sample_ratio_log_evalue([5, 5], weights)


def test_discoveries_equal_the_definition(rng: np.random.Generator) -> None:
    for count in (0, 1, 5, 40):
        evidence = np.exp(rng.normal(2.0, 3.0, count))
        ranked = np.sort(evidence)[::-1]
        rejected = max(
            [k for k in range(1, count + 1) if ranked[k - 1] >= count / (k * 0.05)] + [0]
        )
        found = discoveries(np.log(evidence))
        assert found.sum() == rejected
        assert all(e >= f for e, f in product(evidence[found], evidence[~found]))


def test_undefined_segment_is_never_discovered_but_counted() -> None:
    assert discoveries(np.array([math.log(39.0), math.nan])).tolist() == [False, False]
    assert discoveries(np.array([math.log(41.0), math.nan])).tolist() == [True, False]
