"""Hours and buckets are the integers of the lanes: numbers computed from them are those served."""

import csv
import io
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from relevanced.daemon.events import timestamp_text
from relevanced.daemon.experiments import Tallies, Tracking
from relevanced.daemon.exporter import Published, Reading
from relevanced.daemon.http import (
    MOST_HOUR_ROWS,
    ROUTES,
    BadRequest,
    Buckets,
    Hours,
    RequestContext,
    answer,
    buckets,
    hours,
)
from relevanced.daemon.lane import PAGE_ROWS, since_the_beginning
from relevanced.daemon.storage import Filling, InForce, Part, StoredPast, first_layouts, pack_page
from relevanced.daemon.telemetry import Telemetry
from relevanced.daemon.views import HourSources, LaneView, covered, evaluate
from relevanced.metrics import Design, UserBuckets, compare_arms, over_all
from tests.arms import SPEC, dealt_arms, finding, partly_defined, stratified_arms
from tests.daemon.exporter.test_baselines import (
    HOUR_MS,
    NOON,
    PLAN,
    US,
    WHOLE,
    lane_of,
    steady,
)
from tests.lane_views import Shown, lane_view, reading_at

DE = ("country", "DE")


def reading_of(*lanes: LaneView) -> Reading:
    snapshot = evaluate(lanes, PLAN)
    return reading_at(lanes, snapshot, PLAN)


def shown(lane: LaneView) -> LaneView:
    """The same lane with panes in which US and DE have traffic now."""
    now = NOON + PLAN.timing.settle_ms - 1000
    recent = lane_view([Shown(now), Shown(now, country="DE")], watermark_ms=lane.watermark_ms)
    return replace(recent, hours=lane.hours, settled_before=lane.settled_before)


def means(found: Hours, grouping: str, segment: str) -> dict[str, float | None]:
    return {
        row.start: row.mean
        for row in found.rows
        if (row.metric, row.grouping, row.segment) == ("P@1", grouping, segment)
    }


def test_hours_of_all_lanes_are_summed() -> None:
    """Each has segment ids of its own."""
    start = NOON - 2 * HOUR_MS
    one = lane_of(
        {start - HOUR_MS: {}, start: {WHOLE: (10, 5, 10, 5_000_000), US: (10, 5, 10, 5_000_000)}}
    )
    two = lane_of(
        {start: {WHOLE: (30, 5, 30, 30_000_000), DE: (30, 5, 30, 30_000_000)}}, (WHOLE, DE)
    )
    found = hours(
        reading_of(replace(shown(one), hours=one.hours), two), {"metric": ["P@1"]}, None, None
    )
    whole = next(row for row in found.rows if (row.grouping, row.segment) == WHOLE)
    assert (whole.impressions, whole.scored, whole.mean, whole.complete) == (40, 40, 0.875, True)
    assert found.lost == ()


def test_hours_are_those_that_were_asked_for() -> None:
    reading = reading_of(shown(lane_of(steady(48))))
    day = hours(reading, {}, None, None)
    assert len({row.start for row in day.rows}) == 24
    some = hours(
        reading,
        {"metric": ["P@1"], "segment": ["US"]},
        "2026-11-20T01:30:00Z",
        "2026-11-20T04:00:00Z",
    )
    assert [row.start for row in some.rows] == [
        "2026-11-20T01:00:00.000Z",
        "2026-11-20T02:00:00.000Z",
        "2026-11-20T03:00:00.000Z",
    ]
    assert {(row.metric, row.segment) for row in some.rows} == {("P@1", "US")}


def test_an_hour_that_is_not_all_there_says_so() -> None:
    """Counting began within the first, and the last still settles."""
    lane = lane_of(steady(3, until_ms=NOON + HOUR_MS), end_ms=NOON + HOUR_MS // 2)
    found = hours(reading_of(shown(lane)), {"metric": ["P@1"], "grouping": ["all"]}, None, None)
    assert [row.complete for row in found.rows] == [False, True, False]


def test_a_lost_hour_is_named_and_left_out() -> None:
    lost = NOON - 5 * HOUR_MS
    lane = replace(shown(lane_of(steady(8))), lost_hours=frozenset({lost}))
    found = hours(reading_of(lane), {"metric": ["P@1"], "grouping": ["all"]}, None, None)
    assert len(found.lost) == 1 and len(found.rows) == 7
    assert found.lost[0] not in {row.start for row in found.rows}


def test_a_lost_hour_has_rows_without_numbers_in_csv() -> None:
    """Left out, as in JSON, it would look like an hour without traffic."""
    lost = NOON - 5 * HOUR_MS
    lane = replace(shown(lane_of(steady(8))), lost_hours=frozenset({lost}))
    published = Published(reading=reading_of(lane))
    context = RequestContext(published, Telemetry("1"), "all", "1", 0)
    route = next(route for route in ROUTES if route.path == "/api/v1/hours")
    table = answer(route, context, [("metric", "P@1"), ("grouping", "all")], True, False, "")
    rows = [*csv.DictReader(io.StringIO(table.body.decode()))]
    starts = [row["start"] for row in rows]
    assert len(starts) == 8 and starts == sorted(starts)
    assert [row for row in rows if not row["impressions"]] == [
        dict.fromkeys(rows[0], "")
        | {"start": timestamp_text(lost), "metric": "P@1", "grouping": "all", "segment": "all"}
        | {"complete": "False", "filled": "False"}
    ]


def test_hours_that_a_lane_lost_when_it_began_anew_are_named() -> None:
    """The other lane keeps them: without a word they would seem to have had no traffic."""
    first, lanes = first_layouts(InForce(PLAN, 1)), list[LaneView]()
    for count, begun_ms in ((8, None), (5, NOON - 5 * HOUR_MS - 90_000)):
        layouts = structs.replace(first, since=since_the_beginning(PLAN, begun_ms))
        lanes.append(replace(shown(lane_of(steady(count))), layouts=layouts))
    found = hours(reading_of(*covered(lanes, PLAN)), {"metric": ["P@1"]}, None, None)
    named = [timestamp_text(NOON - ago * HOUR_MS) for ago in (8, 7, 6)]
    assert list(found.lost) == named and not {row.start for row in found.rows} & {*named}


def test_a_lost_hour_that_is_filled_is_shown_as_the_filling_has_it() -> None:
    lost, lane = NOON - 5 * HOUR_MS, shown(lane_of(steady(8)))
    layout, groupings = InForce(PLAN).stored(), PLAN.grouping_ids
    rows = np.zeros((PAGE_ROWS, PLAN.row_width), np.int64)
    rows[0, 0] = 7
    part = Part((WHOLE,), {lost: {0: pack_page(rows)}})
    made = Filling("f", layout, groupings, lost, lost + HOUR_MS, "files", 2)
    views = [replace(lane, lost_hours=frozenset({lost}))]
    reading = reading_of(views[0])
    sources = HourSources.of(views, [StoredPast(made, [part], frozenset())], PLAN)
    clicks = replace(reading.clicks, of_hours=sources)
    filled = replace(reading, scores=(clicks,))
    found = hours(filled, {"metric": ["P@1"], "grouping": ["all"]}, None, None)
    assert not found.lost and len(found.rows) == 8
    (row,) = [row for row in found.rows if row.start == timestamp_text(lost)]
    assert (row.impressions, row.filled, row.complete) == (7, True, True)


def test_too_many_rows_are_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relevanced.daemon.http.api.history.MOST_HOUR_ROWS", 10)
    with pytest.raises(BadRequest, match="must be at most 10 rows: narrow from, to, metric"):
        hours(reading_of(shown(lane_of(steady(48)))), {}, None, None)
    assert MOST_HOUR_ROWS == 100_000


def test_hours_that_cannot_be_read_are_an_answer_not_a_crash() -> None:
    reading = reading_of(replace(shown(lane_of({})), hours={NOON: {0: b"rubbish"}}))
    published = Published(reading=reading)
    context = RequestContext(published, Telemetry("1"), "all", "1", 0)
    route = next(route for route in ROUTES if route.path == "/api/v1/hours")
    assert answer(route, context, [], False, False, "").status == 503


def tallied(found: Buckets, variant: str, metric: str, stratum: str = "") -> UserBuckets:
    """The tallies over all lists, as the docstrings of the answer say."""
    of = next(one for one in found.metrics if one.metric == metric)
    rows = [
        row
        for row in found.rows
        if (row.variant, row.metric, row.stratum) == (variant, metric, stratum)
    ]
    columns = (
        np.array([getattr(row, name) for row in rows]) for name in ("scored", "sum", "squares")
    )
    impressions = np.array([row.impressions for row in rows])
    assert of.worst is not None and [row.bucket for row in rows] == list(range(64))
    return over_all(UserBuckets(*columns, of.unit), impressions, of.worst)


@pytest.mark.parametrize("metric", ["RR@10", "P@1", "nDCG@10"])
def test_statements_can_be_computed_again_from_the_buckets(metric: str) -> None:
    arms = partly_defined(0.9, 0.8)
    found = buckets(reading_with(arms), SPEC.name)
    served = finding(arms)
    control, treatment = (tallied(found, variant, metric) for variant in ("control", "treatment"))
    again = compare_arms(
        control,
        treatment,
        Design(found.variants[1].planned_impressions),
        impressions=sum(one.impressions - one.without_unit for one in found.variants),
    ).absolute
    (variant,) = (one for one in served.variants if one.variant == "treatment")
    (stated,) = (one for one in variant.metrics if one.metric == metric)
    assert (stated.difference, stated.lower, stated.upper) == (
        again.estimate.value,
        again.interval.lower,
        again.interval.upper,
    )


def test_weights_are_those_since_the_users_are_counted() -> None:
    before, halves = (("control", 19.0), ("treatment", 1.0)), (("control", 1.0), ("treatment", 1.0))
    for since_ms, weights in ((0, before), (5_000, halves)):
        reading = reading_with(dealt_arms(), weights=before, ramp=((5_000, halves),))
        reading.views[0].experiments[SPEC.name].users_since_ms = since_ms
        assert buckets(reading, SPEC.name).weights == dict(weights)


def test_strata_sum_to_the_whole() -> None:
    arms = stratified_arms({"US": (60, 0.5), "DE": (50, 0.4)}, {"US": (60, 0.6), "DE": (50, 0.3)})
    found = buckets(reading_with(arms, stratify_by="country"), SPEC.name)
    whole = tallied(found, "control", "P@1")
    parts = [tallied(found, "control", "P@1", stratum) for stratum in ("DE", "US")]
    assert (sum(part.sums for part in parts) == whole.sums).all()


def reading_with(arms: Mapping[str, object], hours: int = 1, **changes: object) -> Reading:
    spec = replace(SPEC, **changes)  # type: ignore[arg-type]
    plan = replace(PLAN, tracking=Tracking({spec.name: spec}, 0, spec))
    tallies = Tallies(spec.digest, dict(arms))  # type: ignore[arg-type]
    view = replace(shown(lane_of(steady(hours))), experiments={spec.name: tallies})
    snapshot = evaluate([view], plan)
    return reading_at([view], snapshot, plan)
