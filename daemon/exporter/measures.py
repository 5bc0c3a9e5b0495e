"""The measures of live traffic, and the scores of each at one instant. Pure.

What people click and what raters judge are two measures: two instances of the same thing. They
differ in the columns of their rows, in when these are final, in whether dated files grade them, and
in their families of series; what follows from these values stands in `scorer` and `exposition`,
once.

Judged rows wait for no feedback: they are rows of a plan whose attribution window is 0.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np

from relevanced.metrics import Floats, Integers

from ..changes import Fall, FeedbackGap, Least, Onsets, Story, ToldAs, ToldChange
from ..lane import JUDGED_COUNT_COLUMNS, Rows
from ..panes import pane_start
from ..plan import BY_FEEDBACK, BY_JUDGEMENTS, COUNT_COLUMNS, METRIC_COLUMNS, Plan
from ..telemetry import FAMILIES, Family
from ..views import (
    GradingFiles,
    HourSources,
    Indices,
    LaneFiles,
    LaneView,
    Segment,
    Selection,
    Snapshot,
    WindowRows,
    evaluate,
    list_lengths,
)
from .baselines import BaselineComparison, averaged

IMPRESSIONS, PLACES, JUDGED_PLACES = range(len(JUDGED_COUNT_COLUMNS))
"""The columns of judged rows that count; those of the metrics follow them."""

Periods: TypeAlias = Sequence[Rows | Floats]
"""Rows, (segments, columns), of a window or of the last hours, which are one period, or of each
period of a baseline."""


@dataclass(frozen=True)
class RowFamilies:
    """The families of the rows of windows, or of one side of a comparison."""

    score: Family
    score_stderr: Family
    scored_impressions: Family
    counts: tuple[Family, ...]
    """Of the first columns of a row, in their order."""
    lists: tuple[Family, ...] = ()
    """Of what `Measure.lists` returns; none: it is not shown."""
    best_case: tuple[Family, ...] = ()
    """The best case of judged scores, and its standard error."""

    @staticmethod
    def named(prefix: str, counts: Sequence[str], lists: Sequence[str] = ()) -> "RowFamilies":
        """Those whose names begin with this prefix."""

        def families(names: Sequence[str]) -> tuple[Family, ...]:
            return tuple(FAMILIES[f"relevanced_{prefix}{name}"] for name in names)

        score, stderr, scored = families(("score", "score_stderr", "scored_impressions"))
        return RowFamilies(score, stderr, scored, families(counts), families(lists))

    @staticmethod
    def judged(prefix: str) -> "RowFamilies":
        """Those of judged rows."""
        found = RowFamilies.named(f"{prefix}judged_", ("impressions",), ("items_ratio",))
        names = ("score_best_case", "score_best_case_stderr")
        best_case = tuple(FAMILIES[f"relevanced_{prefix}judged_{name}"] for name in names)
        return replace(found, best_case=best_case)


@dataclass(frozen=True)
class MeasureFamilies:
    """The families of a measure."""

    windows: RowFamilies
    recent: RowFamilies
    baseline: RowFamilies
    baseline_periods: Family


SHOWN_COUNTS: Final = (
    "impressions",
    "impressions_with_feedback",
    "zero_result_impressions",
    "feedback",
)
"""How families call the first of `COUNT_COLUMNS`, which every window shows: the lengths of lists
are shown beside their baseline only."""
assert len(SHOWN_COUNTS) == COUNT_COLUMNS.index("items_listed")
_LENGTHS: Final = ("list_length", "list_length_stderr")
_CLICKS: Final = MeasureFamilies(
    RowFamilies.named("", SHOWN_COUNTS),
    RowFamilies.named("recent_", SHOWN_COUNTS, _LENGTHS),
    RowFamilies.named("baseline_", SHOWN_COUNTS, _LENGTHS),
    FAMILIES["relevanced_baseline_periods"],
)
_JUDGED: Final = MeasureFamilies(
    RowFamilies.judged(""),
    RowFamilies.judged("recent_"),
    RowFamilies.judged("baseline_"),
    FAMILIES["relevanced_judged_baseline_periods"],
)


@dataclass(frozen=True, eq=False)
class Measure:
    """What one set of rows says of the traffic."""

    name: str
    """Of its row set in a lane and in a view."""
    plan: Plan
    """That of its rows."""
    families: MeasureFamilies
    lists: Callable[[Periods, bool], Sequence[Floats]]
    """What is said of the lists themselves: (n,) each, from periods and whether they are those of a
    baseline."""
    is_graded: bool = False
    """Whether dated files grade it: what two of them grade is not compared, and its windows begin
    with the one in force."""

    def final_before_ms(self, as_of_ms: int) -> int:
        """Its rows of base panes that start before this instant do not change any more."""
        timing = self.plan.timing
        return pane_start(as_of_ms - timing.settle_ms, timing.base_ms)


def clicks_measure(plan: Plan) -> Measure:
    """The scores by feedback."""
    return Measure(BY_FEEDBACK, plan, _CLICKS, _lengths)


def judged_measure(plan: Plan) -> Measure:
    """The scores by judgements. `plan` must have judged metrics."""
    return Measure(BY_JUDGEMENTS, rows_plan(plan), _JUDGED, _shares, is_graded=True)


def measures_of(plan: Plan) -> tuple[Measure, ...]:
    """Those of a plan, clicks first."""
    graded = () if plan.judged is None else (judged_measure(plan),)
    return clicks_measure(plan), *graded


def rows_plan(plan: Plan) -> Plan:
    """The plan of judged rows: other columns, and no wait for feedback. `plan` must have judged
    metrics."""
    assert plan.judged is not None
    return replace(
        plan,
        timing=replace(plan.timing, attribution_ms=0),
        metrics=plan.judged.metrics,
        count_columns=JUDGED_COUNT_COLUMNS,
        columns_behind=len(METRIC_COLUMNS) * len(plan.judged.metrics),
        tracking=None,
        surfaces=None,
        queries=None,
    )


def expected(periods: Periods) -> Rows | Floats:
    """(segments, columns): the rows of one period as they are, the mean of those that know them of
    several; NaN where none does."""
    if len(periods) == 1:
        return periods[0]
    rows = np.array(periods, np.float64)
    known = ~np.isnan(rows)
    count, mean = known.sum(axis=0), np.full(rows.shape[1:], np.nan)
    np.divide(np.where(known, rows, 0.0).sum(axis=0), count, out=mean, where=count > 0)
    return mean


def over_periods(
    values: Sequence[tuple[Floats, Floats]], is_baseline: bool
) -> tuple[Floats, Floats]:
    """((n,) means, (n,) standard errors): those of one period, or the average of a baseline."""
    if not is_baseline:
        return values[0]
    means, errors = zip(*values, strict=True)
    return averaged(np.array(means), np.array(errors))


def _lengths(periods: Periods, is_baseline: bool) -> Sequence[Floats]:
    return over_periods([list_lengths(rows) for rows in periods], is_baseline)


def _shares(periods: Periods, is_baseline: bool) -> Sequence[Floats]:
    return (judged_shares(expected(periods)),)


def judged_shares(rows: Rows | Floats) -> Floats:
    """(n,): the share of the first places of the lists whose item is judged; NaN without any."""
    places = rows[:, PLACES].astype(np.float64)
    shares: Floats = np.full(len(rows), np.nan)
    np.divide(rows[:, JUDGED_PLACES], places, out=shares, where=places > 0)
    return shares


@dataclass(frozen=True, eq=False)
class FoundChanges:
    """What is said of some series against one basis: (n,) each."""

    against: str
    series: Integers
    """Indices of segment times metric."""
    loss: Floats | None
    z: Floats | None
    onsets: Onsets


class Low(NamedTuple):
    """When a segment was low by a change that is over."""

    segment: Segment
    begin_ms: float
    end_ms: float


@dataclass(frozen=True, eq=False)
class Detection:
    """One look. Series are segments times metrics, the metrics of a segment together."""

    segments: tuple[Segment, ...] = ()
    found: tuple[FoundChanges, ...] = ()
    noticeable: tuple[Least, ...] = ()
    """What each comparison would have noticed."""
    begin_ms: int | None = None
    end_ms: int | None = None
    """The end of what had settled."""
    open: tuple[Story, ...] = ()
    """Falls that have not recovered, the clearest first; those that have lasted for more than a
    week last."""
    told: tuple[ToldChange, ...] = ()
    """The open changes as alerts tell them."""
    closed: tuple[Story, ...] = ()
    """Those of the last day that have, the latest first."""
    gaps: tuple[FeedbackGap, ...] = ()
    """When feedback was missing, the latest last: nothing is said of these times."""
    undecided: tuple[Story, ...] = ()
    """What a judged score lost only if items without a judgement are irrelevant: no changes."""
    accepted: tuple[Fall, ...] = ()
    """Falls that are what is usual now, while earlier weeks still have what was before."""
    lows: tuple[Low, ...] = ()
    """When segments were low by what is over: of two days all that moved, of earlier ones what
    fell."""


class Told(msgspec.Struct, frozen=True):
    """What was said, so that it stays said."""

    falls: tuple[Fall, ...] = ()
    gaps: tuple[FeedbackGap, ...] = ()
    """When feedback was missing."""
    names: tuple[ToldAs, ...] = ()
    """As what the open changes by feedback were told."""
    judged_names: tuple[ToldAs, ...] = ()
    """The same by judgements."""


@dataclass(frozen=True, eq=False)
class MeasureScores:
    """The scores of one measure at one instant."""

    measure: Measure
    views: Sequence[LaneView]
    """The lanes, with the rows of the measure: of graded ones since the grading began."""
    snapshot: Snapshot
    """Their sum. Where it is graded it has the windows only that end where rows are final."""
    selection: Selection
    """The segments with gauges."""
    until_ms: int | None = None
    """Rows of impressions before then are final. None while no lane has a time."""
    files: tuple[LaneFiles, ...] = ()
    """Of the lanes that have ever counted an event, as far as they grade."""
    grading: GradingFiles | None = None
    """What grades at the end of what is final; None: nothing does, and there are no windows."""
    since_ms: int | None = None
    """The first whole hour that is compared with the last ones; None: as they come."""
    key: object = None
    """While it and the hours are the same, so are the comparisons."""
    comparisons: Sequence[BaselineComparison] = ()
    outages: frozenset[int] = frozenset()
    """Starts of hours that say nothing about what is usual."""
    of_hours: HourSources | None = None
    """None: the hours of the lanes alone."""
    changes: Detection = Detection()
    """What fell and has not recovered, as of the last look."""

    @staticmethod
    def none(
        measure: Measure,
        until_ms: int | None = None,
        files: tuple[LaneFiles, ...] = (),
        key: object = None,
    ) -> "MeasureScores":
        """Those of no rows."""
        nothing = evaluate((), measure.plan), Selection((), (), ())
        return MeasureScores(measure, (), *nothing, until_ms, files, key=key)

    @property
    def plan(self) -> Plan:
        """That of the rows."""
        return self.measure.plan

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The selected segments."""
        return self.selection.segments

    @property
    def is_known(self) -> bool:
        """Whether there is what grades it, where it is graded."""
        return self.grading is not None or not self.measure.is_graded

    @property
    def is_comparable(self) -> bool:
        """Whether one grading, or none at all, made the rows of the last hours."""
        return self.is_known and not (self.grading is not None and self.grading.is_mixed)

    @cached_property
    def windows(self) -> tuple[WindowRows, ...]:
        """Folded: (selected segments, columns). They contain only what the grading of now graded,
        so one that is longer begins with the first pane of its own."""
        fold = self.selection.fold
        return tuple(replace(window, rows=fold(window.rows)) for window in self.snapshot.windows)

    def known(self, rows: Rows | Floats, first_ms: int) -> Rows | Floats:
        """The rows, (selected segments, columns), of what begins then: NaN in what not all of it
        has."""
        coverage = self.snapshot.coverage
        return rows if coverage is None else coverage.known(rows, self.segments, first_ms)

    def first_of_window(self, window: WindowRows) -> int:
        """When the window begins: with the first of its panes that the grading is of as a whole,
        where that is later."""
        if self.grading is None:
            return window.first_ms
        spans = self.plan.timing.windows
        pane_ms = next(span.pane_ms for span in spans if span.name == window.window)
        return max(window.first_ms, -(-self.grading.since_ms // pane_ms) * pane_ms)

    @cached_property
    def hour_sources(self) -> HourSources:
        """Where the rows of hours come from."""
        return self.of_hours or HourSources.of(self.views, (), self.plan)

    @cached_property
    def _selected_rows(self) -> Sequence[Mapping[int, Indices]]:
        """For each lane: page → the rows of the selection where its segments count."""
        return [
            {
                page: self.selection.rows_of(lane.names.of_page(page))
                for page in {page for pages in lane.panes.values() for page in pages}
            }
            for lane in self.views
        ]

    def _pages(self, window: int, start: int) -> Iterator[tuple[Indices, Rows]]:
        """((n,) rows of the selection, (n, columns) rows) of each page of a pane, lane by lane."""
        for lane, selected in zip(self.views, self._selected_rows, strict=True):
            for page, rows in lane.panes.get((window, start), {}).items():
                yield selected[page], rows[: len(selected[page])]

    def panes(self, window: int, starts: Sequence[int], segment: Segment) -> Rows:
        """(starts, columns): a selected segment in each of these panes of the window."""
        wanted = self.selection.segments.index(segment)
        summed = np.zeros((len(starts), self.plan.row_width), np.int64)
        for index, start in enumerate(starts):
            for selected, rows in self._pages(window, start):
                summed[index] += rows[selected == wanted].sum(axis=0)
        return summed

    def known_panes(self, window: int, starts: Sequence[int], segment: Segment) -> Rows | Floats:
        """The same: NaN in what a pane lacks."""
        rows, coverage = self.panes(window, starts, segment), self.snapshot.coverage
        if coverage is None or not starts:
            return rows
        known = [coverage.known(rows[n : n + 1], [segment], at) for n, at in enumerate(starts)]
        return np.concatenate([*known])

    def column(self, window: int, starts: Sequence[int], column: int) -> Floats:
        """(starts, selected segments): one column in each of these panes of the window."""
        size = len(self.selection.segments) + 1
        summed = np.zeros((len(starts), size))
        for index, start in enumerate(starts):
            for selected, rows in self._pages(window, start):
                summed[index] += np.bincount(selected, rows[:, column], size)
        return summed[:, :-1]
