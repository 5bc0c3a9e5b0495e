"""History, changes and segments of one reading."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from relevanced.daemon.events import timestamp_text
from relevanced.daemon.exporter import Reading
from relevanced.daemon.http import (
    LEAST_SCORED,
    Change,
    Changes,
    Estimate,
    History,
    Verdict,
    changes,
    compared_periods,
    history,
    onsets,
    segments,
    verdict,
)
from relevanced.daemon.storage import InForce, first_layouts
from relevanced.daemon.timing import timing
from relevanced.daemon.views import covered, report
from relevanced.metrics import Direction
from tests.lane_views import NOW_MS, PLAN, Shown, lane_view, reading_of

HOURLY_WINDOWS = [("1m", 60), ("10m", 600), ("1h", 3600)]
HOURLY = replace(PLAN, timing=timing(HOURLY_WINDOWS, attribution_s=60, lateness_s=4))
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
WHOLE = ("all", "all")


def steady(value: float, *, country: str = "US", ago_ms: int = 0, count: int = 400) -> list[Shown]:
    """Impressions over ten minutes up to `ago_ms` ago; this share of them has P@1 = 1."""
    good = round(value * count)
    return [
        Shown(
            country=country,
            time_ms=NOW_MS - ago_ms - 1 - number * 10 * MINUTE_MS // count,
            values=(float(number * good // count != (number + 1) * good // count), 0.5, None),
        )
        for number in range(count)
    ]


def hourly(impressions: Iterable[Shown]) -> Reading:
    return reading_of([lane_view(impressions, plan=HOURLY)], HOURLY)


def changes_by_segment(reading: Reading, view: str = "live", **wanted: str) -> dict[str, Change]:
    """The changes of P@1 over an hour, by segment."""
    query = {"metric": ["P@1"], **{name: [value] for name, value in wanted.items()}}
    return {one.segment: one for one in compared(reading, view, query).changes}


def compared(reading: Reading, view: str, query: dict[str, list[str]]) -> Changes:
    return changes(reading, "1h", view, query)


def settling(impressions: list[Shown]) -> list[Shown]:
    """The same, so much earlier that the settled view ends where the live one did."""
    settle_ms = HOURLY.timing.settle_ms
    return [replace(one, time_ms=one.time_ms - settle_ms) for one in impressions]


def total(found: History) -> tuple[int, int, float]:
    panes = found.panes[-found.window_seconds // found.pane_seconds :]
    scored = sum(pane.scored or 0 for pane in panes)
    sums = sum((pane.mean or 0.0) * (pane.scored or 0) for pane in panes)
    return sum(pane.impressions or 0 for pane in panes), scored, sums / scored if scored else 0.0


@pytest.mark.parametrize("window", ["1m", "10m"])
@pytest.mark.parametrize("segment", [WHOLE, ("country", "DE"), ("country", "other")])
def test_panes_of_a_window_sum_to_its_score(window: str, segment: tuple[str, str]) -> None:
    countries = ("US", "DE", "FR", "BR")
    shown = [
        Shown(country=countries[number % 4], time_ms=NOW_MS - 1 - 7_000 * number, feedback=number)
        for number in range(120)
    ]
    views = [lane_view(shown[:70], lane=0), lane_view(shown[70:], lane=1)]
    reading = reading_of(views)
    found = history(reading, "RR@10", segment, window)
    scores = report(reading.snapshot, reading.selection, PLAN).scores
    wanted = ("RR@10", *segment, window, "live")
    (score,) = (
        one
        for one in scores
        if (one.metric, one.grouping, one.segment, one.window, one.view) == wanted
    )
    assert total(found) == pytest.approx((score.impressions, score.scored, score.mean or 0.0))


def test_history_is_whole_panes_up_to_now() -> None:
    found = history(reading_of([lane_view([Shown()])]), "P@1", WHOLE, "1m")
    assert (found.window_seconds, found.pane_seconds) == (60, 2)
    assert found.panes[-1].start == timestamp_text(NOW_MS) == found.as_of
    assert found.settled_until == timestamp_text(NOW_MS - 64_000)
    for before, after in zip(found.panes, found.panes[1:], strict=False):
        assert before.end == after.start
    kept_ms = PLAN.timing.kept_ms(PLAN.timing.windows[0])
    assert len(found.panes) == kept_ms // 2000


def test_in_history_no_traffic_undefined_and_0_stay_three() -> None:
    shown = [Shown(values=(0.0, 0.5, None)), Shown(time_ms=NOW_MS - 3000, values=(None, 1.0, 1.0))]
    panes = history(reading_of([lane_view(shown)]), "P@1", WHOLE, "1m").panes[-4:]
    states = [(pane.mean, pane.impressions) for pane in panes]
    assert states == [(None, 0), (None, 1), (0.0, 1), (None, 0)]


def test_in_history_panes_before_a_grouping_or_metric_counts_are_unknown() -> None:
    """Not without traffic: what is counted since later has null, and the rest its numbers."""
    always, since_ms = first_layouts(InForce(PLAN)), NOW_MS - 100_000
    groupings = {**always.since.groupings, "country": since_ms}
    columns = {**always.since.columns, PLAN.column_ids[0]: since_ms}
    late = structs.replace(always.since, groupings=groupings, columns=columns)
    lane = lane_view([Shown(time_ms=at) for at in (since_ms - 1, since_ms, NOW_MS)])
    lane = replace(lane, layouts=structs.replace(always, since=late))
    reading = reading_of(covered([lane], PLAN))
    states = {
        segment: [(pane.scored, pane.impressions) for pane in panes[-52:-48]]
        for segment in (WHOLE, ("country", "US"))
        for panes in [history(reading, PLAN.metrics[0].name, segment, "1m").panes]
    }
    assert states[WHOLE] == [(None, 1), (1, 1), (0, 0), (0, 0)]
    assert states["country", "US"] == [(None, None), (1, 1), (0, 0), (0, 0)]


def test_a_lane_that_is_ahead_shortens_what_all_keep() -> None:
    ahead = lane_view([Shown(time_ms=NOW_MS + 100_000)], lane=1, watermark_ms=NOW_MS + 100_000)
    alone = history(reading_of([lane_view([Shown()])]), "P@1", WHOLE, "1m")
    both = history(reading_of([lane_view([Shown()]), ahead]), "P@1", WHOLE, "1m")
    assert len(alone.panes) - len(both.panes) == 49


def test_before_any_event_there_is_no_history_and_no_change() -> None:
    reading = reading_of([])
    assert history(reading, "P@1", WHOLE, "1m").panes == ()
    found = changes(reading, "1m", "live", {})
    assert (found.now, found.before, found.changes) == (None, None, ())


def test_segments_are_listed_busiest_first() -> None:
    shown = [Shown(country=name) for name in ("US", "DE", "DE", "FR", "FR", "FR", "BR")]
    found = {
        one.grouping: one.segments for one in segments(reading_of([lane_view(shown)])).groupings
    }
    assert list(found) == ["all", "country", "country,device"]
    named = [(one.segment, one.impressions) for one in found["country"]]
    assert named == [("FR", 3), ("DE", 2), ("other", 2)]


def test_an_hour_ago_is_an_hour_ago() -> None:
    reading = hourly([Shown()])
    now, before = compared_periods(reading, "1h", NOW_MS)
    assert before is not None
    assert now.end_ms - before.end_ms == HOUR_MS
    assert (len(now.starts), len(before.starts)) == (30, 30)


def test_a_short_window_is_compared_with_the_longer_panes_that_are_kept() -> None:
    now, before = compared_periods(hourly([Shown()]), "1m", NOW_MS)
    assert before is not None
    assert (now.window_at, now.pane_ms, len(now.starts)) == (0, 2000, 30)
    assert (before.window_at, before.pane_ms, len(before.starts)) == (2, 120_000, 1)
    assert 0 <= now.end_ms - HOUR_MS - before.end_ms < 120_000


def test_without_an_hour_it_is_the_window_just_before() -> None:
    now, before = compared_periods(reading_of([lane_view([Shown()])]), "1m", NOW_MS)
    assert before is not None
    assert (before.end_ms, before.pane_ms) == (now.starts[0], now.pane_ms)


@pytest.mark.parametrize("ahead_min", [30, 60, 140])
def test_what_a_lane_far_ahead_has_dropped_is_compared_with_nothing(ahead_min: int) -> None:
    """Windows of 5m, 1h and 24h: those that the lanes still share are shown. One search a minute
    and lane."""
    plan = replace(HOURLY, timing=timing([("5m", 300), ("1h", 3600), ("24h", 86400)], 1800, 60))
    lanes = []
    for lane, mark_ms in enumerate((NOW_MS, NOW_MS + ahead_min * MINUTE_MS)):
        first_ms = plan.timing.dropped_before(plan.timing.windows[2], mark_ms)
        shown = [Shown(time_ms=at_ms) for at_ms in range(first_ms, mark_ms, MINUTE_MS)]
        lanes.append(lane_view(shown, lane=lane, plan=plan, watermark_ms=mark_ms))
    reading = reading_of(lanes, plan)
    for window in ("1h", "24h"):
        if window not in {rows.window for rows in reading.snapshot.windows if rows.end_ms}:
            continue
        found = changes(
            reading, window, "settled", {"metric": ["P@1"], "grouping": ["all"]}, "hour"
        )
        assert (found.remark is None) == (found.before is not None), window
        if window == "24h":
            assert (found.remark is None) == (ahead_min < 140)
        for row in found.changes:
            for side, stretch in ((row.now, found.now), (row.before, found.before)):
                assert stretch is not None
                start_ms, end_ms = stretch.span
                assert side.impressions == 2 * (end_ms - start_ms) // MINUTE_MS


def test_compared_periods_never_overlap() -> None:
    odd = timing([("1m", 60), ("59m", 59 * 60), ("6h", 6 * 3600)], attribution_s=600, lateness_s=4)
    plan = replace(PLAN, timing=odd)
    reading = reading_of([lane_view([Shown()], plan=plan)], plan)
    for end_ms in range(NOW_MS, NOW_MS + 600_000, 7_000):
        for window in ("1m", "59m", "6h"):
            now, before = compared_periods(reading, window, end_ms)
            assert before is not None and before.end_ms <= now.starts[0]


def test_a_fall_beyond_its_noise_is_called_with_its_beginning() -> None:
    reading = hourly(settling([*steady(0.5, ago_ms=HOUR_MS), *steady(0.2)]))
    found = changes_by_segment(reading, "settled")["US"]
    assert (found.verdict, found.now.mean, found.before.mean) == ("worse", 0.2, 0.5)
    assert found.difference == pytest.approx(-0.3)
    began_ms = NOW_MS - HOURLY.timing.settle_ms - 10 * MINUTE_MS
    # An hour of silence lies between: it began when traffic was next seen.
    assert found.since is not None and found.since <= timestamp_text(began_ms + 120_000)


def test_the_beginning_of_a_fall_is_found_to_the_pane() -> None:
    fallen = [Shown(time_ms=NOW_MS - 1 - 150 * n, values=(0.0, 0.5, None)) for n in range(400)]
    us = [*steady(0.5, ago_ms=HOUR_MS), *steady(0.5, ago_ms=MINUTE_MS), *fallen]
    de = [*steady(0.5, country="DE", ago_ms=HOUR_MS), *steady(0.5, country="DE", count=2000)]
    since = changes_by_segment(hourly([*us, *de]))["US"].since
    assert since is not None
    assert timestamp_text(NOW_MS - 240_000) <= since <= timestamp_text(NOW_MS)


@pytest.mark.parametrize(
    ("now", "before", "called"),
    [
        (0.5, 0.5, "level"),
        (0.45, 0.5, "level"),
        (0.7, 0.5, "better"),
        (0.0, 0.5, "worse"),
    ],
)
def test_only_what_is_beyond_its_noise_is_called(now: float, before: float, called: str) -> None:
    reading = hourly(settling([*steady(before, ago_ms=HOUR_MS), *steady(now)]))
    assert changes_by_segment(reading, "settled")["US"].verdict == called


def test_a_live_fall_of_everything_is_too_early_to_call() -> None:
    fallen = [*steady(0.5, ago_ms=HOUR_MS), *steady(0.2)]
    assert changes_by_segment(hourly(fallen))["all"].verdict == "unripe"
    assert changes_by_segment(hourly(settling(fallen)), "settled")["all"].verdict == "worse"


def test_a_live_fall_against_the_rest_is_called() -> None:
    alike = [
        shown
        for country, now in (("DE", 0.1), ("US", 0.4))
        for shown in (*steady(0.5, country=country, ago_ms=HOUR_MS), *steady(now, country=country))
    ]
    found = changes_by_segment(hourly(alike), grouping="country")
    assert {name: one.verdict for name, one in found.items()} == {"DE": "worse", "US": "level"}
    assert found["DE"].since is not None and found["US"].since is None


def test_few_scored_impressions_are_not_called() -> None:
    few = LEAST_SCORED - 1
    found = changes_by_segment(hourly([*steady(1.0, ago_ms=HOUR_MS), *steady(0.0, count=few)]))
    assert found["US"].verdict == "too_few"


def test_in_changes_no_traffic_and_undefined_stay_two() -> None:
    gone = [*steady(0.5, ago_ms=HOUR_MS), Shown(time_ms=NOW_MS - HOUR_MS + MINUTE_MS)]
    blind = [replace(one, country="DE", values=(None, None, None)) for one in steady(0.5)]
    found = changes_by_segment(
        hourly([*gone, *blind, *(replace(one, country="DE") for one in gone)])
    )
    assert (found["US"].verdict, found["US"].difference) == ("no_traffic", None)
    assert (found["DE"].verdict, found["DE"].now.impressions > 0) == ("undefined", True)


def test_more_segments_need_more_to_be_called() -> None:
    one, many = (
        hourly(shown for name in names for shown in steady(0.5, country=name, count=4))
        for names in (["US"], ["US", "DE", "FR"])
    )
    few, more = (compared(reading, "live", {}).beyond for reading in (one, many))
    assert 3 < few < more < 5


def estimate(mean: float) -> Estimate:
    return Estimate(mean, 0.01, 1000, 1000)


@pytest.mark.parametrize(
    ("sizes", "direction", "expected"),
    [
        ((1.2, 1.2), "up", "better"),
        ((1.2, 1.2), "down", "worse"),
        ((-1.2, -1.2), "down", "better"),
        ((-1.2, -1.2), "none", "moved"),
        ((1.2, -1.2), "up", "unripe"),
        ((1.2, None), "up", "unripe"),
        ((0.9, 5.0), "up", "level"),
    ],
)
def test_better_is_where_the_metric_says(
    sizes: tuple[float, float | None], direction: Direction, expected: Verdict
) -> None:
    assert verdict(estimate(0.5), estimate(0.6), sizes, direction) == expected


def test_a_healthy_search_is_hardly_ever_called(rng: np.random.Generator) -> None:
    called = 0
    for _ in range(40):
        shown = [
            replace(one, values=(float(rng.random() < 0.3), 0.5, None))
            for name in "ABC"
            for ago_ms in (0, HOUR_MS)
            for one in steady(0.3, country=name, ago_ms=ago_ms, count=60)
        ]
        found = changes_by_segment(hourly(settling(shown)), "settled")
        called += sum(one.verdict in ("better", "worse") for one in found.values())
    assert called <= 3


@pytest.mark.parametrize(
    ("scored", "sums", "place"),
    [
        ([10, 10, 10, 10], [9, 9, 1, 1], 2),
        ([10, 0, 0, 10], [9, 0, 0, 1], 1),
        ([10, 10, 10, 10], [5, 5, 5, 1], 3),
        ([0, 10, 10], [0, 10, 2], 2),
    ],
)
def test_an_onset_parts_two_levels(scored: list[int], sums: list[int], place: int) -> None:
    found = onsets(np.array([scored] * 2, float).T, np.array([sums] * 2, float).T)
    assert found.tolist() == [place, place]
