"""The measured design effect, of simulated searches of users."""

from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from relevanced.daemon.changes import (
    BEFORE_KNOWN,
    DAY,
    DRIFT_HOURS,
    MEASURED_HOURS,
    WEEK,
    HourSums,
    measured,
    measured_drift,
    of_group,
    used,
)
from tests.daemon.changes.searchers import (
    DEVIATION,
    DRIFT_RATIO,
    Floats,
    Site,
    hours_of,
    sums,
    times,
)
from tests.daemon.changes.sites import drifts

SEED: Final = 20261123
SEGMENTS: Final = 8
THIN: Final = [(40, seed) for seed in range(40)]
"""(impressions an hour, seed) of groups of one segment."""


def known(*series: Floats) -> float:
    found = of_group(hours_of(*series))
    assert found is not None
    return found.effect


def weeks_of(
    site: Site, segments: int, hours: int = MEASURED_HOURS, seed: int = SEED
) -> list[Floats]:
    rng = np.random.default_rng(seed)
    return [sums(site, hours, rng) for _ in range(segments)]


@pytest.mark.parametrize("effect", [1.0, 1.2, 1.6, 2.0])
def test_three_weeks_tell_the_design_effect(effect: float) -> None:
    """Its standard error is 0.05 to 0.1."""
    series = weeks_of(Site(1_000, effect), SEGMENTS)
    assert known(*series) == pytest.approx(effect, abs=0.2)


def test_sessions_of_an_hour_seem_less_than_they_are() -> None:
    """Sixteen searches of a user, 3 minutes apart: a part of each session lies in another block."""
    assert 3 < known(*weeks_of(Site(1_000, 4.0), SEGMENTS)) < 4


@pytest.mark.parametrize("effect", [1.2, 2.0])
def test_one_week_tells_it_roughly(effect: float) -> None:
    series = weeks_of(Site(1_000, effect), SEGMENTS, WEEK)
    assert known(*series) == pytest.approx(effect, abs=0.35)


@pytest.mark.parametrize(("effect", "seems"), [(1.2, 1.5), (2.0, 1.8)])
def test_large_segments_have_more_drift_than_noise(effect: float, seems: float) -> None:
    """At 20,000 an hour neighbouring hours differ by the drift and the shape of the day as well,
    and a session lies in two of them: the plain ratio is 1.5 and 1.8; of a day, ± 0.5."""
    scored, total, squares = series = weeks_of(Site(20_000, effect, gap_min=5), 1)[0]
    means = total / scored
    noise = (squares / scored - means**2) / scored
    moves, expected = np.diff(means) ** 2, noise[1:] + noise[:-1]
    assert moves.sum() / expected.sum() == pytest.approx(seems, abs=0.3)
    of_days = [
        moves[day : day + DAY - 1].sum() / expected[day : day + DAY - 1].sum()
        for day in range(0, MEASURED_HOURS, DAY)
    ]
    assert 0.3 < np.std(of_days) < 0.9
    assert known(series) == pytest.approx(effect, abs=0.45)


def test_other_hours_of_the_weekend_are_no_noise() -> None:
    """Of a score whose day is shaped otherwise on two days of the week, only the same weekdays
    are compared where traffic is heavy, and small segments are not disturbed."""
    heavy, small = (
        weeks_of(Site(per_hour, 1.2, weekend_hours=6), 1) for per_hour in (20_000, 1_000)
    )
    assert known(*heavy) == pytest.approx(1.2, abs=0.6)
    assert known(*small) == pytest.approx(1.2, abs=0.35)


BREAKS: Final = {
    "none": [],
    "10 h at -60 %": [(100, 110, 0.4)],
    "a step": [(110, MEASURED_HOURS, 0.8)],
    "three": [(100, 103, 0.3), (130, 132, 0.4), (150, 156, 0.6)],
}


@pytest.mark.parametrize("hours", [WEEK, MEASURED_HOURS])
@pytest.mark.parametrize("breaks", BREAKS.values(), ids=BREAKS)
def test_breaks_are_no_noise(breaks: list[tuple[int, int, float]], hours: int) -> None:
    """Taken for noise they would blind every alert for weeks: without care 11 instead of 1.2."""
    series = weeks_of(Site(1_000, 1.2), 4, hours)
    factor = np.ones(hours)
    for begin, end, level in breaks:
        factor[begin:end] = level
    quiet, broken = known(*series), known(*(times(factor, one) for one in series))
    assert broken == pytest.approx(quiet, abs=0.15)


def test_hours_without_impressions_are_left_out() -> None:
    series = weeks_of(Site(1_000, 1.6), 4)
    quiet = known(*series)
    for one in series:
        one[:, 200:230] = 0
        one[:, 300] = 0
    assert known(*series) == pytest.approx(quiet, abs=0.1)


def test_it_is_unknown_before_a_week_and_without_traffic() -> None:
    site = Site(1_000, 2.0)
    assert of_group(hours_of(*weeks_of(site, 4, WEEK - 1))) is None
    assert of_group(hours_of(*weeks_of(Site(5, 2.0), 4))) is None
    nothing = np.zeros((3, MEASURED_HOURS))
    assert of_group(hours_of(nothing)) is None
    assert measured([]) is None and measured([hours_of(nothing)]) is None


def test_it_is_unknown_where_all_is_drift() -> None:
    """A million an hour: the noise of a mean is a twentieth of its drift, and does not matter."""
    one = weeks_of(Site(1_000, 1.2), 1)[0]
    million = hours_of(one * 1_000, drift_ratio=DRIFT_RATIO)
    assert of_group(million) is None


def test_scores_that_never_vary_tell_nothing() -> None:
    one = weeks_of(Site(1_000, 1.2), 1)[0]
    assert of_group(hours_of(np.array([one[0], one[0], one[0]]))) is None


def test_the_largest_group_counts() -> None:
    alone, alike = (weeks_of(Site(1_000, effect), 4) for effect in (1.0, 3.0))
    effect = measured([hours_of(*alone), hours_of(*alike), hours_of(np.zeros((3, WEEK)))])
    assert effect == pytest.approx(known(*alike), rel=0.05)


def test_the_largest_of_many_groups_that_are_alike_is_no_larger() -> None:
    """Of forty groups the largest is the one with the greatest error."""
    groups = [hours_of(*weeks_of(Site(per_hour, 1.2), 1, seed=seed)) for per_hour, seed in THIN]
    largest = max(found.effect for group in groups if (found := of_group(group)))
    effect = measured(groups)
    assert largest > 1.4 and effect == pytest.approx(1.2, abs=0.12)


def drifting(drift: float, memory_h: float, seed: int, series: int = 8) -> HourSums:
    """Five weeks of scores of 0.57, of 2,000 impressions an hour."""
    rng = np.random.default_rng(seed)
    shape = series, DRIFT_HOURS
    level = 0.57 * (1 + drift * drifts(np.ones(DRIFT_HOURS), series, rng, memory_h).T)
    means = level + DEVIATION * np.sqrt(1.2 / 2_000) * rng.standard_normal(shape)
    return HourSums(np.full(shape, 2_000.0), means, np.full(shape, DEVIATION**2), DRIFT_RATIO)


@pytest.mark.parametrize(("drift", "memory_h"), [(0.006, 12.0), (0.015, 72.0), (0.012, 24.0)])
def test_five_weeks_tell_the_drift(drift: float, memory_h: float) -> None:
    found = measured_drift([drifting(drift, memory_h, SEED)], 1.2)
    assert found == pytest.approx(drift, rel=0.25)


@pytest.mark.parametrize("days", [(30, 35), (20, 23), (17, 24), (10, 35)])
def test_faults_and_releases_are_no_drift(days: tuple[int, int]) -> None:
    hours = drifting(0.006, 12.0, SEED)
    factor = np.ones(DRIFT_HOURS)
    factor[days[0] * DAY : days[1] * DAY] = 0.8
    found = measured_drift([replace(hours, means=factor * hours.means)], 1.2)
    assert found is not None and found < 0.012


def test_the_drift_of_failures_is_that_of_the_successes() -> None:
    hours = drifting(0.015, 72.0, SEED)
    opposite = replace(hours, means=1 - hours.means, failures=True)
    found, other = (measured_drift([each], 1.2) for each in (hours, opposite))
    assert found is not None and other == pytest.approx(found / (3 * 0.43), rel=0.1)


def test_the_drift_is_unknown_before_four_weeks_and_without_traffic() -> None:
    hours = drifting(0.015, 72.0, SEED)
    assert measured_drift([hours.last(4 * WEEK - DAY)], 1.2) is None
    assert measured_drift([hours.last(4 * WEEK)], 1.2) is not None
    assert measured_drift([replace(hours, scored=hours.scored / 1_000)], 1.2) is None
    assert measured_drift([], 1.2) is None


def test_what_is_used_is_never_below_the_setting() -> None:
    assert used(1.2, None) == BEFORE_KNOWN and used(1.8, None) == 1.8
    assert used(1.2, 1.1) == 1.2 and used(1.2, 2.1) == 2.1
