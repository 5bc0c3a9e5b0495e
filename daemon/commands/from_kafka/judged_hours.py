"""Hourly judged rows of several lanes together, and by which files they were graded. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ...exporter.judged import rows_plan
from ...exporter.judged_files import LaneFiles, measure_at
from ...judgements.timeline import Timeline
from ...lane import row_set, judged_settling
from ...lane.judged import final_before_ms
from ...lane.lane import Lane
from ...plan import Plan
from ...storage.head import whole_or_damaged
from ...storage.keys import JUDGED
from ...storage.packing import unpack_page
from ..recorded.judged import rows_of
from ..verify.stored import NOT_COUNTED, Stored, names_of, watermark_of
from .hour_rows import HourRows, has_events


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
        measure = measure_at(self.lanes, start) if self.are_known else None
        return None if measure is None else measure.name

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
            open_ms = row_set.open_hour(lane.settled_before, lane.plan)
            self.judged.rows.take(lane, rows_of(lane).hours, first_ms, open_ms)

    def finish(self, lane: Lane, first_ms: int | None, timeline: Timeline) -> None:
        """Take over the rest of a lane that was graded by this timeline; see `HourRows.finish`."""
        self.clicks.finish(lane, first_ms)
        if self.judged is not None and has_events(lane):
            judged = rows_of(lane)
            final_before = judged.final_before
            judged_settling.settle_judged(lane)
            self.judged.rows.take_rest(lane, judged.hours, first_ms, final_before)
            self.judged.lanes.append(LaneFiles(judged.since_ms, timeline.entries))


def add_stored(into: JudgedHourRows, stored: Stored) -> None:
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
