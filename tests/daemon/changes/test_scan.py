"""Lane `hour`: equal to its slow definition, quick with breaks, silent without."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from relevanced.daemon.changes import (
    HOUR_MS,
    MINUTE_MS,
    ScoreNoise,
    ScoreTimeline,
    Sides,
    called,
    scan,
    sides,
    threshold,
)
from tests.daemon.changes import oracle
from tests.daemon.changes.looks import false_calls
from tests.daemon.changes.sites import END_MS, Kept, simulated

NOISE = ScoreNoise()
SEED = 20261123


def test_while_no_week_is_known_yesterday_must_show_the_fall_too() -> None:
    rng = np.random.default_rng(SEED)
    broken = simulated(Kept(30 * HOUR_MS), 5_000, 4, rng, broken_ms=2 * HOUR_MS, drop=0.2)
    up = np.ones(4)
    alike, steady, unknown = (
        replace(broken, yesterday=of)
        for of in (
            np.where(broken.scored > 0, broken.means, np.nan),
            np.full(broken.scored.shape, 0.57),
            np.full(broken.scored.shape, np.nan),
        )
    )
    plain = scan(broken, up, NOISE)
    assert plain.called.all() and not scan(alike, up, NOISE).called.any()
    for each in (scan(steady, up, NOISE), scan(unknown, up, NOISE)):
        assert each.called.all() and each.loss == pytest.approx(plain.loss, rel=0.2)
    quiet = simulated(Kept(30 * HOUR_MS), 5_000, 4, rng)
    of_yesterday = np.where((quiet.ends < END_MS - 30 * MINUTE_MS)[:, None], 0.3, quiet.means)
    assert not scan(replace(quiet, yesterday=of_yesterday), up, NOISE).called.any()


def test_an_hour_within_which_earlier_days_step_counts_as_a_whole_or_not_yet() -> None:
    rng = np.random.default_rng(SEED)
    fine = simulated(Kept(3 * HOUR_MS, panes_ms=3 * HOUR_MS), 5_000, 2, rng).first(75)
    hours = fine.starts // HOUR_MS
    first, *_, last = np.unique(hours)
    steps = np.zeros(fine.scored.shape, bool)
    steps[(hours == first + 1) | (hours == last), 0] = True
    found = replace(fine, steps=steps).by_whole_hours
    for before, now in zip(*((each.scored, each.sums, each.squares) for each in (fine, found))):
        assert (now[~steps] == before[~steps]).all() and not now[hours == last, 0].any()
        whole = now[hours == first + 1, 0]
        assert whole == pytest.approx(before[hours == first + 1, 0].mean())


@st.composite
def timelines(draw: st.DrawFn) -> ScoreTimeline:
    """Any bins of any length with gaps, few and many impressions, steps, metrics of few values."""
    bins = draw(st.integers(0, 14))
    series = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = rng.choice([10_000, MINUTE_MS, 4 * MINUTE_MS, HOUR_MS], bins)
    gaps = rng.choice([0, 0, 0, 30_000, HOUR_MS], bins)
    ends = END_MS + np.cumsum(lengths + gaps)
    scored = rng.poisson(rng.choice([0, 3, 60, 800], (bins, series)))
    level = np.where(np.arange(bins)[:, None] < rng.integers(0, bins + 1), 0.7, 0.3)
    sums = rng.binomial(scored, np.broadcast_to(level * rng.choice([0, 1, 1]), scored.shape))
    usual = rng.choice([np.nan, 0.0, 0.4, 0.5], (bins, series), p=[0.05, 0.05, 0.5, 0.4])
    return ScoreTimeline(
        (ends - lengths).astype(np.int64),
        ends.astype(np.int64),
        scored.astype(np.float64),
        sums.astype(np.float64),
        sums.astype(np.float64),
        lengths == HOUR_MS,
        usual if draw(st.booleans()) else None,
    )


@given(timelines(), st.data())
@settings(max_examples=200, deadline=None)
def test_scan_equals_its_slow_definition(timeline: ScoreTimeline, data: st.DataObject) -> None:
    series = timeline.scored.shape[1]
    signs = st.lists(st.sampled_from([1.0, 1.0, -1.0, 0.0]), min_size=series, max_size=series)
    directions = data.draw(signs)
    noise = ScoreNoise(
        data.draw(st.sampled_from([1.0, 1.5])), data.draw(st.sampled_from([0, 0.006]))
    )
    found = scan(timeline, np.array(directions), noise)
    expected = oracle.scan(timeline, directions, noise)
    assert found.called.tolist() == [bool(each) for each in expected]
    for index, each in enumerate(expected):
        if each:
            got = (found.z[index], found.loss[index], found.since_ms[index])
            assert got == pytest.approx(each, rel=1e-9)


def test_no_bins_call_nothing() -> None:
    none = np.zeros((0, 2))
    nothing = np.zeros(0, np.int64)
    empty = ScoreTimeline(nothing, nothing, none, none, none, np.zeros(0, bool))
    assert not scan(empty, np.ones(2), NOISE).called.any()


def test_more_series_need_a_higher_threshold() -> None:
    assert threshold(8) == threshold(240) == -6
    assert threshold(2400) == pytest.approx(-6 - np.log(10) / 6)


def test_few_impressions_of_one_value_are_not_a_fall_of_a_rare_metric() -> None:
    """100 impressions without a click are ordinary where one in 20 has one."""
    starts = END_MS + np.arange(0, 66, 6, dtype=np.int64) * MINUTE_MS
    scored = np.array([[1000.0]] * 10 + [[100.0]])
    sums = np.array([[50.0]] * 10 + [[0.0]])
    timeline = ScoreTimeline(starts, starts + 6 * MINUTE_MS, scored, sums, sums, np.zeros(11, bool))
    assert not scan(timeline, np.ones(1), NOISE).called.any()


def found_after(per_hour: float, drop: float, minutes: float, pane_s: int = 10) -> float:
    """Share of breaks that are called so many minutes after them, three hours known before."""
    rng = np.random.default_rng(SEED)
    kept = Kept(4 * HOUR_MS, pane_s * 1000)
    broken_ms = int(minutes * MINUTE_MS)
    timeline = simulated(kept, per_hour, 300, rng, broken_ms=broken_ms, drop=drop)
    return float(scan(timeline, np.ones(300), NOISE).called.mean())


@pytest.mark.parametrize(
    ("per_hour", "drop", "half_min", "most_min"),
    [(20_000, 0.5, 2, 4), (5_700, 0.5, 3, 6), (1_000, 0.5, 12, 40), (20_000, 0.2, 5, 30)],
)
def test_breaks_are_called_in_time(
    per_hour: float, drop: float, half_min: float, most_min: float
) -> None:
    assert found_after(per_hour, drop, half_min) >= 0.5
    assert found_after(per_hour, drop, most_min) >= 0.95
    assert found_after(per_hour, drop, 0) == 0


@pytest.mark.parametrize("minutes", [3, 10, 75, 200, 24 * 60, 4 * 24 * 60])
def test_a_break_stays_visible(minutes: int) -> None:
    """DE of the demo: 5,700 an hour, -65 %, and hardly more known than the break is old."""
    rng = np.random.default_rng(SEED)
    kept = Kept(minutes * MINUTE_MS + max(minutes * MINUTE_MS // 10, 30 * MINUTE_MS), 10_000)
    broken_ms = minutes * MINUTE_MS
    timeline = simulated(kept, 5_700, 100, rng, broken_ms=broken_ms, drop=0.65)
    assert scan(timeline, np.ones(100), NOISE).called.all()


def test_a_day_cycle_is_no_fall_where_weeks_are_known() -> None:
    rng = np.random.default_rng(SEED)
    timeline = simulated(Kept(40 * HOUR_MS), 200_000, 20, rng, drift_ratio=0)
    hour = (timeline.starts[:, None] - END_MS) / HOUR_MS
    season = 1 + 0.25 * np.cos(2 * np.pi * hour / 24 + np.pi)
    shaped = ScoreTimeline(
        timeline.starts,
        timeline.ends,
        timeline.scored,
        timeline.sums * season,
        timeline.squares * season**2,
        timeline.hourly,
    )
    assert scan(shaped, np.ones(20), NOISE).called.any(), "by itself it looks like one"
    usual = np.broadcast_to(0.57 * season, timeline.scored.shape)
    known = ScoreTimeline(*(getattr(shaped, name) for name in NAMES), usual)
    assert not scan(known, np.ones(20), NOISE).called.any()


NAMES = ("starts", "ends", "scored", "sums", "squares", "hourly")


def test_quiet_days_call_hardly_anything() -> None:
    """100 series-weeks of looks: at 0.2 false calls in 1,000 more than one is a chance of 1 in
    5,000. A lower threshold does call, so the looks are real ones."""
    counts = false_calls(1_000, 100, 7 * 24, (6.0, 4.0), SEED, look_every=5)
    assert counts[6.0] <= 1, f"seed {SEED}"
    assert counts[4.0] >= 5, f"seed {SEED}"


def test_sides_of_groups_are_those_of_all() -> None:
    timeline = simulated(Kept(5 * HOUR_MS), 2_000, 6, np.random.default_rng(SEED), drop=0.0)
    whole = sides(timeline, np.ones(6), NOISE)
    part: Sides = sides(timeline.of(np.array([4, 5])), np.ones(2), NOISE)
    assert np.array_equal(whole.z[:, 4:], part.z)
    assert not called(timeline, whole, -6.0).called.any()
