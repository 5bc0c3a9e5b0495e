"""The lanes `weeks` and `day`: the last hours against the same hours of earlier weeks, or of the
last days while no week is known.

Pure. All arrays broadcast; NaN is undefined, and nothing is called there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import Floats, Metric

from . import settings
from .scan import is_less_low
from .settings import ChangeSettings, is_of_failures
from .timeline import ScoreNoise, share_drift

Flags: TypeAlias = NDArray[np.bool_]

HOUR: Final = "1h"
THREE_HOURS: Final = "3h"
SIX_HOURS: Final = "6h"
DAY: Final = "24h"
EVERY_MIN: Final = 5
"""Minutes between two ends at which a condition has to hold."""
ENDS: Final = 4
"""Ends at which `dropped` and `sinking` have to hold: now, and 5, 10 and 15 minutes ago."""
FAR_BELOW_ENDS: Final = 2


@dataclass(frozen=True)
class WeekSides:
    """The gauges of one window: the last settled hours, and their baseline."""

    score: Floats
    stderr: Floats
    impressions: Floats
    baseline: Floats
    baseline_stderr: Floats


@dataclass(frozen=True)
class MadeOf:
    """What a baseline is the mean of."""

    periods: Floats | int
    """How many weeks or days, at least 1."""
    of_days: Flags | bool
    """Whether they are other days, of which most are other days of the week; of three hours,
    whether those of one of them are."""


@dataclass(frozen=True)
class WeeksCompared:
    """One window of a score against its baseline."""

    loss: Floats
    """In the units of the score, positive where it got worse."""
    loss_ratio: Floats
    """As a share of the baseline."""
    error_ratio: Floats
    """Standard error of the loss (sampling of both sides, and drift), as a share of the
    baseline."""
    z: Floats
    """The change in standard errors, negative where the score got worse."""
    impressions: Floats
    """Scored impressions of the last hours."""

    @property
    def log_likelihood_ratio(self) -> Floats:
        """How much likelier a loss of `SUSPECTED_RATIO` makes these hours than no loss; natural
        logarithm."""
        lost = settings.SUSPECTED_RATIO
        return np.asarray(lost * (self.loss_ratio - lost / 2) / self.error_ratio**2)


@dataclass(frozen=True)
class Called:
    """Where each condition holds."""

    dropped: Flags
    sinking: Flags
    far_below: Flags

    @property
    def any(self) -> Flags:
        """Where a lane calls the score worse."""
        return np.asarray(self.dropped | self.sinking | self.far_below)


def noise_of(metrics: Sequence[Metric], change_settings: ChangeSettings) -> ScoreNoise:
    """That of each of the metrics."""
    return ScoreNoise(
        change_settings.design_effect,
        np.array([change_settings.drift_of(metric.name) for metric in metrics]),
        change_settings.weekday_drift_ratio,
        np.array([is_of_failures(metric) for metric in metrics]),
    )


def compare(
    sides: WeekSides,
    made_of: MadeOf,
    noise: ScoreNoise,
    direction: Floats | float = 1.0,
) -> WeeksCompared:
    """The distance of the last hours from their baseline.

    `direction`: 1 where a higher score is better, -1 where a lower one is, NaN where neither is;
    its negative finds what got better.
    """
    usual = np.abs(sides.baseline)
    weekdays = np.where(made_of.of_days, noise.weekday_drift_ratio, 0.0)
    periods = np.asarray(made_of.periods, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.hypot(noise.drift_ratio, weekdays) * share_drift(usual, noise.failures)
        drift = ratio * np.sqrt(1 + 1 / periods) * usual
        sampling = noise.design_effect * (sides.stderr**2 + sides.baseline_stderr**2)
        error = np.sqrt(sampling + drift**2)
        loss = direction * (sides.baseline - sides.score)
        return WeeksCompared(loss, loss / usual, error / usual, -loss / error, sides.impressions)


def agreed(one: WeeksCompared, other: WeeksCompared) -> WeeksCompared:
    """What two readings both say: that of the one which got less worse."""
    is_other = is_less_low(other.z, one.z)
    pairs = (
        (other.loss, one.loss),
        (other.loss_ratio, one.loss_ratio),
        (other.error_ratio, one.error_ratio),
        (other.z, one.z),
        (other.impressions, one.impressions),
    )
    return WeeksCompared(*(np.where(is_other, theirs, own) for theirs, own in pairs))


def three_hours(hours: Sequence[WeekSides]) -> WeekSides:
    """The last three hours, from the windows of one hour that end now, an hour and two hours ago.

    The baseline of each hour has the weight of the recent hour, so that the daily shape of the
    traffic cancels.
    """
    weights = np.stack([hour.impressions for hour in hours])
    total = weights.sum(axis=0)

    def mean(values: Sequence[Floats]) -> Floats:
        return np.asarray((weights * np.stack(values)).sum(axis=0) / total)

    def error(values: Sequence[Floats]) -> Floats:
        return np.asarray(np.sqrt(((weights * np.stack(values)) ** 2).sum(axis=0)) / total)

    with np.errstate(divide="ignore", invalid="ignore"):
        return WeekSides(
            score=mean([hour.score for hour in hours]),
            stderr=error([hour.stderr for hour in hours]),
            impressions=total,
            baseline=mean([hour.baseline for hour in hours]),
            baseline_stderr=error([hour.baseline_stderr for hour in hours]),
        )


def weeks_called(windows: Mapping[str, WeeksCompared], change_settings: ChangeSettings) -> Called:
    """The conditions at one end of the windows 1h, 3h, 6h and 24h."""
    hour, three, six, day = (windows[name] for name in (HOUR, THREE_HOURS, SIX_HOURS, DAY))
    return Called(
        dropped=_notable(hour, change_settings)
        & (
            _dropped_at_once(hour, six, change_settings)
            | _dropped_in_three(hour, three, change_settings)
        ),
        sinking=_notable(day, change_settings) & _enough(day, change_settings) & _sinks(day),
        far_below=_notable(hour, change_settings)
        & _enough(hour, change_settings)
        & (hour.loss_ratio > change_settings.far_below_ratio)
        & (hour.z < settings.FAR_BELOW),
    )


def _notable(window: WeeksCompared, change_settings: ChangeSettings) -> Flags:
    large = window.loss_ratio > change_settings.smallest_drop_ratio
    return np.asarray(large & (window.loss > change_settings.smallest_drop))


def _enough(window: WeeksCompared, change_settings: ChangeSettings) -> Flags:
    return np.asarray(window.impressions >= change_settings.smallest_sample)


def _dropped_at_once(
    hour: WeeksCompared, six: WeeksCompared, change_settings: ChangeSettings
) -> Flags:
    beyond = (hour.z < settings.DROPPED_HOUR) & (six.z < settings.DROPPED_SIX_HOURS)
    return np.asarray(_enough(hour, change_settings) & beyond)


def _dropped_in_three(
    hour: WeeksCompared, three: WeeksCompared, change_settings: ChangeSettings
) -> Flags:
    likelier = three.log_likelihood_ratio > settings.LIKELIER
    return np.asarray(
        (hour.z < settings.LOW_HOUR)
        & (three.loss_ratio > change_settings.smallest_drop_ratio)
        & _enough(three, change_settings)
        & ((three.z < settings.DROPPED_THREE_HOURS) | likelier)
    )


def _sinks(day: WeeksCompared) -> Flags:
    steady = day.error_ratio < settings.STEADY_ERROR_RATIO
    steadily = (day.z < settings.SINKING_STEADILY) & steady
    return np.asarray((day.z < settings.SINKING) | steadily)


def sustained(at_ends: Sequence[Called]) -> Called:
    """The verdict: conditions that hold at every end, the newest first. Needs `ENDS` ends."""
    return Called(
        dropped=np.logical_and.reduce([end.dropped for end in at_ends[:ENDS]]),
        sinking=np.logical_and.reduce([end.sinking for end in at_ends[:ENDS]]),
        far_below=np.logical_and.reduce([end.far_below for end in at_ends[:FAR_BELOW_ENDS]]),
    )
