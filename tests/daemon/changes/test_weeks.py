"""The lanes `weeks` and `day`: worked examples. `tests/deploy/test_alert_proof.py` compares them
with the alert rules."""

from dataclasses import replace
from math import hypot, sqrt

import numpy as np
import pytest
from hypothesis import given, strategies as st

from relevanced.daemon.changes import (
    ENDS,
    Called,
    ChangeSettings,
    MadeOf,
    ScoreNoise,
    WeekSides,
    compare,
    sustained,
    three_hours,
    weeks_called,
)

CHANGE_SETTINGS, NOISE = ChangeSettings(), ScoreNoise()
WEEKS, DAYS = MadeOf(3, False), MadeOf(4, True)


def sides(score: float, baseline: float = 0.6, impressions: float = 1000) -> WeekSides:
    """One series; the errors are those of a deviation of 0.35."""
    error = 0.35 / sqrt(max(impressions, 1))
    values = (score, error, impressions, baseline, error / sqrt(3))
    return WeekSides(*(np.array([value]) for value in values))


def conditions(*scores: float, made_of: MadeOf = WEEKS, impressions: float = 1000) -> Called:
    """What is called where the last 1, 3, 6 and 24 hours have these scores."""
    hours = zip(("1h", "3h", "6h", "24h"), (1, 3, 6, 24), scores, strict=True)
    windows = {
        name: compare(sides(score, impressions=impressions * n), made_of, NOISE)
        for name, n, score in hours
    }
    return weeks_called(windows, CHANGE_SETTINGS)


def test_z_is_the_change_in_standard_errors() -> None:
    found = compare(sides(0.54), WEEKS, NOISE)
    sampling = 1.2 * (0.35**2 / 1000) * (1 + 1 / 3)
    error = sqrt(sampling + (0.006 * 0.6) ** 2 * (1 + 1 / 3))
    assert found.z[0] == pytest.approx(-0.06 / error)
    assert (found.loss[0], found.loss_ratio[0]) == (pytest.approx(0.06), pytest.approx(0.1))
    tenth = 0.06 / error
    assert found.log_likelihood_ratio[0] == pytest.approx(tenth * tenth / 2)


def test_other_days_of_the_week_differ_by_more() -> None:
    """A Saturday of -4 % after four other days, with so many searches that drift is all."""
    saturday = replace(sides(0.576), stderr=np.zeros(1), baseline_stderr=np.zeros(1))
    as_weeks = compare(saturday, MadeOf(4, False), NOISE)
    as_days = compare(saturday, DAYS, NOISE)
    assert as_weeks.z[0] == pytest.approx(-0.04 / (0.006 * sqrt(1.25)))
    assert as_days.z[0] == pytest.approx(-0.04 / (hypot(0.006, 0.02) * sqrt(1.25)))
    assert as_weeks.z[0] < -5 and as_days.z[0] > -2


@pytest.mark.parametrize(
    ("scores", "name"),
    [
        ((0.52, 0.60, 0.56, 0.60), "dropped"),
        ((0.57, 0.54, 0.60, 0.60), "dropped"),
        ((0.60, 0.60, 0.60, 0.57), "sinking"),
        ((0.45, 0.60, 0.60, 0.60), "far_below"),
    ],
)
def test_each_condition_has_its_windows(scores: tuple[float, ...], name: str) -> None:
    found = conditions(*scores)
    assert {key for key, flags in vars(found).items() if flags.any()} == {name}
    assert not conditions(*(1.2 - score for score in scores)).any.any()


def test_little_is_not_called() -> None:
    lost = (0.40, 0.40, 0.40, 0.40)
    assert conditions(*lost, impressions=250).dropped.all()
    assert not conditions(*lost, impressions=60).far_below.any()
    assert not conditions(*(0.595,) * 4, impressions=10**7).any.any()


def test_what_is_undefined_is_not_called() -> None:
    assert not conditions(*(float("nan"),) * 4).any.any()
    lost = compare(sides(0.3), WEEKS, NOISE, direction=float("nan"))
    assert not weeks_called(
        dict.fromkeys(("1h", "3h", "6h", "24h"), lost), CHANGE_SETTINGS
    ).any.any()


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.booleans())
def test_better_is_worse_in_the_mirror(score: float, baseline: float, of_days: bool) -> None:
    one = sides(score, baseline)
    made_of = MadeOf(2, of_days)
    up = compare(one, made_of, NOISE)
    down = compare(one, made_of, NOISE, direction=-1.0)
    assert up.z[0] == -down.z[0] and up.error_ratio[0] == down.error_ratio[0]


def test_three_hours_weigh_by_their_searches() -> None:
    found = three_hours([sides(0.5), sides(0.6), sides(0.7, impressions=2000)])
    assert found.impressions[0] == 4000
    assert found.score[0] == pytest.approx((0.5 + 0.6 + 1.4) / 4)
    assert found.baseline[0] == pytest.approx(0.6)
    assert found.stderr[0] == pytest.approx(0.35 / sqrt(4000))


def test_a_verdict_holds_at_every_end() -> None:
    high, low = conditions(0.6, 0.6, 0.6, 0.6), conditions(0.4, 0.4, 0.4, 0.4)
    assert sustained([low] * ENDS).any.all()
    newest = sustained([low, low, high, high])
    assert newest.far_below.all() and not newest.dropped.any() and not newest.sinking.any()
    assert not sustained([high, low, low, low]).any.any()
