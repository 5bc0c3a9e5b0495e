"""Everything that one lane is: the state that a commit makes durable, and what a batch changed of
it.

Pure data. `attribution` applies events to it, `scoring` turns the changes into rows, `settling`
adds settled rows to the totals, `storage` writes it down.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from relevanced.metrics.arithmetic import distinct
from relevanced.metrics.lists import Integers

from ..events.types import Rejected, Skipped
from ..experiments.tallies import Experiments
from ..plan import Plan
from .admission import Admission
from .attribute_texts import AttributeTexts
from .class_files import ClassFiles, class_files_of
from .columns.column import Numbers, column
from .counts import COUNT_FAMILIES, skip_label
from .gain_states import GainStates
from .judged_rows import LaneJudged, judged_rows_of
from .open_impressions import OpenImpressions
from .paged_rows import PagedRows
from .queries import LaneQueries, queries_of
from .query_keys import QueryKeys
from .row_set import RowSet
from .searches import SearchColumns
from .segments import Segments
from .subjects import Assignments, SubjectColumns
from .waiting_feedback import WaitingFeedback
from .watermarks import Pending


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
    """The memory of one lane, with the rows of clicks. Its topics' watermarks are None until their
    first event."""

    number: int
    plan: Plan
    watermarks: dict[str, int | None]
    pending: dict[str, Pending]
    """What of each topic is ahead of its watermark, and not confirmed."""
    offsets: dict[str, int]
    """Next offset to read, per topic."""
    open: OpenImpressions
    waiting: WaitingFeedback
    segments: Segments
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
    judged: LaneJudged | None = None
    """The judged rows; None where nothing is judged."""
    class_files: dict[str, ClassFiles] = field(default_factory=dict)
    """By attribute that is derived by files."""
    changes: BatchChanges = field(default_factory=BatchChanges)
    mapped_records: Counter[str] = field(default_factory=Counter)
    """Topic → records that a mapping read since this was last reported: how the process works, and
    no part of the lane's counts."""
    mapped_slowly: Counter[str] = field(default_factory=Counter)
    """Topic → those of them that were decoded in full."""

    @property
    def watermark_ms(self) -> int | None:
        """The event time up to which the lane is believed complete: the least of its topics'."""
        marks = [mark for mark in self.watermarks.values() if mark is not None]
        return min(marks) if len(marks) == len(self.watermarks) else None

    @property
    def has_its_files(self) -> bool:
        """Whether it was given the files by which the next batch is judged and classed."""
        is_judged = self.judged is None or self.judged.timeline is not None
        return is_judged and all(one.classes is not None for one in self.class_files.values())

    def start_batch(self) -> None:
        """Forget what the last batch changed, which is durable by now."""
        self.changes = BatchChanges()
        self.experiments.start_batch()
        if self.queries is not None:
            self.queries.start_batch()
        for rows in self.row_sets:
            rows.start_rows(self.settled_before, self.plan)
        for admission in self.admissions.values():
            admission.changed = False

    @property
    def row_sets(self) -> tuple[RowSet, ...]:
        """The rows of every measure: of clicks, and of judgements if there are any."""
        return (self,) if self.judged is None else (self, self.judged)

    @property
    def has_lost_hours(self) -> bool:
        """Whether the next commit removes hours of which the store lost a part."""
        queries = self.queries
        of_queries = queries is not None and bool(queries.dropped or queries.examples.dropped)
        return of_queries or any(rows.dropped_hours for rows in self.row_sets)

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
        ids = column(self.open.states)
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
        ids = column(self.open.combinations)
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
    return Lane(
        number=number,
        plan=plan,
        watermarks={topic: None for topic in topics},
        pending={topic: Pending() for topic in topics},
        offsets=dict(offsets),
        open=OpenImpressions(
            columns=_columns_of(plan), searches=None if plan.searches is None else SearchColumns()
        ),
        waiting=WaitingFeedback(),
        segments=Segments(),
        admissions={topic: Admission.empty(plan) for topic in topics},
        states=GainStates(plan),
        width=plan.row_width,
        totals=PagedRows(plan.row_width),
        settled_before=None,
        counts={family: Counter() for family in COUNT_FAMILIES},
        texts=AttributeTexts(plan),
        groupings=list(plan.groupings),
        queries=queries_of(plan),
        judged=judged_rows_of(plan),
        class_files=class_files_of(plan),
    )
