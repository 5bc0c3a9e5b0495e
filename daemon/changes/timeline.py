"""Settled counts along event time, and how far a healthy score moves. Pure.

A bin is a pane or an hour: the finest that is kept. Recent bins are short and older ones long; bins
do not overlap, and there may be gaps between them. A series is one metric of one segment. Its noise
is the sampling error, inflated by the design effect, and drift.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import Booleans, Floats, Integers

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
_CELLS: Final = 1 << 18
"""At most so many numbers are in an array of a group of series."""
MOST_DRIFT: Final = 5.0
"""The drift grows with the hours between the middles of both sides, to this multiple."""
USUAL_WEEKS: Final = 3.0
"""Weeks in the usual score: its own error adds this part of one to the variance."""


@dataclass(frozen=True, eq=False)
class ScoreTimeline:
    """Bins, oldest first. Sums and squares are in units of the metric."""

    starts: Integers
    """(bins,) ms since the epoch."""
    ends: Integers
    """(bins,) each at most the start of the next."""
    scored: Floats
    """(bins, series) impressions for which the metric is defined."""
    sums: Floats
    """(bins, series) sum of the metric over these."""
    squares: Floats
    """(bins, series) sum of its squares."""
    hourly: Booleans
    """(bins,) True where the bin is an hour of the history, False where it is a pane."""
    usual: Floats | None = None
    """(bins, series) mean of the same hour in earlier weeks, NaN where it is not known; None where
    no week is known yet."""
    yesterday: Floats | None = None
    """(bins, series) mean of the same hour a day before, NaN where it is not known; None where no
    day is known yet."""
    steps: Booleans | None = None
    """(bins, series) panes of an hour within which the score changes on earlier days; None where
    there is none."""
    other: "ScoreTimeline | None" = None
    """The same bins by another reading: of judged scores the best case of the items without a
    judgement. Nothing is called that only one of both says. None where there is one reading."""

    @cached_property
    def means(self) -> Floats:
        """(bins, series) mean of each bin; NaN where nothing is scored."""
        empty = np.full(self.scored.shape, np.nan)
        means: Floats = np.divide(self.sums, self.scored, out=empty, where=self.scored > 0)
        return means

    @cached_property
    def variances(self) -> Floats:
        """(bins, series) variance of these, for independent impressions; NaN where nothing is
        scored."""
        empty = np.full(self.scored.shape, np.nan)
        spread = variance(self.scored, self.sums, self.squares)
        variances: Floats = np.divide(spread, self.scored, out=empty, where=self.scored > 0)
        return variances

    @cached_property
    def by_whole_hours(self) -> "ScoreTimeline":
        """What is usual is known by the hour. Where it changes within one, each pane has its part
        of the whole hour, or nothing until the hour is whole."""
        if self.steps is None or not self.steps.any():
            return self
        lengths, hours = self.ends - self.starts, self.starts // HOUR_MS
        columns = [each.copy() for each in (self.scored, self.sums, self.squares)]
        for hour in np.unique(hours[self.steps.any(axis=1)]):
            bins = np.flatnonzero(hours == hour)
            is_whole = lengths[bins].sum() == HOUR_MS
            parts = lengths[bins, None] / HOUR_MS * is_whole
            for column in columns:
                spread = parts * column[bins].sum(axis=0)
                column[bins] = np.where(self.steps[bins], spread, column[bins])
        scored, sums, squares = columns
        return replace(self, scored=scored, sums=sums, squares=squares, steps=None)

    @property
    def alone(self) -> "ScoreTimeline":
        """Without the other reading."""
        return replace(self, other=None)

    def since(self, start_ms: int) -> "ScoreTimeline":
        """The bins that start at this instant or later."""
        return self._part(slice(int(np.searchsorted(self.starts, start_ms)), None))

    def first(self, bins: int) -> "ScoreTimeline":
        """The first bins."""
        return self._part(slice(bins))

    def followed_by(self, later: "ScoreTimeline") -> "ScoreTimeline":
        """These bins and later ones, of the same series, without what earlier days have."""
        both, other = (self, later), None
        if self.other is not None and later.other is not None:
            other = self.other.followed_by(later.other)
        return ScoreTimeline(
            np.concatenate([each.starts for each in both]),
            np.concatenate([each.ends for each in both]),
            np.concatenate([each.scored for each in both]),
            np.concatenate([each.sums for each in both]),
            np.concatenate([each.squares for each in both]),
            np.concatenate([each.hourly for each in both]),
            other=other,
        )

    def _part(self, bins: slice) -> "ScoreTimeline":
        return replace(
            self._columns(lambda column: column[bins]),
            starts=self.starts[bins],
            ends=self.ends[bins],
            hourly=self.hourly[bins],
            other=None if self.other is None else self.other._part(bins),
        )

    def _columns(self, part: Callable[[NDArray[Any]], NDArray[Any]]) -> "ScoreTimeline":
        """A part of all that is (bins, series)."""
        usual, yesterday, steps = (
            None if each is None else part(each)
            for each in (self.usual, self.yesterday, self.steps)
        )
        return replace(
            self,
            scored=part(self.scored),
            sums=part(self.sums),
            squares=part(self.squares),
            usual=usual,
            yesterday=yesterday,
            steps=steps,
        )

    def only(self, counted: Booleans) -> "ScoreTimeline":
        """Only the bins that count in each series: (bins, series). The others are as empty."""
        scored, sums, squares = (
            np.where(counted, each, 0.0) for each in (self.scored, self.sums, self.squares)
        )
        other = None if self.other is None else self.other.only(counted)
        return replace(self, scored=scored, sums=sums, squares=squares, other=other)

    def of(self, series: Integers) -> "ScoreTimeline":
        """Only these series, by index."""
        other = None if self.other is None else self.other.of(series)
        return replace(self._columns(lambda column: column[:, series]), other=other)


def groups(series: int, bins: int) -> Iterator[Integers]:
    """The indices of the series, in groups small enough that an array of so many bins for each
    takes little memory."""
    size = max(_CELLS // max(bins, 1), 1)
    for first in range(0, series, size):
        yield np.arange(first, min(first + size, series), dtype=np.int64)


def from_the_top(values: Floats) -> Floats:
    """(bins + 1, …) sums of the first 0, 1, … bins."""
    summed: Floats = np.zeros((len(values) + 1, *values.shape[1:]))
    np.cumsum(values, axis=0, out=summed[1:])
    return summed


@dataclass(frozen=True)
class ScoreNoise:
    """What a site sets, or what was measured of it."""

    design_effect: float = 1.2
    """Variance of a mean over impressions, as a multiple of that of independent impressions."""
    drift_ratio: float | Floats = 0.006
    """Standard deviation of a score's drift from week to week, as a share of the score; (series,)
    where metrics differ."""
    weekday_drift_ratio: float = 0.02
    """The same between two days of the week, beyond `drift_ratio`."""
    failures: bool | Booleans = False
    """Whether a score is the share of searches that fail, such as Abandonment; (series,) where
    metrics differ."""

    def drift_against(self, periods: Floats | int, unit: str) -> float | Floats:
        """The drift between a period and the mean of so many earlier ones, weeks or days by `unit`,
        as a share of the score."""
        weekdays = 0.0 if unit == "week" else self.weekday_drift_ratio
        return np.hypot(self.drift_ratio, weekdays) * np.sqrt(1 + 1 / periods)

    def of(self, series: Integers) -> "ScoreNoise":
        """The noise of these series, by index."""
        drift, failures = self.drift_ratio, self.failures
        return replace(
            self,
            drift_ratio=drift if isinstance(drift, float) else drift[series],
            failures=failures if isinstance(failures, bool) else failures[series],
        )

    def drift_at(self, level: Floats) -> Floats:
        """The drift of scores of this level, as a share of them."""
        return self.drift_ratio * share_drift(level, self.failures)


def share_drift(level: Floats, failures: bool | Booleans) -> Floats:
    """By how much the share of a score that drifts exceeds that of a score of two thirds.

    As many searches fail more as succeed less: what is 0.6 % of two thirds is 1.2 % of the other
    third. So a share of failures drifts by the same steps of its logit, p / (1 - p), everywhere.
    """
    return np.where(failures, np.maximum(3 * (1 - level), 1.0), 1.0)


def variance(scored: Floats, sums: Floats, squares: Floats) -> Floats:
    """Sample variance of the impressions of each sum, 0 where fewer than two are scored."""
    several = scored > 1
    mean = np.divide(sums, scored, out=np.zeros_like(sums), where=several)
    spread = np.maximum(squares - sums * mean, 0.0)
    return np.divide(spread, scored - 1, out=np.zeros_like(sums), where=several)
