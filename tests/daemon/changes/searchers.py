"""Weeks of hours of scores, simulated search by search: users come in sessions, and the scores of
one user resemble one another."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from relevanced.daemon.changes import DAY, HourSums

MEAN: Final = 0.57
DEVIATION: Final = 0.45
ALIKE: Final = 0.2
"""Correlation of the scores of one user."""
DRIFT_RATIO: Final = 0.006
DRIFT_MEMORY_H: Final = 12.0
STEPS: Final = 12
"""Steps of the mean score in an hour."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Site:
    """Properties of the simulated traffic."""

    per_hour: float
    effect: float
    """Design effect of a long window: 1 + ALIKE * (mean number of other searches of a user)."""
    gap_min: float = 3.0
    """Mean time between two searches of a session."""
    drift: float = DRIFT_RATIO
    shape: float = 0.02
    """Half the difference between the best and the worst score of a day."""
    weekend_hours: float = 0.0
    """How much earlier the best score of the day comes on days 6 and 7 of each week."""


def sums(site: Site, hours: int, rng: np.random.Generator) -> Floats:
    """(3, hours): scored impressions, sum and sum of squares of their scores."""
    searches = 1 + (site.effect - 1) / ALIKE / 2
    hour = np.arange(hours)
    expected = site.per_hour / searches * (1 + 0.6 * np.sin(2 * np.pi * hour / DAY))
    users = rng.poisson(expected)
    begin = np.repeat(hour, users) + rng.random(users.sum())
    made = rng.geometric(1 / searches, len(begin))
    user = np.repeat(np.arange(len(begin)), made)
    gaps = rng.exponential(site.gap_min / 60, len(user))
    first = np.cumsum(made) - made
    gaps[first] = 0
    elapsed = np.cumsum(gaps)
    at = begin[user] + elapsed - elapsed[first][user]
    user, at = user[at < hours], at[at < hours]
    noise = np.sqrt(ALIKE) * rng.standard_normal(len(begin))[user]
    noise += np.sqrt(1 - ALIKE) * rng.standard_normal(len(user))
    scores = _level(site, hours, rng)[(at * STEPS).astype(np.intp)] + DEVIATION * noise
    found = [np.bincount(at.astype(np.intp), x, hours) for x in (scores * 0 + 1, scores, scores**2)]
    return np.array(found)


def _level(site: Site, hours: int, rng: np.random.Generator) -> Floats:
    """(steps,): the true mean score, with the shape of the day, and with drift."""
    steps = hours * STEPS
    correlation = np.exp(-1 / STEPS / DRIFT_MEMORY_H)
    moves = rng.standard_normal(steps) * np.sqrt(1 - correlation**2)
    drift = np.empty(steps)
    drift[0] = rng.standard_normal()
    for step in range(1, steps):
        drift[step] = correlation * drift[step - 1] + moves[step]
    hour = np.arange(steps) / STEPS
    weekend = np.where(hour // DAY % 7 >= 5, site.weekend_hours, 0.0)
    shape = site.shape * np.sin(2 * np.pi * (hour + weekend) / DAY + 1)
    level: Floats = MEAN * (1 + shape + site.drift * drift)
    return level


def hours_of(*series: Floats, drift_ratio: float = DRIFT_RATIO) -> HourSums:
    """The hours of some series, as the exporter makes them of their sums."""
    scored, total, squares = np.stack(series, axis=1)
    means = total / np.maximum(scored, 1)
    variances = (squares - total * means) / np.maximum(scored - 1, 1)
    return HourSums(scored, means, variances, drift_ratio)


def times(factor: Floats, series: Floats) -> Floats:
    """The sums of the same impressions with scores that are as many times as high."""
    return np.array([series[0], factor * series[1], factor**2 * series[2]])
