"""Stored judged rows against those that the log and the files of judgements prove. Pure.

A lane says itself by which files it has graded each hour that is kept: by these its log is graded
again. Where the index lists another file for an hour, the lane has refused that one for good; its
rows are proven all the same, and the difference is said.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from ...judgements.grades import Fault, Judgements
from ...judgements.index import Entry, start_text
from ...judgements.timeline import Timeline
from ...lane.judged import COUNT_COLUMNS, METRIC_COLUMNS
from ...lane.judged_rows import ShownInBatch
from ...lane.lane import Lane
from ...lane.paged_rows import Pages
from ...plan import Plan
from ...storage.head import Head, whole_or_damaged
from ...storage.keys import JUDGED
from ...storage.packing import unpack_page
from ...storage.rows import by_start
from .differences import Differences
from .row_sets import RowsComparison
from .rows import Matching
from .stored import Packed, Stored, kept_panes

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
        self.notes: list[str] = []
        self._is_on = False
        self._stored, self._plan, head = stored, plan, stored.head.judged
        panes, of_hours = by_start(stored.judged.items(), JUDGED, plan.timing)
        names = [metric.name for metric in plan.judged.metrics] if plan.judged is not None else ()
        since_ms = 0 if head is None else head.since_ms
        self.rows = RowsComparison(
            measure="judged ",
            plan=plan,
            head=stored.head,
            stored=(kept_panes(panes, stored.head, plan), of_hours),
            columns=[*COUNT_COLUMNS, *(f"{n} {c}" for n in names for c in METRIC_COLUMNS)],
            matching=matching,
            summed=summed,
            differences=differences,
            hours_from=since_ms,
            panes_from=[since_ms] * len(plan.timing.windows),
            lost_hours=() if head is None else head.lost_hours,
            unpacked=lambda pages, hour, start: self._unpacked(pages),
        )

    def begin(self, lane: Lane, grading: Grading, *, is_whole: bool) -> None:
        """Let the lane that is to be compared grade as the stored one did, where that is known."""
        if self._plan.judged is not None:
            obstacle = grade_again(lane, self._stored, grading, is_whole=is_whole)
            self._is_on = not obstacle
            self.notes += [f"{NOT_PROVABLE}{obstacle}"] if obstacle else grading.notes

    def past_hours(self, lane: Lane, first_ms: int | None) -> None:
        """Compare the hours that cannot change any more; see `Watching`."""
        if self._is_on and lane.judged is not None:
            self.rows.past_hours(lane.judged, lane.settled_before, first_ms)

    def finish(self, lane: Lane, first_ms: int | None) -> None:
        """Compare all that is left."""
        if self._is_on and lane.judged is not None:
            self.rows.finish(lane.judged, first_ms)

    def _unpacked(self, packed: Packed) -> Pages:
        with whole_or_damaged(f"lane {self._stored.lane}"):
            return {page: unpack_page(data) for page, data in packed.items()}
