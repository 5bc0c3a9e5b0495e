"""Keeps the scores of one measure up to date, snapshot after snapshot: its windows, the last hours
beside earlier ones, and what fell.

Pure apart from what it keeps. Graded rows that are final do not change, so all of their scores are
made anew only when another base pane is final. A new file is a new grading: what it graded is
compared with nothing before, a fall that is open when it comes into force is over then, and the
next one can only begin by what this file grades.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from ..changes import (
    DEFAULTS,
    KEPT_MS,
    LATELY_MS,
    MINUTE_MS,
    ChangeSettings,
    Fall,
    FeedbackGap,
    Graded,
    JudgedBins,
    Levels,
    LivePanes,
    Scene,
    ScoreTimeline,
    Series,
    Story,
    ToldAs,
    can_tell,
    fallen,
    kept_together,
    live_rise,
    measured_anew,
    superseded,
)
from ..panes import pane_start
from ..plan import BY_FEEDBACK, Plan
from ..storage import StoredPast
from ..views import (
    ALWAYS,
    SETTLED,
    Coverage,
    HourHistory,
    LaneFiles,
    LaneView,
    Segment,
    Selection,
    Snapshot,
    covered,
    evaluate,
    grading_at,
    kept_from,
    select,
)
from . import baselines
from .baselines import BaselineComparison
from .design_effects import MeasuredNoise
from .detector import Basis, ChangeDetector, look_at
from .measures import Detection, Measure, MeasureScores
from .timelines import Timelines, hours_in_gaps

NOTHING: Final = ScoreTimeline(
    *(np.zeros(0, np.int64),) * 2, *(np.zeros((0, 0)),) * 3, np.zeros(0, np.bool_)
)
"""No bins, of no series."""


LIVE_FROM_MS: Final = 30 * MINUTE_MS
"""A score may have been back for so long before what is called back has settled."""
LIVE_PANES: Final = 1_000
"""At most so many panes are read of a change."""


def no_bins() -> JudgedBins | None:
    """Those of where nothing is graded."""
    return None


class Scorer:
    """The scores of one measure."""

    def __init__(self, measure: Measure, change_settings: ChangeSettings = DEFAULTS) -> None:
        self.measure = measure
        self.history = HourHistory(measure.plan)
        """The hours, whatever graded them."""
        self.falls: tuple[Fall, ...] = ()
        """As of the last look, those of earlier gradings included."""
        self.gaps: tuple[FeedbackGap, ...] = ()
        """When feedback was missing, as of the last look."""
        self.names: tuple[ToldAs, ...] = ()
        """As what the open changes were told at the last look."""
        self._change_settings = change_settings.of_judged if measure.is_graded else change_settings
        self._views: Sequence[LaneView] = ()
        self._gauges: Selection | None = None
        self._scores = MeasureScores.none(measure)
        self._key: object = None
        self._comparisons: Sequence[BaselineComparison] = ()
        self._outages: frozenset[int] = frozenset()
        self._timelines = Timelines(measure.plan, zone=self._change_settings.time_zone)
        self._detector = ChangeDetector(measure.plan, self._change_settings)
        self._graded: Graded | None = None
        self._found = self._last = Detection()
        self._former: dict[Graded, Timelines] = {}

    def of(
        self,
        views: Sequence[LaneView],
        whole: Snapshot,
        gauges: Selection,
        past: Sequence[StoredPast] = (),
    ) -> MeasureScores:
        """The scores of these lanes, whose clicks sum to `whole`, of the segments of `gauges`; not
        yet what fell. `past` are hours that were filled. Raises Damaged and OverflowError."""
        self._views = views
        if self.measure.name == BY_FEEDBACK:
            self._scores = self._compared(_of_clicks(self.measure, views, whole, gauges), past)
            return self._scores
        scores = _of_others(self.measure, views, whole, gauges, self._scores)
        if scores.is_known and scores.key != self._scores.key:
            self._gauges, scores = gauges, self._compared(scores, ())
        self._scores = scores
        return scores

    def _compared(self, scores: MeasureScores, past: Sequence[StoredPast]) -> MeasureScores:
        """The scores with the last hours beside earlier ones, which cost as much as all the
        rest."""
        self.history.doubtful = hours_in_gaps(self.gaps, scores.plan.hour_ms)
        self.history.take(scores.views, past)
        self.history.fallen = hours_of_falls(self.falls, self.history.starts, scores.plan)
        key = scores.key, self.history.starts, self.history.lost, self.history.fallen
        if key != self._key:
            self._key, self._comparisons = key, ()
            if scores.is_comparable:
                lanes = scores.views, scores.snapshot, scores.selection, scores.plan
                since_ms, zone = scores.since_ms, self._change_settings.time_zone
                self._comparisons = baselines.compare(
                    self.history, *lanes, since_ms=since_ms, zone=zone
                )
            self._outages = baselines.left_out(self.history, self._change_settings.time_zone)
        return replace(
            scores,
            comparisons=self._comparisons,
            outages=self._outages,
            of_hours=self.history.sources,
        )

    def bins(self) -> JudgedBins | None:
        """The graded rows of the last snapshot along event time; None where nothing grades, or
        lanes disagree. Raises Damaged."""
        scores, grading = self._scores, self._scores.grading
        if grading is None or grading.is_mixed or self._gauges is None or scores.until_ms is None:
            return None
        timeline = self._timelines.of(scores.views, self.history, self._gauges, scores.until_ms)
        if timeline is None:
            return None
        counted = timeline.since(grading.since_ms)
        counts = self._timelines.counts
        impressions = counts.values[len(timeline.starts) - len(counted.starts) :, :, 0]
        directions = [metric.direction for metric in scores.plan.metrics]
        compared = tuple(at for at, direction in enumerate(directions) if direction == "up")
        return JudgedBins(
            counted, impressions, counts.segments, len(directions), compared, grading.since_ms
        )

    def look(
        self, noise: MeasuredNoise, judged: Callable[[], JudgedBins | None] = no_bins
    ) -> Detection:
        """What fell by the last scores, which are looked at no more often than once per base pane;
        nothing while nothing grades what must be graded. `judged`: the graded rows, which say more
        of a fall that others tell. Raises Damaged."""
        scores, grading = self._scores, self._scores.grading
        if scores.until_ms is None or not scores.is_known:
            return Detection()
        graded = None if grading is None else Graded(grading.name, grading.since_ms)
        if graded is not None:
            self.falls = _kept(superseded(self.falls, graded), scores.until_ms)
        coverage = next((view.coverage for view in scores.views if view.coverage), None)
        if coverage is not None:
            begins = partial(_begins, coverage)
            self.falls = _kept(measured_anew(self.falls, begins), scores.until_ms)
        is_same = graded == self._graded
        if not is_same:
            if self._graded is not None:
                self.names = ()  # of what another file graded
            self._graded = graded
            self._detector = ChangeDetector(self.measure.plan, self._change_settings, graded)
        found = Detection()
        if scores.is_comparable:
            bins = no_bins if self.measure.is_graded else judged
            own = noise.of_judged if self.measure.is_graded else noise
            found = self._looked(Basis(scores.selection, scores.comparisons, own, bins))
        if found is not self._found or not is_same:
            closed = (*found.closed, *self._of_former(noise.used))
            latest_first = sorted(closed, key=lambda story: -(story.fall.ended_ms or 0.0))
            open_now = tuple(self._with_live(story, noise.used) for story in found.open)
            self._found = found
            self._last = replace(found, open=open_now, closed=tuple(latest_first))
        return self._last

    def _with_live(self, story: Story, design_effect: float) -> Story:
        """The open change, with what has not settled yet, where that can tell that it is over."""
        scores, (grouping, segment, metric) = self._scores, story.fall.series
        names = [metric.name for metric in scores.plan.metrics]
        is_shown = (grouping, segment) in scores.segments and len(story.segments) == 1
        if self.measure.is_graded or not is_shown or not can_tell(metric):
            return story
        assert scores.until_ms is not None and scores.snapshot.as_of_ms is not None
        as_of_ms, windows = scores.snapshot.as_of_ms, scores.plan.timing.windows
        from_ms = max(scores.until_ms - LIVE_FROM_MS, round(story.fall.low_since_ms))
        # Where feedback has days, the finest panes are too many.
        few = (
            w for w, span in enumerate(windows) if (as_of_ms - from_ms) / span.pane_ms < LIVE_PANES
        )
        window = next(few, len(windows) - 1)
        pane_ms = windows[window].pane_ms
        first_ms = max(from_ms, kept_from(scores.views, scores.plan, window))
        until_ms = pane_start(as_of_ms, pane_ms)
        starts = np.arange(pane_start(first_ms + pane_ms - 1, pane_ms), until_ms, pane_ms)
        starts = starts[-LIVE_PANES:]
        at = names.index(metric)
        column, unit = scores.plan.metric_column(at), scores.plan.metrics[at].unit
        rows = scores.panes(window, starts.tolist(), (grouping, segment))[:, column : column + 3]
        usual = self._detector.usual_at((grouping, segment), at, starts, starts + pane_ms)
        panes = LivePanes(starts, rows / np.array([1, unit, unit]), usual)
        return replace(story, live=live_rise(panes, story, design_effect, scores.until_ms))

    def _looked(self, basis: Basis) -> Detection:
        """By what the grading of now made."""
        scores, detector = self._scores, self._detector
        assert scores.until_ms is not None
        others = tuple(fall for fall in self.falls if fall.graded != self._graded)
        detector.falls = tuple(fall for fall in self.falls if fall.graded == self._graded)
        detector.gaps, detector.names = self.gaps, self.names
        as_of_ms = scores.until_ms + scores.plan.timing.settle_ms
        found = detector.look(scores.views, self.history, basis, as_of_ms)
        self.falls = (*others, *detector.falls)
        self.gaps, self.names = detector.gaps, detector.names
        return found

    def _of_former(self, design_effect: float) -> Iterator[Story]:
        """The falls of earlier gradings that ended within the last day, by what these made."""
        since_ms = (self._scores.until_ms or 0) - LATELY_MS
        ended: dict[Graded, list[Fall]] = {}
        for fall in self.falls:
            if fall.graded and fall.graded != self._graded and (fall.ended_ms or 0) >= since_ms:
                ended.setdefault(fall.graded, []).append(fall)
        self._former = {
            graded: self._former.get(graded)
            or Timelines(self.measure.plan, graded.since_ms, self._change_settings.time_zone)
            for graded in ended
        }
        for graded, falls in ended.items():
            scene = self._scene(design_effect, graded)
            faults = kept_together(falls, Levels(scene.look, scene.look.timeline)).faults
            yield from scene.ended(faults, since_ms)

    def _scene(self, design_effect: float, graded: Graded) -> Scene:
        """What an earlier grading made, as far as it is kept."""
        scores, timelines, bins = self._scores, self._former[graded], None
        grading = grading_at(scores.files, graded.since_ms)
        if grading and grading.until_ms and grading.name == graded.judgements:
            views = measure_views(self.measure, self._views, graded.since_ms)
            bins = timelines.of(views, self.history, scores.selection, grading.until_ms)
        segments = () if bins is None else timelines.segments
        of = (scores.plan, self._change_settings, design_effect)
        look = look_at(NOTHING if bins is None else bins, segments, *of)
        return Scene(replace(look, graded=graded), timelines.counts, self._change_settings)


def hours_of_falls(
    falls: Iterable[Fall], starts: Sequence[int], plan: Plan
) -> dict[tuple[Segment, int], frozenset[int]]:
    """(segment, index of the metric) → starts of the hours that say nothing of what is usual."""
    at = {metric.name: index for index, metric in enumerate(plan.metrics)}
    known = [fall for fall in falls if fall.series[2] in at]
    series, hours = sorted({fall.series for fall in known}), np.array(starts, np.int64)
    left_out = fallen(known, series, hours, hours + plan.hour_ms)
    found: dict[tuple[Segment, int], frozenset[int]] = {}
    for index in np.flatnonzero(left_out.any(axis=0)).tolist():
        grouping, segment, metric = series[index]
        of_series = hours[left_out[:, index]].tolist()
        found[(grouping, segment), at[metric]] = frozenset(of_series)
    return found


def _begins(coverage: Coverage, series: Series) -> int | None:
    """Since when the lanes have a series; None: always, or not yet."""
    grouping, _, name = series
    names = [metric.name for metric in coverage.plan.metrics]
    return coverage.begins(names.index(name), grouping) if name in names else None


def _kept(falls: Sequence[Fall], until_ms: int) -> tuple[Fall, ...]:
    """Those that have not been over for so long that nobody asks."""
    return tuple(fall for fall in falls if until_ms - (fall.ended_ms or until_ms) < KEPT_MS)


def _of_clicks(
    measure: Measure, views: Sequence[LaneView], whole: Snapshot, gauges: Selection
) -> MeasureScores:
    as_of_ms = whole.as_of_ms
    pane = None if as_of_ms is None else pane_start(as_of_ms, measure.plan.timing.base_ms)
    until_ms = None if as_of_ms is None else measure.final_before_ms(as_of_ms)
    return MeasureScores(measure, views, whole, gauges, until_ms, key=(pane, gauges.segments))


def _of_others(
    measure: Measure,
    views: Sequence[LaneView],
    whole: Snapshot,
    gauges: Selection,
    before: MeasureScores,
) -> MeasureScores:
    """The scores of rows beside those of clicks: those of `before` where no other pane is final,
    and nothing else is new."""
    plan = measure.plan
    files = _files(measure, views)
    if whole.as_of_ms is None:
        return MeasureScores.none(measure, files=files)
    until_ms = measure.final_before_ms(whole.as_of_ms)
    # A sum without a lane that has events, and no such rows yet, would be too small.
    are_all = all(measure.name in view.rows for view in views if view.has_events)
    grading = grading_at(files, until_ms - 1) if are_all else None
    key = (until_ms, gauges.segments, grading, are_all, len(views), whole.coverage)
    if key == before.key:
        return before if files == before.files else replace(before, files=files)
    if not are_all or (measure.is_graded and grading is None):
        return MeasureScores.none(measure, until_ms, files, key)
    since_ms = ALWAYS if grading is None else grading.since_ms
    lanes = measure_views(measure, views, since_ms)
    # The last millisecond that is final: then the last pane of a window is, too.
    now_ms = until_ms + plan.timing.settle_ms - 1
    found = evaluate(lanes, plan, gauges.segments, now_ms, since_ms)
    settled = tuple(window for window in found.windows if window.view == SETTLED)
    selection = select(found, plan, frozenset(gauges.segments), empty_other=False)
    since_ms = max(since_ms, ALWAYS if found.coverage is None else found.coverage.hours)
    return MeasureScores(
        measure,
        lanes,
        replace(found, windows=settled),
        selection,
        until_ms,
        files,
        grading,
        -(-since_ms // plan.hour_ms) * plan.hour_ms,
        key,
    )


def _files(measure: Measure, views: Sequence[LaneView]) -> tuple[LaneFiles, ...]:
    """By what the lanes grade that have ever counted an event."""
    known = [view.rows.get(measure.name) for view in views if view.has_events]
    return tuple(rows.files for rows in known if rows is not None and rows.files is not None)


def measure_views(measure: Measure, views: Sequence[LaneView], since_ms: int) -> Sequence[LaneView]:
    """The lanes that have rows of a measure, with these in the place of those of clicks and
    without what some of them lack; panes since then."""
    found = []
    for view in views:
        if (rows := view.rows.get(measure.name)) is not None:
            mark = view.watermark_ms
            found.append(
                replace(
                    view,
                    panes={key: pages for key, pages in rows.panes.items() if key[1] >= since_ms},
                    totals={},
                    hours=rows.hours,
                    lost_hours=rows.lost_hours,
                    settled_before=None if mark is None else measure.final_before_ms(mark),
                    experiments={},
                    queries=None,
                    layouts=view.layouts and view.layouts.of_measure(measure.plan),
                    coverage=None,
                    raised={},
                )
            )
    return covered(found, measure.plan)
