"""Relative differences agree with absolute ones, and are absent where nothing is known."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import optimize

from relevanced.metrics import (
    BUCKETS,
    Design,
    Estimate,
    Relative,
    UserBuckets,
    boundary,
    compare_arms,
    confidence_sequence,
    difference,
    relative_statement,
)

DESIGN = Design(20_000)
means = st.floats(1e-6, 10.0)
errors = st.floats(1e-6, 1.0)
degrees = st.floats(15.0, 126.0)


def stated(control: Estimate, treatment: Estimate) -> tuple[Estimate, Relative]:
    change = difference(control, treatment)
    return change, relative_statement(control, change, DESIGN, lowest=0.0)


@given(means, means, errors, errors, st.integers(100, 10**6), degrees)
def test_relative_interval_leaves_out_zero_exactly_where_the_absolute_one_does(
    control: float, treatment: float, c_error: float, t_error: float, n: int, units: float
) -> None:
    arms = (
        Estimate(control, (c_error * control) ** 2, n, units),
        Estimate(treatment, (t_error * treatment) ** 2, n, units),
    )
    change, relative = stated(*arms)
    absolute = confidence_sequence(change, DESIGN)
    if relative.undefined is not None:
        reach = change.reach(boundary(change.n, DESIGN.rate, DESIGN.alpha)) / change.stderr
        assert control <= reach * arms[0].stderr * (1 + 1e-9)
        assert math.isnan(relative.value) and math.isnan(relative.interval.lower)
        return
    lower, upper = relative.interval.lower, relative.interval.upper
    assert (lower > 0.0) == (absolute.lower > 0.0)
    assert (upper < 0.0) == (absolute.upper < 0.0)
    assert -1.0 <= lower <= relative.value <= upper


def test_ends_are_where_the_boundary_of_the_weighted_difference_is_met() -> None:
    """The definition, solved numerically: |mean_T - (1 + rho) mean_C| = m standard errors of it."""
    control, treatment = Estimate(0.02, 4e-6, 5_000), Estimate(0.03, 9e-6, 5_000)
    change, relative = stated(control, treatment)
    m = boundary(change.n, DESIGN.rate, DESIGN.alpha)

    def beyond(rho: float) -> float:
        gap = treatment.value - (1 + rho) * control.value
        return gap * gap - m * m * (treatment.variance + (1 + rho) ** 2 * control.variance)

    low = optimize.brentq(beyond, -1.0, relative.value)
    high = optimize.brentq(beyond, relative.value, 100.0)
    found = relative.interval.lower, relative.interval.upper
    assert found == pytest.approx((low, high), rel=1e-9)


def successes(count: int, impressions: int) -> UserBuckets:
    return UserBuckets.of(
        (np.arange(impressions) < count) * 1.0, np.arange(impressions) * 7 % BUCKETS
    )


def test_eight_against_one_of_a_thousand_say_nothing_relative() -> None:
    found = compare_arms(successes(8, 1_000), successes(1, 1_000), DESIGN, lowest=0.0)
    assert found.absolute.verdict == "undecided"
    assert found.relative.undefined == "the control is too near 0"


def test_nothing_falls_by_more_than_all_of_it() -> None:
    control, treatment = Estimate(0.5, 1e-4, 1_000), Estimate(0.02, 1e-3, 1_000)
    change = difference(control, treatment)
    assert relative_statement(control, change, DESIGN, lowest=0.0).interval.lower == -1.0
    assert relative_statement(control, change, DESIGN).interval.lower < -1.0
