"""What readers hide of metrics, groupings and windows that lanes have had for a while only."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from relevanced.daemon.exporter import MeasureScores, clicks_measure, expected, render_windows
from relevanced.daemon.lane import Since, since_the_beginning
from relevanced.daemon.plan import Plan
from relevanced.daemon.queries import Derivation
from relevanced.daemon.storage import InForce, first_layouts
from relevanced.daemon.timing import timing
from relevanced.daemon.views import (
    ALWAYS,
    LIVE,
    NEVER,
    Coverage,
    HourSources,
    LaneView,
    covered,
    evaluate,
    kept_from,
    pane_starts,
    report,
    select,
)
from tests.daemon.exporter import test_baselines, test_first_sights
from tests.daemon.exporter.test_baselines import HOUR_MS, NOON, PLAN, compared, lane_of, steady
from tests.daemon.exporter.test_first_sights import VERSIONED, every_minute, marked
from tests.daemon.exporter.two_countries import MINUTE_MS


def since(view: LaneView, plan: Plan, **changed: Any) -> LaneView:
    """The lane with columns that it has had since these instants."""
    first = first_layouts(InForce(plan, 1))
    lane = replace(
        view, layouts=structs.replace(first, since=structs.replace(first.since, **changed))
    )
    [shown] = covered([lane], plan)
    return shown


def test_of_several_lanes_the_latest_counts_and_one_that_lacks_it_hides_all() -> None:
    columns = dict.fromkeys(PLAN.column_ids)
    first, name = first_layouts(InForce(PLAN)).since, PLAN.column_ids[0]
    lanes = [structs.replace(first, columns={**columns, name: ms}) for ms in (None, 50, 70)]
    assert Coverage.of(lanes[:1], PLAN).is_whole
    assert Coverage.of(lanes, PLAN).metrics[:2] == (70, ALWAYS)
    assert Coverage.of([*lanes, Since({})], PLAN).metrics[0] == NEVER


def test_rows_lose_the_columns_and_the_segments_that_begin_later() -> None:
    first = first_layouts(InForce(PLAN)).since
    late = structs.replace(first, columns={**first.columns, PLAN.column_ids[1]: 100})
    late = structs.replace(late, groupings={**late.groupings, "country": 200})
    coverage, rows = Coverage.of([late], PLAN), np.ones((2, PLAN.row_width), np.int64)
    segments = [("all", "all"), ("country", "US")]
    column = PLAN.metric_column(1)
    for start, hidden, sums in ((99, 3, 0), (100, 0, 0), (200, 0, PLAN.row_width)):
        shown = coverage.without_hidden(rows, segments, start)
        assert PLAN.row_width - shown[0].sum() == hidden and shown[1].sum() == sums
        assert bool(shown[0, column]) == (hidden == 0)
    assert rows.all(), "they are not changed"


def test_a_window_that_lanes_keep_for_a_while_only_is_shown_once_all_of_it_is_covered() -> None:
    lane, longest = lane_of(steady(8)), PLAN.timing.longest
    starts = pane_starts(longest, evaluate([lane], PLAN).as_of_ms or 0)
    always: dict[int, int | None] = {one.length_ms: None for one in PLAN.timing.windows}
    for begins, is_shown in ((starts[0], True), (starts[0] + 1, False)):
        kept = since(lane, PLAN, windows={**always, longest.length_ms: begins})
        found = evaluate([kept], PLAN)
        shown = {(one.window, one.view) for one in found.windows}
        assert ((longest.name, LIVE) in shown) == is_shown
        assert ((longest.name, LIVE) in found.incomplete) != is_shown
        assert (PLAN.timing.windows[0].name, LIVE) in shown


def test_a_window_is_incomplete_while_a_lane_has_panes_of_another_length() -> None:
    """A roll-out adds a shorter window to one with a pane of its own: keys of panes have the length
    of the window alone, so the panes of a lane that has not moved would count in part."""
    former, now = (
        replace(PLAN, timing=timing(windows, 300, 60, base_s=10))
        for windows in ([("1h", 3600)], [("5m", 300), ("1h", 3600)])
    )
    assert former.timing.windows[0].pane_ms != now.timing.windows[1].pane_ms
    moved, other = (
        replace(lane_of({}), layouts=first_layouts(InForce(plan))) for plan in (now, former)
    )
    for lanes, plan, is_shown in (
        ([moved, moved], now, True),
        ([moved, other], now, False),
        ([other, other], former, True),
        ([moved, other], former, False),
    ):
        views = covered(lanes, plan)
        assert (("1h", LIVE) not in evaluate(views, plan).incomplete) == is_shown
        assert (kept_from(views, plan, len(plan.timing.windows) - 1) < NOON) == is_shown


@pytest.mark.parametrize("has_events", [True, False], ids=["since then", "not yet"])
def test_no_sum_reaches_back_to_what_one_lane_has_lost(has_events: bool) -> None:
    """All that is older is absent, as the other lanes alone would be too few; also while the lane
    has no event since it began anew."""
    lost_ms = NOON - 5 * HOUR_MS - 90_000
    first = first_layouts(InForce(PLAN, 1))
    whole, anew = (
        replace(
            lane_of(steady(hours)),
            layouts=structs.replace(first, since=since_the_beginning(PLAN, before_ms)),
        )
        for hours, before_ms in ((8, None), (5, lost_ms))
    )
    if not has_events:
        nothing = replace(anew, panes={}, totals={}, hours={}, counts={}, layouts=None)
        anew = replace(nothing, watermark_ms=None, settled_before=None, lost_before_ms=lost_ms)
    assert anew.has_or_lost_events, "tables of queries are read of it, too"
    views = covered([whole, anew], PLAN)
    starts = HourSources.of(views, (), PLAN).starts
    assert starts[0] == NOON - 5 * HOUR_MS and min(whole.hours) < starts[0]
    for index, window in enumerate(PLAN.timing.windows):
        is_whole = NOON - window.length_ms >= lost_ms
        assert ((window.name, LIVE) in evaluate(views, PLAN).incomplete) != is_whole
        kept_ms = kept_from(views, PLAN, index)
        assert kept_ms >= lost_ms and kept_ms % window.pane_ms == 0


def test_no_hour_is_shown_that_only_a_lane_behind_the_others_still_keeps() -> None:
    plan = replace(PLAN, history_hours=7)
    ahead, behind = replace(lane_of(steady(7)), settled_before=NOON), lane_of(steady(10))
    behind = replace(behind, settled_before=NOON - 3 * HOUR_MS)
    sources = HourSources.of([ahead, behind], (), plan)
    assert min(behind.hours) == NOON - 10 * HOUR_MS
    assert (sources.born_ms, sources.starts[0]) == (NOON - 7 * HOUR_MS, NOON - 7 * HOUR_MS)


def test_grouping_that_a_lane_derives_by_another_rule_is_hidden() -> None:
    rules = [(), (Derivation("country", words=(1,)),), (Derivation("country", words=(2,)),)]
    plans = [replace(PLAN, derivations=rule) for rule in rules]
    for lane_plan in plans:
        for plan in plans:
            coverage = Coverage.of([first_layouts(InForce(lane_plan)).since], plan)
            assert coverage.hides("country", NOON) == (lane_plan is not plan)


def test_last_hours_show_a_metric_once_all_of_them_have_it() -> None:
    """A part of them would look as if its traffic had fallen. Also where panes wait for a silent
    lane: they alone would be the score of a few minutes."""
    for hours, is_shown in ((2, False), (4, False), (5, False), (6, True)):
        begins = {**dict.fromkeys(PLAN.column_ids), PLAN.column_ids[0]: NOON - hours * HOUR_MS}
        row = np.zeros(PLAN.row_width, np.int64)
        row[[0, PLAN.metric_column(0)]] = 7
        waiting = {(0, NOON): test_baselines.pages_of(row[np.newaxis])}
        idle_ms = NOON + HOUR_MS // 2 + PLAN.timing.settle_ms
        lane = replace(lane_of(steady(8)), panes=waiting, idle_ms=idle_ms)
        recent = compared(since(lane, PLAN, columns=begins))["6h"].recent[0]
        assert recent[0] == 5.5 * 100 + 7
        scored = recent[PLAN.metric_column(0)]
        assert scored == recent[0] if is_shown else np.isnan(scored)


def test_numbers_that_count_since_a_part_of_a_window_are_absent_from_it() -> None:
    """Not 0: in gauges, in scores and in the last hours, until all of the window has them."""
    window, column = PLAN.timing.windows[0], PLAN.metric_column(1)
    ones = test_baselines.pages_of(np.ones((2, PLAN.row_width), np.int64))
    starts = pane_starts(window, NOON)
    lane = replace(lane_of({}), panes={(0, start): ones for start in starts}, idle_ms=NOON)
    lane = replace(lane, watermark_ms=NOON)
    always = first_layouts(InForce(PLAN)).since
    groupings = {**always.groupings, "country": starts[1]}
    columns = {**always.columns, PLAN.column_ids[1]: starts[1]}
    for first_ms, is_known in ((starts[0], True), (starts[1], False)):
        late = {"groupings": {**groupings, "country": first_ms}}
        late["columns"] = {**columns, PLAN.column_ids[1]: first_ms}
        shown = since(lane, PLAN, **late)
        found = evaluate([shown], PLAN)
        selection = select(found, PLAN, [test_baselines.US], empty_other=False)
        scores = MeasureScores(clicks_measure(PLAN), [shown], found, selection)
        live = next(one for one in scores.windows if (one.window, one.view) == (window.name, LIVE))
        rows = scores.known(live.rows, live.first_ms)
        assert live.first_ms == starts[0] and rows[0, 0] == len(starts)
        assert [np.isnan(rows[at]) for at in ((0, column), (1, 0))] == [not is_known] * 2
        text = b"".join(render_windows(scores).text).decode()
        gauges = [
            line for line in text.splitlines() if f'window="{window.name}",view="live"' in line
        ]
        of_us = [line for line in gauges if 'segment="US"' in line]
        assert bool(of_us) == is_known and any(line.endswith(f" {len(starts)}") for line in gauges)
        said = [
            (one.segment, one.metric, one.scored, one.impressions)
            for one in report(found, selection, PLAN).scores
            if (one.window, one.view) == (window.name, LIVE)
        ]
        count = len(starts) if is_known else None
        names = [metric.name for metric in PLAN.metrics[:2]]
        assert ("US", names[0], count, count) in said
        assert ("all", names[1], count, len(starts)) in said


def test_values_of_a_new_grouping_are_no_new_releases() -> None:
    now_ms = test_first_sights.NOW_MS
    begun_ms = now_ms - 120 * MINUTE_MS
    lane = test_first_sights.lane(
        {
            "v7": every_minute(test_first_sights.LONG_AGO),
            "v8": every_minute(begun_ms),
            "v9": every_minute(begun_ms + 90 * MINUTE_MS),
        }
    )
    assert {text for text, _ in marked(lane)} == {"ranker v8", "ranker v9"}
    new = since(lane, VERSIONED, groupings={"all": None, "ranker": begun_ms})
    assert {text for text, _ in marked(new)} == {"ranker v9"}


def test_a_week_in_which_something_was_not_known_is_not_in_its_average() -> None:
    """A grouping and a metric that were added ten days ago: one week of three has them. Then some
    that were added on the day a week ago, three quarters of which stand for all."""
    day_ms, column = 24 * HOUR_MS, PLAN.metric_column(0)
    for since_ms, of_day in ((NOON - 10 * day_ms, 2400), (NOON - 8 * day_ms + 6 * HOUR_MS, 2400)):
        groupings = {**dict.fromkeys(PLAN.grouping_ids), "country": since_ms}
        columns = {**dict.fromkeys(PLAN.column_ids), PLAN.column_ids[0]: since_ms}
        lane = lane_of(steady(24 * 23))
        for changed in ({"groupings": groupings}, {"columns": columns}):
            known = compared(since(lane, PLAN, **changed))
            for window, count in (("1h", 100), ("24h", of_day)):
                periods = [*known[window].periods.values()]
                assert len(periods) == 3
                rows = expected(periods)
                assert rows[:, [0, column]] == pytest.approx(count), (window, changed)
