"""A stored lane against the one that its log proves: the sink of `verify`. Pure.

Hours are compared as soon as they cannot change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from ...events import Decoder, timestamp_text
from ...experiments import Tracking
from ...lane import (
    COUNT_FAMILIES,
    Lane,
    LaneQueries,
    Since,
    begin_at,
    new_lane,
    since_the_beginning,
)
from ...plan import BY_JUDGEMENTS, Plan
from ...storage import QueryHead
from ...views import ALWAYS
from ..driver import Settled
from ..log_replay import LogReplay
from ..lost_beginning import LostBeginning
from .differences import (
    Difference,
    Differences,
    Matching,
    columns_of,
    integers_of,
    users_apart,
    without_strata,
)
from .files import NO_DIRECTORY, Classes, Classing, Files, Grading
from .open_state import OpenComparison
from .outcomes import MAY_HAVE_GONE, NEVER_COMPARED, NOTHING_PROVEN, Outcome
from .queries import QueryComparison
from .rows import OPTIONAL_MEASURES, OptionalComparison, RowsComparison
from .stored import StoredLane

BY_OPERATION: Final = ("gap_records", "replaced_logs", "behind_lift")
"""Families of counts that say what happened to a worker: they do not follow from the log."""
NO_FILES: Final[Files[Any]] = Files()
JUDGED_LATE: Final = "judged_late"
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
FROM_CLASSES: Final = "follows from classes that are not known, so it is not compared"
CROWDED: Final = (
    "experiment {}: had more variants than are counted before those of now were planned, so it and"
    " what was not admitted cannot be proven"
)
OTHERWISE: Final = "experiment {}: was counted under another configuration of it"
CHANGED: Final = (
    "the lane went to another layout, or began anew after a loss: metrics, groupings and windows"
    " are compared from where each of them begins, and not in the totals; of a grouping with more"
    " values than are admitted only the sum over its segments is, and what was not admitted is not"
)

ADMITTED_OTHERWISE: Final = (
    "the lane had another longest window, or another segments.max_values: which values were"
    " admitted, and when they were last seen, is not compared; of a grouping with more values than"
    " are admitted only the sum over its segments is, and what was not admitted is not"
)


@dataclass
class LaneComparison:
    """What was compared of one lane so far."""

    stored: StoredLane
    proven: Lane
    """It goes on being written to between the calls."""
    is_whole: bool
    """Whether the log has every record of the lane."""
    classes: Classes
    differences: Differences = field(default_factory=Differences)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._plan: Plan = self.proven.plan
        matching = Matching(self.stored.names, self.proven.segments.names)
        # Which values were admitted may follow from classes of earlier impressions.
        by_classes = self._crowded(self.stored.head.counts) & self.classes.groupings

        def summed(start: int) -> frozenset[int]:
            always = self._admitted_otherwise()
            found = always if self.classes.are_known(start) else always | self.classes.groupings
            return found if self.classes.are_known() else found | by_classes

        self.open = OpenComparison(self.stored, summed, self.classes, self.differences)
        self.queries = QueryComparison(
            self.stored, self._plan, summed, self.classes, self.differences
        )
        coverage, names_of_proven = self.stored.coverage, self.proven.segments.names
        self.rows = RowsComparison(
            measure="",
            plan=self._plan,
            head=self.stored.head,
            stored=(self.stored.panes, self.stored.hours),
            columns=columns_of(self._plan),
            matching=matching,
            summed=summed,
            differences=self.differences,
            hours_from=coverage.hours,
            panes_from=coverage.windows,
            lost_hours=self.stored.head.state.lost_hours,
            unpacked=self.stored.rows,
            covered=lambda pages, start: self.stored.covered(pages, names_of_proven, start),
            unknown=self.classes.columns,
        )
        given = self.stored, self._plan, matching, summed, self.differences
        self.optional = {
            measure: OptionalComparison(measure, *given) for measure in OPTIONAL_MEASURES
        }

    def _crowded(self, counts: Mapping[str, Mapping[str, int]]) -> frozenset[int]:
        """The groupings that had more values than are admitted."""
        overflow, names = counts.get(SEGMENT_OVERFLOW, {}), self._plan.grouping_names
        return frozenset(index for index, name in enumerate(names) if overflow.get(name))

    @property
    def _admits_as_ever(self) -> bool:
        return self.stored.coverage.is_whole and self.stored.has_one_admission

    def _admitted_otherwise(self) -> frozenset[int]:
        """The groupings of which other values may have been admitted than the log says: before the
        first record that is left, or under another layout."""
        if self.is_whole and self._admits_as_ever:
            return frozenset()
        return self._crowded(self.stored.head.counts) | self._crowded(self.proven.counts)

    def begin(self, lane: Lane, grading: Grading) -> None:
        """Let the lane that is to be compared begin as the stored one did, graded by these
        files."""
        for measure, of in self.optional.items():
            files = grading if measure == BY_JUDGEMENTS else NO_FILES
            of.begin(lane, files, is_whole=self.is_whole)
        if lane.judged is not None and self.optional[BY_JUDGEMENTS].is_on:
            lane.judged.files.prepare(grading.timeline, grading.contents)

    @property
    def panes(self) -> int:
        """How many panes were compared."""
        return self.rows.panes

    @property
    def hours(self) -> int:
        """How many hours were."""
        return self.rows.hours

    def take(self, settled: Settled) -> None:
        """See `LaneSink`: the hours that are over are compared."""
        self.rows.take(settled, settled.lane)
        self.queries.take(settled)
        for rows in self.optional.values():
            rows.take(settled)

    def finish(self, settled: Settled) -> None:
        """See `LaneSink`: once the lane has read up to the stored offsets, the rest is compared."""
        self.rows.finish(settled, settled.lane)
        if not self.stored.coverage.is_whole:
            self.notes.append(CHANGED)
        elif not self.stored.has_one_admission:
            self.notes.append(ADMITTED_OTHERWISE)
        self.notes += self.classes.notes
        self.differences.note(self.classes.moved, len(self.classes.moved))
        self.queries.finish(settled)
        self.notes += self.queries.notes
        for rows in self.optional.values():
            rows.finish(settled)
            self.notes += rows.notes
        if settled.first_ms is not None:
            pair = self.stored.head.watermarks, self.proven.watermarks
            self.differences.compare_values("watermark", *pair)
        self.open.finish(settled, is_whole=self.is_whole, is_reconfigured=self._is_reconfigured)
        self.notes += self.open.notes
        self._begins()
        if not self.is_whole:
            self.notes.append(ROWS_ONLY)
            return
        stored = self.stored.rows(self.stored.totals, None, ALWAYS)
        at = partial(Difference, "totals")
        self.rows.compare(at, stored, self.proven.totals.pages, ALWAYS)
        self._experiments()

    @property
    def _is_reconfigured(self) -> bool:
        known, begins = self.stored.head.state.experiments, self.stored.whole_from
        return any(entry.since_ms not in (None, begins) for entry in known)

    def _begins(self) -> None:
        """A lane that never went to another layout has everything from its beginning, or from where
        it began anew; of several topics it may have gone to one before it had a watermark."""
        layouts, head = self.stored.layouts, self.stored.head
        if layouts is None or len(head.offsets) > 1:
            return
        if layouts.last.hours_from is not None:
            return
        begins = _begins_of(layouts.since, head.queries)
        begins |= {"slot of the first delay": head.state.timed_from or None}
        since = since_the_beginning(self._plan, self.stored.whole_from)
        proven = _begins_of(since, None if head.queries is None else self.proven.queries)
        for rows in self.optional.values():
            begins |= rows.begins
            proven |= rows.begins_from(since.hours)
        self.differences.compare_values("begins", begins, proven)

    def _experiments(self) -> None:
        """Compare experiments and counts: what was not admitted of the former is among them."""
        tracking, reconfigured = self._plan.tracking, self._is_reconfigured
        if reconfigured:
            self.notes.append(RECONFIGURED)
        crowded = self._crowded_experiments(tracking)
        self.notes += map(CROWDED.format, sorted(crowded))
        left_out = {*BY_OPERATION, *([OVERFLOW] if reconfigured or crowded else [])}
        left_out |= set() if self.optional[BY_JUDGEMENTS].is_whole else {JUDGED_LATE}
        left_out |= set() if self._admits_as_ever else {SEGMENT_OVERFLOW}
        for family in COUNT_FAMILIES:
            if family not in left_out:
                stored = self._prefixed(family, self.stored.head.counts.get(family, {}))
                proven = self._prefixed(family, self.proven.counts[family])
                self.differences.compare("count", stored, proven)
        if tracking is None:
            return
        digests = tracking.digests()
        for entry in self.stored.head.state.experiments:
            if entry.digest != digests.get(entry.name, entry.digest):
                self.notes.append(OTHERWISE.format(entry.name or "all undeclared ones"))
            tallies = self.stored.experiments.get(entry.name)
            same = {f"{entry.name}, digests that are the same": 1}
            if tallies is not None:
                found = same if tallies.digest == entry.digest else {}
                self.differences.compare("experiment", found, same)
        proven_by_name = self.proven.experiments.by_name
        for name in sorted(self.stored.experiments.keys() | proven_by_name.keys()):
            spec = tracking.spec(name)
            if spec is not None and name not in crowded and (spec.declared or not reconfigured):
                self._experiment(name, spec.digest)
        self._dropped({} if reconfigured else digests)

    def _crowded_experiments(self, tracking: Tracking | None) -> set[str]:
        """Those of which other variants were admitted than under the shares that are planned now:
        these are no part of what an experiment is counted by."""
        stored, proven = self.stored.experiments, self.proven.experiments.by_name
        # The lane counts what it left out for all experiments together.
        has_left_out = bool(self.stored.head.counts.get(OVERFLOW, {}).get("variant"))
        return {
            name
            for name in stored.keys() & proven.keys()
            if tracking is not None
            and (spec := tracking.spec(name)) is not None
            and (has_left_out or spec.is_full(stored[name].arms))
            and stored[name].arms.keys() != proven[name].arms.keys()
        }

    def _dropped(self, digests: Mapping[str, str]) -> None:
        """Compare when undeclared experiments that were silent were last dropped."""
        dropped_ms = {"": self.proven.experiments.dropped_ms}
        for entry in self.stored.head.state.experiments:
            if entry.digest == digests.get(entry.name):
                what = f"{entry.name}, silent ones dropped"
                stored, proven = {what: entry.dropped_ms}, {what: dropped_ms.get(entry.name, 0)}
                self.differences.compare("experiment", stored, proven)

    def _prefixed(self, family: str, counts: Mapping[str, int]) -> dict[str, int]:
        left_out, names, layouts = set[str](), self._plan.grouping_names, self.stored.layouts
        if family == SEGMENT_OVERFLOW and layouts is not None:  # of groupings of before
            left_out = {*layouts.grouping_names}.difference(names)
        if family == SEGMENT_OVERFLOW and not self.classes.are_known():
            left_out |= {names[index] for index in self.classes.groupings}
        kept = (pair for pair in counts.items() if pair[0] not in left_out)
        return {f"{family} {label}": count for label, count in kept}

    def _experiment(self, name: str, digest: str) -> None:
        tracking = self._plan.tracking
        spec = None if tracking is None else tracking.spec(name)
        stored = self.stored.experiments.get(name)
        proven = self.proven.experiments.by_name.get(name)
        if spec is None or (stored is not None and stored.digest != digest):
            self.notes.append(OTHERWISE.format(name))
            return
        strata = () if spec.stratify_by is None else spec.stratify_by.split(",")
        if self.classes.decide(spec.metrics, spec.unit, *strata):
            self.notes.append(f"experiment {name}: {FROM_CLASSES}")
            return
        otherwise = {self._plan.grouping_names[index] for index in self._admitted_otherwise()}
        if spec.stratify_by in otherwise:
            stored, proven = without_strata(stored), without_strata(proven)
        pair = [{} if one is None else integers_of(name, one, spec) for one in (stored, proven)]
        self.differences.compare("experiment", *pair)
        self.differences.compare("experiment", *users_apart(name, stored, proven))


def _begins_of(since: Since, queries: QueryHead | LaneQueries | None) -> dict[str, int | None]:
    """What a lane has → since when."""
    begins: dict[str, int | None] = {**since.columns, **since.groupings, "hours": since.hours}
    begins |= {f"window of {length} ms": at_ms for length, at_ms in since.windows.items()}
    if queries is not None:
        begins |= {"queries": queries.since_ms, "missing": queries.missing_since_ms}
    return begins


def outcome_of(found: LaneComparison, records: int, first_ms: int | None, missing: str) -> Outcome:
    """Return the outcome of a comparison. `first_ms`: the first pane that is proven, where the log
    has lost its beginning; `missing`: why none is."""
    differences, lane = found.differences, found.stored.lane
    if not found.is_whole:
        missing = missing or ("" if found.panes + found.hours else NOTHING_PROVEN)
    if missing:
        return Outcome(lane, "not provable", missing, records=records, notes=tuple(found.notes))
    return Outcome(
        lane,
        "differs" if differences.count else "equal",
        proven_from=None if first_ms is None else timestamp_text(first_ms),
        records=records,
        panes=found.panes,
        hours=found.hours,
        query_hours=found.queries.hours,
        judged_hours=found.optional[BY_JUDGEMENTS].rows.hours,
        integers=differences.compared,
        differences=differences.count,
        first=tuple(differences.first),
        left_out=(*differences.left_out, *NEVER_COMPARED),
        notes=(*found.notes, *(() if found.is_whole else (MAY_HAVE_GONE,))),
    )


class Proof:
    """Compares a stored lane with one that `replay` makes again. The order is `replay.apply` for
    all records up to the stored offsets, `outcome`."""

    def __init__(
        self,
        stored: StoredLane,
        plan: Plan,
        decode: Decoder,
        begin: Mapping[str, int],
        lost_beginning: bool,
        max_future_ms: int,
        grading: Grading = Files(obstacle=NO_DIRECTORY),
        classing: Mapping[str, Classing] = MappingProxyType({}),
    ) -> None:
        """`begin`: the offset of each topic from which its records come; `lost_beginning` where
        that is not where the lane began. `max_future_ms`: how far an event that counts may be ahead
        of its record. `grading`: by which files its lists are graded again, and
        `classing`, by attribute, its queries classed."""
        topics = list(stored.head.offsets)
        lane = new_lane(stored.lane, plan, dict(begin), topics)
        if stored.whole_from is not None:
            begin_at(lane, stored.whole_from)
        _count_experiments_since(lane, stored)
        classes = Classes(plan, classing)
        classes.begin(lane)
        self.comparison = LaneComparison(stored, lane, not lost_beginning, classes)
        self.comparison.begin(lane, grading)
        # One that took the place of another has lost its beginning also while it has no record.
        replaced = stored.head.replaced_logs
        begun = [log for log, end in stored.head.offsets.items() if end or log in replaced]
        self._lost = LostBeginning(plan, max_future_ms, begun) if lost_beginning else None
        lifts = stored.head.lifts
        self.replay = LogReplay(lane, decode, self.comparison, self._lost, lifts)

    def outcome(self) -> Outcome:
        """Compare all that is left; returns what was found. Raises Damaged."""
        driver, records = self.replay.driver, self.replay.records
        driver.lift(self.comparison.stored.head.lifts)
        driver.finish_at(None)
        if self._lost is None:
            return outcome_of(self.comparison, records, None, "")
        return outcome_of(self.comparison, records, driver.first_ms, self._lost.missing)


def _count_experiments_since(lane: Lane, stored: StoredLane) -> None:
    """Let each experiment count the panes that its stored tallies do, where it is configured as it
    was then: from the same one on, and without those from an end on that was moved since."""
    tracking = lane.plan.tracking
    if tracking is None:
        return
    digests = tracking.digests()
    for entry in stored.head.state.experiments:
        if digests.get(entry.name) == entry.digest:
            lane.experiments.since_ms[entry.name] = entry.since_ms
            if entry.name in stored.experiments:
                lane.experiments.passed_over[entry.name] = stored.experiments[entry.name].missed
