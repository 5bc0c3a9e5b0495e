"""Mean scores of stretches of event time, and how far one lies from another. Pure."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from relevanced.metrics.lists import Floats, Integers

from .noise import Noise, variance
from .scan import MOST_DRIFT, USUAL_WEEKS
from .timeline import HOUR_MS, Timeline

_TINY: Final = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class Level:
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

    def stderr(self, noise: Noise) -> Floats:
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


def within(timeline: Timeline, from_ms: Floats | Integers, until_ms: Floats | Integers) -> Floats:
    """(bins, series): 1 for each bin inside the stretch of its series, else 0. A stretch that
    contains no whole bin takes parts of those that it overlaps."""
    starts, ends = timeline.starts[:, None], timeline.ends[:, None]
    whole = (starts >= from_ms) & (ends <= until_ms)
    overlap = np.minimum(ends, until_ms) - np.maximum(starts, from_ms)
    parts = np.clip(overlap / (ends - starts), 0.0, 1.0)
    return np.asarray(np.where(whole.any(axis=0), whole, parts), np.float64)


def level(timeline: Timeline, share: Floats) -> Level:
    """The level of each series over its stretch: `share` as `within` returns it."""
    scored = share * timeline.scored
    sums, squares = (
        np.asarray((share * each).sum(axis=0)) for each in (timeline.sums, timeline.squares)
    )
    total = np.asarray(scored.sum(axis=0))
    counted = np.where(total > 0, total, np.nan)
    middles = (timeline.starts + timeline.ends)[:, None] / 2
    return Level(
        total,
        sums / counted,
        variance(total, sums, squares),
        _usual(timeline, scored) / counted,
        (scored * middles).sum(axis=0) / counted,
    )


def _usual(timeline: Timeline, scored: Floats) -> Floats:
    if timeline.usual is None:
        return np.full(scored.shape[1], np.nan)
    return np.asarray(np.where(scored > 0, scored * timeline.usual, 0.0).sum(axis=0))


def loss(before: Level, now: Level, directions: Floats, noise: Noise) -> Loss:
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
    drift = noise.drift_ratio * np.abs(expected)
    return Loss(
        expected,
        directions * (expected - now.mean),
        np.sqrt(sampling + (growth * drift) ** 2),
        np.sqrt(sampling + 2 * drift**2),
        known.astype(np.float64),
    )
