"""Which scores of a recording fell, look by look, by the comparisons of the daemon. Pure.

A look has the bins of the daemon: the newest as short as they are recorded, older ones an hour long
and no older than two weeks. So its cost does not grow with the length of the recording.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from relevanced.metrics import Booleans, Floats, Integers

from ..changes import (
    LEAST_SCORED,
    MOST_BEFORE_MS,
    ChangeSettings,
    Counts,
    Fall,
    FallCall,
    FallGroup,
    FeedbackGap,
    Graded,
    Levels,
    Look,
    Scene,
    ScoreTimeline,
    Story,
    are_in_gaps,
    called,
    calls_of,
    followed,
    kept_together,
    onsets,
    parted,
    sides,
    superseded,
    threshold,
    undecided,
    used,
    with_gaps,
    without_falls,
    without_standing,
)
from ..changes import fallen as fallen_bins
from ..exporter import (
    APART_MS,
    REACH_HOURS,
    WEEK,
    WINDOWS,
    BaselineComparison,
    EarlierDays,
    UsualCalls,
    best_case_of,
    earlier,
    feedback_gaps,
    hours_in_gaps,
    look_at,
    onsets_of_low,
    outages,
    rows_plan,
    shares,
    telling_before,
    timeline_of,
)
from ..lane import Lane
from ..panes import HOUR_MS, pane_start
from ..views import TRAFFIC_COLUMNS, Selection, without_fallen
from .buckets import BucketsOverTime, JudgedHours
from .driver import judged_rows

_Earlier: TypeAlias = tuple[Floats | None, Floats | None, Booleans | None]
"""(usual, yesterday, steps) of hours, as in a `ScoreTimeline`."""


class Fallen(NamedTuple):
    """The changes that are open at the end, those that are over, what is undecided at the end, and
    when feedback was missing."""

    open_now: tuple[Story, ...] = ()
    over: tuple[Story, ...] = ()
    cannot_tell: tuple[Story, ...] = ()
    gaps: tuple[FeedbackGap, ...] = ()


FINE_MS: Final = 6 * HOUR_MS
"""A look has bins as they are recorded for at least so long."""
CELLS_PER_MS: Final = 2
"""Looks are as far apart as there are milliseconds of event time for so many cells (bins times
series): 200,000 of them are looked at every 100 s."""
LACKS_DAYS: Final = (
    "Compared with the hours just before only: for comparisons with other days, as the daemon makes"
    " them, the recording must go on for more than a day."
)
LACKS_WEEKS: Final = (
    "Compared with the hours just before and with other days: for comparisons with earlier weeks,"
    " as the daemon makes them, the recording must go on for more than a week."
)
LACKS_PARTS: Final = (
    "Compared with the time just before only: comparisons with other days and weeks need buckets"
    " of 5m or of a part of it."
)


def fallen(
    found: BucketsOverTime,
    change_settings: ChangeSettings,
    graded: Graded | None = None,
    other: Graded | None = None,
) -> Fallen:
    """What fell, with the design effect of the settings, or that of a site of which none has been
    measured. Of judged scores with what grades them, and what did afterwards."""
    if not len(found.starts):
        return Fallen()
    bins = RecordedBins(found, change_settings)
    falls, faults = _followed(bins, replace(bins.look(bins.fine), graded=graded))
    whole = replace(bins.look(bins.whole(falls)), graded=graded)
    if other is not None:
        falls = superseded(falls, other)
        faults = kept_together(falls, Levels(whole, whole.timeline)).faults
    names, lost = found.plan.count_columns, are_in_gaps(bins.fine.starts, bins.fine.ends, bins.gaps)
    counts = Counts(
        {segment: index for index, segment in enumerate(found.selection.segments)},
        np.where(lost[:, None, None], 0.0, found.rows[..., : len(names)]),
        names,
    )
    look = replace(whole, timeline=without_falls(whole, falls))
    scene = Scene(look, counts, change_settings)
    stories = scene.stories(faults)
    open_now, cannot_tell = parted(stories)
    if look.timeline.other is not None and other is None:
        calls = _calls(replace(look, timeline=look.timeline.alone))
        cannot_tell += undecided(scene, whole.timeline, calls, stories)
    over = Scene(whole, counts, change_settings).ended(faults, 0.0)
    return Fallen(open_now, over, cannot_tell, bins.gaps)


def judged_fallen(
    judged: JudgedHours,
    lane: Lane,
    shown: Selection,
    span: range,
    length_ms: int,
    change_settings: ChangeSettings,
) -> Fallen:
    """The same of judged scores in buckets of this length: of what each file graded, one after the
    other."""
    plan, since_ms = rows_plan(lane.plan), judged_rows(lane).since_ms
    in_force = [Graded(entry.name, max(entry.start_ms, since_ms)) for entry in judged.entries]
    of_files: list[Fallen] = []
    for graded, other in zip_longest(in_force, in_force[1:]):
        stop = span.stop if other is None else min(other.since_ms, span.stop)
        part = range(max(graded.since_ms, span.start), stop)
        found = BucketsOverTime.of(judged.buckets(lane, part, length_ms), lane, shown, part, plan)
        of_files.append(fallen(found, change_settings.of_judged, graded, other))
    return Fallen(*(tuple(chain(*parts)) for parts in zip(*of_files, strict=True)))


def lacking(found: BucketsOverTime) -> str | None:
    """Which comparisons of the daemon the recording has nothing for; None where it has all."""
    if not _has_hours(found.plan.hour_ms):
        return LACKS_PARTS
    hours = (found.end_ms - int(found.starts[0])) // HOUR_MS if len(found.starts) else 0
    # The first hour is left out: the recording may have begun within it.
    if hours > WEEK + 1:
        return None
    return LACKS_WEEKS if hours > 24 + 1 else LACKS_DAYS


def _has_hours(bucket_ms: int) -> bool:
    return APART_MS % bucket_ms == 0


def _followed(bins: "RecordedBins", whole: Look) -> tuple[tuple[Fall, ...], tuple[FallGroup, ...]]:
    falls: tuple[Fall, ...] = ()
    faults: tuple[FallGroup, ...] = ()
    next_ms = 0
    for end_ms in bins.ends():
        bins.find_gaps(end_ms)
        by_usual = bins.called_by_usual(end_ms, falls)
        if end_ms < next_ms and by_usual is None:
            continue
        timeline = bins.until(end_ms, falls)
        if len(timeline.starts) < 2:
            continue
        seen = replace(whole, timeline=timeline)
        look = replace(seen, timeline=without_falls(seen, falls))
        calls: list[FallCall] = []
        if end_ms >= next_ms:
            calls = _calls(replace(look, timeline=without_standing(look, falls)))
        if by_usual is not None:
            lane, low = by_usual
            began = onsets_of_low(look.timeline, look.directions, low, look.noise)
            calls += calls_of(look, lane, low, began)
        if end_ms >= next_ms:
            next_ms = end_ms + timeline.scored.size // CELLS_PER_MS
        now = followed(falls, look, timeline, calls)
        falls, faults = now.falls, now.faults
    return falls, faults


def _calls(look: Look) -> list[FallCall]:
    """What lane `hour` calls. Series of too few impressions for both sides are not compared."""
    enough = look.timeline.scored.sum(axis=0) >= 2 * LEAST_SCORED
    compared = np.flatnonzero(enough).astype(np.int64)
    timeline, directions = look.timeline.of(compared), look.directions[compared]
    limit = threshold(int(np.count_nonzero(look.directions)))
    found = called(timeline, sides(timeline, directions, look.noise.of(compared)), limit)
    at = np.flatnonzero(found.called)
    which, since = compared[at], found.since_ms[at]
    since = since - np.maximum(look.end_ms - since, MOST_BEFORE_MS)
    began = onsets(look.timeline.of(which), look.directions[which], since, look.noise.of(which))
    return calls_of(look, "hour", which, began)


class RecordedBins:
    """The recorded buckets, their hours, and what earlier days have at these."""

    def __init__(self, found: BucketsOverTime, change_settings: ChangeSettings) -> None:
        self._found, self._change_settings = found, change_settings
        bucket_ms = found.plan.hour_ms
        self._coarse_ms = -(-HOUR_MS // bucket_ms) * bucket_ms
        of_coarse = pane_start(found.starts, self._coarse_ms)
        first = np.flatnonzero(np.diff(of_coarse, prepend=of_coarse[:1] - 1))
        self._coarse_starts = of_coarse[first]
        self._coarse = np.add.reduceat(found.rows, first, axis=0)
        best_case = best_case_of(found.plan)
        self._plans = (found.plan,) if best_case is None else (found.plan, best_case)
        """One for each reading of the rows."""
        self._hour_at: Mapping[int, int] = {}
        self._left_out: dict[int, frozenset[int]] = {}
        if _has_hours(bucket_ms):
            self._hour_at = {start: at for at, start in enumerate(self._coarse_starts.tolist())}
        self.fine = self._timeline(found.starts, found.rows, bucket_ms)
        """The recorded buckets, without earlier days."""
        self._hours = self._timeline(self._coarse_starts, self._coarse, self._coarse_ms)
        self._series = self.look(self.fine).series
        self._earlier: list[_Earlier] = []
        """Of the hours of the last timeline, by each reading."""
        self._earlier_of: tuple[int, int, bool] | None = None
        """(the first of these hours, the last one, whether some are bins of their own); None once
        other falls are over."""
        self._unusual: tuple[Fall, ...] = ()
        self._fell = np.zeros((len(self._coarse_starts), len(self._series)), np.bool_)
        """(hours, series): where these had fallen."""
        self._usual_calls = UsualCalls(found.plan)
        self.gaps: tuple[FeedbackGap, ...] = ()
        """When feedback was missing: these bins are as empty, as in `Timelines`."""
        self._doubtful: frozenset[int] = frozenset()

    def _timeline(self, starts: Integers, rows: Floats, length_ms: int) -> ScoreTimeline:
        hourly = np.full(len(starts), length_ms > self._found.plan.hour_ms)
        found, *others = (
            timeline_of(plan, rows, starts, starts + length_ms, hourly) for plan in self._plans
        )
        return replace(found, other=others[0] if others else None)

    def whole(self, falls: Sequence[Fall]) -> ScoreTimeline:
        """All recorded buckets, by what is known at their end."""
        return self._beside_earlier(self._without_gaps(self.fine), falls)

    def until(self, end_ms: int, falls: Sequence[Fall]) -> ScoreTimeline:
        """The bins that end by then. No hour of a fall that is over says what is usual."""
        of_hours, of_buckets = self._spans(end_ms)
        hours, fine = _between(self._hours, *of_hours), _between(self.fine, *of_buckets)
        return self._beside_earlier(self._without_gaps(hours.followed_by(fine)), falls)

    def find_gaps(self, end_ms: int) -> None:
        """Remember when feedback was missing, by the bins that end by then."""
        of_bins, parts = ((self._hours, self._coarse), (self.fine, self._found.rows)), []
        for (timeline, rows), span in zip(of_bins, self._spans(end_ms), strict=True):
            bins = _bins_between(timeline, *span)
            parts.append((rows[bins, 0], timeline.starts[bins], timeline.ends[bins]))
        found = feedback_gaps(self._found.plan, *map(np.concatenate, zip(*parts, strict=True)))
        gaps = with_gaps(self.gaps, found, 0)
        if gaps != self.gaps:
            self.gaps, self._earlier_of, self._left_out = gaps, None, {}
            self._doubtful = hours_in_gaps(gaps, HOUR_MS)

    def _spans(self, end_ms: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """(those of a look that are hours, those that are as recorded): from when to when."""
        cut_ms = pane_start(end_ms - FINE_MS, self._coarse_ms)
        return (end_ms - REACH_HOURS * HOUR_MS, cut_ms), (cut_ms, end_ms)

    def _without_gaps(self, timeline: ScoreTimeline) -> ScoreTimeline:
        inside = are_in_gaps(timeline.starts, timeline.ends, self.gaps)
        return timeline.only(~inside[:, None]) if inside.any() else timeline

    def _beside_earlier(self, timeline: ScoreTimeline, falls: Sequence[Fall]) -> ScoreTimeline:
        """The timeline with what earlier days have, as known at its end."""
        if not self._hour_at or not len(timeline.starts):
            return timeline
        of_bin = pane_start((timeline.starts + timeline.ends) // 2, HOUR_MS)
        first, last = (self._hour_at[hour] for hour in of_bin[[0, -1]].tolist())
        fell, has_hours = self._fallen(falls), bool(timeline.hourly.any())
        if self._earlier_of != (first, last, has_hours):
            hours = self._coarse_starts[first : last + 1]
            fine = hours > int(timeline.starts[timeline.hourly.argmin()]) - 2 * HOUR_MS
            self._earlier_of = first, last, has_hours
            self._earlier = [
                (days.usual(hours), days.yesterday(hours), days.steps(hours, fine))
                for days in self._earlier_days(int(hours[-1]), fell)
            ]
        at = np.searchsorted(self._coarse_starts, of_bin) - first
        found, *others = (
            _beside(each, at, earlier)
            for each, earlier in zip(_readings(timeline), self._earlier, strict=True)
        )
        return replace(found, other=others[0] if others else None)

    def _fallen(self, falls: Sequence[Fall]) -> Booleans:
        """(hours, series): where a series had fallen, by what is over and not usual."""
        unusual = tuple(fall for fall in falls if fall.is_unusual)
        if self._unusual != unusual:
            starts = self._coarse_starts
            self._fell = fallen_bins(unusual, self._series, starts, starts + self._coarse_ms)
            self._unusual, self._earlier_of = unusual, None
        return self._fell

    def _earlier_days(self, until_ms: int, fell: Booleans) -> Iterator[EarlierDays]:
        """By each reading, as known in an hour."""
        left_out, hours = self._outages(until_ms), self._hours
        tells = np.array([start not in left_out for start in hours.starts.tolist()])
        known_hours = (until_ms - int(hours.starts[tells.argmax()])) // HOUR_MS
        counted = np.broadcast_to(tells[:, None], fell.shape)
        for each in _readings(hours.only(counted)):
            yield EarlierDays(each, fell, HOUR_MS, known_hours, self._change_settings.time_zone)

    def _outages(self, before_ms: int) -> frozenset[int]:
        """The hours before this one that say nothing about what is usual, as known by then."""
        if before_ms not in self._left_out:
            first = int(self._coarse_starts[0])
            counts = self._coarse[:, 0, list(TRAFFIC_COLUMNS)]
            traffic = {start: counts[at].tolist() for start, at in self._hour_at.items()}
            traffic |= dict.fromkeys(self._doubtful, [np.nan] * len(TRAFFIC_COLUMNS))
            covered, zone = range(first, before_ms, HOUR_MS), self._change_settings.time_zone
            self._left_out[before_ms] = outages(traffic, covered, zone) | self._doubtful
        return self._left_out[before_ms]

    def look(self, timeline: ScoreTimeline) -> Look:
        """The look at a timeline of these series."""
        settings = self._change_settings
        effect = used(settings.design_effect, None)
        return look_at(timeline, self._found.selection.segments, self._found.plan, settings, effect)

    def ends(self) -> Iterator[int]:
        """The instants that may be looked at: where a bucket ends, and every five minutes."""
        last = int(self.fine.ends[-1])
        first = pane_start(int(self.fine.starts[0]), APART_MS)
        grid = range(first, last + 1, APART_MS) if self._hour_at else ()
        yield from sorted({*self.fine.ends.tolist(), *grid})

    def called_by_usual(self, end_ms: int, falls: Sequence[Fall]) -> tuple[str, Integers] | None:
        """(lane, indices of series) that are low against other days or weeks; None for none, and
        between two ends."""
        if not self._hour_at or end_ms % APART_MS:
            return None
        comparisons = [*self._comparisons(end_ms, falls)]
        found = self._usual_calls.take(
            end_ms,
            comparisons,
            self._found.selection.segments,
            replace(
                self._change_settings,
                design_effect=used(self._change_settings.design_effect, None),
            ),
        )
        if found is None or not found.called.any():
            return None
        return found.lane, np.flatnonzero(found.called.reshape(-1)).astype(np.int64)

    def _comparisons(self, end_ms: int, falls: Sequence[Fall]) -> Iterator[BaselineComparison]:
        hour = pane_start(end_ms, HOUR_MS)
        covered = range(int(self._coarse_starts[0]) + HOUR_MS, hour, HOUR_MS)
        for name, hours in WINDOWS:
            from_ms = end_ms - hours * HOUR_MS
            is_doubtful = bool(shares(from_ms, end_ms, HOUR_MS).keys() & self._doubtful)
            if from_ms < self.fine.starts[0] or is_doubtful:
                continue
            left_out, zone = self._outages(hour), self._change_settings.time_zone
            unit, periods = earlier(from_ms, end_ms, covered, left_out, zone)
            if periods:
                telling = telling_before(from_ms, covered, left_out)
                sums = {by: self._usual(each, telling, falls) for by, each in periods.items()}
                recent = self._sum(from_ms, end_ms)
                yield BaselineComparison(name, from_ms, end_ms, recent, unit, sums, None)

    def _usual(
        self, weights: Mapping[int, float], telling: frozenset[int], falls: Sequence[Fall]
    ) -> Floats:
        """(segments, columns): the rows of an earlier period, as `HourHistory.usual` has them."""
        known = {self._hour_at[h]: share for h, share in weights.items() if h in self._hour_at}
        rows: Floats = np.tensordot([*known.values()], self._coarse[[*known]], axes=1)
        fell, plan = self._fallen(falls), self._found.plan
        for index in np.flatnonzero(fell[[*known]].any(axis=0)).tolist():
            row, metric = divmod(index, len(plan.metrics))
            columns = plan.columns_of(metric)
            hours = frozenset(self._coarse_starts[fell[:, index]].tolist())
            zone = self._change_settings.time_zone
            changes, factor = without_fallen(weights, hours, telling, zone)
            for start, change in changes.items():
                at = self._hour_at.get(start)
                rows[row, columns] += 0.0 if at is None else change * self._coarse[at, row, columns]
            rows[row, columns] *= factor
        return rows

    def _sum(self, from_ms: int, until_ms: int) -> Floats:
        """The rows between two instants: of whole hours, and of buckets before and after them."""
        total = np.zeros(self._coarse.shape[1:])
        starts, rows = self._found.starts, self._found.rows
        for hour, share in shares(from_ms, until_ms, HOUR_MS).items():
            if share == 1:
                at = self._hour_at.get(hour)
                total += 0.0 if at is None else self._coarse[at]
                continue
            span = max(hour, from_ms), min(hour + HOUR_MS, until_ms)
            first, last = np.searchsorted(starts, span)
            total += rows[first:last].sum(axis=0)
        return total


def _readings(timeline: ScoreTimeline) -> Iterator[ScoreTimeline]:
    yield timeline
    if timeline.other is not None:
        yield timeline.other


def _beside(timeline: ScoreTimeline, at: Integers, earlier: _Earlier) -> ScoreTimeline:
    """The timeline with what earlier days have; `at`: the hour of each bin."""
    usual, yesterday, steps = earlier
    return replace(
        timeline,
        usual=None if usual is None else usual[at],
        yesterday=None if yesterday is None else yesterday[at],
        steps=None if steps is None else steps[at] & ~timeline.hourly[:, None],
    )


def _between(timeline: ScoreTimeline, from_ms: int, until_ms: int) -> ScoreTimeline:
    """The bins that start at `from_ms` or later and end by `until_ms`."""
    bins = _bins_between(timeline, from_ms, until_ms)
    return timeline.first(bins.stop).since(from_ms)


def _bins_between(timeline: ScoreTimeline, from_ms: int, until_ms: int) -> slice:
    first = int(np.searchsorted(timeline.starts, from_ms))
    return slice(first, int(np.searchsorted(timeline.ends, until_ms, side="right")))
