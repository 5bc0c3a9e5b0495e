"""What the lanes `weeks` and `day` call: their conditions, and for how long they have to hold.

Pure apart from the ends that it remembers: a new process calls nothing by these lanes for a while.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from relevanced.metrics import Booleans

from ..changes import HOUR_MS, MINUTE_MS, Called, ChangeSettings, MadeOf, WeekSides, weeks
from ..plan import Plan
from ..views import Segment
from .baselines import BaselineComparison, sides_of

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
    hour: WeekSides
    called: Called


class UsualCalls:
    """Looks at the comparisons, look after look."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
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
    ) -> tuple[str, Booleans] | None:
        """(lane, (segments, metrics) whether it calls each); None without a comparison of the last
        hour with weeks or days. `hour_before` compares the hour until an instant at which this
        process did not look: it has started since."""
        by_window = {
            each.window: each for each in comparisons if each.periods and each.unit in LANES
        }
        hour = by_window.get(weeks.HOUR)
        if segments != self._segments or hour is None:
            self._segments, self._ends = segments, []
        if hour is None:
            return None
        self._ends = [
            end
            for end in self._ends
            if end.unit == hour.unit and 0 < end_ms - end.end_ms <= KEPT_MS
        ]
        now = self._end(end_ms, by_window, change_settings, hour_before)
        at_ends = [now, *(self._at(end_ms - back * APART_MS) for back in range(1, weeks.ENDS))]
        if not self._ends or end_ms - self._ends[-1].end_ms >= APART_MS:
            self._ends.append(now)
        nothing = np.zeros(now.hour.score.shape, np.bool_)
        never = Called(nothing, nothing, nothing)
        sustained = weeks.sustained([never if end is None else end.called for end in at_ends])
        return LANES[hour.unit], np.asarray(sustained.any, np.bool_)

    def _hour(self, end_ms: int, unit: str, hour_before: HourBefore) -> WeekSides | None:
        """Both sides of an hour that ended before."""
        end = self._at(end_ms)
        if end is not None:
            return end.hour
        found = hour_before(end_ms)
        if found is None or not found.periods or found.unit != unit:
            return None
        return sides_of(found.recent, [*found.periods.values()], self._plan)

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
        sides = {
            name: sides_of(each.recent, [*each.periods.values()], self._plan)
            for name, each in by_window.items()
        }
        made_of = {name: _made_of(each) for name, each in by_window.items()}
        earlier = [self._hour(end_ms - back * HOUR_MS, hour.unit, hour_before) for back in (1, 2)]
        hours = [each for each in earlier if each is not None]
        if len(hours) == len(earlier):
            sides[weeks.THREE_HOURS] = weeks.three_hours([sides[weeks.HOUR], *hours])
            made_of[weeks.THREE_HOURS] = made_of[weeks.HOUR]
        unknown = np.full(sides[weeks.HOUR].score.shape, np.nan)
        nothing = WeekSides(unknown, unknown, unknown, unknown, unknown)
        noise = weeks.noise_of(self._plan.metrics, change_settings)
        compared = {
            name: weeks.compare(
                sides.get(name, nothing),
                made_of.get(name, made_of[weeks.HOUR]),
                noise,
                self._directions,
            )
            for name in (weeks.HOUR, weeks.THREE_HOURS, weeks.SIX_HOURS, weeks.DAY)
        }
        with np.errstate(invalid="ignore"):
            called = weeks.weeks_called(compared, change_settings)
        return _End(end_ms, hour.unit, sides[weeks.HOUR], called)


def _made_of(comparison: BaselineComparison) -> MadeOf:
    return MadeOf(len(comparison.periods), comparison.unit == "day")
