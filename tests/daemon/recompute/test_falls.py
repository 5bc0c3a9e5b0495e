"""What `replay --changes` compares with: the time just before, other days, and earlier weeks."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from relevanced.daemon.changes import ChangeSettings, Fall, FallOnset, ScoreTimeline
from relevanced.daemon.exporter import Timelines
from relevanced.daemon.panes import HOUR_MS, pane_start
from relevanced.daemon.recompute.buckets import BucketsOverTime
from relevanced.daemon.recompute.falls import (
    LACKS_DAYS,
    LACKS_PARTS,
    LACKS_WEEKS,
    RecordedBins,
    fallen,
    lacking,
)
from relevanced.daemon.recompute.over_time import changes_text
from relevanced.daemon.views import HourHistory, Selection, busiest, evaluate
from relevanced.metrics import Floats, parse
from tests.daemon.exporter import two_countries
from tests.daemon.exporter.test_feedback_gaps import STOPPED_MS, Unheard
from tests.daemon.exporter.two_countries import Site, nights
from tests.lane_views import NOW_MS, PLAN
from tests.seeds import seeds

BUCKET_MS = 300_000
DAY_MS = 24 * HOUR_MS
PER_HOUR = 12
PLAN_OF_BUCKETS = replace(PLAN, metrics=(parse("RR@10"),), hour_ms=BUCKET_MS)
Level = Callable[[Floats], Floats]


def site(days: float, level: Level, of_days: float = 0.0) -> BucketsOverTime:
    """A site with a thousand searches in five minutes, whose score is `level` of the hours since
    its beginning; of its last `of_days` days only where that is given."""
    buckets = round(days * 24 * PER_HOUR)
    hours = np.arange(buckets) / PER_HOUR
    found = np.random.default_rng(3).binomial(1000, level(hours))
    rows, metric = np.zeros((buckets, 1, PLAN_OF_BUCKETS.row_width)), PLAN_OF_BUCKETS.metrics[0]
    rows[:, 0, :2] = 1000
    at = PLAN_OF_BUCKETS.metric_column(0)
    rows[:, 0, at] = 1000
    rows[:, 0, at + 1] = rows[:, 0, at + 2] = found * metric.unit
    starts = NOW_MS // 3_600_000 * 3_600_000 + np.arange(buckets, dtype=np.int64) * BUCKET_MS
    kept = slice(-round(of_days * 24 * PER_HOUR) if of_days else None, None)
    end_ms = int(starts[-1]) + BUCKET_MS
    selection = Selection((("all", "all"),), (), ())
    return BucketsOverTime(PLAN_OF_BUCKETS, selection, starts[kept], rows[kept], end_ms)


def falls_of(found: BucketsOverTime) -> list[Fall]:
    *told, _ = fallen(found, ChangeSettings())
    return [story.fall for stories in told for story in stories]


def sinks(hours: Floats) -> Floats:
    """Loses a sixth in the course of the twenty hours that end four hours before the tenth day."""
    return np.interp(hours, [9 * 24, 9 * 24 + 20], [0.6, 0.5])


def by_night(hours: Floats) -> Floats:
    """Half an hour past midnight it falls by a third, in the morning it is back."""
    return np.where((hours % 24 > 0.5) & (hours % 24 < 8), 0.4, 0.6)


def test_what_sinks_slowly_is_seen_against_earlier_weeks() -> None:
    (fall,) = falls_of(site(10, sinks))
    assert "weeks" in fall.lanes


def test_of_the_last_hours_alone_that_is_not_seen_by_weeks() -> None:
    assert not any("weeks" in fall.lanes for fall in falls_of(site(10, sinks, of_days=1)))


def test_what_happens_every_night_is_no_fall_once_a_week_is_known() -> None:
    found, start_ms = site(10, by_night), int(site(1, by_night).starts[0])
    called = [(fall.called_ms - start_ms) / 86_400_000 for fall in falls_of(found)]
    assert called and max(called) < 7.1, "days at whose end nights were called"


@pytest.mark.parametrize(
    ("days", "lacks"), [(0.5, LACKS_DAYS), (1.1, LACKS_WEEKS), (7.0, LACKS_WEEKS), (7.1, None)]
)
def test_it_is_said_which_comparisons_a_recording_is_too_short_for(
    days: float, lacks: str | None
) -> None:
    assert lacking(site(days, by_night)) == lacks


def test_long_buckets_have_no_days_and_weeks() -> None:
    found = site(8, by_night)
    assert lacking(replace(found, plan=replace(found.plan, hour_ms=600_000))) == LACKS_PARTS


def test_hours_of_falls_that_are_over_are_not_usual_a_week_later() -> None:
    """Two falls of a quarter, each over after three hours; a week later only the second is back, a
    bit smaller."""

    def level(hours: Floats) -> Floats:
        fell = (hours >= 24) & (hours < 27) | (hours >= 56) & (hours < 59)
        back = (hours >= 168 + 56) & (hours < 168 + 59)
        return np.where(fell, 0.45, np.where(back, 0.5, 0.6))

    found = site(9.5, level)
    start_ms = int(found.starts[0])
    hours = {
        round((fall.onset.likely - start_ms) / HOUR_MS): (fall.called_ms - start_ms) / HOUR_MS
        for fall in falls_of(found)
    }
    assert sorted(hours) == [24, 56, 168 + 56]
    assert all(called - onset <= 0.5 for onset, called in hours.items())


@pytest.mark.parametrize("lost", [10, 75])
def test_nothing_falls_in_a_recording_by_feedback_that_was_missing(lost: int) -> None:
    assert falls_of(recording(Unheard(lost, days=1))) == []


def test_what_falls_in_a_recording_after_feedback_was_missing_is_told_with_its_own_onset() -> None:
    broke_ms = STOPPED_MS + HOUR_MS
    found = recording(Unheard(30, broke_ms, days=1))
    open_now, over, _, gaps = fallen(found, ChangeSettings())
    assert open_now and not over
    assert all(abs(story.fall.onset.likely - broke_ms) <= BUCKET_MS for story in open_now)
    said = "No feedback came from 06:00 to 06:30: scores say nothing of that time."
    assert said in changes_text(found, (), None, (), gaps)


def test_hours_in_which_feedback_was_missing_are_not_usual_in_a_recording_either() -> None:
    """Of the day after nobody knows what these hours had the day before."""
    found, names = site(2.2, lambda hours: np.full(hours.shape, 0.6)), PLAN.count_columns
    found.rows[:, 0, names.index("items_with_feedback")] = 500
    missing = slice(20 * PER_HOUR, 21 * PER_HOUR + 3)
    at = [names.index(f"{each}_with_feedback") for each in ("impressions", "items")]
    found.rows[missing, :, at] = 0
    bins, start_ms = RecordedBins(found, ChangeSettings()), int(found.starts[0])
    bins.find_gaps(start_ms + 26 * HOUR_MS)
    of_hours = by_hour(bins.until(start_ms + 48 * HOUR_MS, ()), "yesterday")
    unknown = [hour for hour, score in of_hours.items() if np.isnan(score).any()]
    second_day = [
        (hour - start_ms) // HOUR_MS - 24 for hour in unknown if hour >= start_ms + DAY_MS
    ]
    assert second_day == [20, 21]


@cache
def recorded() -> tuple[Site, BucketsOverTime]:
    """A site of two countries that finds less each night from half an hour past midnight on, and
    its recording."""
    begin_ms = two_countries.NOW_MS - 24 * 24 * HOUR_MS
    found = Site(begin_ms, two_countries.NOW_MS * 2, 0.0, 40, shape=nights(0.3, 0.5))
    return found, recording(found)


def recording(site: Site) -> BucketsOverTime:
    rows = np.array([*site.parts.values()], float)
    starts = np.array([*site.parts], np.int64)
    first = np.flatnonzero(starts % BUCKET_MS == 0)
    plan = replace(two_countries.PLAN, hour_ms=BUCKET_MS)
    selection = Selection(two_countries.NAMES, (), ())
    rows = np.add.reduceat(rows, first, axis=0)
    return BucketsOverTime(plan, selection, starts[first], rows, int(starts[-1]))


def by_hour(timeline: ScoreTimeline, name: str) -> dict[int, Floats]:
    """Start of an hour → what its bins have there of earlier days, which is the same in all that
    have it; nothing where no day is known."""
    part = getattr(timeline, name)
    if name == "steps":
        part = np.zeros(timeline.scored.shape) if part is None else part
        part = np.where(timeline.hourly[:, None], np.nan, part)
    middles = pane_start((timeline.starts + timeline.ends) // 2, HOUR_MS)
    return {} if part is None else dict(zip(middles.tolist(), part, strict=True))


def some_falls(rng: np.random.Generator, begin_ms: int, now_ms: int) -> Iterator[Fall]:
    """Some are over."""
    series = [
        (*segment, metric.name)
        for segment in two_countries.NAMES
        for metric in two_countries.PLAN.metrics
    ]
    for index in rng.permutation(len(series))[: rng.integers(1, 6)].tolist():
        since, until = sorted(rng.uniform(begin_ms, now_ms, 2).tolist())
        onset = FallOnset(since, since, since, by_panes=True)
        over_ms = until if rng.random() < 0.7 else None
        yield Fall(series[index], round(since), onset, (), round(since), since, over_ms)


@pytest.mark.parametrize("seed", seeds(6))
def test_a_recording_is_compared_with_the_earlier_days_that_the_daemon_compares_with(
    seed: int,
) -> None:
    site, found = recorded()
    rng, zone, plan = np.random.default_rng(seed), ZoneInfo("America/New_York"), two_countries.PLAN
    bins, begin_ms = RecordedBins(found, ChangeSettings(time_zone=zone)), int(found.starts[0])
    for days in rng.permutation([0.7, 1.55, 5.2, 7.55, 8.55, 9.4, 14.55, 20.55, 23.9])[:4].tolist():
        now_ms = begin_ms + round(days * 24 * 60) * 60_000
        falls = [*some_falls(rng, begin_ms, now_ms)]
        view, history = site.lane(now_ms), HourHistory(plan)
        history.take([view])
        end_ms, timelines = now_ms - plan.timing.settle_ms, Timelines(plan, zone=zone)
        shown = busiest(evaluate([view], plan), plan)
        told, got = timelines.of([view], history, shown, end_ms, falls), bins.until(end_ms, falls)
        assert told is not None and timelines.segments == two_countries.NAMES
        for name in ("usual", "yesterday", "steps"):
            expected, own = by_hour(told, name), by_hour(got, name)
            hours = sorted(expected.keys() & own.keys())
            assert len(hours) >= len(expected) - 1, (days, name)
            for hour in hours:
                if not np.isnan(expected[hour]).all():
                    assert own[hour] == pytest.approx(expected[hour], nan_ok=True), (days, name)
