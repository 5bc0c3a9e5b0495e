"""Baselines: hand-made histories, and a slow twin without matrices."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from math import sqrt
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from relevanced.daemon.errors import Damaged
from relevanced.daemon.exporter import (
    DAY,
    WEEK,
    BaselineComparison,
    Timelines,
    averaged,
    compare,
    earlier,
    hour_until,
    outages,
    shares,
)
from relevanced.daemon.panes import days_before
from relevanced.daemon.plan import OTHER
from relevanced.daemon.storage import pack_page
from relevanced.daemon.timing import timing
from relevanced.daemon.views import (
    WHOLE,
    HourHistory,
    LaneView,
    Names,
    Segment,
    Selection,
    busiest,
    evaluate,
    select,
)
from tests.lane_views import NOW_MS, PLAN as WITHOUT_HISTORY, pages_of
from tests.seeds import seeds

HOUR_MS: Final = 3_600_000
PLAN: Final = replace(WITHOUT_HISTORY, history_hours=840)
NOON: Final = NOW_MS // HOUR_MS * HOUR_MS
US: Final = ("country", "US")
BERLIN: Final = ZoneInfo("Europe/Berlin")
Counted = Mapping[Segment, Sequence[int]]
"""Segment → impressions, with feedback, scored, sum of P@1 in millionths."""


def packed(counted: Counted, names: Sequence[Segment]) -> dict[int, bytes]:
    rows = np.zeros((len(names), PLAN.row_width), np.int64)
    column = PLAN.metric_column(0)
    for segment, (impressions, with_feedback, scored, total) in counted.items():
        row = names.index(segment)
        rows[row, :2] = impressions, with_feedback
        rows[row, column : column + 3] = scored, total, total
    return {page: pack_page(kept) for page, kept in pages_of(rows).items()}


def lane_of(
    hours: Mapping[int, Counted], names: Sequence[Segment] = (WHOLE, US), end_ms: int = NOON
) -> LaneView:
    """A lane that has settled what is before `end_ms`."""
    watermark_ms = end_ms + PLAN.timing.settle_ms
    return LaneView(
        lane=0,
        token="t",
        sequence=1,
        names=Names(names),
        panes={},
        totals={},
        counts={"events": {"impression": 1}},
        watermark_ms=watermark_ms,
        settled_before=end_ms,
        hours={start: packed(counted, names) for start, counted in hours.items()},
    )


def compared(*lanes: LaneView) -> dict[str, BaselineComparison]:
    history = HourHistory(PLAN)
    history.take(lanes)
    snapshot = evaluate(lanes, PLAN)
    shown = busiest(snapshot, PLAN)
    return {one.window: one for one in compare(history, lanes, snapshot, shown, PLAN)}


def steady(hours: int, mean: float = 0.5, until_ms: int = NOON) -> dict[int, Counted]:
    """As many hours of 100 impressions each."""
    row = (100, 60, 100, int(100e6 * mean))
    starts = range(until_ms - hours * HOUR_MS, until_ms, HOUR_MS)
    return {start: {WHOLE: row, US: row} for start in starts}


def means(rows: Iterable[np.ndarray]) -> list[float]:
    column = PLAN.metric_column(0)
    return [float(one[0, column + 1] / one[0, column] / 1e6) for one in rows]


def test_a_period_takes_its_share_of_the_hours_it_cuts() -> None:
    found = shares(NOON - HOUR_MS // 4, NOON + HOUR_MS // 2, HOUR_MS)
    assert found == {NOON - HOUR_MS: 0.25, NOON: 0.5}


def test_the_baseline_is_the_same_period_of_each_week() -> None:
    hours = steady(3 * WEEK + 2)
    for week, share in ((1, 0.2), (2, 0.3), (3, 0.7)):
        hours[NOON - (week * WEEK + 1) * HOUR_MS] = {WHOLE: (100, 60, 100, int(100e6 * share))}
    found = compared(lane_of(hours))["1h"]
    assert (found.unit, means(found.periods.values())) == ("week", [0.2, 0.3, 0.7])
    assert means([found.recent]) == [0.5]


def test_an_hour_that_ended_before_has_the_baseline_that_it_had() -> None:
    hours, end_ms = steady(3 * WEEK + 4), NOON - 2 * HOUR_MS
    hours[end_ms - HOUR_MS] = {WHOLE: (100, 60, 100, int(100e6 * 0.4))}
    for week, share in ((1, 0.2), (2, 0.3), (3, 0.7)):
        hours[end_ms - (week * WEEK + 1) * HOUR_MS] = {WHOLE: (100, 60, 100, int(100e6 * share))}
    history, lanes = HourHistory(PLAN), [lane_of(hours)]
    history.take(lanes)
    shown = busiest(evaluate(lanes, PLAN), PLAN)
    found = hour_until(history, shown, end_ms)
    assert found is not None and (found.window, found.unit) == ("1h", "week")
    assert means(found.periods.values()) == [0.2, 0.3, 0.7] and means([found.recent]) == [0.4]
    assert hour_until(history, shown, end_ms, NOON - 2 * HOUR_MS) is None, "another file graded it"
    assert hour_until(history, shown, NOON - 4 * WEEK * HOUR_MS) is None


@pytest.mark.parametrize(
    ("at", "days", "later_h"),
    [
        ("2026-10-26T12:00Z", 7, 1),
        ("2026-10-26T12:00Z", 1, 0),
        ("2026-10-25T12:00Z", 1, 1),
        ("2026-11-02T12:00Z", 7, 0),
        ("2026-03-30T12:00Z", 7, -1),
    ],
)
def test_the_same_local_hour_outlasts_a_change_of_clocks(at: str, days: int, later_h: int) -> None:
    time_ms = round(datetime.fromisoformat(at).timestamp() * 1000)
    assert days_before(time_ms, days, BERLIN) == (24 * days + later_h) * HOUR_MS
    assert days_before(time_ms, days, timezone.utc) == 24 * days * HOUR_MS


def test_baselines_are_of_the_same_local_hours() -> None:
    """Clocks went back between them: a week before, the hour began an hour earlier in UTC."""
    end_ms = round(datetime.fromisoformat("2026-10-26T12:00Z").timestamp() * 1000)
    hours = steady(3 * WEEK + 4, until_ms=end_ms)
    hours[end_ms - (WEEK + 2) * HOUR_MS] = {WHOLE: (100, 60, 100, int(100e6 * 0.2))}
    history, lanes = HourHistory(PLAN), [lane_of(hours, end_ms=end_ms)]
    history.take(lanes)
    snapshot = evaluate(lanes, PLAN)
    shown = busiest(snapshot, PLAN)
    for zone, expected in ((BERLIN, 0.2), (timezone.utc, 0.5)):
        found = compare(history, lanes, snapshot, shown, PLAN, zone=zone)[0]
        assert means(found.periods.values())[0] == expected
        timelines = Timelines(PLAN, zone=zone)
        for _ in range(6):  # some hours are summed in each look
            timeline = timelines.of(lanes, history, shown, end_ms)
        assert timeline is not None and timeline.usual is not None
        assert timeline.usual[-1, 0] == pytest.approx((expected + 0.5 + 0.5) / 3)


def test_a_period_that_cuts_hours_is_weighted_by_its_shares() -> None:
    """From a quarter past on: three quarters of one hour and a quarter of the next."""
    hours = steady(WEEK + 3, until_ms=NOON + HOUR_MS)
    before, after = NOON - (WEEK + 1) * HOUR_MS, NOON - WEEK * HOUR_MS
    hours[before] = {WHOLE: (80, 60, 80, 80_000_000)}
    hours[after] = {WHOLE: (40, 30, 40, 0)}
    (week,) = compared(lane_of(hours, end_ms=NOON + HOUR_MS // 4))["1h"].periods.values()
    assert week[0, 0] == 0.75 * 80 + 0.25 * 40
    assert means([week]) == [pytest.approx(60 / 70)]


def test_days_serve_where_there_is_no_week() -> None:
    hours = steady(3 * DAY + 2)
    hours[NOON - (2 * DAY + 1) * HOUR_MS] = {WHOLE: (100, 60, 100, 20_000_000)}
    found = compared(lane_of(hours))["1h"]
    assert (found.unit, means(found.periods.values())) == ("day", [0.5, 0.2, 0.5])


def test_without_a_history_there_is_no_baseline() -> None:
    assert compared(lane_of(steady(2)))["1h"].periods == {}
    assert compared(lane_of({})) == {}


def test_the_first_hour_is_not_whole_and_does_not_count() -> None:
    covered = range(NOON - WEEK * HOUR_MS, NOON, HOUR_MS)
    from_ms = NOON - HOUR_MS
    assert earlier(from_ms, NOON, covered, frozenset())[0] == "day"
    longer = range(NOON - (WEEK + 1) * HOUR_MS, NOON, HOUR_MS)
    assert earlier(from_ms, NOON, longer, frozenset())[0] == "week"


def test_days_serve_until_a_week_is_covered_from_its_beginning() -> None:
    """Half a day has another mean than the whole. Where days are outages, half a week has to do."""
    from_ms = NOON - DAY * HOUR_MS
    half = range(NOON - (WEEK + DAY // 2) * HOUR_MS, NOON, HOUR_MS)
    unit, periods = earlier(from_ms, NOON, half, frozenset())
    assert (unit, len(periods)) == ("day", 6)
    out = frozenset(range(NOON - WEEK * HOUR_MS, NOON, HOUR_MS))
    unit, periods = earlier(from_ms, NOON, half, out)
    (period,) = periods.values()
    assert (unit, len(period), sum(period.values())) == ("week", DAY // 2, pytest.approx(DAY))
    whole = range(NOON - (WEEK + DAY) * HOUR_MS, NOON, HOUR_MS)
    assert earlier(from_ms, NOON, whole, frozenset())[0] == "week"


@pytest.mark.parametrize("lost", [(10, 8), (0, 0), (100, 5)], ids=["most", "all", "feedback"])
def test_an_outage_is_left_out(lost: tuple[int, int]) -> None:
    """Two of six hours of a week are missing: the other four stand for all of them."""
    hours = steady(3 * WEEK + 8)
    for hour in (2, 3):
        hours[NOON - (WEEK + hour) * HOUR_MS] = {WHOLE: (*lost, lost[0], 0)}
    found = compared(lane_of(hours))["6h"]
    assert means(found.periods.values()) == [pytest.approx(0.5)] * 3
    assert next(iter(found.periods.values()))[0, 0] == pytest.approx(600)


def test_a_week_that_is_mostly_an_outage_does_not_count() -> None:
    hours = steady(3 * WEEK + 8)
    for hour in range(1, 5):
        del hours[NOON - (WEEK + hour) * HOUR_MS]
    assert len(compared(lane_of(hours))["6h"].periods) == 2


def test_a_quiet_weekend_is_no_outage() -> None:
    """A fifth of the traffic, as in every week; or in the only week there is."""
    for weeks in (1, 4):
        covered = range(NOON - weeks * WEEK * HOUR_MS, NOON, HOUR_MS)
        traffic = {
            start: (20, 10) if number % WEEK >= 5 * DAY else (100, 50)
            for number, start in enumerate(covered)
        }
        assert outages(traffic, covered) == frozenset()


OFFICE = (*[20] * 6, 80, 350, 900, 1100, 1150, *[1000] * 6, 800, 400, 250, 200, 150, 100, 60)
"""Searches by local hour of a day."""


@pytest.mark.parametrize("change", ["2026-10-25T01:00+00:00", "2027-03-28T01:00+00:00"])
@pytest.mark.parametrize("days", [1, 2, 9, 23])
def test_office_hours_are_no_outages_after_a_change_of_clocks(change: str, days: int) -> None:
    now_ms = round(datetime.fromisoformat(change).timestamp() * 1000) + days * DAY * HOUR_MS
    covered = range(now_ms - 35 * DAY * HOUR_MS, now_ms, HOUR_MS)
    traffic = {}
    for start in covered:
        local = datetime.fromtimestamp(start / 1000, BERLIN)
        searches = OFFICE[local.hour] * (0.15 if local.weekday() >= 5 else 1)
        traffic[start] = (searches, searches / 2)
    assert outages(traffic, covered, BERLIN) == frozenset()
    broken = now_ms - DAY * HOUR_MS // 2
    traffic[broken] = (traffic[broken][0] / 20, 0)
    assert outages(traffic, covered, BERLIN) == {broken}


def test_the_error_is_not_below_what_the_weeks_differ_by() -> None:
    errors = np.full((3, 1), 0.01)
    mean, error = averaged(np.array([[0.2], [0.3], [0.7]]), errors)
    assert (mean[0], error[0]) == (pytest.approx(0.4), pytest.approx(sqrt(0.07 / 3)))
    _, alike = averaged(np.full((3, 1), 0.4), errors)
    assert alike[0] == pytest.approx(0.01 / sqrt(3))
    _, two = averaged(np.array([[0.2], [0.7]]), errors[:2])
    assert two[0] == pytest.approx(0.01 / sqrt(2))


def test_a_segment_counts_in_the_weeks_that_contain_it() -> None:
    values = np.array([[0.2, np.nan], [0.4, np.nan]])
    errors = np.array([[0.1, np.nan], [np.nan, np.nan]])
    mean, error = averaged(values, errors)
    assert (mean[0], error[0]) == (0.2, pytest.approx(0.1))
    assert np.isnan(mean[1]) and np.isnan(error[1])


def test_what_waits_for_a_silent_lane_is_recent() -> None:
    """The clock has passed the end of panes that no later event settles."""
    pane = pages_of(np.array([[7] + [0] * (PLAN.row_width - 1)]))
    lane = lane_of(steady(8))
    lane = replace(lane, panes={(0, NOON): pane}, idle_ms=NOON + HOUR_MS // 2 + lane_settle())
    assert compared(lane)["6h"].recent[0, 0] == 5.5 * 100 + 7


def lane_settle() -> int:
    return PLAN.timing.settle_ms


def test_a_configured_window_serves_to_its_panes() -> None:
    plan = replace(PLAN, timing=timing([("1m", 60), ("one", 3600)], 60, 4))
    pane = pages_of(np.array([[11] + [0] * (plan.row_width - 1)]))
    lane = replace(lane_of(steady(30)), panes={(1, NOON - 120_000): pane})
    history = HourHistory(plan)
    history.take([lane])
    snapshot = evaluate([lane], plan)
    first, *_ = compare(history, [lane], snapshot, busiest(snapshot, plan), plan)
    assert (first.window, first.recent[0, 0]) == ("1h", 11)


def test_a_page_that_cannot_be_read_is_damage() -> None:
    lane = lane_of(steady(30))
    with pytest.raises(Damaged):
        HourHistory(PLAN).take([replace(lane, hours={NOON: {0: b"rubbish"}})])


@pytest.mark.parametrize("seed", seeds(8))
def test_any_history_equals_the_slow_twin(seed: int) -> None:
    """Lanes with different segment ids, gaps, and a time within an hour."""
    rng = random.Random(seed)
    segments: list[Segment] = [US, *(("country", f"c{n}") for n in range(rng.choice((2, 100))))]
    end_ms = NOON + rng.randrange(HOUR_MS)
    lanes = []
    for _ in range(2):
        names = [WHOLE, *rng.sample(segments, rng.randrange(1, len(segments)))]
        hours = {
            NOON - hour * HOUR_MS: {name: random_row(rng) for name in names}
            for hour in range(rng.choice((60, 400, 700)))
            if rng.random() > 0.05
        }
        lanes.append(lane_of(hours, names, end_ms))
    history = HourHistory(PLAN)
    history.take(lanes)
    first_ms = min(history.traffic()) + HOUR_MS
    named = rng.sample(segments, rng.randrange(len(segments)))
    snapshot = evaluate(lanes, PLAN, named)
    shown = select(snapshot, PLAN, named, empty_other=True)
    for one in compare(history, lanes, snapshot, shown, PLAN):
        length = int(one.window.removesuffix("h")) * HOUR_MS
        step = (WEEK if one.unit == "week" else DAY) * HOUR_MS
        expected = [
            found
            for number in range(1, 4 if one.unit == "week" else 7)
            if one.unit == "day" or end_ms - length - number * step >= first_ms
            if (found := slow(lanes, end_ms - length - number * step, end_ms - number * step))
        ]
        assert len(expected) == len(one.periods)
        for rows, wanted in zip(one.periods.values(), expected, strict=True):
            folded = dict.fromkeys(shown.segments, 0.0)
            for segment, impressions in wanted.items():
                folded[segment if segment in folded else (segment[0], OTHER)] += impressions
            for segment, row in zip(shown.segments, rows.tolist(), strict=True):
                assert row[0] == pytest.approx(folded[segment])


def random_row(rng: random.Random) -> tuple[int, int, int, int]:
    few = rng.random() < 0.1
    impressions = rng.randrange(1, 4) if few else rng.randrange(80, 120)
    return impressions, impressions, impressions, rng.randrange(impressions * 10**6)


def slow(lanes: Sequence[LaneView], from_ms: int, until_ms: int) -> dict[Segment, float] | None:
    """Impressions by segment, one hour and lane after the other."""
    history = HourHistory(PLAN)
    history.take(lanes)
    traffic = history.traffic()
    covered = range(min(traffic) + HOUR_MS, NOON, HOUR_MS)
    out = outages(traffic, covered)
    total: dict[Segment, float] = {}
    counted_ms = 0
    for start in range(from_ms // HOUR_MS * HOUR_MS, until_ms, HOUR_MS):
        part_ms = min(start + HOUR_MS, until_ms) - max(start, from_ms)
        if start not in covered or start in out:
            continue
        counted_ms += part_ms
        for lane in lanes:
            rows = history_rows(lane, start)
            for number, name in enumerate(lane.names.segments):
                total[name] = total.get(name, 0.0) + rows[number] * part_ms / HOUR_MS
    whole_ms = until_ms - from_ms
    if counted_ms * 2 < whole_ms:
        return None
    return {name: value * whole_ms / counted_ms for name, value in total.items()}


def history_rows(lane: LaneView, start: int) -> list[float]:
    """Impressions by segment id of one hour of one lane."""
    one = HourHistory(PLAN)
    one.take([replace(lane, hours={start: lane.hours[start]} if start in lane.hours else {})])
    every = Selection(tuple(lane.names.segments), (), ())
    return [float(row[0]) for row in one.summed({start: 1.0}, every)]


def test_an_hour_that_a_lane_lost_is_in_no_sum() -> None:
    """Though another lane has it: the sum would be too small."""
    hours = steady(3 * WEEK + 2)
    whole, rest = lane_of(hours), dict(hours)
    lost = NOON - (WEEK + 1) * HOUR_MS
    del rest[lost]
    damaged = replace(lane_of(rest), lost_hours=frozenset({lost}))
    expected = [rows[0, 0] for rows in compared(whole, whole)["1h"].periods.values()]
    assert expected == [200.0] * 3
    assert [rows[0, 0] for rows in compared(whole, damaged)["1h"].periods.values()] == [200.0] * 2
    first, *_ = compared(whole, damaged)["6h"].periods.values()
    assert first[0, 0] == 1200.0  # the other hours stand for it


def test_last_hours_are_absent_while_one_of_them_is_lost() -> None:
    hours = steady(30)
    lost = NOON - 3 * HOUR_MS
    assert "6h" in compared(lane_of(hours))
    found = compared(replace(lane_of(hours), lost_hours=frozenset({lost})))
    assert "1h" in found and not found.keys() & {"6h", "24h"}


def test_where_every_hour_is_lost_nothing_is_compared() -> None:
    assert compared(replace(lane_of({}), lost_hours=frozenset({NOON - HOUR_MS}))) == {}
