"""`relevanced plan`: experiments of the length that it prints detect the change, and no shorter."""

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, strategies as st

from relevanced.daemon.commands.cli import cli
from relevanced.metrics import (
    Design,
    Estimate,
    boundary,
    minimum_detectable_effect,
    planned_impressions,
)

GIVEN = ("--baseline", "0.55", "--design-effect", "2", "--users-per-day", "20000")


def plan(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["plan", *arguments])


def test_days_follow_from_the_planned_impressions() -> None:
    lines = [line.split() for line in plan(*GIVEN, "--change", "1%").stdout.splitlines()]
    assert ["change", "difference", "planned_impressions", "days"] in lines
    assert ["1.0%", "0.0055", "1,049,248", "53"] in lines


def test_a_deviation_beyond_the_resolution_of_numbers_is_no_crash() -> None:
    assert plan(*GIVEN, "--deviation", "1e9").exit_code == 0


def test_more_searches_take_fewer_days_and_a_smaller_treatment_more() -> None:
    def days(*arguments: str) -> int:
        output = plan(*GIVEN, "--change", "0.02", *arguments).stdout
        (line,) = (line.split() for line in output.splitlines() if line.strip().startswith("2.0%"))
        return int(line[-1])

    assert days("--searches-per-user", "3") < days() < days("--treated", "10%")


@given(st.floats(1e-4, 0.3), st.floats(0.01, 3.0), st.floats(0.02, 0.98))
def test_planned_total_is_the_least_that_detects(
    effect: float, variance: float, treated: float
) -> None:
    total = variance * (1 / treated + 1 / (1 - treated))

    def detectable(n: int) -> float:
        return minimum_detectable_effect(Estimate(0.0, total / n, n, 126.0), Design(n))

    n = planned_impressions(effect, variance, treated)
    assert detectable(n) <= effect
    assert n == 1 or detectable(n - 1) > effect


def test_true_change_is_detected_as_often_as_stated(rng: np.random.Generator) -> None:
    """A Brownian motion with the drift of the change, looked at 200 times up to the plan. Its
    variance is known, so the power is a little more: the plan allows for one that is estimated."""
    runs, looks = 4_000, 200
    n = planned_impressions(0.0055, 2 * 0.55 * 0.45)
    at = np.linspace(n / looks, n, looks)
    sigma = np.sqrt(2 * 0.55 * 0.45 * 4)
    steps = rng.normal(0.0055 * n / looks, sigma * np.sqrt(n / looks), (runs, looks))
    z = np.cumsum(steps, axis=1) / (sigma * np.sqrt(at))
    limits = np.array([boundary(look, Design(n).rate, 0.05) for look in at])
    at_the_end = (z[:, -1] > limits[-1]).mean()
    assert 0.79 < at_the_end < 0.87
    assert (z > limits).any(axis=1).mean() > at_the_end


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--baseline", "7", "--users-per-day", "1"), "7: must be below 1, or give --deviation"),
        ((*GIVEN, "--change", "0%"), "0%: must be a share above 0 and below 1"),
        ((*GIVEN, "--change", "much"), "much: must be a share"),
        (("--baseline", "0.5"), "--users-per-day"),
        ((*GIVEN, "--treated", "100%"), "100%: must be a share above 0 and below 1"),
        (("--baseline", "0", "--deviation", "1", "--users-per-day", "1"), "--baseline"),
    ],
)
def test_bad_values_are_told_with_their_rule(arguments: tuple[str, ...], message: str) -> None:
    result = plan(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
