"""Which hours recorded events have whole, as far as their numbers tell. Pure.

No file says when recording began and ended, or that another file is missing. Where a few late
events stand before its beginning, or in a day whose file was forgotten, these hours have far fewer
impressions than others, or none. A site at night may have as few: then too they are left out, as
nothing tells the two apart.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from ..lane import Lane, PagedRows, kept_rows
from .driver import Settled

FEWEST_SHARE: Final = 1 / 20
"""An hour with a smaller part of the impressions of the busiest hour around may lack events: nights
mostly have more, and late arrivals fewer."""
AROUND_HOURS: Final = 7 * 24
"""The busiest hour is one of so many before and after an hour."""


def whole_hours(impressions: Mapping[int, int], hour_ms: int) -> Set[int]:
    """The starts of the hours that are whole, of the impressions of each hour by its start, in ms:
    those that have enough, as have the hour before and the hour after. Beside an hour with too few,
    recording may have begun or ended.

    >>> whole_hours({0: 1, 5: 20, 6: 60, 7: 60, 8: 60, 9: 2}, hour_ms=1)
    {6, 7}
    """
    reach_ms = AROUND_HOURS * hour_ms

    def has_enough(start: int) -> bool:
        around = range(start - reach_ms, start + reach_ms + 1, hour_ms)
        busiest = max(impressions.get(each, 0) for each in around)
        return impressions[start] >= max(FEWEST_SHARE * busiest, 1)

    enough = {start for start in impressions if has_enough(start)}
    return {start for start in enough if {start - hour_ms, start + hour_ms} <= enough}


@dataclass
class ImpressionsByHour:
    """A sink: the impressions of each hour that has any, also of those that can still change."""

    counts: dict[int, int] = field(default_factory=dict)
    """Start of the hour, in ms → its impressions."""

    def take(self, settled: Settled) -> None:
        """See `LaneSink`."""
        for start, rows in settled.hours(settled.lane):
            self.counts[start] = _impressions(rows)

    def finish(self, settled: Settled) -> None:
        """See `LaneSink`."""
        self.take(settled)
        self._add_open(settled.lane, settled.before_ms)

    def _add_open(self, lane: Lane, over_before_ms: int) -> None:
        hours = [(start, rows) for start, rows in lane.hours.items() if start >= over_before_ms]
        before = lane.settled_before
        panes = [
            (kept_rows.open_hour(start, lane.plan), rows)
            for (window, start), rows in lane.panes.items()
            if window == 0 and (before is None or start >= before)
        ]
        for start, rows in [*hours, *panes]:
            self.counts[start] = self.counts.get(start, 0) + _impressions(rows)


def _impressions(rows: PagedRows) -> int:
    return int(rows.page(0)[0, 0]) if 0 in rows.page_numbers else 0
