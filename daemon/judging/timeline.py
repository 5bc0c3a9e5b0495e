"""Settled counts along event time, in the finest bins that are kept: what scan and onset read.

A bin is a pane or an hour. Recent bins are short and older ones long; bins do not overlap, and
there may be gaps between them. A series is one metric of one segment.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from relevanced.metrics.lists import Booleans, Floats, Integers

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
_CELLS: Final = 1 << 18
"""At most so many numbers are in an array of a group of series."""


@dataclass(frozen=True, eq=False)
class Timeline:
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

    @cached_property
    def means(self) -> Floats:
        """(bins, series) mean of each bin; NaN where nothing is scored."""
        empty = np.full(self.scored.shape, np.nan)
        means: Floats = np.divide(self.sums, self.scored, out=empty, where=self.scored > 0)
        return means

    def since(self, start_ms: int) -> "Timeline":
        """The bins that start at this instant or later."""
        return self._part(slice(int(np.searchsorted(self.starts, start_ms)), None))

    def first(self, bins: int) -> "Timeline":
        """The first bins."""
        return self._part(slice(bins))

    def _part(self, bins: slice) -> "Timeline":
        return Timeline(
            self.starts[bins],
            self.ends[bins],
            self.scored[bins],
            self.sums[bins],
            self.squares[bins],
            self.hourly[bins],
            None if self.usual is None else self.usual[bins],
        )

    def only(self, counted: Booleans) -> "Timeline":
        """Only the bins that count in each series: (bins, series). The others are as empty."""
        scored, sums, squares = (
            np.where(counted, each, 0.0) for each in (self.scored, self.sums, self.squares)
        )
        return Timeline(
            self.starts, self.ends, scored, sums, squares, self.hourly, usual=self.usual
        )

    def of(self, series: Integers) -> "Timeline":
        """Only these series, by index."""
        return Timeline(
            self.starts,
            self.ends,
            self.scored[:, series],
            self.sums[:, series],
            self.squares[:, series],
            self.hourly,
            None if self.usual is None else self.usual[:, series],
        )


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
