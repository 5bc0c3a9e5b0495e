"""Everything that one lane is: the state that a commit makes durable, and what a batch changed of
it. `attribution` applies events to it, `scoring` turns the changes into rows, `settling` adds
settled rows to the totals, `storage` writes it down. Pure.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

import numpy as np

from relevanced.metrics import Integers, distinct

from ..events import Event, Rejected, Skipped
from ..experiments import Experiments
from ..judgements import DatedFiles, QueryClasses
from ..plan import (
    BY_FEEDBACK,
    BY_JUDGEMENTS,
    Plan,
)
from .attribute_texts import AttributeTexts
from .chain import Chain
from .columns.arrays import Numbers, new_column
from .gain_states import GainStates
from .impression_columns import Assignments, QueryKeys, SearchColumns, SubjectColumns, TouchColumns
from .judged import LaneJudged, judged_rows_of
from .log_names import SlotOrigins, topic_of
from .open_impressions import OpenImpressions
from .queries import LaneQueries, queries_of
from .row_sets import OptionalRows, PagedRows, Rows, RowSet
from .segment_admission import Admission, LaneSegments
from .waiting_events import WaitingFeedback
from .watermarks import Pending, lane_watermark_ms, moved


def class_files_under(
    plan: Plan, before: Mapping[str, DatedFiles[QueryClasses]]
) -> dict[str, DatedFiles[QueryClasses]]:
    """Those of a lane that goes to this plan, by attribute: one that was derived by files before
    goes on with them."""
    return {
        one.attribute: replace(before.get(one.attribute, DatedFiles()))
        for one in plan.derivations
        if one.by_files
    }


def optional_rows_of(plan: Plan) -> dict[str, OptionalRows]:
    """Those of a lane that begins, by measure."""
    if plan.judged is None:
        return {}
    return {BY_JUDGEMENTS: judged_rows_of(plan.judged, plan.timing)}


COUNT_FAMILIES: Final = (
    "events",  # impression, feedback
    "rejected",  # by reason
    "dropped_values",  # by reason: readers split them off the rejected ones
    "impression_outcomes",
    "feedback_outcomes",
    "segment_overflow",  # by grouping
    "experiment_overflow",  # by what was not admitted: experiment, variant
    "gap_records",  # by topic: records that the log lost before they were read
    "ahead_events",  # by topic: events too far ahead of the watermark to move it alone
    "replaced_logs",  # by topic: other logs that lanes began, as an operator permitted
    "judged_late",  # impression, page: of a judged query, and too late for judged rows
    "skipped",  # by topic and reason, as `skip_label` writes them: what mappings leave out
    "behind_lift",  # by topic: events that are not after the lift of their log
)
IMPRESSION_OUTCOMES: Final = (
    "accepted",
    "duplicate",
    "filled",
    "extended",
    "conflicting",
    "late",
    "later_page",
)
FEEDBACK_OUTCOMES: Final = (
    "joined",
    "rank_mismatch",
    "out_of_window",
    "beyond_depth",
    "off_list",
    "unjoined",
    "late",
    "ignored_kind",
)
"""`rank_mismatch` is counted in addition to `joined`; each event has exactly one of the others."""
TOUCH_OUTCOMES: Final = ("joined_last_touch", "unknown_visitor", "crowded_visitor")
"""Counted in addition to `joined`; to `unjoined` where no impression of the visitor was there to
choose; and to `unjoined` where there were more than last touch looks at."""
COUNTED_BESIDE: Final = ("rank_mismatch", *TOUCH_OUTCOMES)
"""What of feedback is counted in addition to its one outcome."""


def skip_label(log: str, reason: str) -> str:
    """Return the label under which `skipped` counts. Reasons have no slash."""
    return f"{log}/{reason}"


def topic_and_reason(label: str) -> tuple[str, str]:
    """Return the topic and the reason in a label of `skipped`."""
    log, _, reason = label.rpartition("/")
    return topic_of(log), reason


@dataclass
class BatchChanges:
    """What one batch changed: the part of the state that the next commit must write."""

    panes: "array[int]" = field(default_factory=lambda: array("q"))
    """Base pane of each change of an impression's state; the three columns below go with it."""
    combinations: "array[int]" = field(default_factory=lambda: array("i"))
    before: "array[int]" = field(default_factory=lambda: array("i"))
    after: "array[int]" = field(default_factory=lambda: array("i"))
    delays: list[tuple[int, int, int | None, int]] = field(default_factory=list)
    """(base pane, combination, delay of the first feedback before in ms, and after)."""
    slots: "array[int]" = field(default_factory=lambda: array("q"))
    """Slots of impressions whose state or grades changed, once for each change: duplicates are
    dropped when the commit is planned, all at once."""
    relisted: set[int] = field(default_factory=set)
    """Slots of impressions whose list changed too."""
    bound: set[int] = field(default_factory=set)
    """Serials of waiting feedback whose impression came, but not its item."""
    joined: dict[int, int] = field(default_factory=dict)
    """Serial of waiting feedback that joined → the watermark at which it would have expired."""
    total_pages: set[int] = field(default_factory=set)

    def add(self, pane: int, combination: int, before: int, after: int) -> None:
        """Note that an impression of this pane and combination changed its gain state."""
        self.panes.append(pane)
        self.combinations.append(combination)
        self.before.append(before)
        self.after.append(after)

    def add_many(
        self, panes: Integers, combinations: Integers, before: Integers, after: Integers
    ) -> None:
        """Note the same of many impressions, (n,) of each."""
        self.panes.frombytes(panes.astype(np.int64).tobytes())
        self.combinations.frombytes(combinations.astype(np.int32).tobytes())
        self.before.frombytes(before.astype(np.int32).tobytes())
        self.after.frombytes(after.astype(np.int32).tobytes())


@dataclass
class Lane(RowSet):
    """The memory of one lane, with the rows of clicks. The watermarks of its logs are None until
    their first event."""

    number: int
    plan: Plan
    watermarks: dict[str, int | None]
    pending: dict[str, Pending]
    """What of each log is ahead of its watermark, and not confirmed."""
    offsets: dict[str, int]
    """Next offset to read, per log."""
    open: OpenImpressions
    waiting: WaitingFeedback
    segments: LaneSegments
    admissions: dict[str, Admission]
    states: GainStates
    totals: PagedRows
    settled_before: int | None
    """The base panes that start before this instant have settled; None while there is no
    watermark."""
    counts: dict[str, Counter[str]]
    texts: AttributeTexts
    timed_from: int = 0
    """The first slot of which delays are known: no metric needed those of earlier impressions."""
    groupings: list[tuple[str, ...]] = field(default_factory=list)
    """By grouping id less one: all that the lane ever had, so that names keep their meaning."""
    assignments: Assignments = field(default_factory=Assignments)
    experiments: Experiments = field(default_factory=Experiments)
    queries: LaneQueries | None = None
    """The tables of queries; None where none are kept."""
    optional_rows: dict[str, OptionalRows] = field(default_factory=dict)
    """By measure, of those that the plan asks for."""
    class_files: dict[str, DatedFiles[QueryClasses]] = field(default_factory=dict)
    """By attribute that is derived by files."""
    changes: BatchChanges = field(default_factory=BatchChanges)
    joins: list[tuple[tuple[object, ...], str, int]] | None = None
    """Where somebody asks: (time, kind, item, rank and grade of feedback, id and time of the
    impression that it joined), of feedback that is joined one by one."""
    is_one: bool = False
    """Whether it has all partitions of its topics, or events of all."""
    chain: Chain | None = None
    """Of a lane whose events a stage sends: its logs are then the sources of the stage."""
    lifts: dict[str, int] = field(default_factory=dict)
    """Log → the watermark that its records meet at least: of those that were not waited for."""
    origins: SlotOrigins = field(default_factory=SlotOrigins)
    """From which logs the open impressions came that this process accepted."""
    split_ids: int = 0
    """Impressions, since this was last reported, of which another log had brought a record."""
    mapped_records: Counter[str] = field(default_factory=Counter)
    """Log → records that a mapping read since this was last reported: how the process works, and
    no part of the lane's counts."""
    mapped_slowly: Counter[str] = field(default_factory=Counter)
    """Log → those of them that were decoded in full."""

    @property
    def watermark_ms(self) -> int | None:
        """The event time up to which the lane is believed complete: the least of its logs'."""
        return lane_watermark_ms(self.watermarks, self.lifts)

    def met_ms(self, log: str, watermark: int | None, time_ms: int) -> int | None:
        """The watermark that an event of this time meets in a log whose own is this. In a lane that
        lifts logs it meets at least its own time: so no lift before that makes a difference."""
        if not self.is_one:
            return watermark
        return max(time_ms, watermark or 0, self.lifts.get(log, 0))

    def moved_ms(self, log: str, watermark: int | None, event: Event) -> int | None:
        """The watermark of a log after an event. Where a stage sends events, it alone moves it."""
        if self.chain is not None:
            return watermark
        return moved(watermark, self.pending[log], event.identity, event.time_ms)

    def begin_log(self, log: str) -> None:
        """Begin a log of which nothing is known yet."""
        self.watermarks[log], self.pending[log] = None, Pending()
        self.admissions[log] = Admission.empty(self.plan)

    @property
    def has_its_files(self) -> bool:
        """Whether it was given the files by which the next batch is judged and classed."""
        files: list[DatedFiles[Any]] = [*self.class_files.values()]
        files += [] if self.judged is None else [self.judged.files]
        return all(each.contents is not None for each in files)

    def start_batch(self) -> None:
        """Forget what the last batch changed, which is durable by now."""
        self.changes = BatchChanges()
        self.experiments.start_batch()
        if self.queries is not None:
            self.queries.start_batch()
        for rows in self.row_sets.values():
            rows.start_rows(self.settled_before, self.plan)
        for admission in self.admissions.values():
            admission.changed = False

    def add_left_behind(
        self, hour: int, segments: Integers, sums: Rows, settled_before: int, plan: Plan
    ) -> None:
        """Add them to the totals too."""
        super().add_left_behind(hour, segments, sums, settled_before, plan)
        self.changes.total_pages |= self.totals.add(segments, sums)

    @property
    def row_sets(self) -> Mapping[str, RowSet]:
        """The rows of every measure, by its name."""
        return {BY_FEEDBACK: self, **self.optional_rows}

    @property
    def judged(self) -> LaneJudged | None:
        """The judged rows; None where nothing is judged."""
        return cast("LaneJudged | None", self.optional_rows.get(BY_JUDGEMENTS))

    @property
    def has_lost_hours(self) -> bool:
        """Whether the next commit removes hours of which the store lost a part."""
        queries = self.queries
        of_queries = queries is not None and bool(queries.dropped or queries.examples.dropped)
        return of_queries or any(rows.dropped_hours for rows in self.row_sets.values())

    @property
    def query_keys(self) -> QueryKeys | None:
        """The keys of the queries of open impressions; None where they are not kept."""
        if self.queries is not None:
            return self.queries.keys
        return None if self.judged is None else self.judged.keys

    def forget_unused(self) -> None:
        """Keep the tables of what traffic repeats from growing for ever. Between batches."""
        if self.states.is_full:
            self.forget_unused_states()
        if self.assignments.is_full:
            self.forget_unused_assignments()
        if self.segments.is_full:
            self.forget_unused_combinations()
        if self.query_keys is not None and self.query_keys.is_full:
            self.forget_unused_queries()

    def forget_unused_states(self) -> None:
        """Keep only the gain states of open impressions. Between batches: changes contain ids."""
        assert not self.changes.panes
        old, new = self.states, GainStates(self.plan)
        ids = new_column(self.open.states)
        self._renumber(ids, len(old), lambda n: new.id_of(old[n], old.surface_id_of(n)))
        new.reserve()
        self.states = new

    def forget_unused_assignments(self) -> None:
        """Keep only the assignments of open impressions."""
        columns = self.open.subjects
        assert columns is not None
        old, new = self.assignments, Assignments()
        self._renumber(columns.assignment_ids(), len(old), lambda n: new.id_of(old[n]))
        new.reserve()
        self.assignments = new

    def forget_unused_queries(self) -> None:
        """Keep only the keys of queries of open impressions."""
        old, new = self.query_keys, QueryKeys()
        assert old is not None and self.open.searches is not None
        ids = self.open.searches.numbers()
        self._rename(ids, len(old), lambda used: new.take(old, used))
        new.reserve()
        if self.queries is not None:
            self.queries.keys = new
        elif self.judged is not None:
            self.judged.keys = new

    def forget_unused_combinations(self) -> None:
        """Keep only the combinations of open impressions. Between batches: changes contain ids."""
        assert not self.changes.panes
        ids = new_column(self.open.combinations)
        ids[:] = self.segments.keep_combinations(self._used(ids))[ids]
        for admission in self.admissions.values():
            admission.forget_combinations()

    def _used(self, ids: Numbers) -> Integers:
        """The distinct ids of open impressions in a column, ascending."""
        return distinct(ids[np.frombuffer(self.open.is_open, np.bool_)]).astype(np.int64)

    def _renumber(self, ids: Numbers, size: int, new_id: Callable[[int], int]) -> None:
        """Replace the ids, below `size`, of open impressions in a column by others that are no
        larger, so that the column stays as narrow; those of closed impressions mean nothing."""
        self._rename(ids, size, lambda used: [new_id(old_id) for old_id in used.tolist()])

    def _rename(
        self, ids: Numbers, size: int, new_ids: Callable[[Integers], Sequence[int] | Integers]
    ) -> None:
        """The same, by a function of all ids that are used, ascending."""
        used = self._used(ids)
        renamed = np.zeros(size, np.int32)
        renamed[used] = new_ids(used)
        ids[:] = renamed[ids]

    def count(self, family: str, label: str, amount: int = 1) -> None:
        """Add to a count. It must follow from the log alone, so that reading it again counts the
        same."""
        self.counts[family][label] += amount

    def count_rejected(self, topic: str, rejected: Rejected) -> None:
        """Count something that was read and is no event."""
        if isinstance(rejected, Skipped):
            self.count("skipped", skip_label(topic, rejected.reason))
        else:
            self.count("rejected", rejected.reason)


def _columns_of(plan: Plan) -> SubjectColumns | None:
    return None if plan.tracking is None else SubjectColumns(len(plan.tracking.units))


def new_lane(number: int, plan: Plan, offsets: dict[str, int], topics: Sequence[str]) -> Lane:
    """A lane that has seen nothing, about to read from these offsets."""
    lane = Lane(
        number=number,
        plan=plan,
        watermarks={},
        pending={},
        offsets=dict(offsets),
        is_one=plan.rekeyed or any(topic_of(log) != log for log in topics),
        chain=Chain() if plan.rekeyed else None,
        open=OpenImpressions(
            columns=_columns_of(plan),
            searches=None if plan.searches is None else SearchColumns(),
            touches=None if plan.touch_ms is None else TouchColumns(),
        ),
        waiting=WaitingFeedback(),
        segments=LaneSegments(),
        admissions={},
        states=GainStates(plan),
        width=plan.row_width,
        totals=PagedRows(plan.row_width),
        settled_before=None,
        counts={family: Counter() for family in COUNT_FAMILIES},
        texts=AttributeTexts(plan),
        groupings=list(plan.groupings),
        queries=queries_of(plan),
        optional_rows=optional_rows_of(plan),
        class_files=class_files_under(plan, {}),
    )
    for log in topics:
        lane.begin_log(log)
    if lane.chain is not None and any(offsets.values()):
        lane.chain.note_gap()
    return lane


BEFORE = "\\before"
"""The segment of a grouping that has what was counted before the lane had the grouping, so that its
segments sum to the whole. No value is escaped like this, and it is never shown."""
