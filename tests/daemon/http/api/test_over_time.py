"""Effects by day are those of the lanes' days, however they are stored, and say what is missing."""

from dataclasses import replace
from typing import Final

import pytest

from relevanced.daemon.experiments import (
    INTERLEAVED_DAYS,
    OverTime,
    Tallies,
    Tracking,
    effects_by_day,
    render_days,
)
from relevanced.daemon.exporter import Reading
from relevanced.daemon.http import BadRequest, over_time
from tests.daemon.experiments.test_by_day import (
    DAYS,
    ONE_METRIC,
    random_days,
    tallies_of,
)
from tests.lane_views import PLAN, lane_view, reading_of as shown_of

FIRST: Final = "2024-10-04"


def reading_of(*lanes: Tallies) -> Reading:
    """A reading of lanes."""
    plan = replace(PLAN, tracking=Tracking({"x": replace(ONE_METRIC, name="x")}, 0, ONE_METRIC))
    views = []
    for number, one in enumerate(lanes):
        one.digest = replace(ONE_METRIC, name="x").digest
        views.append(replace(lane_view([]), lane=number, experiments={"x": one}))
    return shown_of(views, plan)


def asked(*exclude: str, lanes: int = 2) -> OverTime:
    reading = reading_of(*(tallies_of(ONE_METRIC, random_days(seed)) for seed in range(lanes)))
    return over_time(reading, "x", exclude)


def test_rows_are_the_days_of_all_lanes() -> None:
    lanes = [tallies_of(ONE_METRIC, random_days(seed)) for seed in range(2)]
    found = asked()
    assert found.days == effects_by_day(ONE_METRIC, lanes, PLAN.metrics) and len(found.days) == DAYS
    assert (found.days[0].day, found.first_whole_day, found.excluded) == (FIRST, None, None)


def test_excluded_days_are_said_and_have_no_rows() -> None:
    found = asked("2024-10-06/2024-10-08", "2024-10-08T00:00Z/2024-10-09", lanes=1)
    left = [row.day for row in found.days]
    assert left == [f"2024-10-{day:02d}" for day in (4, 5, 9, 10, 11, 12, 13)]
    assert found.days[-1].impressions == 7 * 200
    assert found.excluded is not None and found.excluded.impressions == 3 * 400
    assert "2024-10-06 00:00 – 2024-10-09 00:00 UTC" in found.excluded.words
    assert "users are not kept by day" in found.excluded.warning


@pytest.mark.parametrize(
    ("exclude", "rule"),
    [
        ("yesterday", "must be FROM/TO"),
        ("2024-10-06/2024-10-05", "FROM before TO"),
        ("2024-10-06T01:00Z/2024-10-07", "must begin and end at midnight UTC"),
        ("2024-10-01/2024-11-01", "leaves out all 8,000 impressions of x"),
    ],
)
def test_exclusions_that_cannot_be_answered_say_why(exclude: str, rule: str) -> None:
    with pytest.raises(BadRequest, match=rule) as caught:
        asked(exclude)
    assert caught.value.status == 400


def test_days_before_the_first_whole_one_cannot_be_left_out() -> None:
    older = tallies_of(ONE_METRIC, random_days(1))
    older.began_ms = 0
    reading = reading_of(older)
    found = over_time(reading, "x", ())
    assert found.first_whole_day == "2024-10-05"
    assert [row.day_impressions for row in found.days] == [None] + [200] * (DAYS - 1)
    with pytest.raises(BadRequest, match="must begin on 2024-10-05 or later"):
        over_time(reading, "x", ["2024-10-04/2024-10-06"])
    assert len(over_time(reading, "x", ["2024-10-05/2024-10-06"]).days) == DAYS - 1


def test_interleaved_lists_alone_have_no_days_and_say_so() -> None:
    arms = random_days(1)
    days = {"control": arms["control"], "interleaved": arms["treatment"]}
    found = over_time(reading_of(tallies_of(ONE_METRIC, days)), "x", ())
    assert (found.days, found.caution) == ((), INTERLEAVED_DAYS)
    assert INTERLEAVED_DAYS in render_days(found, "table")
    assert asked().caution != INTERLEAVED_DAYS
    beside = tallies_of(ONE_METRIC, {**arms, "interleaved": arms["treatment"]})
    assert over_time(reading_of(beside), "x", ()).caution != INTERLEAVED_DAYS


def test_an_experiment_without_traffic_has_no_days() -> None:
    reading = reading_of()
    assert over_time(reading, "x", ()).days == ()
    with pytest.raises(BadRequest, match="experiment=y: is not tracked"):
        over_time(reading, "y", ())
