"""The judged scores of all lanes: windows that end where judged rows are final, and the last hours
beside earlier ones that the same file graded. Pure.

Judged rows wait for no feedback: they are the rows of a plan whose attribution window is 0,
and everything that sums and compares rows takes them as such. What is final does not change, so
all of it is made anew only when another base pane is final.

Lines of samples, family by family, as both text formats have them.

The scores of the last hours and of their baseline as lines of both text formats.

Judged scores as lines of both text formats.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Final, TypeAlias

import numpy as np

from relevanced.metrics import Floats

from ..changes import JudgedBins
from ..judgements import start_text
from ..lane import JUDGED_COUNT_COLUMNS, Rows, final_before_ms
from ..plan import Plan
from ..telemetry import FAMILIES, Family
from ..views import (
    ALWAYS,
    SETTLED,
    Coverage,
    HourHistory,
    LaneFiles,
    LaneView,
    Measure,
    Segment,
    Selection,
    Snapshot,
    WindowRows,
    estimates,
    evaluate,
    measure_at,
    select,
)
from . import baselines
from .baselines import BaselineComparison, averaged
from .sample_series import escape, label_names, segment_labels
from .timelines import Timelines

IMPRESSIONS, PLACES, JUDGED_PLACES = range(len(JUDGED_COUNT_COLUMNS))
"""The columns that count; those of the metrics follow them."""
PRESENCE: Final = "Judged"
"""A metric whose name begins like this says how much of a list is judged, not how good it is."""

_Key: TypeAlias = tuple[int, tuple[Segment, ...], Measure | None, int]


@dataclass(frozen=True, eq=False)
class JudgedScores:
    """The judged scores at one instant."""

    plan: Plan
    """That of judged rows: see `rows_plan`."""
    files: tuple[LaneFiles, ...] = ()
    """Of the lanes that have ever counted an event, as far as they grade."""
    measure: Measure | None = None
    """What grades at the end of what is final; None: nothing does, and there are no windows."""
    until_ms: int | None = None
    """All judged rows of impressions before then are final. None while no lane has a time."""
    views: Sequence[LaneView] = ()
    """The lanes with their judged rows in the place of their rows, since the measure began."""
    snapshot: Snapshot | None = None
    selection: Selection | None = None
    """The segments with gauges, by the rows of `snapshot`."""
    windows: tuple[WindowRows, ...] = ()
    """Folded: (selected segments, columns). They contain only what the measure graded, so one that
    is longer begins with it."""
    comparisons: Sequence[BaselineComparison] = ()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The selected segments."""
        return () if self.selection is None else self.selection.segments


def rows_plan(plan: Plan) -> Plan:
    """The plan of judged rows: other columns, and no wait for feedback. `plan` must have judged
    metrics."""
    assert plan.judged is not None
    return replace(
        plan,
        timing=replace(plan.timing, attribution_ms=0),
        metrics=plan.judged.metrics,
        count_columns=JUDGED_COUNT_COLUMNS,
        tracking=None,
        surfaces=None,
        queries=None,
    )


def judged_shares(rows: Rows | Floats) -> Floats:
    """(n,): the share of the first places of the lists whose item is judged; NaN without any."""
    places = rows[:, PLACES].astype(np.float64)
    shares: Floats = np.full(len(rows), np.nan)
    np.divide(rows[:, JUDGED_PLACES], places, out=shares, where=places > 0)
    return shares


class Scorer:
    """Keeps the judged scores up to date, snapshot after snapshot."""

    def __init__(self, plan: Plan) -> None:
        self._plan = rows_plan(plan)
        self.history = HourHistory(self._plan)
        """The judged hours, whatever graded them."""
        self._key: _Key | None = None
        self._scores = JudgedScores(self._plan)
        self._gauges: Selection | None = None
        self._timelines = Timelines(self._plan)

    def of(
        self,
        views: Sequence[LaneView],
        as_of_ms: int | None,
        gauges: Selection,
        coverage: Coverage | None = None,
    ) -> JudgedScores:
        """The judged scores of these lanes. `coverage` is that of their rows. Raises Damaged and
        OverflowError."""
        files = tuple(view.judged.files for view in views if view.judged and view.has_events)
        if as_of_ms is None:
            return JudgedScores(self._plan, files)
        until_ms = final_before_ms(as_of_ms, self._plan.timing)
        measure = _measure(views, until_ms)
        key = (until_ms, gauges.segments, measure, len(views))
        if key == self._key:
            if files != self._scores.files:
                self._scores = replace(self._scores, files=files)
            return self._scores
        scores = JudgedScores(self._plan, files, measure, until_ms)
        if measure is not None:
            scores = self._scored(scores, measure, views, gauges, coverage)
        self._key, self._scores = key, scores
        return scores

    def _scored(
        self,
        scores: JudgedScores,
        measure: Measure,
        views: Sequence[LaneView],
        gauges: Selection,
        coverage: Coverage | None,
    ) -> JudgedScores:
        plan, until_ms = self._plan, scores.until_ms
        assert until_ms is not None
        self._gauges = gauges
        judged = [judged_view(view, measure.since_ms, plan) for view in views if view.judged]
        # The last millisecond that is final: then the last pane of a window is, too.
        whole = evaluate(judged, plan, gauges.segments, until_ms + plan.timing.settle_ms - 1)
        chosen = select(whole, plan, frozenset(gauges.segments), empty_other=False)
        comparisons: Sequence[BaselineComparison] = ()
        self.history.take(judged)
        if not measure.is_mixed:
            since_ms = max(measure.since_ms, ALWAYS if coverage is None else coverage.hours)
            since_ms = -(-since_ms // plan.hour_ms) * plan.hour_ms
            settled = replace(whole, windows=tuple(_settled(whole, plan, coverage)))
            comparisons = baselines.compare(
                self.history, judged, settled, chosen, plan, since_ms=since_ms
            )
        return replace(
            scores,
            views=judged,
            snapshot=whole,
            selection=chosen,
            windows=tuple(
                replace(window, rows=chosen.fold(window.rows))
                for window in _settled(whole, plan, coverage)
            ),
            comparisons=comparisons,
        )

    def bins(self) -> JudgedBins | None:
        """The judged rows of the last snapshot along event time; None where nothing grades, or
        lanes disagree. Raises Damaged."""
        scores, measure = self._scores, self._scores.measure
        if measure is None or measure.is_mixed or self._gauges is None or scores.until_ms is None:
            return None
        timeline = self._timelines.of(scores.views, self.history, self._gauges, scores.until_ms)
        if timeline is None:
            return None
        counted = timeline.since(measure.since_ms)
        counts = self._timelines.counts
        impressions = counts.values[len(timeline.starts) - len(counted.starts) :, :, IMPRESSIONS]
        directions = [metric.direction for metric in self._plan.metrics]
        compared = tuple(at for at, direction in enumerate(directions) if direction == "up")
        return JudgedBins(
            counted, impressions, counts.segments, len(directions), compared, measure.since_ms
        )


def _measure(views: Sequence[LaneView], until_ms: int) -> Measure | None:
    """What grades just before this instant; None also where a lane with events has no columns."""
    lanes = [view.judged for view in views if view.has_events]
    files = [lane.files for lane in lanes if lane is not None]
    return measure_at(files, until_ms - 1) if len(files) == len(lanes) else None


def _settled(whole: Snapshot, plan: Plan, coverage: Coverage | None) -> list[WindowRows]:
    """The windows of judged rows that the lanes keep from their beginning."""
    since = (
        {} if coverage is None else dict(zip(plan.timing.windows, coverage.windows, strict=True))
    )
    first_ms = {window.name: first for window, first in since.items()}
    return [
        window
        for window in whole.windows
        if window.view == SETTLED and first_ms.get(window.window, ALWAYS) <= window.first_ms
    ]


def judged_view(view: LaneView, since_ms: int, plan: Plan) -> LaneView:
    """A lane with judged rows in the place of its rows; panes since then. `plan` is that of judged
    rows."""
    assert view.judged is not None
    final_ms = None
    if view.watermark_ms is not None:
        final_ms = final_before_ms(view.watermark_ms, plan.timing)
    return replace(
        view,
        panes={key: pages for key, pages in view.judged.panes.items() if key[1] >= since_ms},
        totals={},
        hours=view.judged.hours,
        lost_hours=view.judged.lost_hours,
        settled_before=final_ms,
        experiments={},
        experiment_days={},
        queries=None,
        layouts=None,
        coverage=None,
        raised={},
    )


def first_of_window(scores: JudgedScores, window: WindowRows) -> int:
    """When the window begins: with the measure where that is later."""
    return (
        window.first_ms if scores.measure is None else max(window.first_ms, scores.measure.since_ms)
    )


Bodies: TypeAlias = dict[str, list[bytes]]
"""Family name → its lines, in one chunk for each call that added some."""


def add_defined(
    bodies: Bodies, family: Family, head: str, labels: Sequence[str], tail: str, values: Floats
) -> None:
    """Add the samples that have a value: what is undefined is absent, neither 0 nor NaN.

    Nine digits: more than the millionths that rows are kept in, and half the time of all seventeen.
    """
    start = family.name + head
    defined = ~np.isnan(values)
    pairs = zip(compress(labels, defined.tolist()), values[defined].tolist(), strict=True)
    add_lines(bodies, family, [f"{start}{label}{tail}{value:.9g}\n" for label, value in pairs])


def add(
    bodies: Bodies,
    family: Family,
    head: str,
    labels: Sequence[str],
    tail: str,
    values: Sequence[float],
) -> None:
    """Add a sample for each label text: `head` and `tail` are what its line has around that."""
    start = family.name + head
    pairs = zip(labels, values, strict=True)
    add_lines(bodies, family, [f"{start}{label}{tail}{value!r}\n" for label, value in pairs])


def add_lines(bodies: Bodies, family: Family, lines: Sequence[str]) -> None:
    body = bodies.setdefault(family.name, [])
    if lines:
        body.append("".join(lines).encode())


BASELINE: Final = "baseline"
"""Begins the names of families of earlier periods; `recent` those of the last hours."""


def add_scores(
    bodies: Bodies,
    named: str,
    periods: Sequence[Floats],
    labels: Sequence[str],
    tail: str,
    plan: Plan,
    *,
    is_baseline: bool,
) -> None:
    """Add every metric of the last hours, which are one period, or of a baseline of several:
    `relevanced_{named}_score`, and what belongs to it."""
    score, stderr, scored_impressions = (
        FAMILIES[f"relevanced_{named}_{of}"]
        for of in ("score", "score_stderr", "scored_impressions")
    )
    expected = np.mean(periods, axis=0)
    for index, metric in enumerate(plan.metrics):
        head = f'{{metric="{escape(metric.name)}",'
        values = [estimates(rows, plan, index) for rows in periods]
        means, errors = of_periods(values, is_baseline=is_baseline)
        add_defined(bodies, score, head, labels, tail, means)
        add_defined(bodies, stderr, head, labels, tail, errors)
        scored = expected[:, plan.metric_column(index)]
        add_defined(bodies, scored_impressions, head, labels, tail, scored)


def of_periods(
    values: Sequence[tuple[Floats, Floats]], *, is_baseline: bool
) -> tuple[Floats, Floats]:
    """((n,) means, (n,) standard errors): those of the last hours, or the average of a baseline."""
    if not is_baseline:
        return values[0]
    means, errors = zip(*values, strict=True)
    return averaged(np.array(means), np.array(errors))


def add_judged(bodies: Bodies, scores: JudgedScores) -> None:
    """Add everything that is served of judged scores."""
    plan = scores.plan
    attributes = dict(zip(plan.grouping_names, ((), *plan.groupings), strict=True))
    labels = segment_labels(scores.segments, attributes, label_names(plan.groupings))
    for window in scores.windows:
        tail = f',window="{escape(window.window)}"}} '
        _add_window(bodies, window.rows, labels, tail, plan)
    for comparison in scores.comparisons:
        _add_comparison(bodies, comparison, labels, plan)
    _add_files(bodies, scores)


def _add_window(bodies: Bodies, rows: Rows, labels: Sequence[str], tail: str, plan: Plan) -> None:
    add(
        bodies,
        FAMILIES["relevanced_judged_impressions"],
        "{",
        labels,
        tail,
        rows[:, IMPRESSIONS].tolist(),
    )
    add_defined(
        bodies, FAMILIES["relevanced_judged_items_share"], "{", labels, tail, judged_shares(rows)
    )
    for index, metric in enumerate(plan.metrics):
        head = f'{{metric="{escape(metric.name)}",'
        means, errors = estimates(rows, plan, index)
        add_defined(bodies, FAMILIES["relevanced_judged_score"], head, labels, tail, means)
        add_defined(bodies, FAMILIES["relevanced_judged_score_stderr"], head, labels, tail, errors)
        scored = rows[:, plan.metric_column(index)].tolist()
        add(bodies, FAMILIES["relevanced_judged_scored_impressions"], head, labels, tail, scored)


def _add_comparison(
    bodies: Bodies, comparison: BaselineComparison, labels: Sequence[str], plan: Plan
) -> None:
    tail = f',window="{comparison.window}"}} '
    _add_period(bodies, "recent", [comparison.recent], labels, tail, plan)
    if comparison.periods:
        _add_period(bodies, BASELINE, [*comparison.periods.values()], labels, tail, plan)
    unit = f'{{window="{comparison.window}",unit="{comparison.unit}"}} '
    count = len(comparison.periods)
    add(bodies, FAMILIES["relevanced_judged_baseline_periods"], "", [""], unit, [count])


def _add_period(
    bodies: Bodies,
    period: str,
    rows_of_periods: Sequence[Floats],
    labels: Sequence[str],
    tail: str,
    plan: Plan,
) -> None:
    """Add the last hours, which are one period, or the baseline, the average of several."""
    expected = np.mean(rows_of_periods, axis=0)
    add_defined(
        bodies,
        FAMILIES[f"relevanced_{period}_judged_impressions"],
        "{",
        labels,
        tail,
        expected[:, IMPRESSIONS],
    )
    add_defined(
        bodies,
        FAMILIES[f"relevanced_{period}_judged_items_share"],
        "{",
        labels,
        tail,
        judged_shares(expected),
    )
    is_baseline = period == BASELINE
    add_scores(
        bodies, f"{period}_judged", rows_of_periods, labels, tail, plan, is_baseline=is_baseline
    )


def _add_files(bodies: Bodies, scores: JudgedScores) -> None:
    refused = Counter(entry for lane in scores.files for entry in lane.refused)
    for entry, lanes in sorted(refused.items()):
        named = f'name="{escape(entry.name)}",start="{start_text(entry.start_ms)}"'
        add(bodies, FAMILIES["relevanced_judgements_refused_lanes"], "{", [named], "} ", [lanes])
    measure = scores.measure
    if measure is None or scores.until_ms is None:
        return
    _add_one(bodies, FAMILIES["relevanced_judged_until_timestamp_seconds"], scores.until_ms / 1000)
    _add_one(bodies, FAMILIES["relevanced_judged_since_timestamp_seconds"], measure.since_ms / 1000)
    _add_one(bodies, FAMILIES["relevanced_judgements_mixed"], int(measure.is_mixed))


def _add_one(bodies: Bodies, family: Family, value: float) -> None:
    add(bodies, family, "", [""], " ", [value])
