"""How many searches and how much feedback come, and whether they have stopped, snapshot after
snapshot.

Pure apart from what it keeps: how long ago the newest of each usually was, as feedback comes late
and some producers send in batches. In the first hour after a start that is not known, and the
attribution window counts.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timezone, tzinfo
from typing import Final

import numpy as np

from ..changes import (
    LEAST_SILENCE_MS,
    MINUTE_MS,
    USUAL_DELAYS,
    Silence,
    Stream,
    silence,
)
from ..panes import HOUR_MS, pane_start
from ..plan import Plan
from ..views import HourHistory, LaneView
from .baselines import shares
from .measures import MeasureScores
from .usual_hours import WEEK_MS, HourlyCounts

COLUMNS: Final[tuple[tuple[Stream, str], ...]] = (
    ("searches", "impressions"),
    ("feedback", "items_with_feedback"),
)
REMEMBERED: Final = 60
"""So many minutes in which something came are remembered."""
KNOWN_AFTER: Final = 3
"""What is usual is known from so many of them on, after an hour."""
MINUTES_A_DAY: Final = 1440
REJECTED: Final = "rejected"
OUTCOMES: Final = "feedback_outcomes"
"""Families of counts of a lane."""
RECENT_MS: Final = 15 * MINUTE_MS


def per_hour(views: Sequence[LaneView], plan: Plan, now_ms: int | None) -> dict[Stream, float]:
    """How many come in an hour, by the panes of the last quarter of an hour of event time: whenever
    they were read. Feedback counts at the time of its search."""
    if now_ms is None:
        return {}
    windows = plan.timing.windows
    lasting = [w for w in windows if w.length_ms >= RECENT_MS] or windows[-1:]
    window = min(lasting, key=lambda each: each.pane_ms)
    since_ms = pane_start(now_ms - min(RECENT_MS, window.length_ms), window.pane_ms)
    rows = [
        pages[0]
        for lane in views
        for (of, start), pages in lane.panes.items()
        if windows[of] is window and since_ms <= start < now_ms and 0 in pages
    ]
    hours = (now_ms - since_ms) / HOUR_MS
    columns = {stream: plan.count_columns.index(name) for stream, name in COLUMNS}
    return {
        stream: sum(int(row[0, column]) for row in rows) / hours
        for stream, column in columns.items()
    }


class Arrivals:
    """What has come, as of each snapshot."""

    def __init__(self, zone: tzinfo = timezone.utc) -> None:
        """What is usual is so at the hours of a time zone."""
        self._zone = zone
        self._waits = dict[tuple[Stream, int | None], _Waits]()
        self._gaps = dict[tuple[Stream, int | None], _Gap]()
        self._rejections = _Rejections()

    def of(self, scores: MeasureScores, history: HourHistory) -> tuple[Silence, ...]:
        """What has stopped: searches of all partitions, of some, or feedback while searches come.
        Raises Damaged."""
        now_ms = scores.snapshot.as_of_ms
        if now_ms is None:
            return ()
        self._rejections.take(now_ms, scores.views)
        counts = self._hourly_counts(history)
        searches, feedback = (
            self._stopped(stream, now_ms, scores, counts[stream]) for stream, _ in COLUMNS
        )
        of_partitions = () if searches else self._of_partitions(now_ms, scores, counts["searches"])
        feedback = feedback or _never_any(now_ms, scores, counts["feedback"])
        found = (searches,) if searches else (*of_partitions, feedback)
        return tuple(
            replace(each, rejected=self._rejections.since(each.since_ms, each.partitions))
            for each in found
            if each is not None
        )

    def usual_per_hour(self, history: HourHistory, now_ms: int | None) -> dict[Stream, float]:
        """How many usually come in an hour at the time that `per_hour` looks at; nothing before an
        hour is known. Raises Damaged."""
        if now_ms is None:
            return {}
        since_ms, found = now_ms - RECENT_MS, dict[Stream, float]()
        for stream, counts in self._hourly_counts(history).items():
            hours = counts.usual_before(since_ms)
            if hours is not None:
                parts = shares(since_ms, now_ms, HOUR_MS)
                usual = sum(part * hours.within(hour) for hour, part in parts.items())
                found[stream] = usual * HOUR_MS / RECENT_MS
        return found

    def _hourly_counts(self, history: HourHistory) -> dict[Stream, HourlyCounts]:
        columns = history.plan.count_columns
        return {
            stream: HourlyCounts(history, columns.index(name), self._zone)
            for stream, name in COLUMNS
        }

    def _stopped(
        self,
        stream: Stream,
        now_ms: int,
        scores: MeasureScores,
        counts: HourlyCounts,
        partition: int | None = None,
        share: float = 1.0,
    ) -> Silence | None:
        """Whether the stream has stopped, all of it or that of a partition with this share."""
        plan, views = scores.plan, scores.views
        if partition is not None:
            views = [view for view in views if view.lane == partition]
        last = _last_pane(views, plan, counts.column)
        if last is None:
            hour_ms = counts.last_ms() if partition is None else views[0].watermark_ms
            last = None if hour_ms is None else (hour_ms, HOUR_MS)
        if last is None:
            return None
        gap, known = _Gap(min(last[0], now_ms), last[1]), self._gaps.get((stream, partition))
        if known is not None and known.missing and known.is_still(gap):
            gap = known
        self._gaps[stream, partition], since_ms = gap, gap.since_ms
        waits = self._waits.setdefault((stream, partition), _Waits())
        delay_ms = waits.usual_ms(now_ms, since_ms)
        if now_ms - since_ms < LEAST_SILENCE_MS:
            return None
        if partition is not None and now_ms - since_ms >= WEEK_MS:
            return None  # what has been away for longer is usual
        hours = counts.usual_before(since_ms)
        if delay_ms is None:
            delay_ms = plan.timing.attribution_ms / USUAL_DELAYS
        if hours is None:
            return None
        expected, most = hours.missing(since_ms, now_ms, now_ms - plan.timing.settle_ms)
        gap.missing = max(gap.missing, expected)
        return silence(stream, since_ms, now_ms, gap.missing * share, most * share, delay_ms)

    def _of_partitions(
        self, now_ms: int, scores: MeasureScores, counts: HourlyCounts
    ) -> tuple[Silence, ...]:
        """The partitions without searches, as one: since all of them are silent."""
        stream, _ = COLUMNS[0]
        shares = _shares(scores, counts.column)
        each = [
            (lane, self._stopped(stream, now_ms, scores, counts, lane, share))
            for lane, share in shares.items()
            if len(shares) > 1
        ]
        silent = {lane: found for lane, found in each if found is not None}
        if not silent:
            return ()
        since_ms = max(found.since_ms for found in silent.values())
        usual = sum(found.usual_per_hour for found in silent.values())
        return (Silence(stream, since_ms, usual, tuple(silent)),)


class _Rejections:
    """How many records were rejected, minute by minute."""

    def __init__(self) -> None:
        self._of_minutes: deque[tuple[int, Counter[int]]] = deque(maxlen=MINUTES_A_DAY)
        """(instant, partition → rejected until then)."""
        self._now = Counter[int]()

    def take(self, now_ms: int, views: Sequence[LaneView]) -> None:
        self._now = Counter(
            {lane.lane: sum(lane.counts.get(REJECTED, {}).values()) for lane in views}
        )
        if not self._of_minutes or now_ms - self._of_minutes[-1][0] >= MINUTE_MS:
            self._of_minutes.append((now_ms, self._now))

    def since(self, since_ms: int, partitions: Sequence[int]) -> int:
        """Those after the last minute that is known before then, or after the first one."""
        known = [counts for at_ms, counts in self._of_minutes if at_ms <= since_ms]
        before = known[-1] if known else self._of_minutes[0][1]
        return sum(self._now[lane] - before[lane] for lane in partitions or self._now)


@dataclass
class _Gap:
    """A time in which nothing has come."""

    since_ms: int
    pane_ms: int
    """Length of the panes that say so: the finest that are kept of then."""
    missing: float = 0.0
    """How many usually come in it. What was missing stays so, whatever the hour may bring."""

    def is_still(self, later: "_Gap") -> bool:
        """Whether it is the one that is seen later, perhaps by coarser panes."""
        pane_ms = max(self.pane_ms, later.pane_ms)
        end_ms = pane_start(self.since_ms - 1, pane_ms) + pane_ms
        return later.since_ms in (self.since_ms, end_ms)


class _Waits:
    """How long ago the newest was, each time before the next came."""

    def __init__(self) -> None:
        self._began_ms: int | None = None
        self._last = (0, 0)
        """(instant of the last look, since when nothing had come)."""
        self._of_minutes: deque[tuple[int, int]] = deque(maxlen=REMEMBERED)
        """(minute, longest wait that ended in it)."""

    def usual_ms(self, now_ms: int, since_ms: int) -> float | None:
        """The usual wait; None while less than an hour is known."""
        (looked_ms, before_ms), self._last = self._last, (now_ms, since_ms)
        if self._began_ms is None:
            self._began_ms = now_ms
        elif since_ms > before_ms:
            minute, waited_ms = pane_start(now_ms, MINUTE_MS), looked_ms - before_ms
            if self._of_minutes and self._of_minutes[-1][0] == minute:
                waited_ms = max(waited_ms, self._of_minutes.pop()[1])
            self._of_minutes.append((minute, waited_ms))
        if now_ms - self._began_ms < HOUR_MS or len(self._of_minutes) < KNOWN_AFTER:
            return None
        return float(np.median([waited_ms for _, waited_ms in self._of_minutes]))


def _never_any(now_ms: int, scores: MeasureScores, counts: HourlyCounts) -> Silence | None:
    """That no feedback has ever joined, though searches came for long enough. Where nothing but
    judgements scores them, none is expected."""
    stream, plan = COLUMNS[1][0], scores.plan
    outcomes = scores.snapshot.counts.get(OUTCOMES, {})
    if plan.judged is not None and not any(outcomes.values()):
        return None
    if _last_pane(scores.views, plan, counts.column) or counts.last_ms():
        return None
    ends = [
        start + plan.timing.windows[window].pane_ms
        for lane in scores.views
        for (window, start), pages in lane.panes.items()
        if pages
    ]
    ends += [start + HOUR_MS for start in counts.history.starts[:1]]
    first_ms = min(ends, default=now_ms)
    is_long = now_ms - first_ms >= plan.timing.attribution_ms + LEAST_SILENCE_MS
    return Silence(stream, first_ms, 0.0) if is_long else None


def _shares(scores: MeasureScores, column: int) -> dict[int, float]:
    """Partition → its share of all searches that have ever settled: it stays while it is silent."""
    counts = {
        lane.lane: int(lane.totals[0][0, column]) if 0 in lane.totals else 0
        for lane in scores.views
    }
    whole = sum(counts.values())
    return {lane: count / whole for lane, count in sorted(counts.items()) if count}


def _last_pane(views: Sequence[LaneView], plan: Plan, column: int) -> tuple[int, int] | None:
    """(end of the last pane that has any, length of the pane), of the shortest window that keeps
    one; None where none does."""
    for index, window in enumerate(plan.timing.windows):
        end_ms = _last_of_window(views, plan, index, column)
        if end_ms is not None:
            return end_ms, window.pane_ms
    return None


def _last_of_window(views: Sequence[LaneView], plan: Plan, window: int, column: int) -> int | None:
    pane_ms = plan.timing.windows[window].pane_ms
    starts = (
        start
        for lane in views
        for (of, start), pages in lane.panes.items()
        # The whole is the first segment of each lane.
        if of == window and 0 in pages and pages[0][0, column]
    )
    last = max(starts, default=None)
    return None if last is None else last + pane_ms
