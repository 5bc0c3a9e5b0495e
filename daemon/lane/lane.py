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

from ..experiments.tallies import Experiments
from ..panes import PaneKey
from ..plan import Plan
from . import hours
from .admission import Admission
from .attribute_texts import AttributeTexts
from .columns.column import Numbers, column
from .counts import COUNT_FAMILIES
from .gain_states import GainStates
from .open_impressions import OpenImpressions
from .paged_rows import PagedRows
from .segments import Segments
from .subjects import Assignments, SubjectColumns
from .waiting_feedback import WaitingFeedback


@dataclass
class BatchChanges:
    """What one batch did: the part of the state that the next commit must write."""

    panes: "array[int]" = field(default_factory=lambda: array("q"))
    """Base pane of each change of an impression's state; the three columns below go with it."""
    combinations: "array[int]" = field(default_factory=lambda: array("i"))
    before: "array[int]" = field(default_factory=lambda: array("i"))
    after: "array[int]" = field(default_factory=lambda: array("i"))
    delays: list[tuple[int, int, int | None, int]] = field(default_factory=list)
    """(base pane, combination, delay of the first feedback before in ms, and after)."""
    slots: "array[int]" = field(default_factory=lambda: array("q"))
    """Impressions whose state or grades changed, as often as they did."""
    relisted: set[int] = field(default_factory=set)
    """Those of them whose list changed too."""
    bound: set[int] = field(default_factory=set)
    """Waiting feedback that found its impression, but not its item."""
    joined: dict[int, int] = field(default_factory=dict)
    """Waiting feedback that joined, with the watermark at which it would have died."""
    pages: set[tuple[PaneKey, int]] = field(default_factory=set)
    """Pages of rows that changed."""
    total_pages: set[int] = field(default_factory=set)
    hour_pages: set[tuple[int, int]] = field(default_factory=set)
    """(start of the hour, page) of hourly rows that changed."""
    dropped: list[tuple[PaneKey, int]] = field(default_factory=list)
    """Pages of panes that are no longer kept."""
    dropped_hours: list[tuple[int, int]] = field(default_factory=list)
    """Pages of hours that are no longer kept."""

    def add(self, pane: int, combination: int, before: int, after: int) -> None:
        """One impression of this pane and combination went from one gain state to another."""
        self.panes.append(pane)
        self.combinations.append(combination)
        self.before.append(before)
        self.after.append(after)

    def add_many(
        self, panes: Integers, combinations: Integers, before: Integers, after: Integers
    ) -> None:
        """The same of many impressions, (n,) of each."""
        self.panes.frombytes(panes.astype(np.int64).tobytes())
        self.combinations.frombytes(combinations.astype(np.int32).tobytes())
        self.before.frombytes(before.astype(np.int32).tobytes())
        self.after.frombytes(after.astype(np.int32).tobytes())


@dataclass
class Lane:
    """The memory of one lane. Its topics' watermarks are None until their first event."""

    number: int
    plan: Plan
    watermarks: dict[str, int | None]
    offsets: dict[str, int]
    """Next offset to read, per topic."""
    open: OpenImpressions
    waiting: WaitingFeedback
    segments: Segments
    admissions: dict[str, Admission]
    states: GainStates
    panes: dict[PaneKey, PagedRows]
    totals: PagedRows
    settled_before: int | None
    """Base panes that start before this instant have been added to the totals; None while there is
    no watermark."""
    counts: dict[str, Counter[str]]
    texts: AttributeTexts
    assignments: Assignments = field(default_factory=Assignments)
    experiments: Experiments = field(default_factory=Experiments)
    hours: dict[int, PagedRows] = field(default_factory=dict)
    """Rows of the hours that can still change, or whose changes are not durable yet."""
    stored_hours: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """The pages that are stored of the hours before them."""
    changes: BatchChanges = field(default_factory=BatchChanges)

    @property
    def watermark_ms(self) -> int | None:
        """The event time up to which the lane is believed complete: the least of its topics'."""
        marks = [mark for mark in self.watermarks.values() if mark is not None]
        return min(marks) if len(marks) == len(self.watermarks) else None

    def start_batch(self) -> None:
        """Forget what was changed: it is durable, or nobody wants it to be."""
        self.changes = BatchChanges()
        self.experiments.start_batch()
        if self.settled_before is not None:
            still_open = hours.open_hour(self.settled_before, self.plan)
            for start in [start for start in self.hours if start < still_open]:
                self.stored_hours[start] = self.hours.pop(start).page_numbers
        for admission in self.admissions.values():
            admission.changed = False

    def forget_old_states(self) -> None:
        """Keep the gain states in use only. Between batches: what changed is told in numbers."""
        assert not self.changes.panes
        known, fresh = self.states, GainStates(self.plan)
        self._renumber(
            column(self.open.states),
            len(known),
            lambda n: fresh.id_of(known[n], known.surface_id_of(n)),
        )
        fresh.leave_room()
        self.states = fresh

    def forget_old_assignments(self) -> None:
        """Keep the assignments of open impressions only."""
        columns = self.open.subjects
        assert columns is not None
        known, fresh = self.assignments, Assignments()
        self._renumber(columns.assignment_ids(), len(known), lambda n: fresh.id_of(known[n]))
        fresh.leave_room()
        self.assignments = fresh

    def forget_old_combinations(self) -> None:
        """Keep the combinations in use only. Between batches, for the same reason."""
        assert not self.changes.panes
        numbers = column(self.open.combinations)
        numbers[:] = self.segments.keep_combinations(self._used(numbers))[numbers]
        for admission in self.admissions.values():
            admission.forget_combinations()

    def _used(self, numbers: Numbers) -> Integers:
        """Those of a column that open impressions hold, each once."""
        return distinct(numbers[np.frombuffer(self.open.is_open, np.bool_)]).astype(np.int64)

    def _renumber(self, numbers: Numbers, size: int, number_of: Callable[[int], int]) -> None:
        """Give the numbers in use, below `size`, others that are no larger; those of closed
        impressions mean nothing."""
        used = self._used(numbers)
        renamed = np.zeros(size, np.int32)
        renamed[used] = [number_of(number) for number in used.tolist()]
        numbers[:] = renamed[numbers]

    def forget_what_is_over(self) -> None:
        """Keep the tables of what traffic repeats from growing for ever. Between batches."""
        if self.states.is_full:
            self.forget_old_states()
        if self.assignments.is_full:
            self.forget_old_assignments()
        if self.segments.is_full:
            self.forget_old_combinations()

    def count(self, family: str, label: str, amount: int = 1) -> None:
        """Count something that a reader of the log can count again."""
        self.counts[family][label] += amount


def _columns_of(plan: Plan) -> SubjectColumns | None:
    return None if plan.tracking is None else SubjectColumns(len(plan.tracking.units))


def new_lane(number: int, plan: Plan, offsets: dict[str, int], topics: Sequence[str]) -> Lane:
    """A lane that has seen nothing, about to read from these offsets."""
    return Lane(
        number=number,
        plan=plan,
        watermarks={topic: None for topic in topics},
        offsets=dict(offsets),
        open=OpenImpressions(columns=_columns_of(plan)),
        waiting=WaitingFeedback(),
        segments=Segments(),
        admissions={topic: Admission.empty(plan) for topic in topics},
        states=GainStates(plan),
        panes={},
        totals=PagedRows(plan.row_width),
        settled_before=None,
        counts={family: Counter() for family in COUNT_FAMILIES},
        texts=AttributeTexts(plan),
    )
