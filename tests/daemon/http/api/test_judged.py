"""The answers about judged scores: what they are of, and that lanes disagree."""

from dataclasses import replace
from typing import Final

import pytest

from relevanced.daemon.changes import MIXED
from relevanced.daemon.events import timestamp_ms, timestamp_text
from relevanced.daemon.exporter import Publisher
from relevanced.daemon.http import judged, judged_history
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.views import LaneFiles
from tests.daemon.exporter.judged_site import PLAN as PLAN_OF_SITE, JudgedSite, reading
from tests.judged_lanes import NOON, PLAN, JudgedHour, entry, judged_reading, lane, steady
from tests.lane_views import lane_view, reading_of

MINUTE_MS: Final = 60_000
OLD: Final = entry(NOON - 40 * 24 * HOUR_MS)
ONE_FILE: Final = LaneFiles(0, (OLD,))
WHOLE: Final = ("all", "all")
OF_WHOLE: Final = {"grouping": ["all"], "judged_metric": ["P@5"]}


def test_scores_say_what_graded_them_and_how_much_is_judged() -> None:
    found = judged(judged_reading(lane(steady(30, score=0.7), ONE_FILE)), OF_WHOLE)
    assert (found.judgements, found.until) == ("a.csv", timestamp_text(NOON))
    assert (found.depth, found.unjudged) == (10, "zero")
    (hour,) = (one for one in found.scores if one.window == "1h")
    assert hour.mean == pytest.approx(0.7) and hour.items_share == pytest.approx(0.9)
    assert (hour.impressions, hour.since) == (120, None)


def test_a_window_that_began_with_the_file_says_since_when_it_counts() -> None:
    """The panes of a day have 48 minutes: that of 09:36 is in part of the former file."""
    new = entry(NOON - 2 * HOUR_MS, "b")
    found = judged(judged_reading(lane(steady(30), LaneFiles(0, (OLD, new)))), OF_WHOLE)
    since = {one.window: one.since for one in found.scores}
    assert found.since == timestamp_text(new.start_ms)
    assert since["24h"] == timestamp_text(new.start_ms + 24 * MINUTE_MS)
    assert since["1h"] is None


def test_lanes_that_disagree_are_mixed_and_compared_with_nothing() -> None:
    new = entry(NOON - 20 * HOUR_MS, "b")
    lanes = lane(steady(30), LaneFiles(0, (OLD, new))), lane(
        steady(30), LaneFiles(0, (OLD,), (new,)), number=1
    )
    found = judged(judged_reading(*lanes), {})
    assert found.judgements == MIXED and not found.compared
    assert {one.judgements for one in found.scores} == {MIXED}
    assert [file.name for file in found.files] == ["a.csv", "b.csv"]
    assert [file.name for file in found.refused] == ["b.csv"]


def test_a_fall_against_usual_is_worse_and_a_steady_score_is_not() -> None:
    hours = steady(24 * 22) | {NOON - HOUR_MS: JudgedHour(1200, score=0.5)}
    of_hour = {**OF_WHOLE, "window": ["1h"]}
    (fell,) = judged(judged_reading(lane(hours, ONE_FILE)), of_hour).compared[:1]
    assert (fell.verdict, fell.unit, fell.periods, fell.window) == ("worse", "week", 3, "1h")
    assert fell.before.mean == pytest.approx(0.8) and fell.now.mean == pytest.approx(0.5)
    assert fell.difference == pytest.approx(-0.3)
    quiet = judged(judged_reading(lane(steady(24 * 22), ONE_FILE)), OF_WHOLE).compared
    assert {one.verdict for one in quiet} == {"level"}


def test_a_segment_of_an_open_change_stands_beside_what_it_was_before_also_a_day_later() -> None:
    broke = NOON - 40 * MINUTE_MS
    site = JudgedSite(
        lambda at_ms, country: 0.6 if country == "DE" and at_ms >= broke else 0.8,
        NOON - 20 * HOUR_MS,
        NOON + 27 * HOUR_MS,
        per_hour=6000,
    )
    publisher = Publisher(PLAN_OF_SITE)
    for later_ms in (15 * MINUTE_MS, HOUR_MS, 24 * HOUR_MS, 26 * HOUR_MS):
        found = judged(reading(site, broke + later_ms, publisher), {"judged_metric": ["P@5"]})
        rows = {one.segment: one for one in found.compared if one.window == "1h"}
        fell, steady_one, whole = rows["DE"], rows["US"], rows["all"]
        assert fell.before.mean == pytest.approx(0.8, abs=0.02)
        assert fell.now.mean == pytest.approx(0.6, abs=0.03)
        assert (fell.verdict, fell.unit, fell.periods) == ("worse", None, 0)
        assert abs(timestamp_ms(fell.since) - broke) <= 10 * MINUTE_MS
        assert (whole.verdict, whole.since) == ("diluted", fell.since)
        assert steady_one.verdict == "level" and steady_one.since is None


def test_history_has_the_panes_of_the_file_that_grades_and_no_others() -> None:
    new = entry(NOON - 90 * 60_000 // 60_000 * 60_000 - 30 * 60_000, "b")
    read = judged_reading(lane(steady(6, score=0.6), LaneFiles(0, (OLD, new))))
    found = judged_history(read, "P@5", WHOLE, "1h")
    assert found.panes[0].start == timestamp_text(new.start_ms)
    assert found.panes[-1].end == found.as_of == found.settled_until == timestamp_text(NOON)
    assert {round(pane.mean or 0, 6) for pane in found.panes} == {0.6}


def test_a_pane_has_its_best_case_and_the_share_judged_beside_the_score() -> None:
    read = judged_reading(lane(steady(6), ONE_FILE))
    [score] = (
        one
        for one in judged(read, OF_WHOLE).scores
        if one.judged_metric == "P@5" and one.window == "1h"
    )
    panes = judged_history(read, "P@5", WHOLE, "1h").panes
    assert {(p.mean, p.best_case, p.items_share) for p in panes if p.scored} == {
        (score.mean, score.best_case, score.items_share)
    }


def test_nothing_is_judged_where_no_metrics_are() -> None:
    found = judged(reading_of([lane_view([])]), {})
    assert (found.judged_metrics, found.judgements, found.scores) == ((), None, ())
    without_file = judged_reading(lane(steady(3), LaneFiles(0)))
    found = judged(without_file, {})
    assert found.judged_metrics and found.judgements is None and not found.scores
    assert judged_history(without_file, "P@5", WHOLE, "1h").panes == ()
    assert replace(PLAN, judged=None).judged is None
