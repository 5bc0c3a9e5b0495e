"""Variances of pairs of arms, and Student's t in place of the normal distribution."""

import numpy as np
import pytest
from scipy import stats

from relevanced.metrics import (
    BUCKETS,
    Design,
    Estimate,
    UserBuckets,
    changed,
    compare_arms,
    confidence_sequence,
    log_evalue,
    mean_variance,
    normal_deviate,
    paired,
    rests_on_few,
    student_deviate,
    welch_degrees,
)
from tests.metrics.arms import stacked

DESIGN = Design(20_000)


def binary(rng: np.random.Generator, rate: float, impressions: int) -> UserBuckets:
    values = (rng.random(impressions) < rate).astype(np.float64)
    return UserBuckets.of(values, rng.integers(0, BUCKETS, impressions))


@pytest.mark.parametrize("degrees", [15.0, 16.5, 30.0, 63.0, 126.0])
def test_deviates_are_as_unlikely_as_those_of_scipy(degrees: float) -> None:
    for deviate in (0.5, 2.0, 3.0, 4.0, 6.0, 8.0):
        t = float(stats.t.isf(stats.norm.sf(deviate), degrees))
        assert float(normal_deviate(t, degrees)) == pytest.approx(deviate, rel=0.006)
        assert float(student_deviate(normal_deviate(t, degrees), degrees)) == pytest.approx(t)
        assert float(normal_deviate(-t, degrees)) == -float(normal_deviate(t, degrees))


def test_degrees_equal_those_of_welch() -> None:
    samples = [np.arange(20.0), 3 * np.arange(50.0)]
    spread = [float(stats.sem(sample)) ** 2 for sample in samples]
    expected = stats.ttest_ind(*samples, equal_var=False).df
    assert float(welch_degrees(*spread, 19.0, 49.0)) == pytest.approx(expected)


def test_few_degrees_widen_the_interval_and_the_evidence_agrees() -> None:
    for value in np.linspace(0.02, 0.06, 40).tolist():
        few, many = (Estimate(value, 1e-4, 10_000, degrees) for degrees in (15.0, np.inf))
        narrow, wide = confidence_sequence(many, DESIGN), confidence_sequence(few, DESIGN)
        assert wide.upper - wide.lower > 1.1 * (narrow.upper - narrow.lower)
        assert (wide.lower > 0) == (log_evalue(few, DESIGN) >= np.log(20))


def test_arm_without_a_success_is_as_uncertain_as_the_other(rng: np.random.Generator) -> None:
    """Its own spread is 0: 20 impressions would make it certain of a rate of 0."""
    control, treatment = binary(rng, 0.01, 5_000), binary(rng, 0.0, 20)
    pair = paired(control, treatment)
    assert mean_variance(treatment) == 0.0 and pair[1].variance == pytest.approx(
        250 * float(mean_variance(control))
    )
    assert compare_arms(control, binary(rng, 0.0, 40), DESIGN).absolute.verdict == "undecided"


def test_arm_of_few_outcomes_has_at_least_the_variance_of_as_many_impressions_of_the_other() -> (
    None
):
    """Of 6 and of 12 outcomes in 64 buckets of 100 impressions each."""
    arms = []
    for outcomes in (6, 12):
        found = (np.arange(BUCKETS) < outcomes).astype(np.int64) * 1_000_000
        arms.append(UserBuckets(np.full(BUCKETS, 100), found, found))
    few, more = (float(mean_variance(arm)) for arm in arms)
    assert rests_on_few(arms[0]) and few < more < 2 * few
    assert [float(one.variance) for one in paired(*arms)] == pytest.approx([more, more])


def test_arms_without_and_with_many_successes_differ(rng: np.random.Generator) -> None:
    found = compare_arms(binary(rng, 0.0, 5_000), binary(rng, 0.05, 5_000), DESIGN)
    assert found.absolute.verdict == "better"


def test_outcomes_in_plenty_leave_the_variance_as_it_is(rng: np.random.Generator) -> None:
    pairs = [(binary(rng, 0.3, 5_000), binary(rng, 0.3, 500)) for _ in range(50)]
    kept = [arms for arms in pairs if not any(map(rests_on_few, arms))]
    assert len(kept) > 40, "one of sixty looks by chance as if it rested on few"
    for arms in kept:
        for arm, found in zip(arms, paired(*arms), strict=True):
            assert found.variance == mean_variance(arm)
    assert [bool(rests_on_few(binary(rng, rate, 5_000))) for rate in (0.0, 0.0005)] == [True, True]


def test_many_pairs_equal_each_alone(rng: np.random.Generator) -> None:
    rates = [(0.3, 0.3), (0.01, 0.0), (0.0, 0.0), (0.002, 0.2)]
    pairs = [[binary(rng, rate, 3_000) for rate in pair] for pair in rates]
    together = changed(*paired(*(stacked(*side) for side in zip(*pairs, strict=True))))
    for row, pair in enumerate(pairs):
        alone = changed(*paired(*pair))
        for column in ("value", "variance", "degrees", "z"):
            assert np.array_equal(
                getattr(together, column)[row], getattr(alone, column), equal_nan=True
            )
