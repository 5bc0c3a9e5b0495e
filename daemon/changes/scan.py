"""Lane `hour`: what has settled since an instant against what lies before it, for every instant.
Pure.

It needs no earlier days, so it is what an installation in its first hours is judged by; and as all
lengths are looked at, a break stays visible for as long as anything before it is kept. So many
looks need a higher threshold than a comparison with earlier weeks.
"""

from dataclasses import dataclass
from math import log, sqrt
from typing import Final

import numpy as np

from relevanced.metrics import Booleans, Floats, Integers

from .timeline import (
    HOUR_MS,
    MINUTE_MS,
    MOST_DRIFT,
    USUAL_WEEKS,
    ScoreNoise,
    ScoreTimeline,
    from_the_top,
    variance,
)

LOW_Z: Final = 6.0
"""A series is called below minus this many standard errors, in up to `USUAL_SERIES` series."""
USUAL_SERIES: Final = 240
LEAST_LOSS: Final = 0.05
"""No call for a loss of at most this share of the baseline."""
LEAST_SCORED: Final = 100
"""Scored impressions that both sides must have."""
LEAST_NOW_MS: Final = MINUTE_MS
LEAST_BEFORE_MS: Final = 5 * MINUTE_MS
MOST_BEFORE_MS: Final = 60 * MINUTE_MS
"""The baseline is at most this long, or as long as the time since the instant if that is longer."""
SHAPES_RATIO: Final = 0.01
"""How far the hours of a day may differ from those of the day before, as a share of the score."""
AGAINST_YESTERDAY: Final = 2.0
"""A call needs one part in so many of its z against yesterday's hours too. While no week is known
the shape of a day is a fall else; and a week after a score rose for good, weeks say that it should
have risen again."""


def threshold(series: int) -> float:
    """The z below which one of so many series is called, negative."""
    return -(LOW_Z + max(log(max(series, 1) / USUAL_SERIES), 0.0) / 6)


@dataclass(frozen=True, eq=False)
class Sides:
    """Both sides of each instant, as (instants, series) unless said otherwise."""

    instants: Integers
    """(instants,) indices of the bins at whose start the sides meet, oldest first."""
    scored: Floats
    """The smaller number of scored impressions of both sides."""
    loss: Floats
    """Loss as a share of the baseline, negative where the score got better; NaN where undefined."""
    error: Floats
    """Standard error of the loss."""

    @property
    def z(self) -> Floats:
        """The change in standard errors, negative where the score got worse."""
        tiny = np.finfo(np.float64).tiny
        return -self.loss / np.maximum(self.error, tiny)

    def agreed(self, other: "Sides") -> "Sides":
        """What both readings say: that of the one which got less worse."""
        scored, loss, error = (
            np.where(is_less_low(other.z, self.z), theirs, own)
            for theirs, own in (
                (other.scored, self.scored),
                (other.loss, self.loss),
                (other.error, self.error),
            )
        )
        return Sides(self.instants, scored, loss, error)


def is_less_low(other: Floats, z: Floats) -> Booleans:
    """Where another reading, in errors, is not as low as this one, or is not known."""
    with np.errstate(invalid="ignore"):
        return np.asarray(~(other <= z) & ~np.isnan(z), np.bool_)


@dataclass(frozen=True, eq=False)
class Calls:
    """What the lane says of each series, as (series,)."""

    called: Booleans
    z: Floats
    """Of the clearest loss that is called; NaN where none is."""
    loss: Floats
    """Its share of the baseline; NaN where none is called."""
    since_ms: Integers
    """The instant of that loss; 0 where none is called."""


def sides(timeline: ScoreTimeline, directions: Floats, noise: ScoreNoise) -> Sides:
    """Both sides of every instant that has enough time on both; where there are two readings, what
    both say.

    `directions` is (series,): 1 where higher is better, -1 where lower is, 0 where neither.
    """
    found = _sides(timeline, directions, noise)
    if timeline.other is None:
        return found
    return found.agreed(_sides(timeline.other, directions, noise))


def _sides(timeline: ScoreTimeline, directions: Floats, noise: ScoreNoise) -> Sides:
    timeline = timeline.by_whole_hours
    instants, first = _instants(timeline)
    bounds = (first, instants), (instants, None)
    before, after = (_Side.of(timeline, side, timeline.usual) for side in bounds)
    plain, known = before.against(after, None), None
    base, now, spread = plain
    ratio = noise.drift_at(base)
    drift = ratio * _drift_growth(timeline, instants, first)[:, None]
    if timeline.usual is not None:
        base_usual, now_usual = before.usual, after.usual
        known = ~(np.isnan(base_usual) | np.isnan(now_usual)) & (base_usual != 0) & (now_usual != 0)
        scaled = before.against(after, (base_usual, now_usual))
        base, now, spread = (np.where(known, s, p) for s, p in zip(scaled, plain, strict=True))
        drift = np.where(known, ratio * sqrt(2), drift)
    scale = np.where(base != 0, np.abs(base), np.nan)
    sampling = noise.design_effect * spread / scale**2
    signs = np.where(directions == 0, np.nan, directions)
    loss, error = signs * (base - now) / scale, np.sqrt(sampling + drift**2)
    if timeline.yesterday is not None:
        before, after = (_Side.of(timeline, side, timeline.yesterday) for side in bounds)
        lost, its_error = _against_yesterday(before, after, noise)
        lost, its_error = signs * lost, its_error / AGAINST_YESTERDAY
        is_less = lost * error < loss * its_error
        # A fall must be seen by both: where none is, the larger error says how small one may be.
        larger = np.where(lost < its_error, np.fmax(error, its_error), error)
        error = np.where(is_less & (lost >= its_error), its_error, larger)
        loss = np.where(is_less, lost, loss)
    return Sides(instants, np.minimum(before.scored, after.scored), loss, error)


def _against_yesterday(before: "_Side", after: "_Side", noise: ScoreNoise) -> tuple[Floats, Floats]:
    """(loss by the same hours of the day before as a share of the score, its standard error), of
    each instant; NaN where what lies behind it has no such hours.

    Where what lies before has none, the level of the days differs too.
    """
    no_change = np.where(before.usual != 0, before.usual, np.nan)
    of_before = np.where(np.isnan(no_change), 1.0, before.means / no_change)
    expected = after.usual_of_known * np.where(of_before != 0, of_before, np.nan)
    scale = np.where(expected != 0, np.abs(expected), np.nan)
    lost = (expected - after.of_known) / scale
    few = np.full(lost.shape, np.nan)
    own = np.divide(2 * after.variances, after.known, out=few.copy(), where=after.known > 0)
    base = np.divide(2 * before.variances, before.scored, out=few, where=before.scored > 0)
    base = np.where(
        np.isnan(no_change), 0.0, base / np.where(before.means != 0, before.means, 1) ** 2
    )
    level = np.where(np.isnan(no_change), noise.weekday_drift_ratio, SHAPES_RATIO)
    drift = np.hypot(noise.drift_at(expected), level) * sqrt(2)
    return lost, np.sqrt(noise.design_effect * (own / scale**2 + base) + drift**2)


def called(timeline: ScoreTimeline, found: Sides, limit: float) -> Calls:
    """The clearest loss of each series whose z is below `limit`."""
    series = found.error.shape[1]
    if not len(found.instants):
        nothing = np.full(series, np.nan)
        return Calls(np.zeros(series, bool), nothing, nothing, np.zeros(series, np.int64))
    z = found.z
    with np.errstate(invalid="ignore"):
        red = (z < limit) & (found.loss > LEAST_LOSS) & (found.scored >= LEAST_SCORED)
    clearest = np.where(red, z, np.inf).argmin(axis=0)
    any_red, at = np.asarray(red.any(axis=0), np.bool_), (clearest, np.arange(series))
    return Calls(
        any_red,
        np.where(any_red, z[at], np.nan),
        np.where(any_red, found.loss[at], np.nan),
        np.where(any_red, timeline.starts[found.instants[clearest]], 0),
    )


def scan(timeline: ScoreTimeline, directions: Floats, noise: ScoreNoise) -> Calls:
    """The clearest loss of each series that is beyond what chance and drift explain."""
    limit = threshold(int(np.count_nonzero(directions)))
    return called(timeline, sides(timeline, directions, noise), limit)


@dataclass(frozen=True, eq=False)
class _Side:
    """Sums over one side of each instant, as (instants, series)."""

    scored: Floats
    means: Floats
    variances: Floats
    usual: Floats
    """What is usual for these hours, weighted as the impressions are; NaN where a bin with scored
    impressions has none."""
    known: Floats
    """The scored impressions of bins that have a usual."""
    of_known: Floats
    """Their mean."""
    usual_of_known: Floats
    """What is usual for them."""

    @classmethod
    def of(
        cls,
        timeline: ScoreTimeline,
        bounds: tuple[Integers, Integers | None],
        expected: Floats | None,
    ) -> "_Side":
        def total(values: Floats) -> Floats:
            upto = from_the_top(values)
            first, last = bounds
            return (upto[-1] if last is None else upto[last]) - upto[first]

        scored, sums = total(timeline.scored), total(timeline.sums)
        some = scored > 0
        empty = np.full(scored.shape, np.nan)
        means = np.divide(sums, scored, out=empty.copy(), where=some)
        usual, known, of_known, usual_of_known = (empty.copy() for _ in range(4))
        if expected is not None:
            is_known = ~np.isnan(expected)
            weighted = total(timeline.scored * np.where(is_known, expected, 0.0))
            known = total(timeline.scored * is_known)
            enough = known > 0.5
            np.divide(total(timeline.sums * is_known), known, out=of_known, where=enough)
            np.divide(weighted, known, out=usual_of_known, where=enough)
            usual = np.where(some & (scored - known < 0.5), usual_of_known, np.nan)
        spread = variance(scored, sums, total(timeline.squares))
        return cls(scored, means, spread, usual, known, of_known, usual_of_known)

    def against(
        self, after: "_Side", usual: tuple[Floats, Floats] | None
    ) -> tuple[Floats, Floats, Floats]:
        """(level before, level after, variance of their difference), each divided by what is usual
        for its hours if that is given.

        The variance of an impression is at least that before: of few impressions after a change
        all may have the same value.
        """
        after_variance = np.maximum(after.variances, self.variances)
        few = np.full(self.scored.shape, np.nan)
        if usual is None:
            before_scale, after_scale, own = np.ones(()), np.ones(()), 1.0
        else:
            before_scale, after_scale = (np.where(u != 0, u, np.nan) for u in usual)
            own = 1 + 1 / USUAL_WEEKS
        parts = (
            np.divide(own * each, side.scored, out=few.copy(), where=side.scored > 0) / scale**2
            for each, side, scale in (
                (self.variances, self, before_scale),
                (after_variance, after, after_scale),
            )
        )
        return self.means / before_scale, after.means / after_scale, sum(parts, np.zeros(()))


def _instants(timeline: ScoreTimeline) -> tuple[Integers, Integers]:
    """((n,) bins at whose start the sides meet, (n,) the first bin of each baseline)."""
    starts, ends = timeline.starts, timeline.ends
    if not len(starts):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    since = ends[-1] - starts
    longest = np.maximum(since, MOST_BEFORE_MS)
    first = np.searchsorted(starts, starts - longest).astype(np.int64)
    upto = np.concatenate([[0], np.cumsum(ends - starts)])
    covered = upto[np.arange(len(starts))] - upto[first]
    kept = np.flatnonzero((since >= LEAST_NOW_MS) & (covered >= LEAST_BEFORE_MS)).astype(np.int64)
    return kept, first[kept]


def _drift_growth(timeline: ScoreTimeline, instants: Integers, first: Integers) -> Floats:
    """(instants,): by how much the drift between the middles of both sides exceeds that between two
    neighbouring ones."""
    if not len(instants):
        return np.zeros(0)
    apart_ms = (timeline.ends[-1] - timeline.starts[first]) / 2
    return np.asarray(np.minimum(1 + apart_ms / HOUR_MS, MOST_DRIFT))
