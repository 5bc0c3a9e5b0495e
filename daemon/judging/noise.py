"""How far a healthy score moves: sampling error, inflated by the design effect, and drift."""

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from relevanced.metrics.lists import Floats, Integers


@dataclass(frozen=True)
class Noise:
    """What a site sets, or what was measured of it."""

    design_effect: float = 1.2
    """Variance of a mean over impressions, as a multiple of that of independent impressions."""
    drift_ratio: float | Floats = 0.006
    """Standard deviation of a score's drift from week to week, as a share of the score; (series,)
    where metrics differ."""
    weekday_drift_ratio: float = 0.02
    """The same between two days of the week, beyond `drift_ratio`."""

    def drift_against(self, periods: int, unit: str) -> float | Floats:
        """The drift between a period and the mean of so many earlier ones, weeks or days by `unit`,
        as a share of the score."""
        weekdays = 0.0 if unit == "week" else self.weekday_drift_ratio
        return np.hypot(self.drift_ratio, weekdays) * sqrt(1 + 1 / periods)

    def of(self, series: Integers) -> "Noise":
        """The noise of these series, by index."""
        drift = self.drift_ratio
        return replace(self, drift_ratio=drift if isinstance(drift, float) else drift[series])


def variance(scored: Floats, sums: Floats, squares: Floats) -> Floats:
    """Sample variance of the impressions of each sum, 0 where fewer than two are scored."""
    several = scored > 1
    mean = np.divide(sums, scored, out=np.zeros_like(sums), where=several)
    spread = np.maximum(squares - sums * mean, 0.0)
    return np.divide(spread, scored - 1, out=np.zeros_like(sums), where=several)
