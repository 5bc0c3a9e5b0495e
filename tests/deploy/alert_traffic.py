"""Weeks of search traffic, as the exporter would show them: the score of every window, and what was
usual then.

Pure numpy. A trial is one series of scores over time. Panes of five minutes hold a Poisson number
of scored impressions; the mean score follows the day and the week, which every week repeats, and a
drift that none does; each window is an exact sum of panes.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

PANE_S: Final = 300
PANES_PER_HOUR: Final = 3600 // PANE_S
PANES_PER_WEEK: Final = 7 * 24 * PANES_PER_HOUR
WEEKS_BEFORE: Final = 3
WINDOWS: Final = {"1h": 12, "6h": 72, "24h": 288}
"""Window → its panes."""
SETTLING_PANES: Final = 7
"""Half an hour of attribution, a minute of lateness and the pane itself: so late are windows."""
LONGEST: Final = max(WINDOWS.values())


@dataclass(frozen=True)
class Traffic:
    """What a site looks like."""

    impressions_per_hour: float
    night: float = 0.4
    """Traffic at its least, as a share of the average (the most is as far above). 1 is flat."""
    mean: float = 0.6
    deviation: float = 0.35
    """Of the score of one impression."""
    design_effect: float = 1.2
    """Variance of a mean, as a multiple of what independent impressions would have."""
    drift: float = 0.006
    """Standard deviation of the score's own wandering, relative."""
    drift_hours: float = 12.0
    """After so long the drift is still correlated by 1/e."""


@dataclass(frozen=True)
class Shown:
    """(trials, instants) each, of one window."""

    score: Floats
    stderr: Floats
    impressions: Floats
    baseline: Floats
    baseline_stderr: Floats


def simulate(
    traffic: Traffic,
    trials: int,
    hours: int,
    rng: np.random.Generator,
    *,
    drop: float = 0.0,
    drop_at_hour: int = 0,
) -> dict[str, Shown]:
    """Window → what is shown of it every five minutes for some hours, after three usual weeks.

    From `drop_at_hour` on scores are lower by the share `drop`. Each trial begins at an hour of the
    week of its own, so that the drop meets day and night.
    """
    before = WEEKS_BEFORE * PANES_PER_WEEK + LONGEST + SETTLING_PANES
    panes = before + hours * PANES_PER_HOUR
    hour = np.arange(panes) / PANES_PER_HOUR + rng.uniform(0, 7 * 24, (trials, 1))
    counts = rng.poisson(_expected(traffic, hour)).astype(np.float64)
    true = _season(traffic, hour) * (1 + traffic.drift * _drift(traffic, trials, panes, rng))
    true[:, before + drop_at_hour * PANES_PER_HOUR :] *= 1 - drop
    noise = traffic.deviation * np.sqrt(counts * traffic.design_effect)
    sums = counts * true + noise * rng.standard_normal((trials, panes))
    ends = np.arange(before, panes, dtype=np.intp) - SETTLING_PANES
    return {
        window: _shown(traffic, _cumulated(counts), _cumulated(sums), ends, width)
        for window, width in WINDOWS.items()
    }


def _expected(traffic: Traffic, hour: Floats) -> Floats:
    per_pane = traffic.impressions_per_hour / PANES_PER_HOUR
    return per_pane * (1 + (1 - traffic.night) * np.sin(2 * np.pi * hour / 24))


def _season(traffic: Traffic, hour: Floats) -> Floats:
    day, week = 2 * np.pi * hour / 24, 2 * np.pi * hour / (7 * 24)
    return traffic.mean * (1 + 0.02 * np.sin(day + 1) + 0.01 * np.sin(week))


def _drift(traffic: Traffic, trials: int, panes: int, rng: np.random.Generator) -> Floats:
    """(trials, panes) of an Ornstein-Uhlenbeck process of variance 1."""
    kept = np.exp(-1 / (PANES_PER_HOUR * traffic.drift_hours))
    steps = rng.standard_normal((panes, trials)) * np.sqrt(1 - kept**2)
    drift = np.empty((panes, trials))
    drift[0] = rng.standard_normal(trials)
    for pane in range(1, panes):
        drift[pane] = kept * drift[pane - 1] + steps[pane]
    return drift.T


def _cumulated(values: Floats) -> Floats:
    return np.concatenate([np.zeros((len(values), 1)), values.cumsum(axis=1)], axis=1)


def _shown(traffic: Traffic, counts: Floats, sums: Floats, ends: Places, width: int) -> Shown:
    """A window of `width` panes that ends before each pane of `ends`, and its like in the weeks
    before."""
    count, mean = _window(counts, sums, ends, width)
    weeks = [
        _window(counts, sums, ends - week * PANES_PER_WEEK, width)
        for week in range(1, WEEKS_BEFORE + 1)
    ]
    variances = [traffic.deviation**2 / np.maximum(number, 1) for number, _ in weeks]
    return Shown(
        score=mean,
        stderr=traffic.deviation / np.sqrt(np.maximum(count, 1)),
        impressions=count,
        baseline=np.mean([past for _, past in weeks], axis=0),
        baseline_stderr=np.sqrt(np.sum(variances, axis=0)) / WEEKS_BEFORE,
    )


def _window(counts: Floats, sums: Floats, ends: Places, width: int) -> tuple[Floats, Floats]:
    count = counts[:, ends] - counts[:, ends - width]
    return count, (sums[:, ends] - sums[:, ends - width]) / np.maximum(count, 1)
