"""From the lanes as they were read to everything that is served, snapshot after snapshot.

Pure, apart from what it remembers between two snapshots: the highest counters, the segments that
have counters, and the results that cost much and seldom change.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from ..experiments.findings import FindingsCache
from ..judging.ledger import Fall
from ..judging.markers import Marker, ordered
from ..judging.settings import DEFAULTS, Judging
from ..panes import pane_start
from ..plan import Plan
from ..storage.past import StoredPast
from . import baselines, change_series, exposition, file_series, scores, selection, snapshot
from .counters import HighestTotals, PreviousSelection, counters_of
from .exposition import Exposition
from .first_sights import FirstSights
from .history import History
from .judged import JudgedScores, Scorer, rows_plan
from .judged_falls import JudgedBasis, JudgedFalls
from .judgements import Basis, Judge, Judgement
from .lane_view import LaneView, classes_by_attribute, covered
from .measuring import Measuring
from .pane_reader import Reading
from .published import Published, publish
from .selection import Selection
from .snapshot import Segment, Snapshot
from .usual import Usual

_ComparedKey: TypeAlias = tuple[int | None, tuple[Segment, ...], tuple[int, ...], frozenset[int]]
"""(base pane that contains as_of, segments that gauges show, hours that the lanes contain, hours
that they lost)."""


class Publisher:
    """Makes what is served of the lanes, and remembers what the next snapshot depends on."""

    def __init__(
        self, plan: Plan, judging: Judging = DEFAULTS, version_attribute: str | None = None
    ) -> None:
        self.previous = PreviousSelection()
        """The segments with counters, as of the last snapshot; the caller stores and restores
        it."""
        self.markers: tuple[Marker, ...] = ()
        """What is stored, as the caller read it last."""
        self.past: Sequence[StoredPast] = ()
        """The hours that were filled, as the caller read them last."""
        self.first_sights: tuple[Marker, ...] = ()
        """Those of new versions that are not stored yet; the caller may store them."""
        self._first_sights = FirstSights(plan, version_attribute)
        self._plan, self._judging = plan, judging
        self._totals = HighestTotals()
        self._findings = FindingsCache(plan.tracking, plan.metrics)
        self._history = History(plan)
        self._measuring = Measuring(plan, judging)
        self._compared_key: _ComparedKey | None = None
        self._compared_texts: Exposition | None = None
        self._comparisons: Sequence[baselines.Comparison] = ()
        self._outages: frozenset[int] = frozenset()
        self._judge = Judge(plan, judging)
        self._scorer = None if plan.judged is None else Scorer(plan)
        self._judged_falls: JudgedFalls | None = None
        if plan.judged is not None:
            self._judged_falls = JudgedFalls(rows_plan(plan), judging)
        self._judged = Judgement()
        self._judged_texts = Exposition()
        self._graded_scores: JudgedScores | None = None
        self._graded_texts = Exposition()

    @property
    def falls(self) -> tuple[Fall, ...]:
        """The falls that are open or over, which another process may take over: of scores of
        feedback, and of judged ones."""
        judged = () if self._judged_falls is None else self._judged_falls.falls
        return (*self._judge.falls, *judged)

    @falls.setter
    def falls(self, falls: tuple[Fall, ...]) -> None:
        self._judge.falls = tuple(fall for fall in falls if fall.graded is None)
        if self._judged_falls is not None:
            self._judged_falls.falls = tuple(fall for fall in falls if fall.graded is not None)

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
        read, views = views, covered(views, self._plan)
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
        self._compare(views, whole, gauges)
        scorer = self._scorer
        by_judgements = None
        if scorer is not None:
            by_judgements = scorer.of(read, whole.as_of_ms, gauges, whole.coverage)
        basis = Basis(gauges, self._comparisons, self._measuring.found.used)
        basis = basis if scorer is None else replace(basis, judged=scorer.bins)
        judged = self._judge.look(views, self._history, basis, whole.as_of_ms)
        judged_falls = self._look_at_judged(read, by_judgements)
        used = replace(self._judging, design_effect=self._measuring.found.used)
        usual = Usual(self._comparisons, used)
        self.first_sights = self._first_sights.of(views, whole.as_of_ms, self.markers)
        markers = ordered((*self.markers, *self.first_sights))
        reading = Reading(
            self._plan,
            views,
            counted,
            gauges,
            experiments,
            judged,
            by_judgements,
            judged_falls,
            usual,
            markers,
            self._history.sources,
            self._outages,
        )
        texts = self._series(whole, reading) if with_series else Exposition()
        return publish(texts, report, reading, ())

    def _look_at_judged(self, views: Sequence[LaneView], scores: JudgedScores | None) -> Judgement:
        """Which judged scores fell."""
        if self._scorer is None or self._judged_falls is None or scores is None:
            return Judgement()
        basis = JudgedBasis(scores, self._scorer.history, self._measuring.found.used)
        return self._judged_falls.look(views, basis)

    def _series(self, whole: Snapshot, reading: Reading) -> Exposition:
        """The series of all the traffic: of the one process that serves them."""
        gauges = reading.selection
        counters, self.previous = counters_of(whole, gauges, self._plan, self.previous)
        texts = exposition.render(whole, gauges, counters, self._plan, reading.experiments)
        texts = exposition.joined(texts, self._compared(gauges))
        texts = exposition.joined(texts, self._changes(reading.judged))
        texts = exposition.joined(texts, self._graded(reading.by_judgements))
        graded = reading.by_judgements
        classes = classes_by_attribute(reading.views, self._plan)
        refused = file_series.samples(() if graded is None else graded.files, classes)
        texts = exposition.joined(texts, exposition.render_changes(refused))
        marked = change_series.marker_samples(reading.markers, whole.as_of_ms)
        return exposition.joined(texts, exposition.render_changes(marked))

    def _compare(self, views: Sequence[LaneView], whole: Snapshot, gauges: Selection) -> None:
        """Compare the last hours with their baselines, no more often than once per base pane: it
        costs as much as all the rest."""
        self._history.take(views, self.past)
        as_of_ms = whole.as_of_ms
        pane = None if as_of_ms is None else pane_start(as_of_ms, self._plan.timing.base_ms)
        key = (pane, gauges.segments, self._history.starts, self._history.lost)
        if key != self._compared_key:
            self._comparisons = baselines.compare(self._history, views, whole, gauges, self._plan)
            self._measuring.take(self._history, whole, gauges)
            self._outages = baselines.left_out(self._history)
            self._compared_key, self._compared_texts = key, None

    def _compared(self, gauges: Selection) -> Exposition:
        """The texts of the last hours and their baselines, kept while these are the same."""
        if self._compared_texts is None:
            effect = self._measuring.found
            self._compared_texts = exposition.joined(
                exposition.render_compared(self._comparisons, gauges, self._plan),
                exposition.render_design_effect(effect.used, effect.measured),
            )
        return self._compared_texts

    def _graded(self, scores: JudgedScores | None) -> Exposition:
        """The texts of the judged scores, kept while these are the same."""
        if scores is not None and scores is not self._graded_scores:
            self._graded_scores, self._graded_texts = scores, exposition.render_judged(scores)
        return self._graded_texts

    def _changes(self, judged: Judgement) -> Exposition:
        """The texts of what fell, since when, and what could be noticed."""
        if judged is not self._judged:
            found = change_series.samples(judged, self._plan)
            self._judged, self._judged_texts = judged, exposition.render_changes(found)
        return self._judged_texts
