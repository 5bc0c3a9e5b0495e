"""Selects the simulated days on which an alert may fire, so that Prometheus need not evaluate
thousands of quiet weeks.

Applies the conditions of `daemon.changes.weeks`, which a test compares with the rules, with
thresholds that are a fifth of a standard error wider: on the other days no alert can fire.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Final

import numpy as np

from relevanced.daemon.changes import (
    ENDS,
    HOUR,
    THREE_HOURS,
    Called,
    ChangeSettings,
    Flags,
    MadeOf,
    ScoreNoise,
    WeeksCompared,
    WeekSides,
    compare,
    sustained,
    three_hours,
    weeks_called,
)
from tests.deploy.alert_traffic import PANE_S, PANES_PER_HOUR, WEEKS_BEFORE, WINDOWS, Floats

CHANGE_SETTINGS: Final = ChangeSettings()
NOISE: Final = ScoreNoise()
ANY_LOSS: Final = replace(
    CHANGE_SETTINGS,
    smallest_drop_ratio=0.0,
    smallest_drop=0.0,
    smallest_sample=2,
    far_below_ratio=0.0,
)
"""For the selection of days: whatever is lost."""
WEEKS: Final = dict.fromkeys((*WINDOWS, THREE_HOURS), MadeOf(WEEKS_BEFORE, False))
KEPT: Final = 30 * 60 // PANE_S
"""Instants for which an alert keeps firing."""
MARGIN: Final = 0.2
LEAD_HOURS: Final = 3
"""Hours before a day that its alerts depend on: two of windows, and the duration of `for`."""
_LEAD: Final = LEAD_HOURS * PANES_PER_HOUR
_DAY: Final = 24 * PANES_PER_HOUR


def compared(
    gauges: Mapping[str, WeekSides],
    made_of: Mapping[str, MadeOf] = WEEKS,
    direction: float = 1.0,
    noise: ScoreNoise = NOISE,
) -> dict[str, WeeksCompared]:
    """Window, 3h included → what the recording rules compute from the gauges, with the default
    settings: (trials, instants), NaN where undefined."""
    windows = {**gauges, THREE_HOURS: three_hours(_hours(gauges[HOUR]))}
    return {
        name: compare(sides, made_of[name], noise, direction) for name, sides in windows.items()
    }


def conditions(
    gauges: Mapping[str, WeekSides],
    made_of: Mapping[str, MadeOf] = WEEKS,
    direction: float = 1.0,
    noise: ScoreNoise = NOISE,
) -> Called:
    """Where the conditions of the alerts hold: (trials, instants)."""
    return weeks_called(compared(gauges, made_of, direction, noise), CHANGE_SETTINGS)


def verdicts(conditions_hold: Called) -> Called:
    """Where the conditions hold at every end, now and in the minutes before: (trials, instants)."""
    ends = [_each_flag(conditions_hold, back) for back in range(ENDS)]
    return sustained(ends)


def _each_flag(flags: Called, back: int) -> Called:
    return Called(*(_before(getattr(flags, field.name), back) for field in fields(Called)))


def _before(flags: Flags, back: int) -> Flags:
    """The flags of `back` instants before; False before the first."""
    return np.pad(flags, ((0, 0), (back, 0)))[:, : flags.shape[1]]


def _hours(hour: WeekSides) -> list[WeekSides]:
    """The windows of one hour that end now, an hour ago and two hours ago; NaN before the
    first."""
    lagged = {field.name: _lagged(getattr(hour, field.name)) for field in fields(WeekSides)}
    return [
        WeekSides(**{name: values[back] for name, values in lagged.items()}) for back in range(3)
    ]


def _lagged(values: Floats) -> Floats:
    """(3, trials, instants): now, an hour ago and two hours ago; NaN before the first."""
    padded = np.pad(values, ((0, 0), (2 * PANES_PER_HOUR, 0)), constant_values=np.nan)
    width = values.shape[1]
    return np.stack([padded[:, back * PANES_PER_HOUR :][:, :width] for back in (2, 1, 0)])


def may_fire(values: Mapping[str, WeeksCompared]) -> Flags:
    """(trials, instants): whether any alert on scores can fire: z is lowered by the margin."""
    lowered = {name: _lowered(window) for name, window in values.items()}
    return weeks_called(lowered, ANY_LOSS).any


def _lowered(window: WeeksCompared) -> WeeksCompared:
    by = MARGIN * window.error_ratio
    return replace(window, z=window.z - MARGIN, loss_ratio=window.loss_ratio + by)


def suspicious_days(gauges: Mapping[str, WeekSides]) -> dict[str, WeekSides]:
    """The days on which an alert may fire, a trial each, with the hours before them."""
    days = {window: _each(values, _days) for window, values in gauges.items()}
    selected = may_fire(compared(days))[:, _LEAD:].any(axis=1)
    return {window: _each(values, lambda array: array[selected]) for window, values in days.items()}


def judged_with(gauges: Mapping[str, WeekSides], measured: float | None) -> Mapping[str, WeekSides]:
    """The gauges with standard errors that the setting's design effect widens as far as the
    measured one would: the rules know no more of it than the product."""
    if measured is None or measured <= CHANGE_SETTINGS.design_effect:
        return gauges
    wider = np.sqrt(measured / CHANGE_SETTINGS.design_effect)
    return {
        window: replace(of, stderr=of.stderr * wider, baseline_stderr=of.baseline_stderr * wider)
        for window, of in gauges.items()
    }


def together(parts: Sequence[Mapping[str, WeekSides]]) -> dict[str, WeekSides]:
    """The trials of all parts, concatenated."""
    return {
        window: WeekSides(
            *(
                np.concatenate([getattr(part[window], field.name) for part in parts])
                for field in fields(WeekSides)
            )
        )
        for window in parts[0]
    }


def part(gauges: Mapping[str, WeekSides], begin: int, end: int) -> dict[str, WeekSides]:
    """The instants from `begin` to `end`."""
    return {
        window: _each(values, lambda array: array[:, begin:end])
        for window, values in gauges.items()
    }


def episodes(firing: Flags) -> int:
    """How often an alert began to fire that had not fired in the last half hour
    (`keep_firing_for`)."""
    kept = np.logical_or.reduce([_before(firing, back) for back in range(1, KEPT + 1)])
    return int((firing & ~kept).sum())


def episodes_of_days(firing: Flags) -> int:
    """How often an alert began to fire on a day itself, not in the hours before it."""
    began = firing[:, _LEAD:] & ~firing[:, _LEAD - 1 : -1]
    return int(began.sum())


def _days(values: Floats) -> Floats:
    """(trials, lead and days) -> (trials * days, lead and a day)."""
    days = np.lib.stride_tricks.sliding_window_view(values, _LEAD + _DAY, axis=1)[:, ::_DAY]
    return days.reshape(-1, _LEAD + _DAY)


def _each(values: WeekSides, change: Callable[[Floats], Floats]) -> WeekSides:
    return WeekSides(*(change(getattr(values, field.name)) for field in fields(WeekSides)))
