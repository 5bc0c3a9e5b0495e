"""Judged scores along event time: what they were on both sides of a fault. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from relevanced.metrics.lists import Floats

from .evidence import UNKNOWN
from .levels import within
from .timeline import Timeline

Scores: TypeAlias = tuple[tuple[float, float], ...]
"""(mean, standard error for independent impressions) of each metric."""


@dataclass(frozen=True, eq=False)
class JudgedBins:
    """The judged rows in bins that one file graded."""

    timeline: Timeline
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
    ) -> tuple[Scores, float]:
        """(scores, judged impressions) of some segments of a grouping together, over a stretch as
        far as the file has graded it; no scores and NaN where it has not."""
        known = [self.segments.get((grouping, name)) for name in segments]
        begin_ms = max(from_ms, self.since_ms)
        rows = [row for row in known if row is not None]
        if begin_ms >= until_ms or len(rows) < len(known) or not len(self.timeline.starts):
            return (), UNKNOWN
        share = within(self.timeline, np.array([begin_ms]), np.array([until_ms]))
        # As many as there would be over the whole stretch: they are compared with all of it.
        scale = (until_ms - from_ms) / (until_ms - begin_ms)
        impressions = float((share * self.impressions[:, rows]).sum()) * scale
        return tuple(self._score(share, rows, metric) for metric in self.compared), impressions

    def _score(self, share: Floats, rows: Sequence[int], metric: int) -> tuple[float, float]:
        at, of = [row * self.metrics + metric for row in rows], self.timeline
        scored, total, squares = (
            float((share * each[:, at]).sum()) for each in (of.scored, of.sums, of.squares)
        )
        if scored < 2:
            return UNKNOWN, UNKNOWN
        mean = total / scored
        return mean, float(np.sqrt(max(squares / scored - mean**2, 0.0) / scored))
