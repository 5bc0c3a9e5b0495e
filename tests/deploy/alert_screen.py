"""Selects the simulated days on which an alert may fire, so that Prometheus need not evaluate
thousands of quiet weeks.

Computes the z-scores of the rules in numpy (a test compares the two) and applies thresholds that
are a fifth of a standard error wider: on the other days no alert can fire.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from relevanced.daemon.judging.settings import Judging
from tests.deploy.alert_power import MAX_Z, MIN_LOG_RATIO
from tests.deploy.alert_traffic import PANES_PER_HOUR, WEEKS_BEFORE, Floats, Gauges

JUDGING: Final = Judging()
MARGIN: Final = 0.2
LEAD_HOURS: Final = 3
"""Hours before a day that its alerts depend on: two of windows, and the duration of `for`."""
_LEAD: Final = LEAD_HOURS * PANES_PER_HOUR
_DAY: Final = 24 * PANES_PER_HOUR


@dataclass(frozen=True)
class Compared:
    """The values that the alerts compare with thresholds: (trials, instants), NaN where
    undefined."""

    z: Mapping[str, Floats]
    """`relevanced:score:z` by window, including 3h."""
    tenth_z: Floats
    """A loss of 10 % in standard errors of three hours."""
    day_error: Floats
    """One standard error of a day, as a share of the baseline."""

    @property
    def log_likelihood_ratio(self) -> Floats:
        """`relevanced:score:tenth_lost:log_likelihood_ratio`."""
        return -self.tenth_z * self.z["3h"] - self.tenth_z**2 / 2


def compared(gauges: Mapping[str, Gauges]) -> Compared:
    """The values that the recording rules compute from the gauges, with the default settings."""
    drift = JUDGING.drift_ratio * np.sqrt(1 + 1 / WEEKS_BEFORE)

    def error(values: Gauges) -> Floats:
        sampling = JUDGING.design_effect * (values.stderr**2 + values.baseline_stderr**2)
        return np.asarray(np.sqrt(sampling + (drift * values.baseline) ** 2))

    windows = {**gauges, "3h": three_hours(gauges["1h"])}
    z = {name: (of.score - of.baseline) / error(of) for name, of in windows.items()}
    three, day = windows["3h"], windows["24h"]
    return Compared(z, 0.1 * three.baseline / error(three), error(day) / day.baseline)


def three_hours(hour: Gauges) -> Gauges:
    """Three windows of an hour combined into one, weighted by the impressions of each."""
    weights = _lagged(hour.impressions)
    total = weights.sum(axis=0)
    return Gauges(
        score=(weights * _lagged(hour.score)).sum(axis=0) / total,
        stderr=np.sqrt(((weights * _lagged(hour.stderr)) ** 2).sum(axis=0)) / total,
        impressions=total,
        baseline=(weights * _lagged(hour.baseline)).sum(axis=0) / total,
        baseline_stderr=np.sqrt(((weights * _lagged(hour.baseline_stderr)) ** 2).sum(axis=0))
        / total,
    )


def _lagged(values: Floats) -> Floats:
    """(3, trials, instants): now, an hour ago and two hours ago; NaN before the first."""
    padded = np.pad(values, ((0, 0), (2 * PANES_PER_HOUR, 0)), constant_values=np.nan)
    width = values.shape[1]
    return np.stack([padded[:, back * PANES_PER_HOUR :][:, :width] for back in (2, 1, 0)])


def may_fire(values: Compared) -> NDArray[np.bool_]:
    """(trials, instants): whether any alert on scores can fire."""
    z = values.z
    likelier = values.log_likelihood_ratio > MIN_LOG_RATIO - MARGIN * values.tenth_z
    one_hour = (z["1h"] < -4 + MARGIN) & (z["6h"] < -3 + MARGIN)
    last_three = (z["1h"] < -1.5 + MARGIN) & ((z["3h"] < -MAX_Z + MARGIN) | likelier)
    far_below = z["1h"] < -5 + MARGIN
    steady = (z["24h"] < -3.7 + MARGIN) & (values.day_error < 0.01)
    day = (z["24h"] < -4 + MARGIN) | steady
    return np.asarray(one_hour | last_three | far_below | day)


def suspicious_days(gauges: Mapping[str, Gauges]) -> dict[str, Gauges]:
    """The days on which an alert may fire, a trial each, with the hours before them."""
    days = {window: _each(values, _days) for window, values in gauges.items()}
    selected = may_fire(compared(days))[:, _LEAD:].any(axis=1)
    return {window: _each(values, lambda array: array[selected]) for window, values in days.items()}


def judged_with(gauges: Mapping[str, Gauges], measured: float | None) -> Mapping[str, Gauges]:
    """The gauges with standard errors that the setting's design effect widens as far as the
    measured one would: the rules know no more of it than the product."""
    if measured is None or measured <= JUDGING.design_effect:
        return gauges
    wider = np.sqrt(measured / JUDGING.design_effect)
    return {
        window: replace(of, stderr=of.stderr * wider, baseline_stderr=of.baseline_stderr * wider)
        for window, of in gauges.items()
    }


def together(parts: Sequence[Mapping[str, Gauges]]) -> dict[str, Gauges]:
    """The trials of all parts, concatenated."""
    return {
        window: Gauges(
            *(
                np.concatenate([getattr(part[window], field.name) for part in parts])
                for field in fields(Gauges)
            )
        )
        for window in parts[0]
    }


def episodes_of_days(firing: NDArray[np.bool_]) -> int:
    """How often an alert began to fire on a day itself, not in the hours before it."""
    began = firing[:, _LEAD:] & ~firing[:, _LEAD - 1 : -1]
    return int(began.sum())


def _days(values: Floats) -> Floats:
    """(trials, lead and days) -> (trials * days, lead and a day)."""
    days = np.lib.stride_tricks.sliding_window_view(values, _LEAD + _DAY, axis=1)[:, ::_DAY]
    return days.reshape(-1, _LEAD + _DAY)


def _each(values: Gauges, change: Callable[[Floats], Floats]) -> Gauges:
    return Gauges(*(change(getattr(values, field.name)) for field in fields(Gauges)))
