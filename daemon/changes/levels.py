"""Mean scores of stretches of event time, how far one lies from another, and when the level
changed. Pure.

The onset is an interval: the profile likelihood of one change of level. For each instant a weighted
regression of the bins on a step at that instant is fitted; twice its log likelihood ratio against
no step is the squared step in standard errors. An hour that was half broken tells the minute: the
step counts in it by the part of it that lies behind the instant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from relevanced.metrics import Floats, Integers

from .evidence import UNKNOWN
from .timeline import (
    HOUR_MS,
    MINUTE_MS,
    MOST_DRIFT,
    USUAL_WEEKS,
    ScoreNoise,
    ScoreTimeline,
    groups,
    variance,
)

_TINY: Final = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class ScoreLevel:
    """One stretch of each series, as (series,)."""

    scored: Floats
    mean: Floats
    """NaN where nothing is scored."""
    variance: Floats
    """Of one impression."""
    usual: Floats
    """What earlier weeks have at these hours, weighted as the impressions are; NaN where a bin of
    the stretch has none."""
    middle_ms: Floats
    """The mean time of the impressions; NaN where nothing is scored."""

    def stderr(self, noise: ScoreNoise) -> Floats:
        """Standard error of the mean by sampling alone; NaN below two scored impressions."""
        several = np.where(self.scored > 1, self.scored, np.nan)
        return np.sqrt(noise.design_effect * self.variance / several)


@dataclass(frozen=True, eq=False)
class Loss:
    """How much worse one stretch is than another, as (series,); NaN where either is unknown."""

    expected: Floats
    """The level that the stretch would have without a change: that of the other, or where earlier
    weeks are known, what is usual now as far from it as the other was from its own."""
    amount: Floats
    """In the units of the metric, positive where it got worse."""
    error: Floats
    """Standard error of `amount`: sampling of both sides, and drift, which is taken to grow with
    the hours between them while no earlier week tells what is usual at which hour."""
    least_error: Floats
    """The same without that growth."""
    by_weeks: Floats
    """1 where `expected` goes by earlier weeks, else 0."""

    @property
    def z(self) -> Floats:
        """The change in standard errors, negative where it got worse."""
        return -self.amount / np.maximum(self.error, _TINY)


def within(
    timeline: ScoreTimeline, from_ms: Floats | Integers, until_ms: Floats | Integers
) -> Floats:
    """(bins, series): 1 for each bin inside the stretch of its series, else 0. A stretch that
    contains no whole bin takes parts of those that it overlaps."""
    starts, ends = timeline.starts[:, None], timeline.ends[:, None]
    whole = (starts >= from_ms) & (ends <= until_ms)
    overlap = np.minimum(ends, until_ms) - np.maximum(starts, from_ms)
    parts = np.clip(overlap / (ends - starts), 0.0, 1.0)
    return np.asarray(np.where(whole.any(axis=0), whole, parts), np.float64)


def level(timeline: ScoreTimeline, share: Floats) -> ScoreLevel:
    """The level of each series over its stretch: `share` as `within` returns it."""
    scored = share * timeline.scored
    sums, squares = (
        np.asarray((share * each).sum(axis=0)) for each in (timeline.sums, timeline.squares)
    )
    total = np.asarray(scored.sum(axis=0))
    counted = np.where(total > 0, total, np.nan)
    middles = (timeline.starts + timeline.ends)[:, None] / 2
    return ScoreLevel(
        total,
        sums / counted,
        variance(total, sums, squares),
        _usual(timeline, scored) / counted,
        (scored * middles).sum(axis=0) / counted,
    )


def as_usual(stretch: ScoreLevel) -> ScoreLevel:
    """What earlier weeks have in a stretch, as its level: `loss` knows of their own error."""
    return replace(stretch, mean=stretch.usual, scored=np.full(len(stretch.scored), np.inf))


def _usual(timeline: ScoreTimeline, scored: Floats) -> Floats:
    if timeline.usual is None:
        return np.full(scored.shape[1], np.nan)
    return np.asarray(np.where(scored > 0, scored * timeline.usual, 0.0).sum(axis=0))


def loss(before: ScoreLevel, now: ScoreLevel, directions: Floats, noise: ScoreNoise) -> Loss:
    """What each series lost from one stretch to a later one. `directions` is (series,): 1 where
    higher is better, -1 where lower is."""
    known = (before.usual > 0) & (now.usual > 0)
    ratio = np.divide(now.usual, before.usual, out=np.ones_like(now.usual), where=known)
    expected = before.mean * ratio
    # The larger of both: a side whose values are all the same tells nothing of their variance.
    spread = np.maximum(before.variance, now.variance)
    own = np.where(known, 1 + 1 / USUAL_WEEKS, 1.0)
    counted = (np.where(side.scored > 0, side.scored, np.nan) for side in (before, now))
    sampling = noise.design_effect * own * spread * sum(1 / each for each in counted)
    apart = np.abs(now.middle_ms - before.middle_ms) / HOUR_MS
    growth = np.where(known, np.sqrt(2), np.minimum(1 + apart, MOST_DRIFT))
    drift = noise.drift_at(expected) * np.abs(expected)
    return Loss(
        expected,
        directions * (expected - now.mean),
        np.sqrt(sampling + (growth * drift) ** 2),
        np.sqrt(sampling + 2 * drift**2),
        known.astype(np.float64),
    )


Scores: TypeAlias = tuple[tuple[float, float], ...]
"""(mean, standard error for independent impressions) of each metric."""


@dataclass(frozen=True, eq=False)
class JudgedBins:
    """The judged rows in bins that one file graded."""

    timeline: ScoreTimeline
    """Its series are segments times metrics, the metrics of a segment together."""
    impressions: Floats
    """(bins, segments) impressions whose query is judged."""
    segments: Mapping[tuple[str, str], int]
    metrics: int
    """How many metrics there are."""
    compared: tuple[int, ...]
    """The indices of those that are better where they are higher."""
    since_ms: int
    """Since when that file has graded."""

    def over(
        self, grouping: str, segments: Sequence[str], from_ms: float, until_ms: float
    ) -> tuple[Scores, Scores, float]:
        """(scores, their best case, judged impressions) of some segments of a grouping together,
        over a stretch as far as the file has graded it; no scores and NaN where it has not."""
        known = [self.segments.get((grouping, name)) for name in segments]
        begin_ms = max(from_ms, self.since_ms)
        rows = [row for row in known if row is not None]
        if begin_ms >= until_ms or len(rows) < len(known) or not len(self.timeline.starts):
            return (), (), UNKNOWN
        share = within(self.timeline, np.array([begin_ms]), np.array([until_ms]))
        # As many as there would be over the whole stretch: they are compared with all of it.
        scale = (until_ms - from_ms) / (until_ms - begin_ms)
        impressions = float((share * self.impressions[:, rows]).sum()) * scale
        other = self.timeline if self.timeline.other is None else self.timeline.other
        scores, best_case = (
            tuple(self._score(of, share, rows, metric) for metric in self.compared)
            for of in (self.timeline, other)
        )
        return scores, best_case, impressions

    def _score(
        self, of: ScoreTimeline, share: Floats, rows: Sequence[int], metric: int
    ) -> tuple[float, float]:
        at = [row * self.metrics + metric for row in rows]
        scored, total, squares = (
            float((share * each[:, at]).sum()) for each in (of.scored, of.sums, of.squares)
        )
        if scored < 2:
            return UNKNOWN, UNKNOWN
        mean = total / scored
        return mean, float(np.sqrt(max(squares / scored - mean**2, 0.0) / scored))


BELOW_MAXIMUM: Final = 3.68
"""Instants whose log likelihood ratio is this far below the maximum bound the interval: it is
-ln(1 - sqrt(0.95)), the 95 % quantile for a change-point."""
HOUR_STEP_MS: Final = 5 * MINUTE_MS
"""Within an hour of the history, instants this far apart are tried."""


@dataclass(frozen=True, eq=False)
class Onsets:
    """Instants in ms since the epoch, (series,) each; NaN where nothing is known."""

    earliest: Floats
    """NaN also where the change may be older than the bins."""
    likely: Floats
    latest: Floats


@dataclass(frozen=True, eq=False)
class _Tried:
    """The instants that are tried, as (instants,) each."""

    times: Integers
    bins: Integers
    """The bin that contains the instant."""
    behind: Floats
    """Part of that bin behind the instant, 0 < behind ≤ 1."""
    earlier: Integers
    """The instant to which a lower bound is widened, and the same for an upper one: by one pane, or
    one step within an hour."""
    later: Integers


def onsets(
    timeline: ScoreTimeline, directions: Floats, since_ms: Integers, noise: ScoreNoise
) -> Onsets:
    """When each series changed for the worse, by the bins that start at `since_ms` or later.

    `directions` is (series,): 1 where higher is better, -1 where lower is. A series without a step
    towards the worse that chance would not make has no onset.
    """
    if not len(timeline.starts):
        nothing = np.full(len(directions), np.nan)
        return Onsets(nothing, nothing, nothing)
    tried = _tried(timeline)
    found = [
        _of_group(
            timeline.of(series), directions[series], since_ms[series], noise.of(series), tried
        )
        for series in groups(len(directions), len(tried.times))
    ]
    if not found:
        return Onsets(np.zeros(0), np.zeros(0), np.zeros(0))
    return Onsets(*(np.concatenate(part) for part in zip(*found, strict=True)))


def _tried(timeline: ScoreTimeline) -> _Tried:
    """The start of every bin but the first, and every step within an hour."""
    starts, ends = timeline.starts, timeline.ends
    steps = np.where(timeline.hourly, -(-(ends - starts) // HOUR_STEP_MS), 1)
    bins = np.repeat(np.arange(len(starts), dtype=np.int64), steps)
    nth = np.arange(len(bins), dtype=np.int64) - np.repeat(np.cumsum(steps) - steps, steps)
    times = starts[bins] + nth * HOUR_STEP_MS
    behind = (ends[bins] - times) / (ends - starts)[bins]
    step = np.where(timeline.hourly, HOUR_STEP_MS, ends - starts)
    before = step[np.maximum(bins - (nth == 0), 0)]
    return _Tried(times, bins, behind, times - before, times + step[bins])


def _of_group(
    timeline: ScoreTimeline,
    directions: Floats,
    since_ms: Integers,
    noise: ScoreNoise,
    tried: _Tried,
) -> tuple[Floats, Floats, Floats]:
    likelihood = _log_likelihood_ratio(timeline, directions, since_ms, noise, tried)
    series = likelihood.shape[1]
    nothing = np.full(series, np.nan)
    if not len(likelihood):
        return nothing, nothing, nothing
    best = likelihood.max(axis=0)
    is_known = best > BELOW_MAXIMUM
    inside = likelihood >= best - BELOW_MAXIMUM
    first = inside.argmax(axis=0)
    last = len(inside) - 1 - inside[::-1].argmax(axis=0)
    # Where the first instant that could be tried is within the interval, so may be earlier ones.
    first_tried = np.isfinite(likelihood).argmax(axis=0)
    earliest = np.where(first > first_tried, tried.earlier[first], np.nan)
    return (
        np.where(is_known, earliest, np.nan),
        np.where(is_known, tried.times[likelihood.argmax(axis=0)], np.nan),
        np.where(is_known, np.minimum(tried.later[last], timeline.ends[-1]), np.nan),
    )


def _log_likelihood_ratio(
    timeline: ScoreTimeline,
    directions: Floats,
    since_ms: Integers,
    noise: ScoreNoise,
    tried: _Tried,
) -> Floats:
    """(instants, series): of a step for the worse at each instant against none; minus infinity
    where it cannot be tried, 0 where the step is for the better."""
    means, weights = _levels(timeline, since_ms, noise)
    weighted = weights * means
    # Sums over all bins behind the one that contains the instant, and over all bins.
    weight_behind, value_behind = (_from_the_end(values) for values in (weights, weighted))
    total, value = weight_behind[0], value_behind[0]
    at, part = tried.bins, tried.behind[:, None]
    x = weight_behind[at + 1] + part * weights[at]
    xx = weight_behind[at + 1] + part**2 * weights[at]
    xy = value_behind[at + 1] + part * weighted[at]
    determinant = total * xx - x**2
    # A step needs bins on both sides of it: the cut-off is far above the rounding of the sums.
    possible = determinant > 1e-9 * np.maximum(total, np.finfo(np.float64).tiny) ** 2
    possible &= tried.times[:, None] > _first_start(timeline, weights)[None, :]
    determinant = np.where(possible, determinant, 1.0)
    # With `total` weight the step is numerator / determinant, its variance total / determinant.
    numerator = total * xy - x * value
    safe_total = np.where(total > 0, total, 1.0)
    ratio = numerator**2 / (2 * determinant * safe_total)
    ratio = np.where(numerator * directions < 0, ratio, 0.0)
    return np.asarray(np.where(possible, ratio, -np.inf))


def _levels(
    timeline: ScoreTimeline, since_ms: Integers, noise: ScoreNoise
) -> tuple[Floats, Floats]:
    """((bins, series) mean of each bin, less what is usual; (bins, series) 1 / its variance, 0
    where the bin does not count)."""
    counts = (timeline.scored > 0) & (timeline.starts[:, None] >= since_ms)
    scored = np.where(counts, timeline.scored, 0.0)
    count = np.maximum(scored.sum(axis=0), 1.0)
    means = np.where(counts, timeline.means, 0.0)
    mean = (scored * means).sum(axis=0) / count
    squares = np.where(counts, timeline.squares, 0.0).sum(axis=0)
    spread = np.maximum(squares - (scored * means**2).sum(axis=0), 0.0) / count
    spread = np.maximum(spread, 1e-12 * (1 + mean**2))
    own = noise.design_effect * np.divide(spread, scored, out=np.ones_like(means), where=counts)
    if timeline.usual is not None:
        # Only where all bins have a usual score: else its first one would look like a change.
        is_known = ~(counts & np.isnan(timeline.usual)).any(axis=0)
        means = means - np.where(is_known & counts, timeline.usual, 0.0)
    of_hour = own * (1 + 1 / USUAL_WEEKS) + 2 * (noise.drift_at(mean) * mean) ** 2
    variances = np.where(timeline.hourly[:, None], of_hour, own)
    return means, np.where(counts, 1 / variances, 0.0)


def _first_start(timeline: ScoreTimeline, weights: Floats) -> Floats:
    """(series,) start of the first bin that counts."""
    first = (weights > 0).argmax(axis=0)
    return np.asarray(timeline.starts[first], np.float64)


def _from_the_end(values: Floats) -> Floats:
    """(bins + 1, series): the sum from each bin on; 0 behind the last."""
    summed: Floats = np.zeros((len(values) + 1, values.shape[1]))
    summed[:-1] = values[::-1].cumsum(axis=0)[::-1]
    return summed
