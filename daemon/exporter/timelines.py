"""The settled panes and hours of the shown segments as one timeline, kept from look to look.

What is settled does not change, so each pane and hour is summed over lanes and segments once;
the next look adds the newest. A lane that replaces a page, which a repair may do, replaces the sum.

Pure apart from what it keeps.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timezone, tzinfo
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from relevanced.metrics import Booleans, Floats, Integers

from ..changes import (
    GAPS_KEPT_MS,
    Counts,
    Fall,
    FeedbackGap,
    ScoreTimeline,
    are_in_gaps,
    fallen,
    gaps_in,
    with_gaps,
)
from ..panes import days_before, pane_start
from ..plan import Plan
from ..views import WHOLE, HourHistory, LaneView, Segment, Selection, kept_from
from .baselines import DAY, WEEK, WEEKS, best_case_of, outages

RESELECT_MS: Final = 600_000
"""Event time after which the segments are selected anew, which sums all bins again."""
SUMMED_AT_ONCE: Final = 96
"""Hours that a look after the first sums at most. Until all are summed of segments that were
selected anew, and of hours that changed, what was summed before serves: by fewer hours than before,
less would be usual, and a fall would seem to recover."""
CELLS: Final = 1 << 21
"""Numbers that the hours may take: with very many segments fewer hours are kept."""
FINEST_OF_HOURS: Final = 4
"""Panes longer than this part of an hour are not used where there are hours."""
REACH_HOURS: Final = 14 * 24
"""How far back bins go; older hours only tell what is usual."""

WITH_FEEDBACK: Final = "items_with_feedback"
GAP_COLUMNS: Final = ("impressions", "zero_result_impressions", WITH_FEEDBACK)
"""The counts that tell when feedback was missing."""

LEAST_STEP: Final = 0.01
"""By this part of a score an hour within which it changes is apart from both hours beside it."""
LARGE_STEP: Final = 0.05
"""And by this one from one of them."""
STEP_Z: Final = 3.0
"""And by so many standard errors from both."""

_MeanOf: TypeAlias = Callable[[Integers, Floats], Floats]
"""(bins,) hours and (hours, series) values → (bins, series) of earlier days."""
_Key: TypeAlias = tuple[int, int]
"""(window, start) of a pane."""


@dataclass(frozen=True)
class _Sum:
    """The columns of counts and metrics of a bin, and the objects that they were summed from."""

    of: tuple[object, ...]
    rows: Floats


@dataclass(frozen=True)
class _KnownHours:
    """The hours that tell what is usual."""

    starts: Sequence[int]
    fallen: Booleans
    """(hours, segments, metrics): of which they tell nothing."""


class Timelines:
    """Makes the timeline of each look."""

    def __init__(self, plan: Plan, since_ms: int = 0, zone: tzinfo = timezone.utc) -> None:
        """Hours that start before `since_ms` are left out; usual are the same hours of a zone."""
        self._plan, self._since_ms, self._zone = plan, since_ms, zone
        self.segments: tuple[Segment, ...] = ()
        """The segments of the timeline; its series are these times the metrics."""
        self._selection: Selection | None = None
        self._selected_ms = 0
        self._panes: dict[_Key, _Sum] = {}
        self._hours: dict[int, _Sum] = {}
        self._next: Selection | None = None
        """Selected anew; it takes the place of the other once all of its hours are summed."""
        self._next_hours: dict[int, _Sum] = {}
        self._known = _KnownHours((), np.zeros((0, 0, 0), np.bool_))
        """As of the last timeline."""
        self._best_case = best_case_of(plan)
        last = plan if self._best_case is None else self._best_case
        self._columns = slice(0, last.weight_column)
        nothing = np.zeros((0, 0, len(plan.count_columns)))
        self.counts = Counts({}, nothing)
        """The counts of the segments in the bins of the last timeline."""
        self.gaps: tuple[FeedbackGap, ...] = ()
        """When feedback was missing: these bins are as empty. Each timeline finds new ones."""

    def of(
        self,
        views: Sequence[LaneView],
        history: HourHistory,
        gauges: Selection,
        end_ms: int,
        falls: Sequence[Fall] = (),
    ) -> ScoreTimeline | None:
        """The bins that end by `end_ms`; None where none has an impression. `history` must have
        taken these views. No hour of a fall that is over says what is usual. Raises Damaged."""
        selection = self._select(gauges, history, end_ms)
        spans, before_ms = self._spans(views, history, end_ms)
        self._sum_panes(views, spans, selection)
        hours = [start for start in sorted(self._hours) if start + self._plan.hour_ms <= before_ms]
        first_ms = end_ms - REACH_HOURS * self._plan.hour_ms
        recent = [start for start in hours if start >= first_ms]
        rows = [self._hours[start].rows for start in recent]
        rows += [self._panes[index, start].rows for index, start, _ in spans]
        starts = np.array([*recent, *(start for _, start, _ in spans)], np.int64)
        ends = np.array(
            [*(start + self._plan.hour_ms for start in recent), *(end for _, _, end in spans)],
            np.int64,
        )
        seen = [index for index, each in enumerate(rows) if each[0].any()]
        if not seen:
            return None
        kept = slice(seen[0], None)
        hourly = (np.arange(len(rows)) < len(recent))[kept]
        bins, starts, ends = np.array(rows[kept]), starts[kept], ends[kept]
        self._find_gaps(bins, starts, ends, end_ms)
        bins[are_in_gaps(starts, ends, self.gaps)] = 0
        self._known = self._known_of(hours, falls)
        return self._timeline(bins, starts, ends, hourly)

    def usual_at(self, segment: Segment, metric: int, starts: Integers, ends: Integers) -> Floats:
        """(bins,): what earlier weeks have at any bins, of one score of the last timeline; NaN
        where they have nothing, or no week is known."""
        usual = None
        if len(starts) and segment in self.segments:
            row = self.segments.index(segment)
            earlier = self._earlier(int(starts[-1]), self._plan, slice(row, row + 1))
            usual = earlier.usual(self._hours_of(starts, ends))
        return np.full(len(starts), np.nan) if usual is None else usual[:, metric]

    def _known_of(self, hours: Sequence[int], falls: Sequence[Fall]) -> _KnownHours:
        series = [(*each, metric.name) for each in self.segments for metric in self._plan.metrics]
        starts = np.array(hours, np.int64)
        found = fallen(falls, series, starts, starts + self._plan.hour_ms)
        shape = len(hours), len(self.segments), len(self._plan.metrics)
        return _KnownHours(hours, found.reshape(shape))

    def _find_gaps(self, bins: Floats, starts: Integers, ends: Integers, end_ms: int) -> None:
        if WHOLE in self.segments:
            whole = bins[:, self.segments.index(WHOLE)]
            found = feedback_gaps(self._plan, whole, starts, ends)
            self.gaps = with_gaps(self.gaps, found, end_ms - GAPS_KEPT_MS)

    def _select(self, gauges: Selection, history: HourHistory, end_ms: int) -> Selection:
        """The segments of this look, and their hours."""
        telling = self._telling(history)
        if self._selection is None:
            self._hours, _ = self._summed(history, telling, gauges, {}, len(telling))
            self._selection, self.segments = gauges, gauges.segments
            self._selected_ms = end_ms
            return gauges
        if not 0 <= end_ms - self._selected_ms < RESELECT_MS:
            self._selected_ms = end_ms
            if self._next is None and gauges.segments != self._selection.segments:
                self._next, self._next_hours = gauges, {}
        if self._next is not None:
            of_next = self._summed(history, telling, self._next, self._next_hours)
            self._next_hours, are_all = of_next
            if are_all:
                self._selection, self.segments = self._next, self._next.segments
                self._panes, self._hours = {}, self._next_hours
                self._next, self._next_hours = None, {}
                return self._selection
        self._hours, _ = self._summed(history, telling, self._selection, self._hours)
        return self._selection

    def _spans(
        self, views: Sequence[LaneView], history: HourHistory, end_ms: int
    ) -> tuple[list[tuple[int, int, int]], int]:
        """([(window, start, end) of each pane], oldest first, and the instant that they begin
        at: the finest that every lane keeps."""
        has_hours = bool(history.starts)
        layers = [
            (
                index,
                span.pane_ms,
                max(kept_from(views, self._plan, index), end_ms - 3 * span.length_ms),
            )
            for index, span in enumerate(self._plan.timing.windows)
            if not has_hours or span.pane_ms * FINEST_OF_HOURS <= self._plan.hour_ms
        ]
        coarser = [pane_ms for _, pane_ms, _ in layers[1:]]
        coarser.append(self._plan.hour_ms if has_hours else 1)
        spans: list[tuple[int, int, int]] = []
        until_ms = end_ms
        for (index, pane_ms, from_ms), next_ms in zip(layers, coarser, strict=True):
            first = _at_or_after(_at_or_after(from_ms, next_ms), pane_ms)
            starts = range(first, pane_start(until_ms, pane_ms), pane_ms)
            if starts:
                spans += [(index, start, start + pane_ms) for start in reversed(starts)]
                until_ms = pane_start(starts[0], next_ms)
        return spans[::-1], until_ms

    def _sum_panes(
        self,
        views: Sequence[LaneView],
        spans: Sequence[tuple[int, int, int]],
        selection: Selection,
    ) -> None:
        width, summed = self._plan.row_width, dict[_Key, _Sum]()
        for index, start, _ in spans:
            key = (index, start)
            pages = tuple(lane.panes.get(key) for lane in views)
            before = self._panes.get(key)
            if before is not None and _are_the_same(before.of, pages):
                summed[key] = before
                continue
            rows = np.zeros((len(selection.segments), width))
            for lane, of_lane in zip(views, pages, strict=True):
                if of_lane is not None:
                    rows += selection.fold_pages(of_lane, lane.names, width)
            summed[key] = _Sum(pages, rows[:, self._columns].copy())
        self._panes = summed

    def _telling(self, history: HourHistory) -> list[int]:
        """The hours that are kept and tell something, oldest first."""
        traffic = history.traffic()
        covered = range(min(traffic, default=0), max(traffic, default=0) + 1, self._plan.hour_ms)
        left_out = outages(traffic, covered, self._zone) | history.lost if traffic else history.lost
        known = (start for start in history.starts if start >= self._since_ms)
        return [start for start in known if start not in left_out]

    def _summed(
        self,
        history: HourHistory,
        telling: Sequence[int],
        selection: Selection,
        before: Mapping[int, _Sum],
        most: int = SUMMED_AT_ONCE,
    ) -> tuple[dict[int, _Sum], bool]:
        """The hours of these segments, at most so many of them summed now, the newest first; and
        whether all are as they are now."""
        width = len(selection.segments) * (self._columns.stop - self._columns.start)
        summed, left, are_all = dict[int, _Sum](), most, True
        for start in reversed(telling[-max(CELLS // width, 1) :]):
            version, found = (history.version_of(start),), before.get(start)
            is_current = found is not None and _are_the_same(found.of, version)
            if not is_current and left:
                left -= 1
                rows = history.folded(start, selection)[:, self._columns]
                found, is_current = _Sum(version, rows.copy()), True
            are_all &= is_current
            if found is not None:
                summed[start] = found
        return summed, are_all

    def _timeline(
        self, rows: Floats, starts: Integers, ends: Integers, hourly: Booleans
    ) -> ScoreTimeline:
        counted = len(self._plan.count_columns)
        at = {segment: index for index, segment in enumerate(self.segments)}
        self.counts = Counts(at, rows[..., :counted], self._plan.count_columns)
        of_plan = partial(self._of_plan, rows, starts, ends, hourly)
        found = of_plan(self._plan)
        return found if self._best_case is None else replace(found, other=of_plan(self._best_case))

    def _of_plan(
        self,
        rows: Floats,
        starts: Integers,
        ends: Integers,
        hourly: Booleans,
        plan: Plan,
    ) -> ScoreTimeline:
        """By the columns of the metrics of a plan."""
        earlier, hours = self._earlier(int(starts[-1]), plan), self._hours_of(starts, ends)
        return replace(
            timeline_of(plan, rows, starts, ends, hourly),
            usual=earlier.usual(hours),
            yesterday=earlier.yesterday(hours),
            steps=earlier.steps(hours, ~hourly),
        )

    def _hours_of(self, starts: Integers, ends: Integers) -> Integers:
        """(bins,) the hour of the middle of each bin."""
        return pane_start((starts + ends) // 2, self._plan.hour_ms)

    def _earlier(self, until_ms: int, plan: Plan, segments: slice = slice(None)) -> "EarlierDays":
        """The hours that are known of these segments, by the columns of the metrics of a plan."""
        known, hour_ms = self._known, self._plan.hour_ms
        starts = np.array(known.starts, np.int64)
        shape = len(starts), len(self.segments[segments]), self._columns.stop
        rows = [self._hours[start].rows[segments] for start in known.starts]
        are_hours = np.ones(len(starts), np.bool_)
        timeline = timeline_of(
            plan, np.array(rows).reshape(shape), starts, starts + hour_ms, are_hours
        )
        fallen = known.fallen[:, segments].reshape(timeline.scored.shape)
        known_hours = (until_ms - known.starts[0]) // hour_ms if known.starts else 0
        return EarlierDays(timeline, fallen, hour_ms, known_hours, self._zone)


def feedback_gaps(
    plan: Plan, whole: Floats, starts: Integers, ends: Integers
) -> Iterator[FeedbackGap]:
    """When feedback was missing, by the rows of all traffic in bins: (bins, columns)."""
    names = plan.count_columns
    if WITH_FEEDBACK in names:
        shown, empty, feedback = (whole[:, names.index(each)] for each in GAP_COLUMNS)
        yield from gaps_in(starts, ends, shown - empty, feedback)


def hours_in_gaps(gaps: Iterable[FeedbackGap], hour_ms: int) -> frozenset[int]:
    """The starts of the hours that have some of a gap: they tell nothing, and nothing falls by
    periods that contain one."""
    return frozenset(
        start
        for gap in gaps
        for start in range(pane_start(gap.begin_ms, hour_ms), gap.end_ms, hour_ms)
    )


def timeline_of(
    plan: Plan, rows: Floats, starts: Integers, ends: Integers, hourly: Booleans
) -> ScoreTimeline:
    """The sums of rows, (bins, segments, columns), by the columns of the metrics of a plan."""
    units = np.array([metric.unit for metric in plan.metrics], np.float64)
    columns = slice(len(plan.count_columns), plan.weight_column)

    def column(which: int, scale: Floats | float = 1.0) -> Floats:
        parts = rows[..., columns][..., which::3] / scale
        return np.asarray(parts.reshape(len(rows), parts.shape[1] * parts.shape[2]))

    return ScoreTimeline(starts, ends, column(0), column(1, units), column(2, units), hourly)


@dataclass(frozen=True, eq=False)
class EarlierDays:
    """What the same hours have on earlier days."""

    hours: ScoreTimeline
    fallen: Booleans
    """(hours, series) which of them tell nothing."""
    hour_ms: int
    known_hours: int
    """How long ago the first one was."""
    zone: tzinfo

    def usual(self, of_bin: Integers) -> Floats | None:
        """(bins, series): the mean over the weeks that have the hour of each bin; None before a
        week is known."""
        return self._over_weeks(of_bin, self.hours.means) if self._knows_weeks else None

    def yesterday(self, of_bin: Integers) -> Floats | None:
        """(bins, series): the mean of the same hour a day before; None before a day is known."""
        if self.known_hours < DAY:
            return None
        means = self.hours.means
        # Before a week is known also of a fall: what is as low every night is no news then.
        told = np.where(self.fallen, np.nan, means) if self._knows_weeks else means
        return self._of_yesterday(of_bin, told)

    def steps(self, of_bin: Integers, fine: Booleans) -> Booleans | None:
        """(bins, series): which of the bins that are `fine` have an hour within which the score
        changes on earlier days, as its mean is that of neither hour beside it. None where none
        has."""
        found = np.zeros((len(of_bin), self.fallen.shape[1]), np.bool_)
        hours, at = np.unique(of_bin[fine], return_inverse=True)
        if self._knows_weeks:
            found[fine] |= self._step(self._over_weeks, hours)[at]
        if self._lacks_weeks:
            found[fine] |= self._step(self._of_yesterday, hours)[at]
        return found if found.any() else None

    def _step(self, mean_of: _MeanOf, hours: Integers) -> Booleans:
        """(hours, series): which are apart from both hours beside them by more than chance makes
        them."""
        own, error = (mean_of(hours, each) for each in (self.hours.means, self.hours.variances))
        apart = []
        for beside in (hours - self.hour_ms, hours + self.hour_ms):
            step = np.abs(own - mean_of(beside, self.hours.means))
            its_error = error + mean_of(beside, self.hours.variances)
            with np.errstate(divide="ignore", invalid="ignore"):
                share = step / np.abs(own)
            apart.append(np.where(step > STEP_Z * np.sqrt(its_error), share, 0.0))
        return (np.minimum(*apart) > LEAST_STEP) & (np.maximum(*apart) > LARGE_STEP)

    @property
    def _knows_weeks(self) -> bool:
        return self.known_hours >= WEEK

    @property
    def _lacks_weeks(self) -> bool:
        """Whether a day is known, and windows of one do not know their weeks yet."""
        return DAY <= self.known_hours < WEEK + 2 * DAY

    def _over_weeks(self, of_bin: Integers, values: Floats) -> Floats:
        told, weeks = np.where(self.fallen, np.nan, values), range(7, 7 * WEEKS + 1, 7)
        usual = self._mean_before(of_bin, told, weeks)
        if self.fallen.any():
            # What had fallen in all weeks that are known: other days tell.
            lacks = np.isnan(usual) & ~np.isnan(self._mean_before(of_bin, values, weeks))
            usual = np.where(lacks, self._mean_before(of_bin, told, range(1, 7)), usual)
        return usual

    def _of_yesterday(self, of_bin: Integers, values: Floats) -> Floats:
        return self._mean_before(of_bin, values, [1])

    def _mean_before(self, of_bin: Integers, values: Floats, days: Iterable[int]) -> Floats:
        """(bins, series): the mean over the same hours so many local days before those of the bins;
        NaN where none is known. `values` is (hours, series)."""
        hour_ms, at = self.hour_ms, {start: n for n, start in enumerate(self.hours.starts.tolist())}
        table = np.concatenate([values, np.full((1, values.shape[1]), np.nan)])
        total, count = np.zeros((len(of_bin), table.shape[1])), np.zeros(1)
        for back in days:
            earlier = [
                pane_start(each - days_before(each, back, self.zone, hour_ms), hour_ms)
                for each in of_bin.tolist()
            ]
            found = table[[at.get(start, -1) for start in earlier]]
            is_known = ~np.isnan(found)
            total, count = total + np.where(is_known, found, 0.0), count + is_known
        mean: Floats = np.full(total.shape, np.nan)
        np.divide(total, count, out=mean, where=count > 0)
        return mean


def _at_or_after(time_ms: int, pane_ms: int) -> int:
    return -(-time_ms // pane_ms) * pane_ms


def _are_the_same(before: Sequence[object], now: Sequence[object]) -> bool:
    return len(before) == len(now) and all(
        one is other for one, other in zip(before, now, strict=True)
    )
