"""From lanes to the series of changes: what fell, since when, and what could be noticed."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from prometheus_client.metrics_core import Metric as SeriesFamily

from relevanced.daemon.changes import ChangeSettings
from relevanced.daemon.exporter import (
    CELLS_PER_MS,
    Basis,
    ChangeDetector,
    Detection,
    Publisher,
    Timelines,
)
from relevanced.daemon.panes import HOUR_MS, pane_start
from relevanced.daemon.plan import Plan
from relevanced.daemon.views import HourHistory, busiest, evaluate
from relevanced.metrics import Floats
from tests.daemon.exporter.two_countries import MINUTE_MS, NOW_MS, PLAN, Site
from tests.lane_views import read_text


def judged(
    site: Site, as_of_ms: int = NOW_MS, judge: ChangeDetector | None = None, plan: Plan = PLAN
) -> Detection:
    view = site.lane(as_of_ms)
    history = HourHistory(plan)
    history.take([view])
    gauges = busiest(evaluate([view], plan), plan)
    return (judge or ChangeDetector(plan, ChangeSettings())).look(
        [view], history, Basis(gauges), as_of_ms
    )


def called(found: Detection, against: str = "hour") -> set[tuple[str, str]]:
    """(segment, metric) of what is called."""
    return {
        (found.segments[series // 3][1], PLAN.metrics[series % 3].name)
        for part in found.found
        if part.against == against
        for series in part.series.tolist()
    }


def published(site: Site, as_of_ms: int, publisher: Publisher) -> list[SeriesFamily]:
    text = publisher.publish([site.lane(as_of_ms)], as_of_ms).text
    return read_text(b"".join(text.plain))


def samples(families: Sequence[SeriesFamily], name: str) -> Iterator[tuple[dict[str, str], float]]:
    for family in families:
        for sample in family.samples:
            if sample.name == name:
                yield sample.labels, sample.value


@pytest.fixture(scope="module")
def fresh() -> Site:
    """A site in its third hour; half an hour ago DE lost a quarter of its scores."""
    return Site(NOW_MS - 150 * MINUTE_MS, NOW_MS - 30 * MINUTE_MS, 0.25)


def test_a_fresh_installation_names_what_fell_and_when(fresh: Site) -> None:
    families = published(fresh, NOW_MS, Publisher(PLAN))
    losses = {
        (labels["segment"], labels["metric"]): value
        for labels, value in samples(families, "relevanced_change_loss_ratio")
    }
    assert losses.keys() >= {("DE", "Success@10"), ("DE", "RR@10"), ("DE", "Abandonment")}
    assert not [segment for segment, _ in losses if segment == "US"]
    assert losses["DE", "Success@10"] == pytest.approx(0.25, abs=0.05)
    for labels, value in samples(families, "relevanced_change_z"):
        assert value < -6 and labels["against"] == "hour"
    onset = {
        labels["bound"]: value
        for labels, value in samples(families, "relevanced_change_onset_timestamp_seconds")
        if (labels["segment"], labels["metric"]) == ("DE", "Success@10")
    }
    truth = NOW_MS / 1000 - 1800
    assert onset["earliest"] <= truth <= onset["latest"] and abs(onset["likely"] - truth) <= 300
    (begin,) = [v for _, v in samples(families, "relevanced_history_begin_timestamp_seconds")]
    assert begin == pane_start(NOW_MS - 150 * MINUTE_MS, HOUR_MS) / 1000


def by_hour(found: Detection) -> Floats:
    """(series,) what would have been noticed by what lies just before."""
    drops = [each.drop for each in found.noticeable if each.lane == "hour"]
    return np.asarray(np.minimum.reduce(drops))


def test_nothing_is_called_before_it_broke(fresh: Site) -> None:
    found = judged(fresh, NOW_MS - 32 * MINUTE_MS)
    assert not called(found)
    assert by_hour(found).max() < 0.45


def test_a_look_equals_one_without_memory(fresh: Site) -> None:
    """Looks of one judge, a pane apart, equal the first look of another judge."""
    judge = ChangeDetector(PLAN, ChangeSettings())
    for back in (40, 25, 10, 0):
        as_of_ms = NOW_MS - back * MINUTE_MS
        kept, alone = judged(fresh, as_of_ms, judge), judged(fresh, as_of_ms)
        assert called(kept) == called(alone)
        assert np.array_equal(by_hour(kept), by_hour(alone))


def test_looks_are_a_base_pane_apart_and_cost_a_bounded_share(fresh: Site) -> None:
    judge = ChangeDetector(PLAN, ChangeSettings())
    first = judged(fresh, NOW_MS, judge)
    assert judged(fresh, NOW_MS + 3_999, judge) is first, "settles 64 s later"
    assert judged(fresh, NOW_MS + 4_000, judge) is not first
    assert CELLS_PER_MS * 10_000 > 451 * 240, "10 s apart where 30 segments have 8 metrics"


def test_timeline_is_made_of_the_finest_bins_and_counts_each_impression_once(fresh: Site) -> None:
    view, history = fresh.lane(NOW_MS), HourHistory(PLAN)
    history.take([view])
    end_ms = pane_start(NOW_MS - PLAN.timing.settle_ms, PLAN.timing.base_ms)
    gauges = busiest(evaluate([view], PLAN), PLAN)
    timeline = Timelines(PLAN).of([view], history, gauges, end_ms)
    assert timeline is not None
    lengths = (timeline.ends - timeline.starts).tolist()
    assert lengths == sorted(lengths, reverse=True) and {*lengths} == {HOUR_MS, 120_000, 10_000}
    assert (timeline.starts[1:] >= timeline.ends[:-1]).all() and timeline.ends[-1] == end_ms
    expected = sum(
        int(rows[0, 0]) for start, rows in fresh.parts.items() if start < timeline.ends[-1]
    )
    assert int(timeline.scored[:, 0].sum()) == pytest.approx(expected, abs=150)
    assert (timeline.starts[1:] == timeline.ends[:-1]).all()


def test_without_history_panes_alone_are_judged(fresh: Site) -> None:
    plan = replace(PLAN, history_hours=0)
    view = replace(fresh.lane(NOW_MS), hours={})
    history = HourHistory(plan)
    history.take([view])
    gauges = busiest(evaluate([view], plan), plan)
    found = ChangeDetector(plan, ChangeSettings()).look([view], history, Basis(gauges), NOW_MS)
    assert ("DE", "Success@10") in called(found)
    assert found.begin_ms is None, "no baseline will ever be known"


def test_what_is_low_against_earlier_days_has_an_onset() -> None:
    """Two days are known; for three hours DE has been a twentieth worse: too little for lane `hour`
    at this traffic, enough for an onset."""
    site = Site(NOW_MS - 50 * HOUR_MS, NOW_MS - 3 * HOUR_MS, 0.3, 20)
    families = published(site, NOW_MS, Publisher(PLAN))
    onsets = {
        (labels["against"], labels["bound"]): value
        for labels, value in samples(families, "relevanced_change_onset_timestamp_seconds")
        if (labels["segment"], labels["metric"]) == ("DE", "Success@10")
    }
    truth = NOW_MS / 1000 - 3 * 3600
    assert onsets["day", "earliest"] <= truth <= onsets["day", "latest"]
    bases = {
        labels["against"] for labels, _ in samples(families, "relevanced_noticeable_drop_ratio")
    }
    assert bases == {"hour", "day"}
