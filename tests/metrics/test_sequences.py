"""Confidence sequences: e-values that are fair bets, and intervals that agree with them."""

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest
from scipy import integrate, special, stats

from relevanced.metrics import (
    Design,
    Estimate,
    boundary,
    chi_square_tail,
    confidence_sequence,
    further_impressions,
    log_evalue,
    log_scaled_cdf,
    minimum_detectable_effect,
    one_sided_boundary,
    one_sided_closed_form,
    one_sided_interval,
    one_sided_log_evalue,
    student_t_critical,
    welch_at_planned_end,
    wilson_interval,
)

DESIGN = Design(10_000, alpha=0.05)
SIZES = [1, 100, 10_000, 1_000_000]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("evidence", [log_evalue, one_sided_log_evalue])
def test_evalue_is_a_fair_bet_without_an_effect(
    n: int, evidence: Callable[[Estimate, Design], float]
) -> None:
    """Its expectation is 1 if the true value is 0."""

    def weighted(z: float) -> float:
        return math.exp(evidence(Estimate(z, 1.0, n), DESIGN) - z * z / 2)

    far = 12 * math.sqrt(n * DESIGN.one_sided_rate + 1)
    expected, _ = integrate.quad(weighted, -far, far, points=[-1, 0, 1], limit=400)
    assert expected / math.sqrt(2 * math.pi) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("n", SIZES)
def test_interval_and_evidence_agree(n: int) -> None:
    two_sided = boundary(n, DESIGN.rate, DESIGN.alpha)
    one_sided = one_sided_boundary(n, DESIGN.one_sided_rate, DESIGN.alpha)
    for z in (two_sided, one_sided):
        for value in (z * (1 + 1e-9), z * (1 - 1e-9)):
            found = Estimate(value, 1.0, n)
            left_out = confidence_sequence(found, DESIGN).lower > 0
            assert left_out == (log_evalue(found, DESIGN) > math.log(20))
            above = one_sided_interval(found, DESIGN).lower > 0
            assert above == (one_sided_log_evalue(found, DESIGN) > math.log(20))


def test_one_sided_bound_is_below_its_closed_form_and_the_two_sided() -> None:
    for n in np.geomspace(1, 1e8, 30):
        exact = one_sided_boundary(n, DESIGN.one_sided_rate, DESIGN.alpha)
        assert 0 < exact < one_sided_closed_form(n, DESIGN.one_sided_rate, DESIGN.alpha)
        if n <= 1e5:
            assert exact < boundary(n, DESIGN.rate, DESIGN.alpha)


def test_interval_is_tightest_near_the_planned_total() -> None:
    at = {n: boundary(n, DESIGN.rate, DESIGN.alpha) for n in (1_000, 10_000, 100_000)}
    assert at[10_000] == min(at.values())
    assert math.isinf(boundary(0, DESIGN.rate, DESIGN.alpha))
    assert math.isinf(one_sided_boundary(0, DESIGN.one_sided_rate, DESIGN.alpha))


@pytest.mark.parametrize("x", [-1e8, -100.0, -30.1, -29.9, -5.0, 0.0, 3.0, 30.0])
def test_scaled_normal_tail_equals_scipy(x: float) -> None:
    expected = math.log(special.erfcx(-x / math.sqrt(2)) / 2)
    assert log_scaled_cdf(x) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(("planned", "alpha"), [(0, 0.05), (10, 0.0), (10, 0.5), (10, math.nan)])
def test_design_out_of_range_is_refused(planned: int, alpha: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        Design(planned, alpha)


def test_undefined_stays_undefined() -> None:
    nothing = Estimate(math.nan, math.nan, 100)
    interval = confidence_sequence(nothing, DESIGN)
    told = [interval.lower, one_sided_interval(nothing, DESIGN).lower, log_evalue(nothing, DESIGN)]
    told += [minimum_detectable_effect(nothing, DESIGN), further_impressions(nothing, DESIGN)]
    assert all(map(math.isnan, told))


@pytest.mark.parametrize("n", [100, 10_000, 50_000])
def test_detectable_effect_is_detected_with_its_power(n: int) -> None:
    found = Estimate(0.0, 1e-4 / n, n)
    effect = minimum_detectable_effect(found, DESIGN, power=0.9)
    end = max(n, DESIGN.planned_impressions)
    z = effect / math.sqrt(1e-4 / end)
    bound = boundary(end, DESIGN.rate, DESIGN.alpha)
    assert 1 - NormalDist().cdf(bound - z) == pytest.approx(0.9)


@pytest.mark.parametrize("value", [1e-6, 0.01, 0.05, 0.12])
def test_further_impressions_are_just_enough(value: float) -> None:
    n, spread = 1_000, 1.0
    more = further_impressions(Estimate(value, spread / n, n), DESIGN)
    decided = [
        confidence_sequence(Estimate(value, spread / total, total), DESIGN).lower > 0
        for total in (int(n + more * 0.999) - 1, int(n + more * 1.001) + 1)
    ]
    assert more > 0 and decided == [False, True]


def test_further_impressions_are_0_with_a_verdict_and_infinite_for_0() -> None:
    assert further_impressions(Estimate(1.0, 1e-6, 1_000), DESIGN) == 0
    assert math.isinf(further_impressions(Estimate(0.0, 1e-6, 1_000), DESIGN))
    assert math.isinf(further_impressions(Estimate(1e-15, 1e-6, 1_000), DESIGN))


def test_welch_equals_scipy(rng: np.random.Generator) -> None:
    arms = rng.random(50), rng.normal(0.6, 0.2, 80)
    control, treatment = (Estimate(a.mean(), a.var(ddof=1) / len(a), len(a)) for a in arms)
    found = welch_at_planned_end(control, treatment, units=(50, 80))
    expected = stats.ttest_ind(arms[1], arms[0], equal_var=False)
    interval = expected.confidence_interval()
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    assert found.degrees == pytest.approx(expected.df)
    assert [found.interval.lower, found.interval.upper] == pytest.approx(list(interval), rel=1e-9)


def test_welch_without_variance_or_control_is_undefined() -> None:
    zero, none = Estimate(0.0, 0.0, 9), Estimate(math.nan, math.nan, 0)
    for control, relative in ((zero, False), (none, False), (Estimate(0.0, 1.0, 9), True)):
        found = welch_at_planned_end(control, zero, units=(64, 64), relative=relative)
        assert math.isnan(found.p_value) and math.isnan(found.interval.lower)


@pytest.mark.parametrize("degrees", [1, 2.5, 30, 1e5])
def test_critical_t_equals_scipy(degrees: float) -> None:
    for alpha in (1e-6, 0.01, 0.05, 0.5):
        expected = stats.t.isf(alpha / 2, degrees)
        assert student_t_critical(degrees, alpha) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("degrees", range(1, 10))
def test_chi_square_tail_equals_scipy(degrees: int) -> None:
    for value in (0.0, 0.1, 1.0, 10.0, 200.0):
        expected = stats.chi2.sf(value, degrees)
        assert chi_square_tail(value, degrees) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (10, 10), (37, 2_000)])
def test_wilson_interval_equals_scipy(successes: int, trials: int) -> None:
    expected = stats.binomtest(successes, trials).proportion_ci(method="wilson")
    assert wilson_interval(successes, trials) == pytest.approx(
        (expected.low, expected.high), abs=1e-12
    )
