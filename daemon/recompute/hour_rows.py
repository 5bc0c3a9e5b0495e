"""Hourly rows of several lanes together, by the names of segments: a sink. Pure.

Rows of judgements come with the files that graded them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from relevanced.metrics import Integers

from ..exporter import rows_plan
from ..judgements import Timeline
from ..lane import PAGE_ROWS, Pages, RowSet, latest_ms
from ..panes import HOUR_MS
from ..plan import ALL, BY_JUDGEMENTS, Plan
from ..storage import unpack_page, whole_or_damaged
from ..views import (
    COUNTS_CELL,
    HourSources,
    LaneFiles,
    LaneView,
    covered,
    grading_at,
)
from .buckets import NO_END
from .driver import LATEST_MS, Settled, judged_rows
from .proof import NOT_COUNTED, StoredLane

Segment = tuple[str, str]
"""(grouping, segment)."""


def plan_of_hours(plan: Plan) -> Plan:
    """The plan with hours that are kept for ever."""
    return replace(plan, hour_ms=HOUR_MS, history_hours=NO_END)


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
    lacking: dict[int, frozenset[str]] = field(default_factory=dict)
    """Start of an hour → the metrics that some lane did not have then: their columns say
    nothing."""

    def add(self, start: int, names: Sequence[tuple[int, str]], pages: Pages) -> None:
        """Add the rows of one hour of one lane, with its segments by id: (index of the grouping,
        segment). Those of `NOT_COUNTED` are left out."""
        if start not in self.span:
            return
        into, named = self.rows.setdefault(start, {}), self.plan.grouping_names
        for page, rows in pages.items():
            for index in np.flatnonzero(rows.any(axis=1)).tolist():
                grouping, value = names[page * PAGE_ROWS + index]
                if grouping == NOT_COUNTED:
                    continue
                segment = named[grouping], value
                into[segment] = into[segment] + rows[index] if segment in into else rows[index] + 0

    def take(self, settled: Settled, rows: RowSet) -> None:
        """Take over the hours of these rows that are over and proven."""
        for start, of in settled.hours(rows):
            self.add(start, settled.lane.segments.names, of.pages)

    def finish(self, settled: Settled, rows: RowSet, final_ms: int) -> None:
        """Take over the rest of a lane, whose rows are final before `final_ms`."""
        self.settled_ms = min(self.settled_ms, final_ms)
        self.take(settled, rows)
        self.first_ms = max(self.first_ms, settled.whole_ms)

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
    timeline: Timeline = Timeline()
    """Of the files that grade the lanes that are made again."""

    def take(self, settled: Settled) -> None:
        """See `LaneSink`."""
        self.clicks.take(settled, settled.lane)
        if self.judged is not None:
            self.judged.rows.take(settled, judged_rows(settled.lane))

    def finish(self, settled: Settled) -> None:
        """See `LaneSink`: the hours that feedback or searches may still change are taken too."""
        if not settled.has_events:
            return
        self.clicks.finish(settled, settled.lane, settled.final_ms)
        if self.judged is not None:
            judged = judged_rows(settled.lane)
            self.judged.rows.finish(settled, judged, settled.judged_final_ms)
            self.judged.lanes.append(
                LaneFiles(judged.since_ms, self.timeline.entries, latest_ms=latest_ms(settled.lane))
            )


def nothing(plan: Plan, span: range) -> AllHours:
    """The hours of no lane."""
    return AllHours(HourRows(plan, span), None if plan.judged is None else empty(plan, span))


def stored_rows(
    views: Sequence[LaneView], graded: Sequence[StoredLane], plan: Plan, span: range
) -> AllHours:
    """The hours that begin in the span, of all lanes: what exporters know of them without what was
    filled. `graded`: the lanes with events, where something is judged. Raises Damaged."""
    found = nothing(plan, span)
    if found.judged is not None:
        for lane in graded:
            add_stored(found.judged, lane)
    sources = HourSources.of(covered(views, plan), (), plan)
    _add_known(found.clicks, sources)
    if found.judged is not None and sources.coverage is not None:
        judged, coverage = found.judged.rows, sources.coverage
        judged.missing.update(start for start in judged.rows if start < coverage.hours)
        for start, of in judged.rows.items():
            for segment in [each for each in of if coverage.hides(each[0], start)]:
                del of[segment]
    return found


def _add_known(into: HourRows, sources: HourSources) -> None:
    """Add the hours that the lanes have, as far as all of them do."""
    at = {name: index for index, name in enumerate(into.plan.grouping_names)}
    for view in sources.views:
        if view.has_events:
            into.settled_ms = min(into.settled_ms, view.settled_before or 0)
        names = [(at.get(name, NOT_COUNTED), segment) for name, segment in view.names.segments]
        for start in view.hours:
            if start in into.span:  # unpacks no other
                pages = {p: view.hour_rows(into.plan, start, p) for p in view.hours[start]}
                into.add(start, names, pages)
    for start in into.rows:
        known = sources.known(start)[0]
        metrics = enumerate(into.plan.metrics, COUNTS_CELL + 1)
        into.lacking[start] = frozenset(of.name for cell, of in metrics if not known[cell])
        if not known[COUNTS_CELL]:
            into.missing.add(start)


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
    entries, read_ms = head.judgements.history.entries, head.judged.latest_ms
    into.lanes.append(LaneFiles(head.judged.since_ms, entries, latest_ms=read_ms))
    into.rows.missing.update(head.judged.lost_hours)
    watermark = head.watermark_ms
    final_ms = 0 if watermark is None else plan.timing.final_before(watermark)
    into.rows.settled_ms = min(into.rows.settled_ms, final_ms)
    with whole_or_damaged(f"lane {stored.lane}, judged hours"):
        for start, pages in stored.optional_rows[BY_JUDGEMENTS][1].items():
            for page, data in pages.items():
                into.rows.add(start, stored.names, {page: unpack_page(data)})
