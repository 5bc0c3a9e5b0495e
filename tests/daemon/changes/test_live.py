"""Whether what has not settled shows that a score is back: never too early."""

import secrets
from dataclasses import replace

import numpy as np
import pytest

from relevanced.daemon.changes import (
    HOUR_MS,
    MINUTE_MS,
    Fall,
    FallOnset,
    LivePanes,
    LiveRise,
    MeasuredChange,
    Moved,
    Story,
    can_tell,
    live_rise,
)
from relevanced.metrics import Floats, Integers

SEED = secrets.randbits(31)
SETTLED_MS = 490_000 * 3_600_000
LEVELS = (MeasuredChange(0.6, 0.002, 60_000), MeasuredChange(0.3, 0.004, 9_000))
PANES = 30
SERIES = ("country", "DE", "Success@10")


def story(hours: float = 1.0, usual: float | None = None) -> Story:
    """A fall of so many hours, told with these levels."""
    began_ms = SETTLED_MS - hours * HOUR_MS
    onset = FallOnset(began_ms, began_ms, began_ms, by_panes=True)
    fall = Fall(SERIES, SETTLED_MS, onset, ("hour",), SETTLED_MS, low_since_ms=began_ms)
    own = Moved(SERIES, *LEVELS, 0.004, (60_000, 9_000), usual=usual)
    return Story(fall, ("DE",), own, usual is not None, -50.0, fall.lanes, SETTLED_MS)


def rise(starts: Integers, columns: Floats, told: Story, usual: float = np.nan) -> LiveRise | None:
    """What is said of these panes, all at the same time of the day."""
    live = LivePanes(starts, columns, np.full(len(starts), usual))
    return live_rise(live, told, 1.2, SETTLED_MS)


def panes(
    rng: np.random.Generator, back_min: int | None, per_pane: int, delay_min: float
) -> tuple[Integers, Floats]:
    """((panes,) starts, (panes, 3)) of Success over the half hour behind what has settled; the
    searches of the last `back_min` find as much as before the fall, and a click needs
    `delay_min` on average to arrive."""
    starts = SETTLED_MS + np.arange(PANES) * MINUTE_MS
    age_min = PANES - np.arange(PANES) - 0.5
    found = np.where(age_min <= (back_min or 0), 0.6, 0.3)
    arrived = 1 - np.exp(-age_min / delay_min)
    clicks = rng.binomial(per_pane, found * arrived).astype(float)
    return starts, np.stack([np.full(PANES, float(per_pane)), clicks, clicks], axis=1)


def said(back_min: int | None, per_pane: int, delay_min: float, runs: int) -> list[LiveRise]:
    rng = np.random.default_rng(SEED)
    rises = (rise(*panes(rng, back_min, per_pane, delay_min), story()) for _ in range(runs))
    return [each for each in rises if each is not None]


@pytest.mark.parametrize("delay_min", [0.1, 2.0, 20.0])
def test_while_it_is_broken_it_is_never_back(delay_min: float) -> None:
    assert said(None, 300, delay_min, 400) == [], f"seed {SEED}"


def test_three_minutes_after_a_roll_back_it_is_said_to_be_back() -> None:
    rises = said(3, 300, 0.2, 200)
    assert len(rises) >= 184, f"seed {SEED}: {len(rises)} of 200"
    ago_min = np.array(
        [(PANES * MINUTE_MS + SETTLED_MS - rise.since_ms) / 60_000 for rise in rises]
    )
    assert np.quantile(np.abs(ago_min - 3), 0.9) <= 1, f"seed {SEED}"
    assert all(rise.settled_ms == SETTLED_MS and 0.45 < rise.mean < 0.75 for rise in rises)


def test_with_feedback_that_comes_late_it_is_said_later() -> None:
    assert len(said(3, 300, 15.0, 100)) <= 5, f"seed {SEED}"
    assert len(said(25, 300, 3.0, 100)) >= 90, f"seed {SEED}"


@pytest.mark.parametrize(("left", "per_pane"), [(0.5, 2_000), (0.4, 100)])
def test_half_a_repair_is_not_said_to_be_back(left: float, per_pane: int) -> None:
    """Looked at once, at the worst moment: all that is known of it is half an hour."""
    rng = np.random.default_rng(SEED)
    starts = SETTLED_MS + np.arange(PANES) * MINUTE_MS
    said_back = 0
    for _ in range(200):
        clicks = rng.binomial(per_pane, np.full(PANES, 0.6 - 0.3 * left)).astype(float)
        columns = np.stack([np.full(PANES, float(per_pane)), clicks, clicks], axis=1)
        said_back += rise(starts, columns, story()) is not None
    assert said_back <= 6, f"seed {SEED}: {said_back} of 200"


def test_few_searches_say_nothing() -> None:
    assert said(3, 10, 0.2, 100) == [], f"seed {SEED}"


def test_only_what_feedback_raises_can_tell() -> None:
    assert can_tell("RR@10") and can_tell("Success@10") and can_tell("P(rel=2)@5")
    assert not can_tell("nDCG@10") and not can_tell("Abandonment")
    assert rise(np.zeros(0, np.int64), np.zeros((0, 3)), story()) is None


def test_a_noon_is_measured_by_what_is_usual_at_noon() -> None:
    """Twice as much as by night is usual: what is broken has the level that a night had before."""
    rng = np.random.default_rng(SEED)
    by_night = story(hours=12, usual=0.4)
    levels = MeasuredChange(0.4, 0.004, 9_000), MeasuredChange(0.2, 0.004, 9_000)
    by_night = replace(by_night, own=replace(by_night.own, before=levels[0], now=levels[1]))
    starts, _ = panes(rng, None, 300, 0.1)
    for level, is_back in ((0.4, False), (0.8, True)):
        clicks = rng.binomial(300, np.full(PANES, level)).astype(float)
        columns = np.stack([np.full(PANES, 300.0), clicks, clicks], axis=1)
        found = rise(starts, columns, by_night, usual=0.8)
        assert (found is not None) == is_back, f"seed {SEED}"
        assert found is None or found.mean == pytest.approx(level, abs=0.1), f"seed {SEED}"


def test_without_earlier_weeks_an_older_fall_is_not_compared_with_another_time_of_the_day() -> None:
    repaired = panes(np.random.default_rng(SEED), 30, 300, 0.1)
    assert rise(*repaired, story(hours=2)) is not None, f"seed {SEED}"
    assert rise(*repaired, story(hours=3)) is None
    assert rise(*repaired, story(hours=3, usual=0.6), usual=np.nan) is None
    assert rise(*repaired, story(hours=3, usual=0.6), usual=0.6) is not None, f"seed {SEED}"
