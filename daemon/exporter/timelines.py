"""The settled panes and hours of the shown segments as one timeline, kept from look to look.

What is settled does not change, so each pane and hour is summed over lanes and segments once;
the next look adds the newest. A lane that replaces a page, which a repair may do, replaces the sum.

Pure apart from what it keeps.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timezone, tzinfo
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from relevanced.metrics import Booleans, Floats, Integers

from ..changes import (
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
            usual, _ = self._usual(starts, ends, self._plan, slice(row, row + 1))
        return np.full(len(starts), np.nan) if usual is None else usual[:, metric]

    def _known_of(self, hours: Sequence[int], falls: Sequence[Fall]) -> _KnownHours:
        series = [(*each, metric.name) for each in self.segments for metric in self._plan.metrics]
        starts = np.array(hours, np.int64)
        found = fallen(falls, series, starts, starts + self._plan.hour_ms)
        shape = len(hours), len(self.segments), len(self._plan.metrics)
        return _KnownHours(hours, found.reshape(shape))

    def _find_gaps(self, bins: Floats, starts: Integers, ends: Integers, end_ms: int) -> None:
        names = self._plan.count_columns
        if WITH_FEEDBACK in names and WHOLE in self.segments:
            whole = bins[:, self.segments.index(WHOLE)]
            shown, empty, feedback = (whole[:, names.index(each)] for each in GAP_COLUMNS)
            found = gaps_in(starts, ends, shown - empty, feedback)
            self.gaps = with_gaps(self.gaps, tuple(found), end_ms)

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
        left_out = outages(traffic, covered) | history.lost if traffic else history.lost
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
        units = np.array([metric.unit for metric in plan.metrics], np.float64)
        columns = slice(len(plan.count_columns), plan.weight_column)

        def column(which: int, scale: Floats | float = 1.0) -> Floats:
            return np.asarray((rows[..., columns][..., which::3] / scale).reshape(len(rows), -1))

        usual, yesterday = self._usual(starts, ends, plan)
        return ScoreTimeline(
            starts, ends, column(0), column(1, units), column(2, units), hourly, usual, yesterday
        )

    def _usual(
        self, starts: Integers, ends: Integers, plan: Plan, segments: slice = slice(None)
    ) -> tuple[Floats | None, Floats | None]:
        """(bins, series of these segments) twice: the mean over the weeks that have the hour of the
        bin's middle; and until windows of a day know their weeks, that of the day before."""
        hours, hour_ms = self._known.starts, self._plan.hour_ms
        known_hours = (int(starts[-1]) - hours[0]) // hour_ms if hours else 0
        if known_hours < DAY:
            return None, None
        means = self._hour_means(plan, segments)
        of_bin = pane_start((starts + ends) // 2, hour_ms)
        # Also of a fall: what is as low every night is no news in the second one.
        yesterday = self._mean_before(of_bin, means, [1]) if known_hours < WEEK + 2 * DAY else None
        if known_hours < WEEK:
            return None, yesterday
        fallen = self._known.fallen[:, segments].reshape(len(hours), -1)
        told, weeks = np.where(fallen, np.nan, means), range(7, 7 * WEEKS + 1, 7)
        usual = self._mean_before(of_bin, told, weeks)
        if fallen.any():
            # What had fallen in all weeks that are known: other days tell.
            lacks = np.isnan(usual) & ~np.isnan(self._mean_before(of_bin, means, weeks))
            usual = np.where(lacks, self._mean_before(of_bin, told, range(1, 7)), usual)
        return usual, yesterday

    def _hour_means(self, plan: Plan, segments: slice) -> Floats:
        """(hours, series of these segments): the mean of each hour that is known; NaN where nothing
        is scored."""
        units = np.array([metric.unit for metric in plan.metrics], np.float64)
        columns = slice(len(plan.count_columns), plan.weight_column)
        hours = self._known.starts
        rows = np.array([self._hours[start].rows[segments, columns] for start in hours])
        scored, sums = rows[..., 0::3], rows[..., 1::3] / units
        means = np.divide(sums, scored, out=np.full(scored.shape, np.nan), where=scored > 0)
        return np.asarray(means.reshape(len(hours), -1))

    def _mean_before(self, of_bin: Integers, means: Floats, days: Iterable[int]) -> Floats:
        """(bins, series): the mean over the same hours so many local days before those of the bins;
        NaN where none is known. `means` is (hours, series)."""
        hour_ms, at = self._plan.hour_ms, {s: n for n, s in enumerate(self._known.starts)}
        table = np.concatenate([means, np.full((1, means.shape[1]), np.nan)])
        total, count = np.zeros((len(of_bin), table.shape[1])), np.zeros(1)
        for back in days:
            earlier = [
                pane_start(each - days_before(each, back, self._zone, hour_ms), hour_ms)
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
