"""Judged scores: windows that end at what is final, and comparisons within one file only."""

import math
import random
from dataclasses import replace
from typing import Final

import pytest

from relevanced.daemon.events import timestamp_text
from relevanced.daemon.exporter import Scorer, expected, judged_measure, of_reading
from relevanced.daemon.http import judged, judged_history
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.views import WHOLE, LaneFiles, LaneView, grading_at, words_of
from tests.daemon.views.test_coverage import since
from tests.judged_lanes import (
    NOON,
    PLAN,
    US,
    JudgedHour,
    entry,
    exposed_judged,
    judged_reading,
    lane,
    means,
    scored,
    steady,
    units,
)
from tests.lane_views import lane_view, published_of, read_openmetrics, read_text, reading_of

DAY_MS: Final = 24 * HOUR_MS
OLD: Final = entry(NOON - 60 * DAY_MS)
ONE_FILE: Final = LaneFiles(0, (OLD,))


def test_windows_end_where_judged_rows_are_final_ahead_of_those_of_feedback() -> None:
    view = lane(steady(30), ONE_FILE)
    found = scored(view)
    assert found.until_ms == NOON
    assert view.settled_before == NOON - PLAN.timing.attribution_ms
    (hour,) = (each for each in found.windows if each.window == "1h")
    assert (hour.first_ms, hour.rows[0, 0]) == (NOON - HOUR_MS, 120)


def test_windows_sum_lanes_and_are_of_segments_with_gauges() -> None:
    hours = {NOON - HOUR_MS: JudgedHour(score=0.5)}
    better = {NOON - HOUR_MS: JudgedHour(score=0.7)}
    found = scored(lane(hours, ONE_FILE), lane(better, ONE_FILE, number=1))
    assert means(found, "1h")["P@5"] == pytest.approx(0.6)
    assert means(found, "1h", US) == means(found, "1h")


def test_a_slower_lane_holds_the_windows_back() -> None:
    slow = lane(steady(4, until_ms=NOON - HOUR_MS), ONE_FILE, number=1, until_ms=NOON - HOUR_MS)
    assert scored(lane(steady(4), ONE_FILE), slow).until_ms == NOON - HOUR_MS


def test_a_window_begins_with_the_file_that_is_in_force() -> None:
    hours = steady(20, score=0.9, until_ms=NOON - 4 * HOUR_MS) | steady(4, score=0.5)
    new = entry(NOON - 4 * HOUR_MS, "b")
    found = scored(lane(hours, LaneFiles(0, (OLD, new))))
    assert found.grading is not None and found.grading.files == (new,)
    assert means(found, "24h")["P@5"] == pytest.approx(0.5, abs=1e-6)
    assert means(scored(lane(hours, ONE_FILE)), "24h")["P@5"] > 0.8


def test_there_is_no_score_where_no_file_is_in_force_or_a_lane_lacks_the_columns() -> None:
    views = lane(steady(4), ONE_FILE), lane(steady(4), LaneFiles(NOON, (OLD,)), number=1)
    assert scored(*views).windows == ()
    assert scored(lane(steady(4), LaneFiles(0, (entry(NOON),)))).windows == ()
    assert scored(lane(steady(4), LaneFiles(0, (entry(NOON - 1),)))).grading is not None


def test_lanes_that_grade_by_different_files_are_shown_and_compared_with_nothing() -> None:
    new = entry(NOON - 40 * HOUR_MS, "b")
    refusing = LaneFiles(0, (OLD,), (new,))
    found = scored(
        lane(steady(100), LaneFiles(0, (OLD, new))), lane(steady(100), refusing, number=1)
    )
    assert found.grading is not None and found.grading.is_mixed
    assert found.grading.files == (OLD, new)
    assert found.windows and not found.comparisons


@pytest.mark.parametrize(
    ("in_force_hours", "expected"),
    [
        (1, {"1h": ("hour", 0)}),
        (2, {"1h": ("hour", 1)}),
        (4, {"1h": ("hour", 3)}),
        (12, {"1h": ("hour", 6), "6h": ("hour", 1)}),
        (20, {"1h": ("hour", 6), "6h": ("hour", 2)}),
        (25, {"1h": ("day", 1), "6h": ("hour", 3), "24h": ("hour", 0)}),
        (48, {"1h": ("day", 1), "6h": ("day", 1), "24h": ("day", 1)}),
        (169, {"1h": ("week", 1), "6h": ("day", 6), "24h": ("day", 6)}),
        (24 * 30, {"1h": ("week", 3), "6h": ("week", 3), "24h": ("week", 3)}),
    ],
)
def test_until_a_week_of_a_file_is_known_days_serve_and_until_a_day_is_known_hours(
    in_force_hours: int, expected: dict[str, tuple[str, int]]
) -> None:
    new = entry(NOON - in_force_hours * HOUR_MS, "b")
    found = scored(lane(steady(24 * 30 + 2), LaneFiles(0, (OLD, new))))
    assert units(found) == expected


def test_nothing_that_another_file_graded_is_compared() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    for _ in range(40):
        in_force = draw.randint(1, 24 * 30)
        since_ms = NOON - in_force * HOUR_MS
        until_ms = NOON + draw.randint(0, 5) * 600_000
        # The old file gave 1, the new one gives less: any of the old would raise a mean.
        hours = steady(24 * 31, score=1.0, until_ms=since_ms)
        hours |= steady(in_force + 1, score=0.5, until_ms=NOON + HOUR_MS)
        new = entry(since_ms, "b")
        found = scored(lane(hours, LaneFiles(0, (OLD, new)), until_ms=until_ms))
        for each in found.comparisons:
            column = found.plan.metric_column(1)
            for rows in (each.recent, *each.periods.values()):
                assert rows[0, column + 1] == pytest.approx(0.5e6 * rows[0, column], rel=1e-5)


def test_far_fewer_judged_queries_of_a_new_file_are_no_outage_of_it() -> None:
    hours = {start: JudgedHour(12_000) for start in steady(24 * 28)} | steady(50)
    new = entry(NOON - 50 * HOUR_MS, "b")
    assert units(scored(lane(hours, LaneFiles(0, (OLD, new)))))["1h"] == ("day", 2)


def test_without_kept_hours_nothing_is_compared() -> None:
    plan = replace(PLAN, history_hours=0)
    assert scored(lane(steady(30), ONE_FILE, plan=plan), plan=plan).comparisons == []


def test_a_measure_holds_since_the_last_lane_went_over_to_its_file() -> None:
    first, second = entry(NOON - 9 * HOUR_MS), entry(NOON + HOUR_MS, "b")
    lanes = [
        LaneFiles(NOON - 3 * HOUR_MS, (OLD, first, second)),
        LaneFiles(0, (first,), latest_ms=second.start_ms),
    ]
    found = grading_at(lanes, NOON)
    assert found is not None
    assert (found.since_ms, found.until_ms) == (NOON - 3 * HOUR_MS, NOON + HOUR_MS)
    assert not found.is_mixed
    after = grading_at(lanes, NOON + HOUR_MS)
    assert after is not None and after.is_mixed and after.files == (first, second)
    assert grading_at([LaneFiles(0, (first,)), LaneFiles(0)], NOON) is not None
    assert grading_at([LaneFiles(0)], NOON) is None
    assert grading_at([], NOON) is None


def test_a_lane_without_events_since_a_file_began_does_not_disagree() -> None:
    """It adopts the file with its next event, and has no row that another one graded."""
    new = entry(NOON - 20 * HOUR_MS, "b")
    busy = lane(steady(40), LaneFiles(0, (OLD, new), latest_ms=NOON))
    last_ms = NOON - 30 * HOUR_MS
    hours = {start: hour for start, hour in steady(40).items() if start < last_ms}
    for read_ms, is_mixed in ((last_ms, False), (new.start_ms - 1, False), (new.start_ms, True)):
        files = LaneFiles(0, (OLD,), latest_ms=read_ms)
        idle = replace(lane(hours, files, number=1), idle_ms=NOON + 60_000)
        found = scored(busy, idle)
        assert found.grading is not None and found.grading.is_mixed == is_mixed
        assert bool(found.comparisons) != is_mixed
        assert found.grading.since_ms == new.start_ms or is_mixed


def test_bins_are_of_what_the_file_in_force_graded() -> None:
    new = entry(NOON - 5 * HOUR_MS, "b")
    hours = steady(40, score=0.9) | {start: JudgedHour(3600, 0.5) for start in steady(5)}
    view = lane(hours, LaneFiles(0, (OLD, new)))
    read = judged_reading(view)
    scorer = Scorer(judged_measure(PLAN))
    assert scorer.bins() is None
    scorer.of([view], read.snapshot, read.selection)
    bins = scorer.bins()
    assert bins is not None and int(bins.timeline.starts[0]) == new.start_ms
    scores, best_case, impressions = bins.over("all", ["all"], NOON - 3 * HOUR_MS, NOON)
    assert [mean for mean, _ in scores] == pytest.approx([0.5, 0.5])
    assert best_case == scores
    assert impressions == pytest.approx(3 * 3600)
    assert bins.over("all", ["all"], NOON - 9 * HOUR_MS, new.start_ms)[0] == ()
    assert bins.over("country", ["nowhere"], NOON - HOUR_MS, NOON)[0] == ()


def test_scores_are_made_anew_only_where_something_is_new() -> None:
    view = lane(steady(30), ONE_FILE)
    read = judged_reading(view)
    scorer, as_of_ms = Scorer(judged_measure(PLAN)), read.snapshot.as_of_ms
    assert as_of_ms is not None
    first = scorer.of([view], read.snapshot, read.selection)
    soon = replace(read.snapshot, as_of_ms=as_of_ms + 1)
    assert scorer.of([view], soon, read.selection) is first
    refused = LaneFiles(0, (OLD,), (entry(NOON, "c"),))
    rows = {name: replace(of, files=refused) for name, of in view.rows.items()}
    other = scorer.of([replace(view, rows=rows)], read.snapshot, read.selection)
    assert other.files == (refused,) and other.snapshot is first.snapshot
    later = replace(read.snapshot, as_of_ms=as_of_ms + 600_000)
    assert scorer.of([view], later, read.selection).until_ms == NOON + 600_000


def test_readiness_says_which_lanes_refused_what_and_is_not_lost_by_it() -> None:
    new = entry(NOON - 20 * HOUR_MS, "b")
    refusing = [LaneFiles(0, (OLD,), (new,), number) for number in (3, 1)]
    taking = LaneFiles(0, (OLD, new))
    measure = grading_at([taking, *refusing], NOON)
    words = words_of([taking, *refusing], measure)
    assert words.startswith("lanes 1, 3 refused b.csv") and "(a.csv, b.csv)" in words
    assert words_of([taking], grading_at([taking], NOON)) == ""
    read = judged_reading(lane(steady(30), taking), lane(steady(30), refusing[0], number=3))
    (condition,) = (
        one for one in of_reading(published_of(read), True) if one.name == "judged_scores"
    )
    assert condition.ok and "lanes 3 refused b.csv" in condition.detail
    plain = published_of(reading_of([lane_view([])]))
    assert "judged_scores" not in [one.name for one in of_reading(plain, True)]


def test_series_say_score_share_files_and_what_is_compared() -> None:
    refused = entry(NOON - 2 * HOUR_MS, "c")
    files = LaneFiles(0, (OLD,), (refused,))
    texts = exposed_judged(scored(lane(steady(24 * 15, score=0.8), files)))
    families = {family.name: family for family in read_text(b"".join(texts.text))}
    of_whole = {"grouping": "all", "segment": "all", "window": "1h"}

    def value(family: str, **labels: str) -> float:
        (found,) = (s.value for s in families[family].samples if s.labels == labels)
        return float(found)

    assert value("relevanced_judged_score", metric="P@5", **of_whole) == pytest.approx(0.8)
    assert value("relevanced_judged_impressions", **of_whole) == 120
    assert value("relevanced_judged_items_ratio", **of_whole) == pytest.approx(0.9)
    assert value("relevanced_recent_judged_score", metric="P@5", **of_whole) == pytest.approx(0.8)
    assert value("relevanced_baseline_judged_impressions", **of_whole) == pytest.approx(120)
    assert value("relevanced_judged_baseline_periods", window="1h", unit="week") == 2
    assert value("relevanced_judged_until_timestamp_seconds") == NOON / 1000
    assert value("relevanced_judged_since_timestamp_seconds") == OLD.start_ms / 1000
    assert value("relevanced_judgements_mixed") == 0
    named = {"name": "c.csv", "start": "2026-11-20T10:00:00Z"}
    assert value("relevanced_judgements_refused_lanes", **named) == 1
    read_openmetrics(b"".join(texts.openmetrics) + b"# EOF\n")


def begun(view: LaneView, country_ms: int | None = None, day_ms: int | None = None) -> LaneView:
    """A lane that has the grouping `country`, and the window of a day, since these instants."""
    lengths = {span.length_ms: None for span in PLAN.timing.windows}
    groupings = {**dict.fromkeys(PLAN.grouping_ids), "country": country_ms}
    return since(view, PLAN, groupings=groupings, windows={**lengths, DAY_MS: day_ms})


def test_a_grouping_that_began_within_a_window_is_absent_from_it_and_its_start_is_said() -> None:
    began_ms = NOON - 2 * HOUR_MS
    reading = judged_reading(begun(lane(steady(30), ONE_FILE), country_ms=began_ms))
    found = {
        (one.window, one.segment): (one.impressions, one.scored, one.since)
        for one in judged(reading, {"judged_metric": ["P@5"]}).scores
    }
    assert found["1h", "US"] == found["1h", "all"] == (120, 120, None)
    assert found["24h", "US"] == (None, None, timestamp_text(began_ms))
    assert found["24h", "all"] == (24 * 120, 24 * 120, None)
    assert reading.judged is not None
    families = read_text(b"".join(exposed_judged(reading.judged).text))
    (impressions,) = (one for one in families if one.name == "relevanced_judged_impressions")
    shown = {(one.labels["window"], one.labels["segment"]) for one in impressions.samples}
    assert ("24h", "US") not in shown and {("1h", "US"), ("24h", "all")} <= shown
    panes = judged_history(reading, "P@5", US, "1h").panes
    are_known = [pane.impressions is not None for pane in panes]
    assert are_known == [pane.start >= timestamp_text(began_ms) for pane in panes]
    assert 0 < sum(are_known) < len(panes)


def test_a_window_is_absent_until_lanes_have_judged_rows_of_all_of_it() -> None:
    for began_ms, is_shown in ((NOON - DAY_MS, True), (NOON - 23 * HOUR_MS, False)):
        view = begun(lane(steady(50), ONE_FILE), day_ms=began_ms)
        assert ("24h" in {window.window for window in scored(view).windows}) == is_shown
        panes = judged_history(judged_reading(view), "P@5", US, "24h").panes
        assert panes[0].start >= timestamp_text(began_ms)


def test_a_window_that_begins_with_its_file_shows_what_began_before_that() -> None:
    files = LaneFiles(0, (OLD, entry(NOON - 4 * HOUR_MS, "b")))
    began_ms = NOON - 5 * HOUR_MS
    found = scored(begun(lane(steady(30), files), began_ms, began_ms))
    (day,) = (window for window in found.windows if window.window == "24h")
    assert (
        found.known(day.rows, found.first_of_window(day))[:, 0] == day.rows[:, 0]
    ).all() and day.rows[-1, 0] > 0


def test_hours_in_which_a_grouping_was_not_judged_are_no_baseline_of_it() -> None:
    found = scored(begun(lane(steady(50), ONE_FILE), country_ms=NOON - 3 * HOUR_MS))
    (hour,) = (one for one in found.comparisons if one.window == "1h")
    usual = dict(zip(found.segments, expected([*hour.periods.values()]), strict=True))
    assert usual[WHOLE][0] == pytest.approx(120) and math.isnan(usual[US][0])
