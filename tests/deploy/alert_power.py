"""The chance that three hours of searches detect a drop of 10 %, from normal distributions
alone: what the simulation must agree with, and why no rule detects every such drop at night.
Pure."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import stats

from relevanced.daemon.changes import settings
from tests.deploy.alert_traffic import WEEKS_BEFORE, Traffic

WINDOW_H: Final = 3.0
BEGINS_AFTER_H: Final = 4 - 35 / 60 - 15 / 60 - WINDOW_H
"""Start of the window that decides within four hours of a drop: 35 minutes pass while the
windows wait for feedback, and 15 while the alert is pending (`for`)."""
QUIETEST_HOUR: Final = 18.0
"""Hour of the simulated day."""
DROP: Final = settings.SUSPECTED_RATIO


@dataclass(frozen=True)
class Detection:
    """How likely one drop is detected."""

    impressions: float
    """Expected number in the three hours."""
    drop_z: float
    """Size of the drop in standard errors."""
    threshold_z: float
    """Drop in standard errors at which the alert fires."""
    chance: float


def detection_of_a_drop(traffic: Traffic, from_quietest_h: float) -> Detection:
    """The detection of a drop that begins `from_quietest_h` hours after the quietest hour of the
    day (negative: before it)."""
    begin = QUIETEST_HOUR + from_quietest_h + BEGINS_AFTER_H
    day = 24 / (2 * np.pi)
    cosines = np.cos(begin / day) - np.cos((begin + WINDOW_H) / day)
    hours = WINDOW_H + (1 - traffic.night) * day * cosines
    impressions = traffic.impressions_per_hour * hours
    sides = 1 + 1 / WEEKS_BEFORE
    sampling = traffic.design_effect * traffic.deviation**2 / impressions
    error = np.sqrt(sides * (sampling + (traffic.drift * traffic.mean) ** 2))
    drop_z = DROP * traffic.mean / error
    threshold_z = min(-settings.DROPPED_THREE_HOURS, settings.LIKELIER / drop_z + drop_z / 2)
    chance = float(stats.norm.cdf(drop_z - threshold_z))
    return Detection(float(impressions), float(drop_z), float(threshold_z), chance)
