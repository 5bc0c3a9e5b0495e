"""What the lanes `weeks` and `day` call: their conditions, and for how long they have to hold.

Pure apart from the ends that it remembers: a new process calls nothing by these lanes for a while.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import Booleans

from ..changes import (
    HOUR_MS,
    MINUTE_MS,
    Called,
    ChangeSettings,
    MadeOf,
    ScoreNoise,
    WeeksCompared,
    WeekSides,
    weeks,
)
from ..plan import Plan
from ..views import Segment
from .baselines import BaselineComparison, best_case_of, made_of, sides_of

APART_MS: Final = weeks.EVERY_MIN * MINUTE_MS
KEPT_MS: Final = 2 * HOUR_MS + 2 * APART_MS
"""The last three hours are made of the hours that ended now, an hour and two hours ago."""
LANES: Final = {"week": "weeks", "day": "day"}
HourBefore: TypeAlias = Callable[[int], BaselineComparison | None]


@dataclass(frozen=True, eq=False)
class _End:
    """One end of the windows."""

    end_ms: int
    unit: str
    hours: tuple[WeekSides, ...]
    """By each reading."""
    called: Called
    """What all of them call."""
    alone: Called
    """What the first one calls."""


@dataclass(frozen=True, eq=False)
class UsualCall:
    """What a lane calls now: (segments, metrics) each."""

    lane: str
    called: Booleans
    alone: Booleans
    """The same by the first reading alone: of judged scores the lower bound."""


class UsualCalls:
    """Looks at the comparisons, look after look."""

    def __init__(self, plan: Plan) -> None:
        best_case = best_case_of(plan)
        self._plans = (plan,) if best_case is None else (plan, best_case)
        """One for each reading of the rows."""
        directions = {"up": 1.0, "down": -1.0, "none": np.nan}
        self._directions = np.array([directions[metric.direction] for metric in plan.metrics])
        self._segments: tuple[Segment, ...] = ()
        self._ends: list[_End] = []

    def take(
        self,
        end_ms: int,
        comparisons: Sequence[BaselineComparison],
        segments: tuple[Segment, ...],
        change_settings: ChangeSettings,
        hour_before: HourBefore = lambda end_ms: None,
    ) -> UsualCall | None:
        """What is called; None without a comparison of the last hour with weeks or days.
        `hour_before` compares the hour until an instant at which this process did not look: it has
        started since."""
        by_window = {
            each.window: each for each in comparisons if each.periods and each.unit in LANES
        }
        hour = by_window.get(weeks.HOUR)
        former, self._segments = self._segments, segments
        if hour is None:
            self._ends = []
            return None
        self._ends = [
            end if segments == former else _of_segments(end, former, segments)
            for end in self._ends
            if end.unit == hour.unit and 0 < end_ms - end.end_ms <= KEPT_MS
        ]
        now = self._end(end_ms, by_window, change_settings, hour_before)
        at_ends = [now, *(self._at(end_ms - back * APART_MS) for back in range(1, weeks.ENDS))]
        if not self._ends or end_ms - self._ends[-1].end_ms >= APART_MS:
            self._ends.append(now)
        nothing = np.zeros(now.hours[0].score.shape, np.bool_)
        never = Called(nothing, nothing, nothing)
        of_all, of_first = (
            np.asarray(weeks.sustained(of_ends).any, np.bool_)
            for of_ends in (
                [never if end is None else end.called for end in at_ends],
                [never if end is None else end.alone for end in at_ends],
            )
        )
        return UsualCall(LANES[hour.unit], of_all, of_first)

    def _hour(
        self, end_ms: int, unit: str, hour_before: HourBefore
    ) -> tuple[WeekSides, ...] | None:
        """Both sides of an hour that ended before, by each reading."""
        end = self._at(end_ms)
        if end is not None:
            return end.hours
        found = hour_before(end_ms)
        if found is None or not found.periods or found.unit != unit:
            return None
        return self._sides(found)

    def _sides(self, comparison: BaselineComparison) -> tuple[WeekSides, ...]:
        periods = [*comparison.periods.values()]
        return tuple(sides_of(comparison.recent, periods, plan) for plan in self._plans)

    def _made_of(self, comparison: BaselineComparison) -> tuple[MadeOf, ...]:
        """By each reading."""
        periods, of_days = [*comparison.periods.values()], comparison.unit == "day"
        return tuple(made_of(periods, plan, of_days=of_days) for plan in self._plans)

    def _at(self, end_ms: int) -> _End | None:
        """The newest end that is kept of the five minutes until then."""
        found = [end for end in self._ends if 0 <= end_ms - end.end_ms < 2 * APART_MS]
        return found[-1] if found else None

    def _end(
        self,
        end_ms: int,
        by_window: dict[str, BaselineComparison],
        change_settings: ChangeSettings,
        hour_before: HourBefore,
    ) -> _End:
        hour = by_window[weeks.HOUR]
        of_windows = {name: self._sides(each) for name, each in by_window.items()}
        of_periods = {name: self._made_of(each) for name, each in by_window.items()}
        earlier = [self._hour(end_ms - back * HOUR_MS, hour.unit, hour_before) for back in (1, 2)]
        hours = [each for each in earlier if each is not None]
        if len(hours) == len(earlier):
            by_reading = zip(of_windows[weeks.HOUR], *hours, strict=True)
            of_windows[weeks.THREE_HOURS] = tuple(map(weeks.three_hours, by_reading))
            of_periods[weeks.THREE_HOURS] = of_periods[weeks.HOUR]
        noise = weeks.noise_of(self._plans[0].metrics, change_settings)
        first, *others = (
            self._compared(
                {name: each[at] for name, each in of_windows.items()},
                {name: each[at] for name, each in of_periods.items()},
                noise,
            )
            for at in range(len(self._plans))
        )
        with np.errstate(invalid="ignore"):
            alone = called = weeks.weeks_called(first, change_settings)
            for other in others:
                both = {name: weeks.agreed(first[name], other[name]) for name in first}
                called = weeks.weeks_called(both, change_settings)
        return _End(end_ms, hour.unit, of_windows[weeks.HOUR], called, alone)

    def _compared(
        self, sides: Mapping[str, WeekSides], of_periods: Mapping[str, MadeOf], noise: ScoreNoise
    ) -> dict[str, WeeksCompared]:
        """All windows, by one reading."""
        unknown = np.full(sides[weeks.HOUR].score.shape, np.nan)
        nothing = WeekSides(unknown, unknown, unknown, unknown, unknown)
        return {
            name: weeks.compare(
                sides.get(name, nothing),
                of_periods.get(name, of_periods[weeks.HOUR]),
                noise,
                self._directions,
            )
            for name in (weeks.HOUR, weeks.THREE_HOURS, weeks.SIX_HOURS, weeks.DAY)
        }


def _of_segments(end: _End, former: Sequence[Segment], segments: Sequence[Segment]) -> _End:
    """The end with the rows of these segments; of one that was not there, nothing is known."""
    at = {segment: row for row, segment in enumerate(former)}
    rows = np.array([at.get(segment, len(former)) for segment in segments], np.int64)

    def known(values: NDArray[Any], otherwise: float | bool) -> NDArray[Any]:
        return np.concatenate([values, np.full_like(values[:1], otherwise)])[rows]

    def sides(before: WeekSides) -> WeekSides:
        return WeekSides(**{name: known(each, np.nan) for name, each in vars(before).items()})

    def called(before: Called) -> Called:
        return Called(**{name: known(each, False) for name, each in vars(before).items()})

    return replace(
        end,
        hours=tuple(map(sides, end.hours)),
        called=called(end.called),
        alone=called(end.alone),
    )
