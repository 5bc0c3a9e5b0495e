"""A stored lane against the one that its log proves. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ...events.timestamps import timestamp_text
from ...lane import hours
from ...lane.counts import COUNT_FAMILIES
from ...lane.lane import Lane
from ...lane.paged_rows import PagedRows, Pages
from ...exporter.coverage import ALWAYS
from ...plan import Plan
from .differences import Difference, Differences
from .judged_rows import JudgedComparison
from .query_tables import QueryComparison
from .rows import Matching, Unequal, beside, columns_of
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
    panes: int = 0
    hours: int = 0
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._plan: Plan = self.proven.plan
        self._matching = Matching(self.stored.names, self.proven.segments.names)
        self._columns = columns_of(self._plan)
        self._compared_hours: set[int] = set()
        overflow = self.stored.head.counts.get(SEGMENT_OVERFLOW, {})
        names = self._plan.grouping_names
        crowded = {index for index, name in enumerate(names) if overflow.get(name)}
        # Which values were admitted before the first record that is left is not known.
        self._by_files = frozenset(_groupings_by_files(self._plan))
        self._summed = self._by_files.union(() if self.is_whole else crowded)
        by = None if self._plan.queries is None else self._plan.queries.by
        is_crowded = by is not None and names.index(by) in self._summed
        self.queries = QueryComparison(self.stored, self._plan, is_crowded, self.differences)
        self.judged = JudgedComparison(
            self.stored, self._plan, self._matching, self._summed, self.differences
        )

    def past_hours(self, lane: Lane, first_ms: int | None) -> None:
        """Compare the hours that cannot change any more; see `Watching`."""
        if lane.settled_before is not None:
            still_open = hours.open_hour(lane.settled_before, self._plan)
            for start in [start for start in lane.hours if start < still_open]:
                self._hour(start, lane.hours[start].pages, first_ms)
        self.queries.past_hours(lane, first_ms)
        self.judged.past_hours(lane, first_ms)

    def _hour(self, start: int, proven: Pages, first_ms: int | None) -> None:
        self._compared_hours.add(start)
        head = self.stored.head.state
        lost, before = start in head.lost_hours, head.settled_before
        kept = before is not None and start >= hours.kept_from(before, self._plan)
        if (
            lost
            or not kept
            or first_ms is None
            or start < max(first_ms, self.stored.coverage.hours)
        ):
            return
        self.hours += 1
        at = partial(Difference, "hour", start=timestamp_text(start))
        self._rows(at, self.stored.hour(start), proven, start)

    def finish(self, first_ms: int | None) -> None:
        """Compare all that is left, once the lane has read up to the stored offsets."""
        for start, rows in self.proven.hours.items():
            self._hour(start, rows.pages, first_ms)
        for start in sorted(self.stored.hours.keys() - self._compared_hours):
            self._hour(start, {}, first_ms)
        if not self.stored.coverage.is_whole:
            self.notes.append(CHANGED)
        if self._by_files:
            self.notes.append(BY_FILES)
        self.queries.finish(self.proven, first_ms)
        self.notes += self.queries.notes
        self.judged.finish(self.proven, first_ms)
        self.notes += self.judged.notes
        if first_ms is not None:
            self._panes(first_ms)
            self._watermarks()
        if not self.is_whole:
            self.notes.append(ROWS_ONLY)
            return
        stored = self.stored.rows(self.stored.totals, ALWAYS)
        self._rows(partial(Difference, "totals"), stored, self.proven.totals.pages, ALWAYS)
        self._experiments()

    def _panes(self, first_ms: int) -> None:
        empty, windows = PagedRows(self._plan.row_width), self._plan.timing.windows
        for key in sorted(self.stored.panes.keys() | self.proven.panes.keys()):
            window, start = key
            if start >= max(first_ms, self.stored.coverage.windows[window]):
                self.panes += 1
                name = windows[window].name
                at = partial(Difference, "pane", start=timestamp_text(start), window=name)
                proven = self.proven.panes.get(key, empty).pages
                stored = self.stored.rows(self.stored.panes.get(key, {}), start)
                self._rows(at, stored, proven, start)

    def _rows(self, at: "partial[Difference]", stored: Pages, proven: Pages, start: int) -> None:
        proven = self.stored.covered(proven, self.proven.segments.names, start)
        compared = beside(self._matching, stored, proven, self._plan.row_width)
        count, unequal = compared.unequal(self._summed)
        self.differences.compared += compared.stored.size
        self.differences.note(self._named(at, unequal), count)

    def _named(self, at: "partial[Difference]", found: Iterator[Unequal]) -> Iterator[Difference]:
        names = self._plan.grouping_names
        for one in found:
            yield at(
                self._columns[one.column],
                one.stored,
                one.proven,
                grouping=names[one.grouping] if one.grouping >= 0 else None,
                segment="(all together)" if one.segment is None else one.segment,
            )

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
