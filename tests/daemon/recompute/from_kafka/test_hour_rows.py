"""Hours of several lanes are summed by the names of segments, and only where they are whole."""

from types import SimpleNamespace

import numpy as np

from relevanced.daemon.lane import PAGE_ROWS
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.plan import Plan
from relevanced.daemon.recompute.driver import LATEST_MS, LaneDriver, Settled
from relevanced.daemon.recompute.hour_rows import AllHours, HourRows, plan_of_hours
from relevanced.daemon.recompute.replay_kafka import (
    FIELDS,
    as_csv,
    as_tables,
    scores,
    unproven_text,
)
from relevanced.metrics import parse
from tests.builders import BASE_MS, PLAN, START_MS, clicked, lane_of, plan_with, settled, shown

SPAN = range(START_MS, START_MS + 3 * HOUR_MS)
ALL = ("all", "all")


def page(plan: Plan, *impressions: int) -> dict[int, np.ndarray]:
    """Page 0: so many impressions of each segment, each with a P@2 of one half."""
    rows = np.zeros((PAGE_ROWS, plan.row_width), np.int64)
    for segment, count in enumerate(impressions):
        column = plan.metric_column(0)
        rows[segment, 0] = rows[segment, column] = count
        rows[segment, column + 1 : column + 3] = 500_000 * count, 250_000 * count
    return {0: rows}


def summed(plan: Plan = PLAN) -> HourRows:
    """An hour of two lanes that gave the same segments other ids."""
    found = HourRows(plan, SPAN)
    found.add(START_MS, [(0, "all"), (1, "DE"), (1, "US")], page(plan, 5, 2, 3))
    found.add(START_MS, [(0, "all"), (1, "US"), (1, "FR")], page(plan, 7, 6, 1))
    return found


def test_lanes_are_summed_by_segment() -> None:
    counts = {segment: int(row[0]) for segment, row in summed().rows[START_MS].items()}
    of_countries = {("country", "US"): 9, ("country", "DE"): 2, ("country", "FR"): 1}
    assert counts == {ALL: 12, **of_countries}


def test_busiest_segments_of_each_grouping_are_shown() -> None:
    found = summed(plan_with(max_segments=2))
    assert found.busiest() == [ALL, ("country", "US"), ("country", "DE")]


def test_hours_beyond_the_span_are_left_out() -> None:
    found = HourRows(PLAN, SPAN)
    found.add(SPAN.stop, [(0, "all")], page(PLAN, 1))
    found.add(SPAN.start - HOUR_MS, [(0, "all")], page(PLAN, 1))
    assert found.starts == []


def test_hour_that_is_not_whole_or_lost_is_left_out() -> None:
    found = summed()
    found.first_ms = START_MS + 1
    assert found.starts == [] and "2026-11-20T13:00:00.000Z" in unproven_text(found)
    found.first_ms, found.missing = 0, {START_MS}
    assert found.starts == []
    found.first_ms = LATEST_MS
    assert "no longer has the records" in unproven_text(found)


def test_scores_stand_beside_the_stored_ones() -> None:
    other = plan_with(metrics=(parse("RR"), parse("P@2")), groupings=())
    stored = HourRows(other, SPAN)
    stored.add(START_MS, [(0, "all")], page(other, 10))
    found = [SimpleNamespace(**one) for one in scores(summed(), stored) if one["segment"] == "all"]
    assert [one.metric for one in found] == ["P@2", "RR", "nDCG@5"]
    precision = found[0]
    assert (precision.mean, precision.scored, precision.impressions) == (0.5, 12, 12)
    assert (precision.stored_mean, precision.stored_impressions) == (None, 10)
    assert (found[1].stored_mean, found[1].stored_scored) == (0.5, 10)
    assert (found[2].stored_mean, found[2].stored_scored) == (None, None)
    assert "0.5000 / –" in str(
        [*next(as_tables(AllHours(summed()), AllHours(stored))).columns[4].cells]
    )
    lines = as_csv(AllHours(summed()), AllHours(stored)).splitlines()
    assert lines[0].split(",") == list(FIELDS) and len(lines) == 1 + 2 * 3


def test_stored_hour_that_can_change_is_not_shown() -> None:
    stored = summed()
    stored.settled_ms = START_MS + HOUR_MS - BASE_MS
    assert all(one["stored_mean"] is None for one in scores(summed(), stored))


def test_lane_is_taken_over_hour_by_hour() -> None:
    plan = plan_of_hours(PLAN)
    found, lane = HourRows(plan, SPAN), lane_of(plan=plan)
    sink = AllHours(found)
    for minute in range(0, 150, 4):
        at_ms = minute * 60_000
        settled(lane, shown(at_ms, of=f"q{minute}"), clicked(at_ms + 1, "a", of=f"q{minute}"))
        sink.take(Settled.of(lane, 0))
    assert found.starts == [START_MS, START_MS + HOUR_MS]
    LaneDriver(lane, sink).finish()
    rows = [found.rows[start][ALL] for start in found.starts]
    assert [int(row[0]) for row in rows] == [15, 15, 8] and not found.missing
    assert [found.is_settled(start) for start in found.starts] == [True, True, False]
    again = HourRows(plan, SPAN)
    AllHours(again).finish(Settled.of(lane_of(plan=plan), None))
    assert again.first_ms == 0, "nothing is missing of a lane without events"
