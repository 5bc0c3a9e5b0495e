"""From the lanes as they were read to everything that is served, snapshot after snapshot.

Pure, apart from what it remembers between two snapshots: the highest counters, the segments that
have counters, and the results that cost much and seldom change.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from ..experiments.findings import FindingsCache
from ..experiments.types import Findings
from ..judging.settings import DEFAULTS, Judging
from ..panes import pane_start
from ..plan import Plan
from . import baselines, change_series, exposition, scores, selection, snapshot
from .counters import HighestTotals, PreviousSelection, counters_of
from .exposition import Exposition
from .history import History
from .judgements import Basis, Judge, Judgement
from .lane_view import LaneView
from .measuring import Measuring
from .pane_reader import Reading
from .published import Published, publish
from .selection import Selection
from .snapshot import Segment, Snapshot

_ComparedKey: TypeAlias = tuple[int | None, tuple[Segment, ...], tuple[int, ...], frozenset[int]]
"""(base pane that contains as_of, segments that gauges show, hours that the lanes contain, hours
that they lost)."""


class Publisher:
    """Makes what is served of the lanes, and remembers what the next snapshot depends on."""

    def __init__(self, plan: Plan, judging: Judging = DEFAULTS) -> None:
        self.previous = PreviousSelection()
        """The segments with counters, as of the last snapshot; the caller stores and restores
        it."""
        self._plan = plan
        self._totals = HighestTotals()
        self._findings = FindingsCache(plan.tracking, plan.metrics)
        self._history = History(plan)
        self._measuring = Measuring(plan, judging)
        self._compared_key: _ComparedKey | None = None
        self._compared_texts = Exposition()
        self._comparisons: Sequence[baselines.Comparison] = ()
        self._judge = Judge(plan, judging)
        self._judged = Judgement()
        self._judged_texts = Exposition()

    def forget_totals(self) -> None:
        """Forget the highest totals: another process serves the counters from now on."""
        self._totals = HighestTotals()

    def publish(
        self, views: Sequence[LaneView], now_ms: int, *, with_series: bool = True
    ) -> Published:
        """Sum the lanes as of the clock at the latest, render and compress the result. Raises
        Damaged and OverflowError.

        Without the series the texts are empty, and nothing of the counters is remembered. The
        answers are the same. Takes long: meant for a thread, and for one call at a time.
        """
        raised = self._totals.raised(views) if with_series else views
        requested = self.previous.segments if with_series else ()
        whole = snapshot.evaluate(raised, self._plan, requested, now_ms)
        gauges = selection.busiest(whole, self._plan)
        # What was counted, not what counters show after a roll-back: only one process knows that.
        counted = replace(whole, counts=snapshot.sum_counts(views)) if with_series else whole
        report = scores.report(counted, gauges, self._plan)
        experiments = self._findings.of(
            [view.experiments for view in views], whole.as_of_ms, report.as_of
        )
        reading = Reading(self._plan, views, counted, gauges, experiments)
        texts = self._series(raised, whole, gauges, experiments) if with_series else Exposition()
        return publish(texts, report, reading, ())

    def _series(
        self, views: Sequence[LaneView], whole: Snapshot, gauges: Selection, experiments: Findings
    ) -> Exposition:
        """The series of all the traffic: of the one process that serves them."""
        counters, self.previous = counters_of(whole, gauges, self._plan, self.previous)
        texts = exposition.render(whole, gauges, counters, self._plan, experiments)
        texts = exposition.joined(texts, self._compared(views, whole, gauges))
        return exposition.joined(texts, self._changes(views, whole, gauges))

    def _compared(
        self, views: Sequence[LaneView], whole: Snapshot, gauges: Selection
    ) -> Exposition:
        """The texts of the last hours and their baselines. They cost as much as all the rest and
        change by base panes only, so they are rendered again no more often than that."""
        self._history.take(views)
        as_of_ms = whole.as_of_ms
        pane = None if as_of_ms is None else pane_start(as_of_ms, self._plan.timing.base_ms)
        key = (pane, gauges.segments, self._history.starts, self._history.lost)
        if key != self._compared_key:
            comparisons = baselines.compare(self._history, views, whole, gauges, self._plan)
            effect = self._measuring.take(self._history, whole, gauges)
            self._compared_texts = exposition.joined(
                exposition.render_compared(comparisons, gauges, self._plan),
                exposition.render_design_effect(effect.used, effect.measured),
            )
            self._compared_key, self._comparisons = key, comparisons
        return self._compared_texts

    def _changes(self, views: Sequence[LaneView], whole: Snapshot, gauges: Selection) -> Exposition:
        """The texts of what fell, since when, and what could be noticed. `_compared` must have been
        called for these views."""
        judged = self._judge.look(
            views,
            self._history,
            Basis(gauges, self._comparisons, self._measuring.found.used),
            whole.as_of_ms,
        )
        if judged is not self._judged:
            found = change_series.samples(judged, self._plan)
            self._judged, self._judged_texts = judged, exposition.render_changes(found)
        return self._judged_texts
