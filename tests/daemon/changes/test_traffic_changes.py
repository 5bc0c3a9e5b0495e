"""Which numbers of the data behind the scores are far from usual: equal to the same rule written as
slow scalar arithmetic."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from relevanced.daemon.changes import (
    ChangeSettings,
    Standing,
    TrafficChange,
    TrafficSides,
    Urgency,
    traffic_changes,
)
from tests.seeds import seeds

SETTINGS = ChangeSettings()
WHOLE, DE, FR = ("all", "all"), ("country", "DE"), ("country", "FR")
Row = tuple[float, float, float]
"""Impressions, those with feedback, those without results."""


def sides(now: Sequence[Row], before: Sequence[Row], periods: int = 3) -> TrafficSides:
    return TrafficSides(np.array(now, np.float64), np.array(before, np.float64), periods)


def said(found: Iterator[TrafficChange]) -> list[tuple[str, str, str]]:
    return [(each.metric, each.segment[1], each.urgency) for each in found]


def z_of(now: Row, before: Row, periods: int, column: int, settings: ChangeSettings) -> float:
    if not now[0] > 0 or not before[0] > 0:
        return math.nan
    share, usual = now[column] / now[0], before[column] / before[0]
    mean = (share + usual) / 2
    sampling = settings.design_effect * (1 / now[0] + 1 / (before[0] * periods)) * mean * (1 - mean)
    error = math.sqrt(sampling + (settings.share_drift_ratio * usual) ** 2)
    return (share - usual) / error if error else math.nan


def oracle(
    segment: tuple[str, str],
    hour: tuple[Row, Row],
    six_hours: tuple[Row, Row],
    periods: int,
    settings: ChangeSettings,
) -> Iterator[tuple[str, tuple[str, str]]]:
    (now, before), least = hour, settings.smallest_sample
    if segment != WHOLE and before[0] >= least and now[0] < before[0] * settings.no_data_ratio:
        yield "impressions", segment
    if not now[0] >= least or not before[0] > 0:
        return
    if (
        1 - (now[1] / now[0]) / (before[1] / before[0] or math.inf)
        > settings.feedback_share_drop_ratio
    ):
        clear = z_of(now, before, periods, 1, settings) < -4
        if before[1] and clear and z_of(*six_hours, periods, 1, settings) < -3:
            yield "feedback_share", segment
    if now[2] / now[0] > before[2] / before[0] * (1 + settings.zero_results_rise_ratio):
        clear = z_of(now, before, periods, 2, settings) > 4
        if clear and z_of(*six_hours, periods, 2, settings) > 3:
            yield "zero_results_share", segment


@pytest.mark.parametrize("seed", seeds(12))
def test_vectors_say_what_scalars_say(seed: int) -> None:
    print("seed", seed)
    rng = np.random.default_rng(seed)
    segments = [WHOLE] + [("country", f"c{at}") for at in range(400)]

    def rows(impressions: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        counts = rng.poisson(impressions * rng.choice([0, 0.05, 0.5, 1, 1.2], len(segments)))
        shares = [rng.choice([0, 0.05, 0.1, 0.3, 0.5, 1], len(segments)) for _ in range(2)]
        found = np.stack([counts, *(rng.binomial(counts, share) for share in shares)], axis=1)
        return found.astype(np.float64)

    now, before, six_now, six_before = rows(500), rows(500), rows(3000), rows(3000)
    now[rng.random(len(segments)) < 0.02] = np.nan
    periods = rng.integers(1, 4, len(segments))
    settings = replace(SETTINGS, design_effect=float(rng.choice([1.0, 1.2, 2.0])))
    found = traffic_changes(
        segments,
        TrafficSides(now, before, periods),
        TrafficSides(six_now, six_before, periods),
        settings,
    )
    expected = [
        each
        for at, segment in enumerate(segments)
        for each in oracle(
            segment,
            (tuple(now[at]), tuple(before[at])),
            (tuple(six_now[at]), tuple(six_before[at])),
            int(periods[at]),
            settings,
        )
    ]
    assert sorted((each.metric, each.segment) for each in found) == sorted(expected)
    assert {metric for metric, _ in expected} == {
        *("impressions", "feedback_share", "zero_results_share")
    }


def test_what_is_said_has_both_sides_and_the_distance() -> None:
    hour = sides([(1000, 400, 90)], [(1000, 400, 40)])
    (found,) = traffic_changes([WHOLE], hour, sides([(6000, 0, 400)], [(6000, 0, 240)]), SETTINGS)
    assert (found.metric, found.before, found.now, found.urgency) == (
        *("zero_results_share", 0.04, 0.09, "page"),
    )
    assert found.z == pytest.approx(4.969, abs=0.001)


def test_a_share_that_only_the_last_hour_shows_is_not_said() -> None:
    hour, steady = sides([(1000, 200, 90)], [(1000, 400, 40)]), [(6000.0, 2400.0, 240.0)]
    assert said(traffic_changes([WHOLE], hour, sides(steady, steady), SETTINGS)) == []
    assert said(traffic_changes([WHOLE], hour, None, SETTINGS)) == []


def test_results_that_never_were_missing_before_are() -> None:
    hour, six = sides([(1000, 0, 50)], [(1000, 0, 0)]), sides([(6000, 0, 90)], [(6000, 0, 0)])
    assert said(traffic_changes([FR], hour, six, SETTINGS)) == [
        ("zero_results_share", "FR", "ticket")
    ]


def test_a_time_without_feedback_says_nothing_of_its_share() -> None:
    hour, six = sides([(1000, 200, 90)], [(1000, 400, 40)]), sides(
        [(6000, 1600, 400)], [(6000, 2400, 240)]
    )
    assert said(traffic_changes([DE], hour, six, SETTINGS)) == [
        ("feedback_share", "DE", "ticket"),
        ("zero_results_share", "DE", "ticket"),
    ]
    assert said(traffic_changes([DE], hour, six, SETTINGS, has_gap=True)) == [
        ("zero_results_share", "DE", "ticket")
    ]


def test_a_segment_without_its_usual_searches_is_said_and_the_whole_is_not() -> None:
    hour = sides([(1, 1, 0), (29, 9, 0), (30, 9, 0)], [(900, 9, 9), (300, 9, 0), (300, 9, 0)])
    assert said(traffic_changes([WHOLE, DE, FR], hour, None, SETTINGS)) == [
        ("impressions", "DE", "ticket")
    ]
    few = sides([(0, 0, 0)], [(199, 9, 9)])
    assert said(traffic_changes([DE], few, None, SETTINGS)) == []


def test_what_an_open_change_tells_is_not_said_again() -> None:
    hour = sides([(1000, 400, 90)] * 2, [(1000, 400, 40)] * 2)
    six = sides([(6000, 2400, 400)] * 2, [(6000, 2400, 240)] * 2)

    def segments(told: dict[tuple[str, str], Urgency]) -> list[str]:
        found = traffic_changes([WHOLE, FR], hour, six, SETTINGS, told)
        return [each.segment[1] for each in found]

    assert segments({}) == ["all", "FR"]
    assert segments({DE: "ticket"}) == ["all"]
    assert segments({DE: "page", FR: "ticket"}) == []


@pytest.mark.parametrize("is_of_whole", [False, True])
def test_what_stands_tells_of_what_is_no_worse_than_during_it(is_of_whole: bool) -> None:
    low, six_low = [(1000.0, 400.0, 90.0)] * 2, [(6000.0, 2400.0, 400.0)] * 2
    usual, six_usual = [(1000.0, 400.0, 40.0)] * 2, [(6000.0, 2400.0, 240.0)] * 2
    hour, six_hours = sides(low, usual), sides(six_low, six_usual)

    def segments(during: tuple[TrafficSides, TrafficSides] | tuple[None, None]) -> list[str]:
        standing = Standing(is_of_whole, *during)
        found = traffic_changes([WHOLE, FR], hour, six_hours, SETTINGS, {}, standing)
        return [each.segment[1] for each in found]

    of_whole = [] if is_of_whole else ["all"]
    assert segments((sides(low, low, 1), sides(six_low, six_low, 1))) == of_whole
    assert segments((None, None)) == of_whole, "nothing is known to be worse"
    assert segments((hour, six_hours)) == ["all", "FR"], "it began anew"
    partly = sides(low, [low[0], usual[1]]), sides(six_low, [six_low[0], six_usual[1]])
    assert segments(partly) == [*of_whole, "FR"]
