"""How likely three hours of searches find a drop of a tenth, from normal distributions alone: what
the simulation has to come to, and why no rule finds each of them by night. Pure."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import stats

from tests.deploy.alert_traffic import WEEKS_BEFORE, Traffic

WINDOW_H: Final = 3.0
BEGINS_AFTER_H: Final = 4 - 35 / 60 - 15 / 60 - WINDOW_H
"""Where the window begins that decides within four hours of a drop: 35 minutes are waited for
feedback, 15 are those of `for`."""
QUIETEST_HOUR: Final = 18.0
"""Of the simulated day."""
DROP: Final = 0.1
Z_OF_ANY: Final = 4.5
LIKELIER: Final = 7.5
"""The thresholds of the rules: a z of three hours, and the logarithm of a likelihood ratio."""


@dataclass(frozen=True)
class Chance:
    """Of one drop."""

    impressions: float
    """Expected in the three hours."""
    to_a_tenth: float
    """Standard errors that the drop is."""
    needed: float
    """Standard errors that an alarm takes."""
    chance: float


def chance_of_a_tenth(traffic: Traffic, from_quietest_h: float) -> Chance:
    """Of a drop that begins so many hours after the quietest hour of the day (less than 0: before
    it)."""
    begin = QUIETEST_HOUR + from_quietest_h + BEGINS_AFTER_H
    day = 24 / (2 * np.pi)
    cosines = np.cos(begin / day) - np.cos((begin + WINDOW_H) / day)
    hours = WINDOW_H + (1 - traffic.night) * day * cosines
    impressions = traffic.impressions_per_hour * hours
    sides = 1 + 1 / WEEKS_BEFORE
    sampling = traffic.design_effect * traffic.deviation**2 / impressions
    error = np.sqrt(sides * (sampling + (traffic.drift * traffic.mean) ** 2))
    to_a_tenth = DROP * traffic.mean / error
    needed = min(Z_OF_ANY, LIKELIER / to_a_tenth + to_a_tenth / 2)
    chance = float(stats.norm.cdf(to_a_tenth - needed))
    return Chance(float(impressions), float(to_a_tenth), float(needed), chance)
