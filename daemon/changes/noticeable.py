"""The smallest fall of a score that would be noticed in 9 of 10 cases, lane by lane. Pure.

Computed from the thresholds of the lanes: a fall is found where its z lies beyond the threshold by
the 90 % quantile of the normal distribution, and its size beyond the least loss by that quantile of
its error.
"""

from dataclasses import dataclass
from math import hypot, inf, sqrt
from typing import Final

import numpy as np

from relevanced.metrics import Floats

from .timeline import (
    HOUR_MS,
    LEAST_BEFORE_MS,
    LEAST_LOSS,
    LEAST_NOW_MS,
    LEAST_SCORED,
    ScoreNoise,
    Sides,
    threshold,
)

NINE_OF_TEN: Final = 1.2816
"""The 90 % quantile of the standard normal distribution."""


_PARTS: Final = 60
"""Instants that are tried for a table."""


@dataclass(frozen=True)
class Rule:
    """A condition of the alert rules on one window of a comparison with earlier weeks or days."""

    hours: int
    low_z: float
    least_loss: float
    most_error: float = inf
    """The condition holds only where an error is below this share of the score."""


RULES: Final = (
    Rule(1, 5.0, 0.20),
    Rule(3, 4.5, 0.02),
    Rule(24, 4.0, 0.02),
    Rule(24, 3.7, 0.02, 0.01),
)
"""Of the conditions `far_below`, `dropped` (the window that finds a lasting fall first) and
`sinking`."""


def by_scan(sides: Sides, series: int) -> Floats:
    """(series,): the smallest fall that lane `hour` would find by now, whenever it began, as a
    share of the score; infinite where it would find none."""
    if not len(sides.instants):
        return np.full(sides.error.shape[1], inf)
    beyond = (-threshold(series) + NINE_OF_TEN) * sides.error
    least = np.maximum(beyond, LEAST_LOSS + NINE_OF_TEN * sides.error)
    enough = (sides.scored >= LEAST_SCORED) & ~np.isnan(least)
    return np.asarray(np.where(enough, least, inf).min(axis=0))


def by_earlier(hours: int, error: Floats, periods: int, unit: str, noise: ScoreNoise) -> Floats:
    """(series,): the smallest fall that the alert rules find with a window of `hours` against so
    many earlier weeks or days; infinite where they find none.

    `error` is the sampling error of the difference, as a share of the score, for independent
    impressions.
    """
    drift = noise.drift_against(periods, unit)
    whole = np.sqrt(noise.design_effect * error**2 + drift**2)
    least = np.full(whole.shape, inf)
    for rule in RULES:
        if rule.hours == hours:
            found = np.maximum(
                (rule.low_z + NINE_OF_TEN) * whole, rule.least_loss + NINE_OF_TEN * whole
            )
            least = np.where(whole < rule.most_error, np.minimum(least, found), least)
    return least


@dataclass(frozen=True)
class Site:
    """A steady site, for tables: so many scored impressions an hour, of this mean and standard
    deviation."""

    per_hour: float
    mean: float = 0.57
    deviation: float = 0.45

    def error(self, now_hours: float, before_hours: float) -> float:
        """The sampling error of a difference, as a share of the mean."""
        inverse = 1 / (self.per_hour * now_hours) + 1 / (self.per_hour * before_hours)
        return self.deviation * sqrt(inverse) / self.mean


def hour_lane(site: Site, now_hours: float, before_hours: float, noise: ScoreNoise) -> float:
    """What lane `hour` finds with these lengths of both sides."""
    if site.per_hour * min(now_hours, before_hours) < LEAST_SCORED:
        return inf
    growth = min(1 + (now_hours + before_hours) / 2, 5.0)
    error = np.array(
        [
            [
                hypot(
                    sqrt(noise.design_effect) * site.error(now_hours, before_hours),
                    noise.drift_ratio * growth,
                )
            ]
        ]
    )
    least = np.full((1, 1), LEAST_SCORED)
    return float(by_scan(Sides(np.zeros(1, np.int64), least, error * 0, error), 1)[0])


def earlier_lane(site: Site, hours: int, periods: int, unit: str, noise: ScoreNoise) -> float:
    """What the alert rules find with a window of `hours` against so many weeks or days."""
    error = np.array([site.error(hours, hours * periods)])
    return float(by_earlier(hours, error, periods, unit, noise)[0])


def hour_lane_knowing(site: Site, known_hours: float, noise: ScoreNoise) -> float:
    """What lane `hour` finds of falls at the best instant of what is known, the baseline as long as
    the time since then, or an hour if that is longer."""
    least = inf
    for part in range(1, _PARTS):
        now = known_hours * part / _PARTS
        before = min(known_hours - now, max(now, 1.0))
        if now >= LEAST_NOW_MS / HOUR_MS and before >= LEAST_BEFORE_MS / HOUR_MS:
            least = min(least, hour_lane(site, now, before, noise))
    return least
