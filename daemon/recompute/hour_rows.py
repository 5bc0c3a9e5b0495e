"""Hourly rows of several lanes together, by the names of segments. Pure.

Hourly judged rows of several lanes together, and by which files they were graded.

Hours of lanes that are made again, as the values of a filling.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from relevanced.metrics import Integers

from ..exporter import rows_plan
from ..judgements import Timeline
from ..lane import PAGE_ROWS, Lane, PagedRows, Pages, final_before_ms, row_sets, scoring, settling
from ..panes import HOUR_MS
from ..plan import ALL, Plan
from ..storage import (
    JUDGED,
    Names,
    filling_hour_key,
    names_key,
    pack_page,
    packed_filling,
    unpack_page,
    whole_or_damaged,
)
from ..views import LaneFiles, grading_at
from .buckets import NO_END, rows_of, settle_rest
from .stored import NOT_COUNTED, StoredLane, names_of, watermark_of

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
            self.take(
                lane, lane.hours, first_ms, row_sets.open_hour(lane.settled_before, lane.plan)
            )

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


@dataclass
class JudgedHourRows:
    """The judged rows of the hours that begin in a span."""

    rows: HourRows
    """Settled is what is final."""
    lanes: list[LaneFiles] = field(default_factory=list)
    """By which files."""
    are_known: bool = True
    """False where a lane has no such rows: a sum without it would be too small."""

    def file_of(self, start: int) -> str | None:
        """The name of the file that graded an hour, `mixed` where lanes disagree; None where none
        did, or lanes began to grade later."""
        grading = grading_at(self.lanes, start) if self.are_known else None
        return None if grading is None else grading.name

    def known(self) -> HourRows:
        """The rows without the hours that some lane has no file for, or no rows of."""
        starts = {start for start in self.rows.rows if self.file_of(start) is None}
        return replace(self.rows, missing=self.rows.missing | starts)


def empty(plan: Plan, span: range) -> JudgedHourRows:
    """Those of no lane. `plan` must have judged metrics."""
    return JudgedHourRows(HourRows(rows_plan(plan), span))


@dataclass(frozen=True)
class AllHours:
    """The rows of feedback and the judged ones; takes them over while lanes are made again."""

    clicks: HourRows
    judged: JudgedHourRows | None = None
    """None where nothing is graded."""

    def past_hours(self, lane: Lane, first_ms: int | None) -> None:
        """Take over the hours that cannot change any more; see `Watching`."""
        self.clicks.past_hours(lane, first_ms)
        if self.judged is not None and lane.settled_before is not None:
            open_ms = row_sets.open_hour(lane.settled_before, lane.plan)
            self.judged.rows.take(lane, rows_of(lane).hours, first_ms, open_ms)

    def finish(self, lane: Lane, first_ms: int | None, timeline: Timeline) -> None:
        """Take over the rest of a lane that was graded by this timeline; see `HourRows.finish`."""
        self.clicks.finish(lane, first_ms)
        if self.judged is not None and has_events(lane):
            judged = rows_of(lane)
            final_before = judged.final_before
            scoring.settle_judged(lane)
            self.judged.rows.take_rest(lane, judged.hours, first_ms, final_before)
            self.judged.lanes.append(LaneFiles(judged.since_ms, timeline.entries))


def add_stored(into: JudgedHourRows, stored: StoredLane) -> None:
    """Add the judged hours of a lane, as they are stored. Raises Damaged."""
    head, plan = stored.head, stored.plan
    is_same = (
        head.judged is not None
        and plan.judged is not None
        and head.judged.columns == plan.judged.column_ids
    )
    if head.judged is None or head.judgements is None or not is_same:
        into.are_known = False
        return
    into.lanes.append(LaneFiles(head.judged.since_ms, head.judgements.history.entries))
    into.rows.missing.update(head.judged.lost_hours)
    watermark = watermark_of(head)
    final_ms = 0 if watermark is None else final_before_ms(watermark, plan.timing)
    into.rows.settled_ms = min(into.rows.settled_ms, final_ms)
    with whole_or_damaged(f"lane {stored.lane}, judged hours"):
        for key, data in stored.judged.items():
            if (of_hour := JUDGED.of_hour(key)) is not None:
                start, page = of_hour
                rows = unpack_page(data).copy()
                rows[_left_out(stored.names, page)] = 0
                into.rows.add(start, stored.names, {page: rows})


def _left_out(names: Sequence[tuple[int, str]], page: int) -> list[int]:
    """The rows of a page of segments that the plan does not have."""
    of_page = names_of(names, page)
    return [row for row, (grouping, _) in enumerate(of_page) if grouping == NOT_COUNTED]


def named(lane: Lane) -> Names:
    """The (grouping, segment) of each segment id of a lane."""
    groupings = lane.plan.grouping_names
    return tuple((groupings[of], segment) for of, segment in lane.segments.names)


@dataclass
class Staging:
    """Takes over the hours that begin in a span, of one lane after the other."""

    id: str
    plan: Plan
    span: range
    """Of starts, in ms."""
    ready: dict[str, bytes] = field(default_factory=dict)
    """Key → value: what is to be stored. The caller takes it out."""
    keys: int = 0
    """How many values there were."""
    first_ms: int = 0
    """Earlier hours are not whole: of some lane not all of their events are known."""
    settled_ms: int = LATEST_MS
    """Hours that end later may lack feedback that has not come yet."""
    part: int = 0
    """The lane."""
    seen_ms: int = LATEST_MS
    """Start of the first hour with an impression."""

    def past_hours(self, lane: Lane, first_ms: int | None) -> None:
        """Take over the hours that cannot change any more; see `replaying.Watching`."""
        if lane.settled_before is None or first_ms is None:
            return
        still_open = row_sets.open_hour(lane.settled_before, lane.plan)
        for start, rows in lane.hours.items():
            if max(first_ms, self.span.start) <= start < min(still_open, self.span.stop):
                for page in rows.page_numbers:
                    self.take(start, page, pack_page(rows.page(page)))

    def finish(self, lane: Lane, first_ms: int | None, read_ms: int | None) -> None:
        """Take over the rest of a lane. `first_ms`: None where nothing of it is known; `read_ms`:
        the clock at which the log ended where the lane was read to, None where it goes on."""
        if any(lane.counts["events"].values()):
            if read_ms is not None:
                _settle(lane, read_ms)
                self.past_hours(lane, first_ms)
            self.first_ms = max(self.first_ms, LATEST_MS if first_ms is None else first_ms)
            self.settled_ms = min(self.settled_ms, lane.settled_before or 0)
        self.finish_part(named(lane))

    def take(self, start: int, page: int, data: bytes) -> None:
        """Take over a page of an hour of the span, packed as it is stored."""
        self.seen_ms = min(self.seen_ms, start)
        self._put(filling_hour_key(self.id, self.part, start, page), data)

    def finish_part(self, names: Names) -> None:
        """Go on with the next lane, after one with these segments."""
        self._put(names_key(self.id, self.part), packed_filling(names))
        self.part += 1

    def _put(self, key: str, value: bytes) -> None:
        self.ready[key] = value
        self.keys += 1

    @property
    def filled(self) -> range:
        """The starts of the hours that are whole in every lane, from the first with an impression
        on."""
        length = self.plan.hour_ms
        first = max(-(-self.first_ms // length) * length, self.seen_ms)
        return range(first, min(self.settled_ms // length * length, self.span.stop), length)


def _settle(lane: Lane, time_ms: int) -> None:
    """Settle what had time until then. The lane can take no more events afterwards."""
    for topic, mark in lane.watermarks.items():
        lane.watermarks[topic] = max(mark or 0, time_ms)
    lane.start_batch()
    settling.settle(lane)
