"""From the lanes as they were read to everything that is served, snapshot after snapshot.

Pure apart from what it remembers between two snapshots: the highest counters, the segments that
have counters, and the results that cost much and seldom change. What it makes is made off the event
loop, swapped as one value and never changed. Few requests need single panes, so a snapshot keeps
its lanes for them, and nothing is summed before they ask.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..changes import DEFAULTS, ChangeSettings, Marker, happened, ordered
from ..experiments import FindingsCache
from ..plan import Plan
from ..storage import StoredPast
from ..views import (
    HighestTotals,
    LaneView,
    PreviousSelection,
    Selection,
    Snapshot,
    classes_by_attribute,
    counters_of,
    covered,
    scores as scoring,
    selection,
    snapshot,
)
from . import exposition, sample_series
from .arrivals import Arrivals, per_hour
from .design_effects import Measuring
from .exposition import Exposition
from .first_sights import FirstSights
from .measures import MeasureScores, Told, measures_of
from .open_changes import (
    floor_samples,
    open_change_samples,
    traffic_change_samples,
    traffic_changes_of,
)
from .published import Published, Reading, publish
from .scorer import Scorer, no_bins


class KeptTexts:
    """The texts of one measure, each made anew where what it shows is another object."""

    def __init__(self) -> None:
        self._kept: dict[Callable[[MeasureScores], Exposition], tuple[object, Exposition]] = {}

    def of(
        self, render: Callable[[MeasureScores], Exposition], scores: MeasureScores, shown: object
    ) -> Exposition:
        """The text of what is shown of the scores."""
        kept = self._kept.get(render)
        if kept is None or kept[0] is not shown:
            kept = self._kept[render] = shown, render(scores)
        return kept[1]


class Publisher:
    """Makes what is served of the lanes, and remembers what the next snapshot depends on."""

    def __init__(
        self,
        plan: Plan,
        change_settings: ChangeSettings = DEFAULTS,
        version_attribute: str | None = None,
    ) -> None:
        self.previous = PreviousSelection()
        """The segments with counters, as of the last snapshot; the caller stores and restores
        it."""
        self.markers: tuple[Marker, ...] = ()
        """What is stored, as the caller read it last."""
        self.past: Sequence[StoredPast] = ()
        """The hours that were filled, as the caller read them last."""
        self.exemplar = ""
        """The end of the line of the score sum of all traffic, as the caller read it last."""
        self.first_sights: tuple[Marker, ...] = ()
        """Those of new versions that are not stored yet; the caller may store them."""
        self._first_sights = FirstSights(plan, version_attribute)
        self._plan, self._change_settings = plan, change_settings
        self._totals = HighestTotals()
        self._findings = FindingsCache(plan.tracking, plan.metrics)
        self._measuring = Measuring(plan, change_settings)
        self._measured: object = None
        """The comparisons when the design effect was measured."""
        self._scorers = [Scorer(measure, change_settings) for measure in measures_of(plan)]
        self._arrivals = Arrivals(change_settings.time_zone)
        self._texts = [KeptTexts() for _ in self._scorers]

    @property
    def told(self) -> Told:
        """The falls of all measures that are open or over, as what they were told, and when
        feedback was missing: another process may take them over."""
        falls = tuple(fall for scorer in self._scorers for fall in scorer.falls)
        by_feedback, *judged = self._scorers
        judged_names = tuple(name for scorer in judged for name in scorer.names)
        return Told(falls, by_feedback.gaps, by_feedback.names, judged_names)

    @told.setter
    def told(self, told: Told) -> None:
        self._scorers[0].gaps = told.gaps
        for scorer in self._scorers:
            is_graded = scorer.measure.is_graded
            scorer.falls = tuple(f for f in told.falls if (f.graded is not None) == is_graded)
            scorer.names = told.judged_names if is_graded else told.names

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
        views = covered(views, self._plan)
        raised = self._totals.raised(views) if with_series else views
        requested = self.previous.segments if with_series else ()
        whole = snapshot.evaluate(raised, self._plan, requested, now_ms)
        gauges = selection.busiest(whole, self._plan)
        # What was counted, not what counters show after a roll-back: only one process knows that.
        counted = replace(whole, counts=snapshot.sum_counts(views)) if with_series else whole
        report = scoring.report(counted, gauges, self._plan)
        as_of_ms = whole.as_of_ms
        experiments = self._findings.of(
            [view.experiments for view in views],
            None if as_of_ms is None else self._plan.timing.settled_before(as_of_ms),
            report.as_of,
            [view.experiments_lost_before for view in views],
            [view.experiments_dropped_ms for view in views],
        )
        found = self._scores(views, counted, gauges)
        marked = happened(self.markers)
        self.first_sights = self._first_sights.of(views, whole.as_of_ms, marked)
        change_settings = self._measuring.found.applied(self._change_settings)
        reading = Reading(
            found,
            experiments,
            change_settings,
            ordered((*marked, *self.first_sights)),
            tuple(each for each in self.markers if each not in marked),
            self._arrivals.of(found[0], self._scorers[0].history),
            traffic_changes_of(found[0], change_settings),
        )
        texts = self._series(whole, reading) if with_series else Exposition()
        return publish(texts, report, reading, ())

    def _scores(
        self, views: Sequence[LaneView], whole: Snapshot, gauges: Selection
    ) -> tuple[MeasureScores, ...]:
        """The scores of every measure, and what fell."""
        found = [scorer.of(views, whole, gauges, self.past) for scorer in self._scorers]
        if found[0].comparisons is not self._measured:
            self._measured = found[0].comparisons
            self._measuring.take(self._scorers[0].history, whole, gauges)
        noise = self._measuring.found
        graded = (scorer.bins for scorer in self._scorers if scorer.measure.is_graded)
        bins = next(graded, no_bins)
        return tuple(
            replace(scores, changes=scorer.look(noise, bins))
            for scores, scorer in zip(found, self._scorers, strict=True)
        )

    def _series(self, whole: Snapshot, reading: Reading) -> Exposition:
        """The series of all the traffic: of the one process that serves them."""
        counters, self.previous = counters_of(whole, reading.selection, self._plan, self.previous)
        noise, found = self._measuring.found, list[Exposition]()
        for scores, kept in zip(reading.scores, self._texts, strict=True):
            found.append(kept.of(exposition.render_windows, scores, scores.snapshot))
            if scores is reading.clicks:
                found.append(
                    exposition.render_traffic(
                        whole, counters, self._plan, reading.experiments, self.exemplar
                    )
                )
            found.append(kept.of(exposition.render_compared, scores, scores.comparisons))
            found.append(exposition.render_grading(scores))
            if scores is reading.clicks:
                measured = noise.used, noise.measured, noise.drift_ratios
                found.append(exposition.render_design_effect(*measured))
                found.append(kept.of(_changes, scores, scores.changes))
        classes = classes_by_attribute(reading.views, self._plan)
        graded = () if reading.judged is None else reading.judged.files
        samples = (
            *sample_series.file_samples(graded, classes),
            *(
                sample
                for scores in reading.scores
                for sample in open_change_samples(scores.measure.name, scores.changes, self._plan)
            ),
            *traffic_change_samples(reading.traffic, self._plan),
            *floor_samples(reading.clicks, reading.change_settings),
            *exposition.marker_samples(reading.markers, whole.as_of_ms),
            *exposition.arrival_samples(
                per_hour(reading.views, self._plan, whole.as_of_ms),
                self._arrivals.usual_per_hour(self._scorers[0].history, whole.as_of_ms),
            ),
            *exposition.silence_samples(
                reading.silences, reading.clicks.changes.gaps, whole.as_of_ms
            ),
        )
        return exposition.joined(*found, exposition.render_changes(samples))


def _changes(scores: MeasureScores) -> Exposition:
    """What fell, since when, and what could be noticed."""
    return exposition.render_changes(exposition.change_samples(scores.changes, scores.plan))
