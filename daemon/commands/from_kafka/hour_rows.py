"""Hourly rows of several lanes together, by the names of segments. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from relevanced.metrics.lists import Integers

from ...lane import row_set
from ...lane.lane import Lane
from ...lane.paged_rows import PAGE_ROWS, PagedRows, Pages
from ...panes import HOUR_MS
from ...plan import ALL, Plan
from ..recorded.buckets import NO_END, settle_rest

Segment = tuple[str, str]
"""(grouping, segment)."""
LATEST_MS: Final = 10**14


def plan_of_hours(plan: Plan) -> Plan:
    """The plan with hours that are kept for ever."""
    return replace(plan, hour_ms=HOUR_MS, history_hours=NO_END)


def has_events(lane: Lane) -> bool:
    """Whether a lane has counted an event: of one that has not, nothing is missing."""
    return any(lane.counts["events"].values())


@dataclass
class HourRows:
    """The rows of the hours that begin in a span. Takes them over while lanes are made again."""

    plan: Plan
    span: range
    """Of starts, in ms."""
    rows: dict[int, dict[Segment, Integers]] = field(default_factory=dict)
    """Start of an hour → segment → (columns,)."""
    first_ms: int = 0
    """Earlier hours are not whole: of some lane not all of their events are known."""
    missing: set[int] = field(default_factory=set)
    """Hours of which a lane has lost rows."""
    settled_ms: int = LATEST_MS
    """What begins here or later may lack feedback that has not come yet."""

    def add(self, start: int, names: Sequence[tuple[int, str]], pages: Pages) -> None:
        """Add the rows of one hour of one lane, with its segments by id."""
        if start not in self.span:
            return
        into, named = self.rows.setdefault(start, {}), self.plan.grouping_names
        for page, rows in pages.items():
            for index in np.flatnonzero(rows.any(axis=1)).tolist():
                grouping, value = names[page * PAGE_ROWS + index]
                segment = named[grouping], value
                into[segment] = into[segment] + rows[index] if segment in into else rows[index] + 0

    def past_hours(self, lane: Lane, first_ms: int | None) -> None:
        """Take over the hours that cannot change any more; see `Watching`."""
        if lane.settled_before is not None:
            self.take(lane, lane.hours, first_ms, row_set.open_hour(lane.settled_before, lane.plan))

    def finish(self, lane: Lane, first_ms: int | None) -> None:
        """Take over the rest of a lane, as if time had passed since its last event. It can take no
        more events afterwards. `first_ms`: None where nothing of it is known."""
        if has_events(lane):
            settled_before = lane.settled_before
            settle_rest(lane)
            self.take_rest(lane, lane.hours, first_ms, settled_before)

    def take_rest(
        self,
        lane: Lane,
        rows_by_hour: Mapping[int, PagedRows],
        first_ms: int | None,
        settled_before: int | None,
    ) -> None:
        """Take over all that is left of a lane. It had settled until `settled_before` by its
        events."""
        self.settled_ms = min(self.settled_ms, settled_before or 0)
        self.take(lane, rows_by_hour, first_ms, LATEST_MS)
        self.first_ms = max(self.first_ms, LATEST_MS if first_ms is None else first_ms)

    def take(
        self,
        lane: Lane,
        rows_by_hour: Mapping[int, PagedRows],
        first_ms: int | None,
        before_ms: int,
    ) -> None:
        """Take over the hours of a lane that start from `first_ms` to before `before_ms`."""
        for start, rows in rows_by_hour.items():
            if start < before_ms and first_ms is not None and start >= first_ms:
                self.add(start, lane.segments.names, rows.pages)

    @property
    def starts(self) -> list[int]:
        """The hours of the span that have an impression and are whole, ascending."""
        whole = (start for start in self.rows if start >= self.first_ms)
        return sorted(start for start in whole if start not in self.missing)

    def settled_rows(self, start: int) -> Mapping[Segment, Integers]:
        """The rows of an hour that is whole and settled; none of any other."""
        known = start in self.starts and self.is_settled(start)
        return self.rows[start] if known else {}

    def is_settled(self, start: int) -> bool:
        """Whether no feedback of an hour can be missing."""
        return start + HOUR_MS <= self.settled_ms

    def busiest(self) -> list[Segment]:
        """The whole, then of each grouping the segments with the most impressions, at most
        `max_segments`."""
        impressions: dict[Segment, int] = {}
        for start in self.starts:
            for segment, row in self.rows[start].items():
                impressions[segment] = impressions.get(segment, 0) + int(row[0])
        ordered = sorted(impressions, key=lambda segment: (-impressions[segment], segment))
        found = []
        for name in self.plan.grouping_names:
            most = 1 if name == ALL else self.plan.max_segments
            found += [segment for segment in ordered if segment[0] == name][:most]
        return found
