"""The design effect from the lanes' hours: which hours and segments are read, and how often."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from relevanced.daemon.changes import BEFORE_KNOWN, DEFAULTS, MEASURED_HOURS, WEEK, measured
from relevanced.daemon.exporter import HOURS_AT_ONCE, MeasuredNoise, Measuring, Publisher
from relevanced.daemon.plan import OTHER
from relevanced.daemon.storage import pack_page
from relevanced.daemon.views import WHOLE, HourHistory, LaneView, Names, Segment, busiest, evaluate
from tests.daemon.changes.searchers import Floats, Site, hours_of, sums
from tests.daemon.exporter.test_baselines import HOUR_MS, NOON, PLAN
from tests.lane_views import pages_of

SEED: Final = 20261123
COUNTRIES: Final = ("US", "DE", "FR")
NAMES: Final = (WHOLE, *(("country", name) for name in (*COUNTRIES, OTHER)))
METRIC: Final = PLAN.metric_column(0)
UNIT: Final = PLAN.metrics[0].unit


def weeks(hours: int, effect: float = 2.0) -> list[Floats]:
    """(3, hours) of each country, rounded as rows are."""
    rng = np.random.default_rng(SEED)
    found = [sums(Site(600, effect), hours, rng) for _ in COUNTRIES]
    return [np.array([n, *np.round([s * UNIT, q * UNIT])]) for n, s, q in found]


def packed(columns: Sequence[Floats], hour: int) -> dict[int, bytes]:
    """The pages of an hour: the whole, and its countries."""
    rows = np.zeros((len(NAMES), PLAN.row_width), np.int64)
    for row, country in enumerate(columns, 1):
        rows[row, METRIC : METRIC + 3] = country[:, hour]
        rows[row, :2] = country[0, hour]
    rows[0] = rows[1:].sum(axis=0)
    return {page: pack_page(kept) for page, kept in pages_of(rows).items()}


def lane_of(columns: Sequence[Floats], names: Sequence[Segment] = NAMES) -> LaneView:
    """A lane that has settled these hours, the last of which ends at noon."""
    hours = columns[0].shape[1]
    starts = range(NOON - hours * HOUR_MS, NOON, HOUR_MS)
    pane = np.zeros((len(names), PLAN.row_width), np.int64)
    pane[:, 0] = 1
    return LaneView(
        lane=0,
        token="t",
        sequence=1,
        names=Names(names),
        panes={(0, NOON): pages_of(pane)},
        totals={},
        counts={"events": {"impression": 1}},
        watermark_ms=NOON + PLAN.timing.settle_ms,
        settled_before=NOON,
        hours={start: packed(columns, hour) for hour, start in enumerate(starts)},
    )


def looked_at(measuring: Measuring, history: HourHistory, *lanes: LaneView) -> MeasuredNoise:
    history.take(lanes)
    snapshot = evaluate(lanes, PLAN)
    return measuring.take(history, snapshot, busiest(snapshot, PLAN))


def until_known(*lanes: LaneView, looks: int = 40) -> MeasuredNoise:
    measuring, history = Measuring(PLAN, DEFAULTS), HourHistory(PLAN)
    for _ in range(looks):
        found = looked_at(measuring, history, *lanes)
    return found


def expected(columns: Sequence[Floats]) -> float | None:
    """Of the hours after the first, which may not be whole."""
    scaled = [np.array([n, s / UNIT, q / UNIT])[:, 1:] for n, s, q in columns]
    return measured([hours_of(np.sum(scaled, axis=0)), hours_of(*scaled)])


def test_it_is_that_of_the_whole_and_the_segments() -> None:
    columns = weeks(MEASURED_HOURS + 1)
    found = until_known(lane_of(columns))
    # Of the countries two are shown.
    assert found.measured == pytest.approx(expected(columns), rel=0.03)
    assert found.used == found.measured
    assert found.measured == pytest.approx(2.0, abs=0.35)


def test_lanes_are_summed() -> None:
    """Every hour of a country half in one lane, half in another with other segment ids."""
    columns = weeks(WEEK + 1)
    part = [np.floor(country / 3) for country in columns]
    rest = [country - third for country, third in zip(columns, part, strict=True)]
    turned = lane_of(rest[::-1], (NAMES[0], *NAMES[3:0:-1], NAMES[4]))
    assert until_known(lane_of(part), replace(turned, lane=1)) == until_known(lane_of(columns))


def test_the_greater_of_setting_and_measurement_is_used() -> None:
    small, large = until_known(lane_of(weeks(WEEK + 1, 1.0))), until_known(lane_of(weeks(WEEK + 1)))
    assert small.measured is not None and large.measured is not None
    assert small.used == max(1.2, small.measured) and large.used == large.measured > 1.2


def test_before_a_week_it_is_unknown() -> None:
    assert until_known(lane_of(weeks(WEEK))) == MeasuredNoise(BEFORE_KNOWN)
    assert until_known() == MeasuredNoise(BEFORE_KNOWN)


def test_lost_hours_and_outages_do_not_count() -> None:
    columns = weeks(MEASURED_HOURS + 1)
    lane = lane_of(columns)
    starts = sorted(lane.hours)
    damaged = {
        start: packed([country // 50 for country in columns], 200) for start in starts[200:205]
    }
    without = {start: pages for start, pages in lane.hours.items() if start not in damaged}
    outage = until_known(replace(lane, hours=lane.hours | damaged))
    lost = until_known(replace(lane, hours=lane.hours | damaged, lost_hours=frozenset(damaged)))
    assert outage == lost == until_known(replace(lane, hours=without))
    assert outage.measured == pytest.approx(expected(columns), abs=0.1)


def test_a_look_unpacks_few_hours_and_the_same_hour_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    rows_of = HourHistory.rows_of

    def counted(self: HourHistory, start: int, segments: Sequence[Segment]) -> object:
        read.append(start)
        return rows_of(self, start, segments)

    monkeypatch.setattr(HourHistory, "rows_of", counted)
    lane = lane_of(weeks(MEASURED_HOURS + 2))
    starts = sorted(lane.hours)
    before = replace(
        lane,
        hours={start: lane.hours[start] for start in starts[:-1]},
        watermark_ms=starts[-1] + PLAN.timing.settle_ms,
    )
    measuring, history = Measuring(PLAN, DEFAULTS), HourHistory(PLAN)
    for look in range(1, MEASURED_HOURS // HOURS_AT_ONCE + 1):
        assert looked_at(measuring, history, before).measured is None or len(read) == MEASURED_HOURS
        assert len(read) == look * HOURS_AT_ONCE
    known = looked_at(measuring, history, before)
    assert known.measured is not None and len(read) == len(set(read)) == MEASURED_HOURS
    looked_at(measuring, history, lane)
    assert read[MEASURED_HOURS:] == [starts[-1]]


def test_it_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relevanced.daemon.exporter.design_effects.HOURS_AT_ONCE", MEASURED_HOURS)
    publisher = Publisher(PLAN)
    lane = lane_of(weeks(WEEK + 1))
    text = b"".join(publisher.publish([lane], NOON + 2 * HOUR_MS).text.plain).decode()
    found = until_known(lane)
    assert f'relevanced_design_effect{{kind="used"}} {found.used!r}' in text
    assert f'relevanced_design_effect{{kind="measured"}} {found.measured!r}' in text
    fresh = b"".join(Publisher(PLAN).publish([], NOON).text.plain).decode()
    assert 'relevanced_design_effect{kind="used"} 1.5' in fresh and '"measured"' not in fresh
