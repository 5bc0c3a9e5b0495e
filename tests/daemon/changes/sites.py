"""Simulated sites as timelines: what is kept after so many hours, with or without a break."""

from dataclasses import dataclass

import numpy as np

from relevanced.daemon.changes import HOUR_MS, MINUTE_MS, ScoreTimeline
from relevanced.metrics import Floats, Integers

END_MS = 490_000 * HOUR_MS


@dataclass(frozen=True)
class Kept:
    """Which bins there are, as the default windows 5m, 1h and 24h keep them."""

    known_ms: int
    pane_ms: int = 2 * MINUTE_MS
    panes_ms: int = 2 * HOUR_MS
    """How far back panes reach; hours reach back to the beginning."""

    def bins(self) -> tuple[Integers, Integers, Floats]:
        """(starts, ends, whether each is an hour)."""
        first = END_MS - self.known_ms
        edge = max(first, END_MS - self.panes_ms)
        panes = np.arange(edge, END_MS, self.pane_ms)
        hours = np.append(first, np.arange(first - first % HOUR_MS + HOUR_MS, edge, HOUR_MS))
        hours = hours[hours < edge]
        starts = np.concatenate([hours, panes]).astype(np.int64)
        ends = np.append(starts[1:], END_MS)
        return starts, ends, np.arange(len(starts)) < len(hours)


def simulated(
    kept: Kept,
    per_hour: float,
    series: int,
    rng: np.random.Generator,
    *,
    broken_ms: int = 0,
    drop: float = 0.0,
    mean: float = 0.57,
    deviation: float = 0.45,
    design_effect: float = 1.2,
    drift_ratio: float = 0.006,
) -> ScoreTimeline:
    """Series whose scores fall by the share `drop` in the last `broken_ms`.

    The drift follows an Ornstein-Uhlenbeck process with a memory of 12 hours.
    """
    starts, ends, hourly = kept.bins()
    hours = (ends - starts)[:, None] / HOUR_MS
    scored = rng.poisson(per_hour * hours, (len(starts), series)).astype(np.float64)
    part = np.clip((ends - (END_MS - broken_ms)) / (ends - starts), 0, 1)[:, None]
    level = mean * (1 - drop * part) * (1 + drift_ratio * drifts(hours[:, 0], series, rng))
    spread = deviation * np.sqrt(scored * design_effect)
    sums = scored * level + spread * rng.standard_normal(scored.shape)
    squares = scored * deviation**2 + sums**2 / np.maximum(scored, 1)
    return ScoreTimeline(starts, ends, scored, sums, squares, hourly)


def drifts(hours: Floats, series: int, rng: np.random.Generator, memory_h: float = 12.0) -> Floats:
    """(bins, series) of a process with variance 1 and such a memory."""
    kept = np.exp(-hours / memory_h)
    steps = rng.standard_normal((len(hours), series)) * np.sqrt(1 - kept**2)[:, None]
    drift = np.empty_like(steps)
    drift[0] = rng.standard_normal(series)
    for index in range(1, len(hours)):
        drift[index] = kept[index] * drift[index - 1] + steps[index]
    return drift
