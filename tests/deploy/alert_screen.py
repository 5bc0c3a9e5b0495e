"""Which simulated days may fire at all, so that thousands of quiet weeks need not be fed.

The same z-scores as the rules', in numpy (a test holds both to be equal), and thresholds a fifth of
a standard error wider: what stays outside them cannot fire.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.deploy.alert_power import LIKELIER, Z_OF_ANY
from tests.deploy.alert_traffic import PANES_PER_HOUR, WEEKS_BEFORE, Floats, Shown

MARGIN: Final = 0.2
LEAD_HOURS: Final = 3
"""Hours in front of a day that its alerts look back on: two of windows, and those of `for`."""
_LEAD: Final = LEAD_HOURS * PANES_PER_HOUR
_DAY: Final = 24 * PANES_PER_HOUR
_NUMBER: Final = re.compile(r"vector\(([0-9.]+)\)")


def constant(rules: list[dict[str, Any]], record: str, label: str, value: str) -> float:
    """The number that a rule of the settings records."""
    for rule in rules:
        if rule["record"] == record and rule["labels"].get(label) == value:
            found = _NUMBER.fullmatch(rule["expr"])
            assert found, f"{record} {value}: {rule['expr']}: must be vector(number)"
            return float(found[1])
    raise KeyError(f"{record}{{{label}={value}}}")


@dataclass(frozen=True)
class Judged:
    """(trials, instants) each, NaN before it begins: what the alerts compare with thresholds."""

    z: Mapping[str, Floats]
    """By window, 3h among them: `relevanced:score:z`."""
    to_a_tenth: Floats
    """Standard errors of three hours that a loss of a tenth is."""
    day_error: Floats
    """One standard error of a day, as a share of the usual score."""

    @property
    def log_likelihood_ratio(self) -> Floats:
        """`relevanced:score:tenth_lost:log_likelihood_ratio`."""
        return -self.to_a_tenth * self.z["3h"] - self.to_a_tenth**2 / 2


def judged(shown: Mapping[str, Shown], settings: list[dict[str, Any]]) -> Judged:
    """What the recording rules make of the gauges."""
    design_effect = constant(settings, "relevanced:setting", "setting", "design_effect")
    floor = constant(settings, "relevanced:drift_floor:ratio", "metric", "default")
    drift = floor * np.sqrt(1 + 1 / WEEKS_BEFORE)

    def error(values: Shown) -> Floats:
        sampling = design_effect * (values.stderr**2 + values.baseline_stderr**2)
        return np.asarray(np.sqrt(sampling + (drift * values.baseline) ** 2))

    windows = {**shown, "3h": three_hours(shown["1h"])}
    z = {name: (seen.score - seen.baseline) / error(seen) for name, seen in windows.items()}
    three, day = windows["3h"], windows["24h"]
    return Judged(z, 0.1 * three.baseline / error(three), error(day) / day.baseline)


def three_hours(hour: Shown) -> Shown:
    """Three windows of an hour as one, weighted by the hour's own impressions."""
    weights = _lagged(hour.impressions)
    total = weights.sum(axis=0)
    return Shown(
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


def may_fire(found: Judged) -> NDArray[np.bool_]:
    """(trials, instants): whether any alert on scores can fire."""
    z, likelier = found.z, found.log_likelihood_ratio > LIKELIER - MARGIN * found.to_a_tenth
    one_hour = (z["1h"] < -4 + MARGIN) & (z["6h"] < -3 + MARGIN)
    last_three = (z["1h"] < -1.5 + MARGIN) & ((z["3h"] < -Z_OF_ANY + MARGIN) | likelier)
    far_below = z["1h"] < -5 + MARGIN
    steady = (z["24h"] < -3.7 + MARGIN) & (found.day_error < 0.01)
    day = (z["24h"] < -4 + MARGIN) | steady
    return np.asarray(one_hour | last_three | far_below | day)


def suspicious_days(shown: Mapping[str, Shown], settings: list[dict[str, Any]]) -> dict[str, Shown]:
    """The days that may fire, a trial each, with the hours in front of them."""
    days = {window: _each(values, _days) for window, values in shown.items()}
    suspects = may_fire(judged(days, settings))[:, _LEAD:].any(axis=1)
    return {window: _each(values, lambda row: row[suspects]) for window, values in days.items()}


def together(parts: Sequence[Mapping[str, Shown]]) -> dict[str, Shown]:
    """The trials of all parts."""
    return {
        window: Shown(
            *(
                np.concatenate([getattr(part[window], field.name) for part in parts])
                for field in fields(Shown)
            )
        )
        for window in parts[0]
    }


def episodes_of_days(firing: NDArray[np.bool_]) -> int:
    """How often something began to fire on a day itself, not in the hours in front of it."""
    began = firing[:, _LEAD:] & ~firing[:, _LEAD - 1 : -1]
    return int(began.sum())


def _days(values: Floats) -> Floats:
    """(trials, lead and days) -> (trials * days, lead and a day)."""
    days = np.lib.stride_tricks.sliding_window_view(values, _LEAD + _DAY, axis=1)[:, ::_DAY]
    return days.reshape(-1, _LEAD + _DAY)


def _each(values: Shown, change: Callable[[Floats], Floats]) -> Shown:
    return Shown(*(change(getattr(values, field.name)) for field in fields(Shown)))
