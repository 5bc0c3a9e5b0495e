"""What `replay --changes` compares with: the time just before, other days, and earlier weeks."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from relevanced.daemon.changes import ChangeSettings, Fall
from relevanced.daemon.recompute.buckets import BucketsOverTime
from relevanced.daemon.recompute.falls import (
    LACKS_DAYS,
    LACKS_PARTS,
    LACKS_WEEKS,
    fallen,
    lacking,
)
from relevanced.daemon.views import Selection
from relevanced.metrics import Floats, parse
from tests.lane_views import NOW_MS, PLAN

BUCKET_MS = 300_000
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
    return [story.fall for stories in fallen(found, ChangeSettings()) for story in stories]


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
