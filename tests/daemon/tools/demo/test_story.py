"""The demo's line: the whole, the segment that breaks, and when."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from relevanced.daemon.http import Headline, judged
from relevanced.daemon.judgements import read, read_entry, read_index
from relevanced.daemon.panes import HOUR_MS, timing
from relevanced.daemon.tools.demonstration import (
    METRIC,
    WINDOW,
    judged_text,
    judgements_of,
    page_news,
    story_text,
)
from relevanced.daemon.tools.traffic import JUDGED_QUERIES, Regression, Traffic
from relevanced.daemon.views import Events, LaneFiles, Report, Score
from tests.judged_lanes import NOON, PLAN, JudgedHour, entry, judged_reading, lane
from tests.lane_views import lane_view, reading_of

START_MS = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp() * 1000)
REGRESSION = Regression(after_s=60, segment={"country": "DE"})


def score(grouping: str, segment: str, mean: float | None, **more: str) -> Score:
    """A live score of the metric and window of the story, unless `more` changes them."""
    names = {"metric": METRIC, "window": WINDOW, "view": "live"} | more
    values: dict[str, Any] = dict.fromkeys(Score.__struct_fields__, 1)
    return Score(**values | names | {"grouping": grouping, "segment": segment, "mean": mean})


def report(*scores: Score) -> Report:
    decoys = [
        score("all", "all", 0.9, metric="nDCG@10"),
        score("all", "all", 0.9, window="1h"),
        score("all", "all", 0.9, view="settled"),
        score("device", "DE", 0.9),
    ]
    nothing: dict[str, Any] = dict.fromkeys(Events.__struct_fields__, 0)
    return Report(None, Events(**nothing), (*decoys, *scores))


def story_line(
    *scores: Score, regression: Regression | None = REGRESSION, after_s: float = 15
) -> str:
    return story_text(report(*scores), regression, START_MS, START_MS + int(after_s * 1000))


def test_the_whole_stands_beside_the_segment_that_breaks() -> None:
    line = story_line(score("all", "all", 0.6182), score("country", "DE", 0.5))
    assert line == (
        "12:00:15  RR@10 over 1m: all 0.618, DE 0.500  (ranking of country=DE breaks in 45 s)"
    )


@pytest.mark.parametrize(("after_s", "broken"), [(59.4, "breaks in 1 s"), (60, "is broken")])
def test_it_states_when_the_ranking_breaks(after_s: float, broken: str) -> None:
    assert story_line(after_s=after_s).endswith(f"(ranking of country=DE {broken})")


def test_no_traffic_undefined_and_0_stay_three() -> None:
    assert "all undefined, DE no traffic" in story_line(score("all", "all", None))
    assert "all 0.000, DE" in story_line(score("all", "all", 0.0))


def test_nothing_breaks_without_a_regression() -> None:
    line = story_line(score("all", "all", 1.0), regression=None)
    assert line.endswith("all 1.000  (nothing breaks)")


def test_the_headline_is_printed_when_it_says_something_else() -> None:
    good, worse = Headline("good", "Good.", "", None), Headline("worse", "Worse.", "", "c-1")
    assert page_news(None, good) == "          Good."
    assert page_news(good, worse) == "          Worse."
    assert page_news(worse, Headline("worse", "Still worse.", "", "c-1")) == ""


def test_judged_scores_stand_below_those_of_clicks() -> None:
    hours = {NOON - HOUR_MS: JudgedHour(36_000, score=0.71)}
    plan = replace(PLAN, timing=timing([("1m", 60)], attribution_s=60, lateness_s=4))
    view = lane(hours, LaneFiles(0, (entry(0),)), plan=plan)
    found = judged(judged_reading(view, plan=plan), {})
    line = judged_text(found, REGRESSION)
    assert line == "          by judgements, nDCG(ideal=pool)@10: all 0.710, DE no traffic"
    assert judged_text(judged(reading_of([lane_view([])]), {}), REGRESSION) == ""


def test_the_demo_is_judged_by_a_file_that_is_in_force_before_its_history() -> None:
    world = Traffic(seed=1).world
    with judgements_of(world, NOON + 5 * 60_000) as folder:
        (listed,) = read_index(folder)
        assert listed.start_ms == NOON
        assert len(read_entry(folder, listed, read).by_query) == JUDGED_QUERIES
    assert not folder.exists()
