"""What the lanes `weeks` and `day` call: the conditions of the alert rules, with the time for which
they have to hold.

Pure, apart from the ends that it remembers: a process that has just started calls nothing by these
lanes for a quarter of an hour, as the alerts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from relevanced.metrics.lists import Booleans

from ..judging import weeks
from ..judging.settings import Judging
from ..judging.timeline import HOUR_MS, MINUTE_MS
from ..judging.weeks import Called, MadeOf, Sides
from ..plan import Plan
from .baselines import Comparison
from .snapshot import Segment
from .usual import sides_of

APART_MS: Final = weeks.EVERY_MIN * MINUTE_MS
KEPT_MS: Final = 2 * HOUR_MS + 2 * APART_MS
"""The last three hours are made of the hours that ended now, an hour and two hours ago."""
LANES: Final = {"week": "weeks", "day": "day"}


@dataclass(frozen=True, eq=False)
class _End:
    """One end of the windows."""

    end_ms: int
    unit: str
    hour: Sides
    called: Called


class UsualCalls:
    """Looks at the comparisons, look after look."""

    def __init__(self, plan: Plan, judging: Judging) -> None:
        self._plan, self._judging = plan, judging
        self._drifts = np.array([judging.drift_of(metric.name) for metric in plan.metrics])
        directions = {"up": 1.0, "down": -1.0, "none": np.nan}
        self._directions = np.array([directions[metric.direction] for metric in plan.metrics])
        self._segments: tuple[Segment, ...] = ()
        self._ends: list[_End] = []

    def take(
        self,
        end_ms: int,
        comparisons: Sequence[Comparison],
        segments: tuple[Segment, ...],
        design_effect: float,
    ) -> tuple[str, Booleans] | None:
        """(lane, (segments, metrics) whether it calls each); None without a comparison of the last
        hour with weeks or days."""
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
        judging = replace(self._judging, design_effect=design_effect)
        now = self._end(end_ms, by_window, judging)
        at_ends = [now, *(self._at(end_ms - back * APART_MS) for back in range(1, weeks.ENDS))]
        if not self._ends or end_ms - self._ends[-1].end_ms >= APART_MS:
            self._ends.append(now)
        nothing = np.zeros(now.hour.score.shape, np.bool_)
        never = Called(nothing, nothing, nothing)
        sustained = weeks.sustained([never if end is None else end.called for end in at_ends])
        return LANES[hour.unit], np.asarray(sustained.any, np.bool_)

    def _at(self, end_ms: int) -> _End | None:
        """The newest end that is kept of the five minutes until then."""
        found = [end for end in self._ends if 0 <= end_ms - end.end_ms < 2 * APART_MS]
        return found[-1] if found else None

    def _end(self, end_ms: int, by_window: dict[str, Comparison], judging: Judging) -> _End:
        hour = by_window[weeks.HOUR]
        sides = {
            name: sides_of(each.recent, [*each.periods.values()], self._plan)
            for name, each in by_window.items()
        }
        made_of = {name: _made_of(each) for name, each in by_window.items()}
        earlier = [self._at(end_ms - back * HOUR_MS) for back in (1, 2)]
        hours = [end.hour for end in earlier if end is not None]
        if len(hours) == len(earlier):
            sides[weeks.THREE_HOURS] = weeks.three_hours([sides[weeks.HOUR], *hours])
            made_of[weeks.THREE_HOURS] = made_of[weeks.HOUR]
        unknown = np.full(sides[weeks.HOUR].score.shape, np.nan)
        nothing = Sides(unknown, unknown, unknown, unknown, unknown)
        compared = {
            name: weeks.compare(
                sides.get(name, nothing),
                made_of.get(name, made_of[weeks.HOUR]),
                judging,
                self._drifts,
                self._directions,
            )
            for name in (weeks.HOUR, weeks.THREE_HOURS, weeks.SIX_HOURS, weeks.DAY)
        }
        with np.errstate(invalid="ignore"):
            called = weeks.called(compared, judging)
        return _End(end_ms, hour.unit, sides[weeks.HOUR], called)


def _made_of(comparison: Comparison) -> MadeOf:
    return MadeOf(len(comparison.periods), comparison.unit == "day")
