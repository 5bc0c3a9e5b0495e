"""Comparing two runs: counts by hand, p-values as in scipy."""

import math

import numpy as np
import pytest
from scipy import stats

from relevanced.metrics import (
    compare,
    fair_coin_two_sided,
    paired_t_test,
    randomisation_test,
    relative_increase,
    student_t_two_sided,
)


def test_wins_ties_and_losses_are_counted_over_common_queries() -> None:
    first = np.array([0.5, 0.2, 0.3, np.nan, 0.9])
    second = np.array([0.4, 0.2, 0.6, 0.1, np.nan])
    result = compare(first, second)
    assert (result.pairs, result.wins, result.ties, result.losses) == (3, 1, 1, 1)
    assert result.mean_difference == pytest.approx(-0.2 / 3)


@pytest.mark.parametrize("degrees", [1, 2, 3.5, 10, 49, 1_000, 1e6])
def test_student_tail_equals_scipy(degrees: float) -> None:
    for t in (0.0, 1e-9, 0.3, 1.0, 2.5, 8.0, 60.0):
        expected = 2 * stats.t.sf(t, degrees)
        assert student_t_two_sided(t, degrees) == pytest.approx(expected, rel=1e-8, abs=1e-300)
        assert student_t_two_sided(-t, degrees) == student_t_two_sided(t, degrees)


@pytest.mark.parametrize("tosses", [0, 1, 2, 5, 10, 99, 1_000, 100_000])
def test_coin_equals_scipy(tosses: int, rng: np.random.Generator) -> None:
    for heads in {0, tosses, tosses // 2, int(rng.integers(0, tosses + 1))}:
        expected = stats.binomtest(heads, tosses).pvalue if tosses else 1.0
        assert fair_coin_two_sided(heads, tosses) == pytest.approx(expected, rel=1e-8, abs=1e-300)


def test_paired_t_equals_scipy(rng: np.random.Generator) -> None:
    for pairs in (2, 3, 50):
        first, second = rng.random(pairs), rng.random(pairs)
        expected = stats.ttest_rel(first, second)
        t, p = paired_t_test(first - second)
        assert t == pytest.approx(expected.statistic)
        assert p == pytest.approx(expected.pvalue)


def test_exact_randomisation_equals_scipy(rng: np.random.Generator) -> None:
    """On whole numbers: scipy treats sums as different that differ by rounding only."""
    differences = rng.integers(-5, 6, 10).astype(float)
    expected = stats.permutation_test(
        (differences, np.zeros(10)),
        lambda a, b: float((a - b).mean()),
        permutation_type="samples",
        n_resamples=np.inf,
    )
    assert randomisation_test(differences) == pytest.approx(expected.pvalue)


def test_differences_that_cancel_are_no_evidence_whatever_their_rounding() -> None:
    """0.1 + 0.2 - 0.3 is not 0 in floating point."""
    assert randomisation_test(np.array([-0.4, -0.5, 0.1, -0.2, -0.1, 0.5, -0.3, 0.4, 0.5])) == 1.0


def test_sampled_randomisation_is_near_the_t_test(rng: np.random.Generator) -> None:
    noise = rng.normal(0.0, 0.1, 200)
    # One standard error away from 0, where p is near a third.
    differences = noise - noise.mean() + noise.std(ddof=1) / math.sqrt(200)
    sampled = randomisation_test(differences, rounds=20_000, seed=7)
    assert sampled == pytest.approx(paired_t_test(differences)[1], abs=0.02)
    assert sampled == randomisation_test(differences, rounds=20_000, seed=7)


def test_equal_runs_have_no_difference() -> None:
    values = np.array([0.1, 0.2])
    result = compare(values, values)
    assert math.isnan(result.t) and math.isnan(result.t_test_p)
    assert (result.sign_test_p, result.randomisation_p) == (1.0, 1.0)


def test_a_difference_that_does_not_vary_has_no_t() -> None:
    first, second = np.array([0.3, 0.5, 0.7, 1.0]), np.array([0.1, 0.3, 0.5, 0.8])
    for count in (2, 4):
        result = compare(first[:count], second[:count])
        assert math.isnan(result.t) and math.isnan(result.t_test_p)
        assert result.sign_test_p == pytest.approx(2 / 2**count)


def test_runs_without_common_queries_have_no_difference() -> None:
    result = compare(np.array([np.nan]), np.array([1.0]))
    assert result.pairs == 0 and math.isnan(result.mean_difference)


def test_runs_of_different_queries_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(3,\)"):
        compare(np.zeros(2), np.zeros(3))


def test_increase_from_nothing_is_undefined() -> None:
    assert math.isnan(relative_increase(0.0, 1.0))
