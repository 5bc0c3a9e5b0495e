"""The onset: equal to its slow definition, close to the truth, and its interval contains it."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from relevanced.daemon.changes import (
    BELOW_MAXIMUM,
    HOUR_MS,
    MINUTE_MS,
    ScoreNoise,
    ScoreTimeline,
    onsets,
)
from tests.daemon.changes import oracle
from tests.daemon.changes.sites import END_MS, Kept, simulated
from tests.daemon.changes.test_scan import timelines

NOISE = ScoreNoise()
SEED = 20261123
RUNS = 400


@given(timelines(), st.data())
@settings(max_examples=200, deadline=None)
def test_onset_equals_its_slow_definition(timeline: ScoreTimeline, data: st.DataObject) -> None:
    series = timeline.scored.shape[1]
    found = onsets(timeline, np.ones(series), np.zeros(series, np.int64), NOISE)
    for index in range(series):
        scored, sums = timeline.scored[:, index], timeline.sums[:, index]
        # Without any spread within the bins every step is certain.
        within = timeline.squares[:, index] - sums**2 / np.maximum(scored, 1)
        assume(scored.any() and within.sum() > 0.1)
        expected = oracle.log_likelihood_ratios(timeline, index, 1.0, NOISE)
        best = max((ratio for _, ratio in expected), default=0.0)
        assume(abs(best - BELOW_MAXIMUM) > 1e-6)
        if best < BELOW_MAXIMUM:
            assert np.isnan([found.earliest[index], found.likely[index], found.latest[index]]).all()
            continue
        inside = [at for at, ratio in expected if ratio >= best - BELOW_MAXIMUM - 1e-6]
        of_likely = [ratio for at, ratio in expected if at == found.likely[index]]
        assert of_likely == pytest.approx([best], rel=1e-6)
        assert inside[0] <= found.likely[index] <= inside[-1] < found.latest[index]
        if inside[0] == expected[0][0]:
            assert np.isnan(found.earliest[index]), "it may be older than the bins"


@dataclass(frozen=True)
class Case:
    """A row of the table: what is kept, the break, and what must hold of its onsets."""

    kept: Kept
    per_hour: float
    drop: float
    broken_ms: int
    half_min: float
    most_min: float
    width_min: float


FINE = Kept(2 * HOUR_MS)
HOURS = Kept(7 * 24 * HOUR_MS, HOUR_MS, 0)
CASES = {
    "DE of the demo, panes": Case(FINE, 5_700, 0.65, 20 * MINUTE_MS, 1.0, 1.5, 6),
    "-50 %, panes": Case(FINE, 1_000, 0.5, 20 * MINUTE_MS, 1.0, 3.0, 9),
    "-20 %, panes": Case(FINE, 1_000, 0.2, HOUR_MS, 3.0, 20.0, 30),
    "-10 %, panes": Case(FINE, 10_000, 0.1, HOUR_MS, 1.5, 7.0, 14),
    "DE of the demo, hours": Case(HOURS, 5_700, 0.65, 4 * HOUR_MS, 2.0, 6.0, 15),
    "-10 %, hours": Case(HOURS, 10_000, 0.1, 24 * HOUR_MS, 7.0, 30.0, 70),
    "-10 % of few, hours": Case(HOURS, 1_000, 0.1, 24 * HOUR_MS, 20.0, 110.0, 190),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_onset_is_close_and_its_interval_contains_the_break(case: Case) -> None:
    """Half and 19 of 20 of the errors, half of the widths, and 97 of 100 intervals."""
    rng = np.random.default_rng(SEED)
    errors: list[float] = []
    widths: list[float] = []
    covered: list[bool] = []
    unbounded = 0
    for _ in range(10):
        broken_ms = case.broken_ms + int(rng.integers(0, 60)) * MINUTE_MS * bool(
            case.kept.pane_ms == HOUR_MS
        )
        broken_ms += int(rng.integers(0, 120_000))
        timeline = simulated(
            case.kept, case.per_hour, RUNS // 10, rng, broken_ms=broken_ms, drop=case.drop
        )
        hourly = np.full(len(timeline.starts), case.kept.pane_ms == HOUR_MS)
        bins = (timeline.scored, timeline.sums, timeline.squares, hourly)
        timeline = ScoreTimeline(timeline.starts, timeline.ends, *bins)
        since = np.zeros(RUNS // 10, np.int64)
        found = onsets(timeline, np.ones(RUNS // 10), since, NOISE)
        truth = END_MS - broken_ms
        is_known = ~np.isnan(found.likely)
        earliest = np.where(np.isnan(found.earliest), -np.inf, found.earliest)[is_known]
        likely, latest = found.likely[is_known], found.latest[is_known]
        unbounded += int(np.isnan(found.earliest).sum())
        errors += (np.abs(likely - truth) / MINUTE_MS).tolist()
        widths += ((latest - earliest) / MINUTE_MS).tolist()
        covered += ((earliest <= truth) & (truth <= latest)).tolist()
    half, most = np.quantile(errors, [0.5, 0.95])
    print(f"seed {SEED}: {half:.1f}, {most:.1f}, {np.median(widths):.0f}, {np.mean(covered):.3f}")
    assert half <= case.half_min and most <= case.most_min
    assert np.median(widths) <= case.width_min
    assert np.mean(covered) >= 0.97 and unbounded <= RUNS // 100


def test_nothing_is_said_of_what_did_not_fall() -> None:
    rng = np.random.default_rng(SEED)
    timeline = simulated(FINE, 1_000, 50, rng, broken_ms=HOUR_MS, drop=-0.5)
    found = onsets(timeline, np.ones(50), np.zeros(50, np.int64), NOISE)
    assert np.isnan(found.likely).mean() > 0.9, "they rose"
    found = onsets(timeline, -np.ones(50), np.zeros(50, np.int64), NOISE)
    assert not np.isnan(found.likely).any(), "for metrics where lower is better they got worse"


def test_only_the_bins_since_an_instant_count() -> None:
    """Two breaks: asked for what came after the first, it names the second."""
    rng = np.random.default_rng(SEED)
    timeline = simulated(Kept(40 * HOUR_MS), 20_000, 1, rng, broken_ms=30 * MINUTE_MS, drop=0.1)
    early = timeline.starts < END_MS - 20 * HOUR_MS
    level = np.where(early, 2.0, 1.0)[:, None]
    counts = (timeline.scored, timeline.sums * level, timeline.squares * level**2)
    both = ScoreTimeline(timeline.starts, timeline.ends, *counts, timeline.hourly)
    older = onsets(both, np.ones(1), np.zeros(1, np.int64), NOISE)
    newer = onsets(both, np.ones(1), np.array([END_MS - 3 * HOUR_MS]), NOISE)
    assert abs(float(older.likely[0]) - (END_MS - 20 * HOUR_MS)) <= HOUR_MS
    assert abs(float(newer.likely[0]) - (END_MS - 30 * MINUTE_MS)) <= 5 * MINUTE_MS
