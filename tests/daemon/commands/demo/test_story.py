"""The demo's line: the whole, the segment that breaks, and when."""

from datetime import UTC, datetime
from typing import Any

import pytest

from relevanced.daemon.commands.demo.story import METRIC, WINDOW, news, story
from relevanced.daemon.commands.simulate.traffic import Regression
from relevanced.daemon.exporter.scores import Events, Report, Score
from relevanced.daemon.http.api.stories import Headline

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
    return story(report(*scores), regression, START_MS, START_MS + int(after_s * 1000))


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
    assert news(None, good) == "          Good."
    assert news(good, worse) == "          Worse."
    assert news(worse, Headline("worse", "Still worse.", "", "c-1")) == ""
