"""A stored lane against the one that its log proves. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ...lane.counts import COUNT_FAMILIES
from ...lane.lane import Lane
from ...exporter.coverage import ALWAYS
from ...plan import Plan
from .differences import Difference, Differences
from .judged_rows import JudgedComparison
from .query_tables import QueryComparison
from .row_sets import RowsComparison
from .rows import Matching, columns_of
from .stored import Stored
from .tallies import integers_of, users_apart

BY_OPERATION: Final = ("gap_records", "replaced_logs", "judged_late")
"""Families of counts that say what happened to a worker, or follow from files of judgements: they
do not follow from the log alone."""
OVERFLOW: Final = "experiment_overflow"
SEGMENT_OVERFLOW: Final = "segment_overflow"
ROWS_ONLY: Final = (
    "the log no longer has all records of the lane: totals, counts and experiments cannot be"
    " proven, and of a grouping with more values than are admitted only the sum over its segments"
)
RECONFIGURED: Final = (
    "the experiments were configured anew since the lane began: undeclared experiments, and what"
    " was not admitted, cannot be proven"
)
BY_FILES: Final = (
    "which query has which class follows from files, and not from the log: of a grouping by such"
    " classes only the sum over its segments is compared"
)
STRATIFIED: Final = "is stratified by classes that follow from files, so it is not compared"
CHANGED: Final = (
    "the lane went to another layout: metrics, groupings and windows are compared from where each"
    " of them begins, and not in the totals"
)


@dataclass
class Comparison:
    """What was compared of one lane so far."""

    stored: Stored
    proven: Lane
    """It goes on being written to between the calls."""
    is_whole: bool
    """Whether the log has every record of the lane."""
    differences: Differences = field(default_factory=Differences)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._plan: Plan = self.proven.plan
        matching = Matching(self.stored.names, self.proven.segments.names)
        overflow = self.stored.head.counts.get(SEGMENT_OVERFLOW, {})
        names = self._plan.grouping_names
        crowded = {index for index, name in enumerate(names) if overflow.get(name)}
        # Which values were admitted before the first record that is left is not known.
        self._by_files = frozenset(_groupings_by_files(self._plan))
        self._summed = self._by_files.union(() if self.is_whole else crowded)
        by = None if self._plan.queries is None else self._plan.queries.by
        is_crowded = by is not None and names.index(by) in self._summed
        self.queries = QueryComparison(self.stored, self._plan, is_crowded, self.differences)
        coverage, names_of_proven = self.stored.coverage, self.proven.segments.names
        self.rows = RowsComparison(
            measure="",
            plan=self._plan,
            head=self.stored.head,
            stored=(self.stored.panes, self.stored.hours),
            columns=columns_of(self._plan),
            matching=matching,
            summed=self._summed,
            differences=self.differences,
            hours_from=coverage.hours,
            panes_from=coverage.windows,
            lost_hours=self.stored.head.state.lost_hours,
            unpacked=self.stored.rows,
            covered=lambda pages, start: self.stored.covered(pages, names_of_proven, start),
        )
        self.judged = JudgedComparison(
            self.stored, self._plan, matching, self._summed, self.differences
        )

    @property
    def panes(self) -> int:
        """How many panes were compared."""
        return self.rows.panes

    @property
    def hours(self) -> int:
        """How many hours were."""
        return self.rows.hours

    def past_hours(self, lane: Lane, first_ms: int | None) -> None:
        """Compare the hours that cannot change any more; see `Watching`."""
        self.rows.past_hours(lane, lane.settled_before, first_ms)
        self.queries.past_hours(lane, first_ms)
        self.judged.past_hours(lane, first_ms)

    def finish(self, first_ms: int | None) -> None:
        """Compare all that is left, once the lane has read up to the stored offsets."""
        self.rows.finish(self.proven, first_ms)
        if not self.stored.coverage.is_whole:
            self.notes.append(CHANGED)
        if self._by_files:
            self.notes.append(BY_FILES)
        self.queries.finish(self.proven, first_ms)
        self.notes += self.queries.notes
        self.judged.finish(self.proven, first_ms)
        self.notes += self.judged.notes
        if first_ms is not None:
            self._watermarks()
        if not self.is_whole:
            self.notes.append(ROWS_ONLY)
            return
        stored = self.stored.rows(self.stored.totals, None, ALWAYS)
        at = partial(Difference, "totals")
        self.rows.compare(at, stored, self.proven.totals.pages, ALWAYS)
        self._experiments()

    def _watermarks(self) -> None:
        stored, proven = self.stored.head.watermarks, self.proven.watermarks
        for topic in sorted(stored.keys() | proven.keys()):
            pair = stored.get(topic), proven.get(topic)
            self.differences.compared += 1
            if pair[0] != pair[1]:
                self.differences.note([Difference("watermark", topic, *pair)], 1)

    def _experiments(self) -> None:
        """Compare experiments and counts: what was not admitted of the former is among them."""
        tracking, known = self._plan.tracking, self.stored.head.state.experiments
        reconfigured = any(entry.since_ms is not None for entry in known)
        if reconfigured:
            self.notes.append(RECONFIGURED)
        for family in COUNT_FAMILIES:
            if family not in BY_OPERATION and not (reconfigured and family == OVERFLOW):
                stored = self._prefixed(family, self.stored.head.counts.get(family, {}))
                proven = self._prefixed(family, self.proven.counts[family])
                self.differences.compare("count", stored, proven)
        if tracking is None:
            return
        proven_by_name = self.proven.experiments.by_name
        for name in sorted(self.stored.experiments.keys() | proven_by_name.keys()):
            spec = tracking.spec(name)
            if spec is not None and (spec.declared or not reconfigured):
                self._experiment(name, spec.digest)

    def _prefixed(self, family: str, counts: Mapping[str, int]) -> dict[str, int]:
        left_out = {self._plan.grouping_names[index] for index in self._by_files}
        left_out = left_out if family == SEGMENT_OVERFLOW else set()
        kept = (pair for pair in counts.items() if pair[0] not in left_out)
        return {f"{family} {label}": count for label, count in kept}

    def _experiment(self, name: str, digest: str) -> None:
        tracking = self._plan.tracking
        spec = None if tracking is None else tracking.spec(name)
        stored = self.stored.experiments.get(name)
        proven = self.proven.experiments.by_name.get(name)
        if spec is None or (stored is not None and stored.digest != digest):
            self.notes.append(f"experiment {name}: was counted under another configuration of it")
            return
        if spec.stratify_by in {self._plan.grouping_names[index] for index in self._by_files}:
            self.notes.append(f"experiment {name}: {STRATIFIED}")
            return
        pair = [{} if one is None else integers_of(name, one, spec) for one in (stored, proven)]
        self.differences.compare("experiment", *pair)
        self.differences.compare("experiment", *users_apart(name, stored, proven))


def _groupings_by_files(plan: Plan) -> Iterator[int]:
    """The indices of groupings whose segments follow from files of classes."""
    by_files = {one.attribute for one in plan.derivations if one.by_files}
    for index, attributes in enumerate(plan.groupings, start=1):
        if not by_files.isdisjoint(attributes):
            yield index
