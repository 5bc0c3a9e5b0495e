"""Weeks of simulated search traffic, as the gauges that the exporter would serve: the score of
every window and its baseline.

Pure numpy. A trial is one series of scores over time. Each pane of five minutes has a Poisson
number of scored impressions. The mean score follows the day and the week, alike in every week, and
drifts; each window is an exact sum of panes.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from relevanced.daemon.changes import WeekSides

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

PANE_S: Final = 300
PANES_PER_HOUR: Final = 3600 // PANE_S
PANES_PER_WEEK: Final = 7 * 24 * PANES_PER_HOUR
WEEKS_BEFORE: Final = 3
WINDOWS: Final = {"1h": 12, "6h": 72, "24h": 288}
"""Window → its panes."""
SETTLING_PANES: Final = 7
"""Half an hour of attribution, a minute of lateness and the pane itself: the delay of a window."""
LONGEST: Final = max(WINDOWS.values())


@dataclass(frozen=True)
class Traffic:
    """Properties of a site."""

    impressions_per_hour: float
    night: float = 0.4
    """Minimum of the traffic as a share of the average; the maximum is as far above it. 1 is
    flat."""
    mean: float = 0.6
    deviation: float = 0.35
    """Standard deviation of the score of one impression."""
    design_effect: float = 1.2
    """Variance of a mean, as a multiple of the variance for independent impressions."""
    drift: float = 0.006
    """Relative standard deviation of the drift of the score."""
    drift_hours: float = 12.0
    """Correlation time of the drift: after it the correlation is 1/e."""
    shape: float = 0.02
    """By how much the score of the best hour of the day exceeds its mean, as a share."""
    weekday_drift: float = 0.0
    """Relative standard deviation between the days of a week, the same in every week; of
    `simulate_start` alone."""
    weekend: float = 0.0
    """By how much two days of the week differ from the others, as a share; likewise."""


def simulate(
    traffic: Traffic,
    trials: int,
    hours: int,
    rng: np.random.Generator,
    *,
    drop: float = 0.0,
    drop_at_hour: int = 0,
) -> dict[str, WeekSides]:
    """Window → its gauges every five minutes for `hours`, after three weeks without a drop.

    From `drop_at_hour` on, scores are lower by the share `drop`. Each trial begins at a random hour
    of the week, so that drops begin by day and by night.
    """
    before = WEEKS_BEFORE * PANES_PER_WEEK + LONGEST + SETTLING_PANES
    panes = before + hours * PANES_PER_HOUR
    hour = np.arange(panes) / PANES_PER_HOUR + rng.uniform(0, 7 * 24, (trials, 1))
    counts = rng.poisson(expected(traffic, hour)).astype(np.float64)
    true = season(traffic, hour) * (1 + traffic.drift * drifting(traffic, trials, panes, rng))
    true[:, before + drop_at_hour * PANES_PER_HOUR :] *= 1 - drop
    return gauges(traffic, counts, summed(traffic, counts, true, rng), before)


def gauges(
    traffic: Traffic, counts: Floats, sums: Floats, before: int, later: int = 0
) -> dict[str, WeekSides]:
    """Window → its gauges at each pane but so many, from the impressions and sums of panes. The
    weeks before are compared so many panes later."""
    ends = np.arange(before, counts.shape[1], dtype=np.intp) - SETTLING_PANES
    return {
        window: _gauges(traffic, cumulated(counts), cumulated(sums), ends, width, later)
        for window, width in WINDOWS.items()
    }


def summed(traffic: Traffic, counts: Floats, true: Floats, rng: np.random.Generator) -> Floats:
    """The sum of the scores of each pane."""
    noise = traffic.deviation * np.sqrt(counts * traffic.design_effect)
    return np.asarray(counts * true + noise * rng.standard_normal(counts.shape))


def expected(traffic: Traffic, hour: Floats) -> Floats:
    """Scored impressions of a pane."""
    per_pane = traffic.impressions_per_hour / PANES_PER_HOUR
    return per_pane * (1 + (1 - traffic.night) * np.sin(2 * np.pi * hour / 24))


def season(traffic: Traffic, hour: Floats) -> Floats:
    """The mean score by the hour of the week."""
    day, week = 2 * np.pi * hour / 24, 2 * np.pi * hour / (7 * 24)
    return traffic.mean * (1 + traffic.shape * np.sin(day + 1) + 0.01 * np.sin(week))


def drifting(traffic: Traffic, trials: int, panes: int, rng: np.random.Generator) -> Floats:
    """(trials, panes) of an Ornstein-Uhlenbeck process of variance 1."""
    correlation = np.exp(-1 / (PANES_PER_HOUR * traffic.drift_hours))
    steps = rng.standard_normal((panes, trials)) * np.sqrt(1 - correlation**2)
    drift = np.empty((panes, trials))
    drift[0] = rng.standard_normal(trials)
    for pane in range(1, panes):
        drift[pane] = correlation * drift[pane - 1] + steps[pane]
    return drift.T


def cumulated(values: Floats) -> Floats:
    """(trials, panes + 1): the sums of the panes before."""
    return np.concatenate([np.zeros((len(values), 1)), values.cumsum(axis=1)], axis=1)


def _gauges(
    traffic: Traffic, counts: Floats, sums: Floats, ends: Indices, width: int, later: int
) -> WeekSides:
    """The gauges of a window of `width` panes that ends before each pane of `ends`; the baseline is
    the mean of the same window in the weeks before."""
    count, mean = _window(counts, sums, ends, width)
    weeks = [
        _window(counts, sums, ends - week * PANES_PER_WEEK + later, width)
        for week in range(1, WEEKS_BEFORE + 1)
    ]
    variances = [traffic.deviation**2 / np.maximum(week_count, 1) for week_count, _ in weeks]
    return WeekSides(
        score=mean,
        stderr=traffic.deviation / np.sqrt(np.maximum(count, 1)),
        impressions=count,
        baseline=np.mean([week_mean for _, week_mean in weeks], axis=0),
        baseline_stderr=np.sqrt(np.sum(variances, axis=0)) / WEEKS_BEFORE,
    )


def _window(counts: Floats, sums: Floats, ends: Indices, width: int) -> tuple[Floats, Floats]:
    count = counts[:, ends] - counts[:, ends - width]
    return count, (sums[:, ends] - sums[:, ends - width]) / np.maximum(count, 1)
