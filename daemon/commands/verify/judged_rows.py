"""Stored judged rows against those that the log and the files of judgements prove. Pure.

A lane says itself by which files it has graded each hour that is kept: by these its log is graded
again. Where the index lists another file for an hour, the lane has refused that one for good; its
rows are proven all the same, and the difference is said.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ...events.timestamps import timestamp_text
from ...judgements.grades import Fault, Judgements
from ...judgements.index import Entry, start_text
from ...judgements.timeline import Timeline
from ...lane import hours
from ...lane.judged import COUNT_COLUMNS, METRIC_COLUMNS
from ...lane.judged_rows import ShownInBatch
from ...lane.lane import Lane
from ...lane.paged_rows import PagedRows, Pages
from ...panes import PaneKey
from ...plan import Plan
from ...storage.head import Head, whole_or_damaged
from ...storage.judged import parse_judged_hour_key, parse_judged_key
from ...storage.packing import unpack_page
from .differences import Difference, Differences
from .rows import Matching, Unequal, beside
from .stored import Packed, Stored, watermark_of

NOT_PROVABLE: Final = "judged rows are not provable: "
NO_DIRECTORY: Final = "judgements.directory is not set here"
NOTHING_GRADED: Final = "no batch has been graded yet"
OTHER_COLUMNS: Final = "the lane has other judged metrics than this configuration"
AHEAD: Final = (
    "they began in mid-life, and which impressions of wrong clocks came before that is not stored"
)
REFUSED: Final = (
    "the lane graded without {}, in force from {}, which it refused: its judged rows are proven by"
    " the files that it has, and reading the lane again from the start would give others"
)


@dataclass(frozen=True)
class Grading:
    """By which files a lane is graded again."""

    timeline: Timeline = Timeline()
    judgements: Mapping[Entry, Judgements] = field(default_factory=dict)
    obstacle: str = ""
    """Why nothing is; "" where nothing is in the way."""
    notes: tuple[str, ...] = ()


def grading_of(
    head: Head,
    index: Collection[Entry],
    readable: Mapping[Entry, Judgements],
    faults: Collection[Fault],
) -> Grading:
    """The files of a lane's own timeline, as this process has read them."""
    if head.judged is None or head.judgements is None:
        return Grading(obstacle=NOTHING_GRADED)
    history = head.judgements.history
    missing = [entry for entry in history.entries if entry not in readable]
    if missing:
        why = "".join(f" ({fault})" for fault in faults if fault.file.endswith(missing[0].name))
        text = f"the lane graded by {missing[0].name} of SHA-256 {missing[0].sha256}: put it back"
        return Grading(obstacle=text + why)
    first_ms = history.entries[0].start_ms if history.entries else None
    others = [
        entry
        for entry in sorted(set(index).difference(history.entries))
        if entry.start_ms <= head.judged.latest_ms and (first_ms or 0) <= entry.start_ms
    ]
    notes = (REFUSED.format(one.name, start_text(one.start_ms)) for one in others)
    return Grading(Timeline(history.entries), readable, notes=tuple(notes))


def grade_again(lane: Lane, stored: Stored, grading: Grading, *, is_whole: bool) -> str:
    """Let a lane that has seen nothing grade as the stored one did; returns why it cannot."""
    judged, head = lane.judged, stored.head.judged
    if judged is None or grading.obstacle:
        return grading.obstacle
    if head is None or head.columns != judged.plan.column_ids:
        return NOTHING_GRADED if head is None else OTHER_COLUMNS
    if head.from_slot:
        # Slots follow the order of impressions: that of the only topic, or one that is not known.
        if is_whole and len(lane.offsets) == 1:
            judged.from_slot, judged.shown = head.from_slot, ShownInBatch(head.from_slot)
        elif any(stored.head.counts.get("ahead_events", {}).values()):
            return AHEAD
    judged.since_ms = head.since_ms
    judged.prepare(grading.timeline, grading.judgements)
    return ""


class JudgedComparison:
    """What was compared of the judged rows of one lane."""

    def __init__(
        self,
        stored: Stored,
        plan: Plan,
        matching: Matching,
        summed: Collection[int],
        differences: Differences,
    ) -> None:
        """`summed`: groupings of which only the sum over all segments is compared."""
        self.hours = 0
        self.notes: list[str] = []
        self._is_on = False
        self._stored, self._plan, self._head = stored, plan, stored.head.judged
        self._matching, self._summed, self._differences = matching, summed, differences
        self._seen: set[int] = set()
        self._panes, self._hours = _by_start(stored, plan)
        names = [metric.name for metric in plan.judged.metrics] if plan.judged is not None else ()
        self._columns = [*COUNT_COLUMNS, *(f"{n} {c}" for n in names for c in METRIC_COLUMNS)]

    def begin(self, lane: Lane, grading: Grading, *, is_whole: bool) -> None:
        """Let the lane that is to be compared grade as the stored one did, where that is known."""
        if self._plan.judged is not None:
            obstacle = grade_again(lane, self._stored, grading, is_whole=is_whole)
            self._is_on = not obstacle
            self.notes += [f"{NOT_PROVABLE}{obstacle}"] if obstacle else grading.notes

    def past_hours(self, lane: Lane, first_ms: int | None) -> None:
        """Compare the hours that cannot change any more; see `Watching`."""
        if self._is_on and lane.judged is not None and lane.settled_before is not None:
            still_open = hours.open_hour(lane.settled_before, self._plan)
            for start in [start for start in lane.judged.hours if start < still_open]:
                self._hour(start, lane.judged.hours[start].pages, first_ms)

    def finish(self, lane: Lane, first_ms: int | None) -> None:
        """Compare all that is left."""
        if not self._is_on or lane.judged is None or first_ms is None:
            return
        for start, rows in lane.judged.hours.items():
            self._hour(start, rows.pages, first_ms)
        for start in sorted(self._hours.keys() - self._seen):
            self._hour(start, {}, first_ms)
        empty = PagedRows(len(self._columns))
        for key in sorted(self._panes.keys() | lane.judged.panes.keys()):
            if self._is_compared(key[1], first_ms):
                window = self._plan.timing.windows[key[0]].name
                at = partial(Difference, "judged pane", start=timestamp_text(key[1]), window=window)
                proven = lane.judged.panes.get(key, empty).pages
                self._rows(at, self._panes.get(key, {}), proven)

    def _is_compared(self, start: int, first_ms: int | None) -> bool:
        since_ms = 0 if self._head is None else self._head.since_ms
        return first_ms is not None and start >= max(first_ms, since_ms)

    def _hour(self, start: int, proven: Pages, first_ms: int | None) -> None:
        self._seen.add(start)
        before = self._stored.head.state.settled_before
        is_kept = before is not None and start >= hours.kept_from(before, self._plan)
        is_lost = self._head is not None and start in self._head.lost_hours
        if is_kept and not is_lost and self._is_compared(start, first_ms):
            self.hours += 1
            at = partial(Difference, "judged hour", start=timestamp_text(start))
            self._rows(at, self._hours.get(start, {}), proven)

    def _rows(self, at: "partial[Difference]", packed: Packed, proven: Pages) -> None:
        with whole_or_damaged(f"lane {self._stored.lane}"):
            stored = {page: unpack_page(data) for page, data in packed.items()}
        compared = beside(self._matching, stored, proven, len(self._columns))
        count, unequal = compared.unequal(self._summed)
        self._differences.compared += compared.stored.size
        self._differences.note((self._named(at, one) for one in unequal), count)

    def _named(self, at: "partial[Difference]", one: Unequal) -> Difference:
        names, segment = self._plan.grouping_names, one.segment
        return at(
            self._columns[one.column],
            one.stored,
            one.proven,
            grouping=names[one.grouping] if one.grouping >= 0 else None,
            segment="(all together)" if segment is None else segment,
        )


def _by_start(
    stored: Stored, plan: Plan
) -> tuple[dict[PaneKey, dict[int, bytes]], dict[int, dict[int, bytes]]]:
    """The stored pages of panes that are kept, and those of hours."""
    panes, of_hours = dict[PaneKey, dict[int, bytes]](), dict[int, dict[int, bytes]]()
    watermark = watermark_of(stored.head)
    for key, data in stored.judged.items():
        if (of_hour := parse_judged_hour_key(key)) is not None:
            of_hours.setdefault(of_hour[0], {})[of_hour[1]] = data
        elif (of_pane := parse_judged_key(plan.timing, key)) is not None:
            (window, start), page = of_pane
            span = plan.timing.windows[window]
            if watermark is None or start >= plan.timing.dropped_before(span, watermark):
                panes.setdefault((window, start), {})[page] = data
    return panes, of_hours
