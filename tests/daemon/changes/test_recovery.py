"""A fall is open exactly until the score has recovered: breaks of many sizes, while they last and
after their end."""

from dataclasses import replace

import numpy as np
import pytest

from relevanced.daemon.changes import (
    HOUR_MS,
    MINUTE_MS,
    Falls,
    Recoveries,
    ScoreNoise,
    ScoreTimeline,
    recovered,
)
from relevanced.metrics import Floats
from tests.daemon.changes.sites import END_MS, Kept, simulated

SEED = 20261123
SERIES = 200
DAY_MS = 24 * HOUR_MS


def broken(
    drop: float, per_hour: float, lasted_ms: int, over_ms: int = 0, seed: int = SEED
) -> ScoreTimeline:
    """Series that fell `lasted_ms` and `over_ms` ago together, and recovered `over_ms` ago; a week
    is known before."""
    kept = Kept(7 * DAY_MS + lasted_ms + over_ms)
    fell, healthy = (
        simulated(
            kept,
            per_hour,
            SERIES,
            np.random.default_rng(seed),
            broken_ms=lasted_ms + over_ms,
            drop=share,
        )
        for share in (drop, 0.0)
    )
    over = (fell.starts >= END_MS - over_ms)[:, None]
    parts = {
        name: np.where(over, getattr(healthy, name), getattr(fell, name))
        for name in ("scored", "sums", "squares")
    }
    return replace(fell, **parts)


def instants(timeline: ScoreTimeline, ago_ms: int) -> Floats:
    return risen(timeline, ago_ms).whole


def risen(timeline: ScoreTimeline, ago_ms: int) -> Recoveries:
    since = np.full(SERIES, float(END_MS - ago_ms))
    falls = Falls(since, since, since + 4 * MINUTE_MS)
    return recovered(timeline, np.ones(SERIES), falls, ScoreNoise(1.2, 0.006))


@pytest.mark.parametrize(
    ("drop", "per_hour"), [(0.1, 10_000), (0.2, 300), (0.3, 1_000), (0.65, 5_700)]
)
@pytest.mark.parametrize("minutes", [5, 20, 75, 200, 24 * 60, 6 * 24 * 60])
def test_a_fall_that_lasts_is_not_over(drop: float, per_hour: float, minutes: int) -> None:
    ago_ms = minutes * MINUTE_MS
    assert np.isnan(instants(broken(drop, per_hour, ago_ms), ago_ms)).all()


@pytest.mark.parametrize(
    ("drop", "per_hour", "after_min", "least"),
    [
        (0.65, 5_700, 10, 0.95),
        (0.3, 20_000, 10, 0.9),
        (0.15, 40_000, 30, 0.8),
        (0.1, 1_000, 1_500, 0.9),
    ],
)
def test_a_fall_that_ended_is_over_soon(
    drop: float, per_hour: float, after_min: int, least: float
) -> None:
    over_ms = after_min * MINUTE_MS
    found = instants(broken(drop, per_hour, 2 * HOUR_MS, over_ms), 2 * HOUR_MS + over_ms)
    assert (~np.isnan(found)).mean() >= least


def test_the_instant_of_the_recovery_is_known() -> None:
    found = instants(broken(0.65, 5_700, 2 * HOUR_MS, 20 * MINUTE_MS), 140 * MINUTE_MS)
    error = np.abs(found - (END_MS - 20 * MINUTE_MS))
    assert np.nanmedian(error) <= 2 * MINUTE_MS and np.nanmax(error) <= 10 * MINUTE_MS


def test_nothing_is_over_without_bins() -> None:
    none = np.zeros((0, 1))
    nothing = np.zeros(0, np.int64)
    empty = ScoreTimeline(nothing, nothing, none, none, none, np.zeros(0, bool))
    since = np.array([float(END_MS)])
    nothing_risen = recovered(empty, np.ones(1), Falls(since, since, since), ScoreNoise())
    assert np.isnan(nothing_risen.whole).all() and np.isnan(nothing_risen.partly).all()
