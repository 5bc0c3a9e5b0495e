"""Which scores fell, since when, and what could be noticed: lane `hour`, and onsets for what is low
against earlier weeks or days.

Pure apart from what it keeps from look to look.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from relevanced.metrics import Booleans, Floats, Integers

from ..changes import (
    BEFORE_KNOWN,
    MOST_BEFORE_MS,
    Calls,
    ChangeSettings,
    Fall,
    FallCall,
    FeedbackGap,
    Graded,
    JudgedBins,
    Least,
    Look,
    Onsets,
    Scene,
    ScoreNoise,
    ScoreTimeline,
    Story,
    ToldAs,
    beyond_rise,
    by_earlier,
    called,
    calls_of,
    compare,
    followed,
    groups,
    joined_leasts,
    named,
    noise_of,
    onsets,
    parted,
    rise_of,
    scan,
    scanned_leasts,
    sides,
    threshold,
    told_changes,
    undecided,
    without_falls,
    without_standing,
)
from ..panes import pane_start
from ..plan import Plan
from ..views import HourHistory, LaneView, Segment, Selection
from .baseline_calls import UsualCalls
from .baselines import BaselineComparison, hour_until, made_of, sides_of
from .design_effects import MeasuredNoise
from .measures import Detection, FoundChanges, Low
from .timelines import Timelines

LOW_Z: Final = -1.5
"""Against earlier weeks or days, a score below this many standard errors gets an onset: no alert on
it fires above."""
ONSET_HOURS: Final = 8 * 24
"""What has been low for longer than a week is usual."""
COMPARED_HOURS: Final = 50
"""Two windows of a day, one behind the other, begin so long before what has settled."""
CELLS_PER_MS: Final = 50
"""Looks are as far apart as there are milliseconds of event time for so many cells (bins times
series), which take a small part of one: the share of a CPU is bounded whatever the size."""
SIGNS: Final = {"up": 1.0, "down": -1.0, "none": 0.0}
"""What a better score does."""
_AGAINST: Final = {"week": "weeks", "day": "day"}


@dataclass(frozen=True, eq=False)
class Basis:
    """What a look goes by, beside the lanes."""

    gauges: Selection
    """The segments that have series of their own."""
    comparisons: Sequence[BaselineComparison] = ()
    """Of these segments."""
    noise: MeasuredNoise = MeasuredNoise(BEFORE_KNOWN)
    judged: Callable[[], JudgedBins | None] = lambda: None
    """The judged rows, asked for where something fell."""


class ChangeDetector:
    """Looks at the settled scores no more often than once per base pane."""

    def __init__(
        self, plan: Plan, change_settings: ChangeSettings, graded: Graded | None = None
    ) -> None:
        """Of judged rows `graded` is what grades them: earlier hours are left out."""
        self._plan, self._change_settings, self._graded = plan, change_settings, graded
        zone, since_ms = change_settings.time_zone, 0 if graded is None else graded.since_ms
        self._timelines = Timelines(plan, since_ms, zone)
        self._signs = np.array([SIGNS[metric.direction] for metric in plan.metrics])
        self._looked_ms: int | None = None
        self.apart_ms = 0
        """The least event time between two looks."""
        self._last = Detection()
        self._usual_calls = UsualCalls(plan)
        self.falls: tuple[Fall, ...] = ()
        """As of the last look."""
        self.names: tuple[ToldAs, ...] = ()
        """As what the open changes were told at the last look."""

    @property
    def gaps(self) -> tuple[FeedbackGap, ...]:
        """When feedback was missing, as of the last look."""
        return self._timelines.gaps

    @gaps.setter
    def gaps(self, gaps: tuple[FeedbackGap, ...]) -> None:
        self._timelines.gaps = gaps

    def usual_at(self, segment: Segment, metric: int, starts: Integers, ends: Integers) -> Floats:
        """`Timelines.usual_at` of the last look."""
        return self._timelines.usual_at(segment, metric, starts, ends)

    def look(
        self,
        views: Sequence[LaneView],
        history: HourHistory,
        basis: Basis,
        as_of_ms: int | None,
    ) -> Detection:
        """What is said now; the last look's answer where it is not yet time for another. Raises
        Damaged."""
        if as_of_ms is None:
            return Detection()
        end_ms = pane_start(as_of_ms - self._plan.timing.settle_ms, self._plan.timing.base_ms)
        looked_ms = self._looked_ms
        if looked_ms is None or not 0 <= end_ms - looked_ms < max(self.apart_ms, 1):
            self._looked_ms = end_ms
            self._last = self._judged(views, history, basis, end_ms)
        return self._last

    def _judged(
        self,
        views: Sequence[LaneView],
        history: HourHistory,
        basis: Basis,
        end_ms: int,
    ) -> Detection:
        timeline = self._timelines.of(views, history, basis.gauges, end_ms, self.falls)
        if timeline is None:
            return Detection()
        self.apart_ms = timeline.scored.size // CELLS_PER_MS
        segments = self._timelines.segments
        begin_ms = min((*history.starts[:1], int(timeline.starts[0])))
        of_metrics = noise_of(self._plan.metrics, basis.noise.applied(self._change_settings))
        found_at = look_at(timeline, segments, self._plan, self._change_settings, basis.noise.used)
        whole = replace(found_at, graded=self._graded)
        noise, directions = whole.noise, whole.directions
        look = replace(whole, timeline=without_falls(whole, self.falls))
        calling = without_standing(look, self.falls)
        calls, by_hour = _scanned(calling, directions, noise)
        found = [_of_hour(calling, directions, calls, noise)]
        noticeable = [beyond_rise(each, look.timeline, directions, noise) for each in by_hour]
        rows = _rows_of(segments, basis.gauges.segments)
        comparisons = [each for each in basis.comparisons if not each.is_doubtful]
        for against, z, leasts in self._against_usual(comparisons, of_metrics):
            for begun_ms, least in leasts:
                drop = _by_series(least, rows, self._signs)
                noticeable.append(Least(against, drop, np.full(len(drop), float(begun_ms))))
            low = np.flatnonzero(_by_series(z, rows, self._signs) < LOW_Z)
            found.append(_low(look.timeline, directions, against, low, noise))
        by_usual, by_usual_alone = self._called_by_usual(
            look, history, replace(basis, comparisons=comparisons), rows
        )
        called_now = [*calls_of(look, "hour", found[0].series, found[0].onsets), *by_usual]
        now = followed(self.falls, look, whole.timeline, called_now)
        self.falls = now.falls
        counts = self._timelines.counts
        day_ago = end_ms - 24 * self._plan.hour_ms
        over = Scene(whole, counts, self._change_settings, basis.judged).ended(
            now.faults, end_ms - COMPARED_HOURS * self._plan.hour_ms
        )
        scene = Scene(look, counts, self._change_settings, basis.judged)
        stories = scene.stories(now.faults)
        self.falls = named(self.falls, stories)
        open_now, cannot_tell = parted(stories)
        if look.timeline.other is not None:
            alone = scan(look.timeline.alone, directions, noise)
            of_first = _of_hour(look.timeline, directions, alone, noise)
            by_first = [*calls_of(look, "hour", of_first.series, of_first.onsets), *by_usual_alone]
            cannot_tell += undecided(scene, whole.timeline, by_first, stories)
        told = told_changes(open_now, self._change_settings, end_ms, self.names)
        self.names = tuple(change.told_as for change in told)
        return Detection(
            segments,
            tuple(found),
            tuple(noticeable),
            begin_ms if self._plan.history_hours else None,
            end_ms,
            open_now,
            told,
            tuple(story for story in over if (story.fall.ended_ms or 0.0) >= day_ago),
            self.gaps,
            cannot_tell,
            tuple(fall for fall in self.falls if fall.accepted_ms is not None and not fall.rose),
            tuple(_lows(self.falls, over)),
        )

    def _called_by_usual(
        self, look: Look, history: HourHistory, basis: Basis, rows: Integers
    ) -> tuple[list[FallCall], list[FallCall]]:
        """The calls of the lanes `weeks` and `day`; those by the first reading alone."""
        since_ms = None if self._graded is None else self._graded.since_ms
        zone = self._change_settings.time_zone
        found = self._usual_calls.take(
            look.end_ms,
            basis.comparisons,
            basis.gauges.segments,
            basis.noise.applied(self._change_settings),
            lambda end_ms: hour_until(history, basis.gauges, end_ms, since_ms, zone),
        )
        if found is None:
            return [], []

        def calls(called_cells: Booleans) -> list[FallCall]:
            padded = np.concatenate([called_cells, np.zeros((1, called_cells.shape[1]), np.bool_)])
            low = np.flatnonzero(padded[rows].reshape(-1))
            began = onsets_of_low(look.timeline, look.directions, low, look.noise)
            return calls_of(look, found.lane, low, began)

        return calls(found.called), calls(found.alone)

    def _against_usual(
        self, comparisons: Sequence[BaselineComparison], noise: ScoreNoise
    ) -> Iterator[tuple[str, Floats, list[tuple[int, Floats]]]]:
        """(`day` or `weeks`, (segments, metrics) lowest z over the windows, for each rule the
        latest begin of a fall that it finds, and the smallest as (segments, metrics))."""
        for unit, against in _AGAINST.items():
            of_unit = [each for each in comparisons if each.unit == unit and each.periods]
            if of_unit:
                parts = [self._of_window(comparison, noise) for comparison in of_unit]
                z = np.fmin.reduce([part for part, _ in parts])
                yield against, z, [least for _, leasts in parts for least in leasts]

    def _of_window(
        self, comparison: BaselineComparison, noise: ScoreNoise
    ) -> tuple[Floats, list[tuple[int, Floats]]]:
        hours = int(comparison.window.removesuffix("h"))
        periods, unit = [*comparison.periods.values()], comparison.unit
        sides = sides_of(comparison.recent, periods, self._plan)
        of_periods = made_of(periods, self._plan, of_days=unit == "day")
        directions = np.where(self._signs != 0, self._signs, np.nan)
        compared = compare(sides, of_periods, noise, directions)
        rise = rise_of(-compared.loss_ratio, compared.z)
        base = np.where(sides.baseline != 0, np.abs(sides.baseline), np.nan)
        error = np.hypot(sides.stderr, sides.baseline_stderr) / base
        noise = replace(noise, drift_ratio=noise.drift_at(base))
        # Three windows of 1h make one of 3h.
        windows = ((1, error), (3, error / np.sqrt(3))) if hours == 1 else ((hours, error),)
        return compared.z, [
            (
                comparison.until_ms - length * self._plan.hour_ms,
                by_earlier(length, of_length, of_periods.periods, unit, noise) + rise,
            )
            for length, of_length in windows
        ]


def look_at(
    timeline: ScoreTimeline,
    segments: Sequence[Segment],
    plan: Plan,
    change_settings: ChangeSettings,
    design_effect: float,
) -> Look:
    """The look at a timeline whose series are these segments times the metrics of the plan."""
    noise = noise_of(plan.metrics, replace(change_settings, design_effect=design_effect))
    copies = len(segments)
    assert not isinstance(noise.drift_ratio, float)
    return Look(
        timeline,
        [(*segment, metric.name) for segment in segments for metric in plan.metrics],
        np.tile([SIGNS[metric.direction] for metric in plan.metrics], copies),
        replace(
            noise,
            drift_ratio=np.tile(noise.drift_ratio, copies),
            failures=np.tile(noise.failures, copies),
        ),
    )


def _scanned(
    timeline: ScoreTimeline, directions: Floats, noise: ScoreNoise
) -> tuple[Calls, tuple[Least, Least]]:
    """What the lane calls, and the smallest falls that it would have called."""
    judged = int(np.count_nonzero(directions))
    calls, least = [], []
    for series in groups(len(directions), len(timeline.starts)):
        part = timeline.of(series)
        found = sides(part, directions[series], noise.of(series))
        calls.append(called(part, found, threshold(judged)))
        least.append(scanned_leasts(part, found, judged))
    parts = [(each.called, each.z, each.loss, each.since_ms) for each in calls]
    at_all, soon = zip(*least, strict=True)
    return (
        Calls(*(np.concatenate(part) for part in zip(*parts, strict=True))),
        (joined_leasts(at_all), joined_leasts(soon)),
    )


def _of_hour(
    timeline: ScoreTimeline, directions: Floats, calls: Calls, noise: ScoreNoise
) -> FoundChanges:
    """The calls of lane `hour`, with onsets by what the call compared."""
    series = np.flatnonzero(calls.called).astype(np.int64)
    since = calls.since_ms[series]
    length = np.maximum(timeline.ends[-1] - since, MOST_BEFORE_MS)
    since = np.asarray(since - length, np.int64)
    began = onsets(timeline.of(series), directions[series], since, noise.of(series))
    return FoundChanges("hour", series, calls.loss[series], calls.z[series], began)


def _low(
    timeline: ScoreTimeline, directions: Floats, against: str, low: Integers, noise: ScoreNoise
) -> FoundChanges:
    began = onsets_of_low(timeline, directions, low, noise)
    return FoundChanges(against, low, None, None, began)


def onsets_of_low(
    timeline: ScoreTimeline, directions: Floats, low: Integers, noise: ScoreNoise
) -> Onsets:
    """The onsets of series, by index, that are low against other days or weeks."""
    recent = timeline.since(int(timeline.ends[-1]) - ONSET_HOURS * 3_600_000).of(low)
    return onsets(recent, directions[low], np.zeros(len(low), np.int64), noise.of(low))


def _rows_of(segments: Sequence[Segment], shown: Sequence[Segment]) -> Integers:
    """For each segment its row among those shown; one past the last where it is not."""
    at = {segment: row for row, segment in enumerate(shown)}
    return np.array([at.get(segment, len(shown)) for segment in segments], np.int64)


def _by_series(values: Floats, rows: Integers, signs: Floats) -> Floats:
    """(series,) from (shown segments, metrics); infinite where a segment is not shown, or a metric
    has no better direction."""
    padded = np.concatenate([values, np.full((1, values.shape[1]), np.inf)])
    return np.asarray(np.where(signs == 0, np.inf, padded[rows]).reshape(-1))


def _lows(falls: Iterable[Fall], over: Iterable[Story]) -> Iterator[Low]:
    """When segments were low by what is over: those of the stories, and what fell before them. Not
    where nothing comparable is scored since, which did not recover."""
    for story in over:
        own = (story.own, *story.also) if story.fall.incomparable_ms is None else ()
        for moved in (*own, *story.shares):
            yield Low(moved.series[:2], story.fall.onset.likely, story.fall.ended_ms or 0.0)
    for fall in falls:
        if fall.ended_ms is not None and fall.incomparable_ms is None and not fall.rose:
            yield Low(fall.series[:2], fall.onset.likely, fall.ended_ms)
