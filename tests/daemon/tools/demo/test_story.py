"""What the terminal of the demo says: how much is left to read, then the whole, the segment that
breaks, and when it breaks and is repaired."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from relevanced.daemon.http import Headline, HeadlineParts, judged
from relevanced.daemon.judgements import read, read_entry, read_index
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.timing import timing
from relevanced.daemon.tools.demo_story import (
    METRIC,
    WINDOW,
    DemoStory,
    is_read,
    judged_text,
    page_news,
    reading_text,
    story_text,
)
from relevanced.daemon.tools.demonstration import judgements_of
from relevanced.daemon.tools.traffic import JUDGED_QUERIES, Regression, Traffic, TrafficStream
from relevanced.daemon.views import Events, LaneFiles, Report, Score
from tests.judged_lanes import NOON, PLAN, JudgedHour, entry, judged_reading, lane
from tests.lane_views import lane_view, reading_of

START_MS = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp() * 1000)
REGRESSION = Regression(after_s=60, segment={"country": "DE"}, until_s=420)
HISTORY_S = 70 * 60


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


def story_line(*scores: Score, regression: Regression = REGRESSION, after_s: float = 15) -> str:
    return story_text(report(*scores), regression, START_MS, START_MS + int(after_s * 1000))


def story_of(repaired_after_s: float | None = 360) -> DemoStory:
    return DemoStory(TrafficStream(Traffic(), START_MS), HISTORY_S, 20, repaired_after_s)


def reading_line(read_s: float | None, took_s: float) -> str:
    as_of_ms = None if read_s is None else START_MS + int(read_s * 1000)
    return reading_text(story_of(), as_of_ms, START_MS + int((HISTORY_S + took_s) * 1000))


def test_the_first_line_says_that_all_history_is_left() -> None:
    assert reading_line(None, 0) == "13:10:00  reading 70 min of history: 70 min of it left"


def test_history_is_left_from_the_end_of_the_windows_to_the_clock() -> None:
    assert reading_line(47 * 60, 5) == "13:10:05  reading 70 min of history: 23 min of it left"
    assert reading_line(HISTORY_S - 25, 5).endswith(": 30 s of it left")
    assert reading_line(-4, 0).endswith(": 70 min of it left")


def test_history_is_read_once_the_windows_end_now() -> None:
    assert not is_read(None, START_MS)
    assert not is_read(START_MS - 10_001, START_MS)
    assert is_read(START_MS - 10_000, START_MS)


def test_the_ranking_breaks_so_long_after_the_history_is_read() -> None:
    story = story_of()
    assert story.stream.regression is None
    story.begin(START_MS + (HISTORY_S + 31) * 1000)
    assert story.stream.regression == Regression(HISTORY_S + 51, until_s=HISTORY_S + 51 + 360)


def test_it_can_stay_broken() -> None:
    story = story_of(repaired_after_s=None)
    story.begin(START_MS + HISTORY_S * 1000)
    assert story.stream.regression == Regression(HISTORY_S + 20)


def test_the_whole_stands_beside_the_segment_that_breaks() -> None:
    line = story_line(score("all", "all", 0.6182), score("country", "DE", 0.5))
    assert line == (
        "12:00:15  RR@10 over 1m: all 0.618, DE 0.500  (ranking of country=DE breaks in 45 s)"
    )


@pytest.mark.parametrize(
    ("after_s", "state"),
    [
        (59.4, "breaks in 1 s"),
        (60, "is broken, repair in 6 min"),
        (330, "is broken, repair in 90 s"),
        (420, "was repaired 0 s ago"),
        (460, "was repaired 40 s ago"),
        (420 + 720, "was repaired 12 min ago"),
    ],
)
def test_it_states_when_the_ranking_breaks_and_is_repaired(after_s: float, state: str) -> None:
    assert story_line(after_s=after_s).endswith(f"(ranking of country=DE {state})")


def test_no_repair_is_promised_where_there_is_none() -> None:
    line = story_line(regression=Regression(60), after_s=600)
    assert line.endswith("(ranking of country=DE is broken)")


def test_no_traffic_undefined_and_0_stay_three() -> None:
    assert "all undefined, DE no traffic" in story_line(score("all", "all", None))
    assert "all 0.000, DE" in story_line(score("all", "all", 0.0))


def test_the_headline_is_printed_when_it_says_something_else() -> None:
    good, worse = Headline("good", "Good.", "", None), Headline("worse", "Worse.", "More.", "c-1")
    assert page_news(None, good) == "          Good."
    assert page_news(good, worse) == "          Worse."
    assert page_news(worse, Headline("worse", "Still worse.", "", "c-1")) == ""


def told(state: Any, **more: Any) -> Headline:
    """What the page says of a change."""
    values: dict[str, Any] = dict.fromkeys(HeadlineParts.__struct_fields__)
    parts = HeadlineParts(**values | {"state": state, "metric": "RR@10"} | more)
    return Headline("worse", f"{state} {more}.", "", "c-1", parts)


def test_the_headline_is_printed_when_live_is_back_and_when_that_is_final() -> None:
    fallen, back, over = told("open"), told("repaired", final="12:08"), told("repaired")
    assert page_news(fallen, told("open", before=0.6)) == ""
    assert page_news(fallen, back) == f"          {back.text}"
    assert page_news(back, told("repaired", final="12:09")) == ""
    assert page_news(back, over) == f"          {over.text}"


def test_the_headline_is_printed_when_clicks_show_what_judgements_did() -> None:
    """One change, told by another metric from then on."""
    clicks = told("open")
    assert page_news(told("open", metric="nDCG(ideal=pool)@10"), clicks).strip() == clicks.text


def test_what_is_over_stands_beside_that_search_is_good() -> None:
    good = Headline("good", "Good.", "RR@10 recovered.", None)
    assert page_news(told("repaired"), good) == "          Good. RR@10 recovered."


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
