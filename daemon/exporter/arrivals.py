"""How many searches and how much feedback come, and whether they have stopped, snapshot after
snapshot.

Pure apart from what it keeps: how long ago the newest of each usually was, as feedback comes late
and some producers send in batches. In the first hour after a start that is not known, and the
attribution window counts.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timezone, tzinfo
from typing import Final

import numpy as np

from ..changes import (
    LEAST_SILENCE_MS,
    MINUTE_MS,
    USUAL_DELAYS,
    USUAL_GAPS,
    Silence,
    Stream,
    silence,
)
from ..panes import HOUR_MS, days_before, on_other_days, pane_start
from ..plan import Plan
from ..views import COUNTS_CELL, HourHistory, LaneView
from .baselines import LEAST_OTHERS, shares
from .measures import MeasureScores

COLUMNS: Final[tuple[tuple[Stream, str], ...]] = (
    ("searches", "impressions"),
    ("feedback", "items_with_feedback"),
)
WEEK_MS: Final = 168 * HOUR_MS
HALF: Final = 0.5
"""An hour that has brought less than this share of what is usual lacks the rest."""
DAYS_BACK: Final = ((7, 14, 21), (1, 2, 3))
"""What is usual in an hour is the mean of the same local hours so many days before: of weeks, and
where no week is known of days, as a weekend is no fault. Where no day is known either, the last
whole hour before tells."""
MOST_HOURS: Final = 12
"""What brings nothing for longer may be a day on which a site is closed, and no outage."""
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
        searches, feedback = (
            self._stopped(stream, column, now_ms, scores, history) for stream, column in COLUMNS
        )
        of_partitions = () if searches else self._of_partitions(now_ms, scores, history)
        feedback = feedback or _never_any(now_ms, scores, history)
        found = (searches,) if searches else (*of_partitions, feedback)
        return tuple(
            replace(each, rejected=self._rejections.since(each.since_ms, each.partitions))
            for each in found
            if each is not None
        )

    def usual_per_hour(
        self, plan: Plan, history: HourHistory, now_ms: int | None
    ) -> dict[Stream, float]:
        """How many usually come in an hour at the time that `per_hour` looks at; nothing before an
        hour is known. Raises Damaged."""
        if now_ms is None:
            return {}
        since_ms, found = now_ms - RECENT_MS, dict[Stream, float]()
        for stream, name in COLUMNS:
            column, settle_ms = plan.count_columns.index(name), plan.timing.settle_ms
            hours = _UsualHours.before(since_ms, history, column, settle_ms, self._zone)
            if hours is not None:
                parts = shares(since_ms, now_ms, HOUR_MS)
                usual = sum(part * hours.within(hour) for hour, part in parts.items())
                found[stream] = usual * HOUR_MS / RECENT_MS
        return found

    def _stopped(
        self,
        stream: Stream,
        name: str,
        now_ms: int,
        scores: MeasureScores,
        history: HourHistory,
        partition: int | None = None,
        share: float = 1.0,
    ) -> Silence | None:
        """Whether the stream has stopped, all of it or that of a partition with this share."""
        plan, views = scores.plan, scores.views
        column = plan.count_columns.index(name)
        if partition is not None:
            views = [view for view in views if view.lane == partition]
        last = _last_pane(views, plan, column)
        if last is None:
            hour_ms = _last_hour(history, column) if partition is None else views[0].watermark_ms
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
        settle_ms = plan.timing.settle_ms
        hours = _UsualHours.before(since_ms, history, column, settle_ms, self._zone)
        if delay_ms is None:
            delay_ms = plan.timing.attribution_ms / USUAL_DELAYS
        if hours is None:
            return None
        expected, most = hours.missing(since_ms, now_ms, now_ms - settle_ms)
        gap.missing = max(gap.missing, expected)
        return silence(stream, since_ms, now_ms, gap.missing * share, most * share, delay_ms)

    def _of_partitions(
        self, now_ms: int, scores: MeasureScores, history: HourHistory
    ) -> tuple[Silence, ...]:
        """The partitions without searches, as one: since all of them are silent."""
        stream, name = COLUMNS[0]
        shares = _shares(scores, scores.plan.count_columns.index(name))
        each = [
            (lane, self._stopped(stream, name, now_ms, scores, history, lane, share))
            for lane, share in shares.items()
            if len(shares) > 1
        ]
        week_ago_ms = now_ms - WEEK_MS  # what has been away for longer is usual
        silent = {
            lane: found
            for lane, found in each
            if found is not None and found.since_ms > week_ago_ms
        }
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


def _never_any(now_ms: int, scores: MeasureScores, history: HourHistory) -> Silence | None:
    """That no feedback has ever joined, though searches came for long enough. Where nothing but
    judgements scores them, none is expected."""
    stream, name = COLUMNS[1]
    plan, column = scores.plan, scores.plan.count_columns.index(name)
    outcomes = scores.snapshot.counts.get(OUTCOMES, {})
    if plan.judged is not None and not any(outcomes.values()):
        return None
    if _last_pane(scores.views, plan, column) or _last_hour(history, column):
        return None
    ends = [
        start + plan.timing.windows[window].pane_ms
        for lane in scores.views
        for (window, start), pages in lane.panes.items()
        if pages
    ]
    ends += [start + HOUR_MS for start in history.starts[:1]]
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


def _last_hour(history: HourHistory, column: int) -> int | None:
    """The end of the last hour that has any."""
    hours = (start for start in reversed(history.starts) if _count(history, start, column))
    return next((start + HOUR_MS for start in hours), None)


@dataclass(frozen=True)
class _UsualHours:
    """How many of a stream usually come, hour by hour."""

    history: HourHistory
    column: int
    settled_ms: int
    """Hours that end by then tell."""
    last: int
    """The last whole one."""
    zone: tzinfo
    _usual: dict[int, float] = field(default_factory=dict)
    """Start of an hour → what it brings on other days."""

    @classmethod
    def before(
        cls, since_ms: int, history: HourHistory, column: int, settle_ms: int, zone: tzinfo
    ) -> "_UsualHours | None":
        """As known by an instant; None where no hour is known."""
        whole = (start for start in reversed(history.starts) if start + HOUR_MS <= since_ms)
        last = next(whole, None)
        return None if last is None else cls(history, column, since_ms - settle_ms, last, zone)

    def of(self, hour: int) -> float:
        """What the hour usually brings."""
        return float(np.mean([self._count(start) for start in self._like(hour)]))

    def within(self, hour: int) -> float:
        """The pace at any time within the hour, of which it is not known when it brings what: at
        least that of the lowest of it and those beside it."""
        lowest = []
        for start in self._like(hour):
            beside = [s for s in _beside(start) if self._knows(s) and not self._is_of_outage(s)]
            lowest.append(min(self._count(s) for s in (start, *beside)))
        return float(np.mean(lowest))

    def missing(self, since_ms: int, now_ms: int, settled_ms: int) -> tuple[float, float]:
        """(how many usually come between two instants between which none came, how many in the
        busiest of these hours); of more than a week by the last one. What is known of now ends at
        `settled_ms`."""
        expected = most = 0.0
        for hour, part in shares(max(since_ms, now_ms - WEEK_MS), now_ms, HOUR_MS).items():
            usual = self.of(hour)
            most = max(most, usual)
            if part == 1:
                expected += usual
            else:
                lacking = part * self.within(hour)
                if hour + HOUR_MS <= settled_ms and (came := self._count(hour)) < HALF * usual:
                    lacking = usual - came
                expected += lacking
        return expected, most

    def _like(self, hour: int) -> list[int]:
        """The same local hours that are known, without outages: what several of them lack is usual,
        for one alone the days around it stand."""
        for days in DAYS_BACK:
            starts = (pane_start(hour - days_before(hour, day, self.zone), HOUR_MS) for day in days)
            known = [start for start in starts if self._knows(start)]
            found = [start for start in known if not self._is_of_outage(start)]
            if found or len(known) > 1:
                return found or known
            if known:
                least = HALF * self._on_other_days(known[0])
                return [s for s in self._others(known[0]) if self._count(s) >= least]
        return [self.last]

    def _is_of_outage(self, start: int) -> bool:
        """Whether an hour is one of an outage, or lacks the rest as one begins or ends in it."""
        if not self._count(start):
            return self._is_outage(start)
        empty = [each for each in _beside(start) if self._knows(each) and not self._count(each)]
        lacks = bool(empty) and self._count(start) < HALF * self._on_other_days(start)
        return lacks and any(self._is_outage(each) for each in empty)

    def _is_outage(self, start: int) -> bool:
        """Whether an hour without any is one of a few between hours with some, each of which brings
        some on other days. A night does not, and a closed day goes on into one, or is longer."""
        hours = [start]
        for step in (-HOUR_MS, HOUR_MS):
            at = start + step
            while self._knows(at) and not self._count(at) and len(hours) < MOST_HOURS:
                hours.append(at)
                at += step
            if not self._knows(at) or not self._count(at):
                return False
        usual = 0.0
        for hour in hours:
            if not (of_hour := self._on_other_days(hour)):
                return False
            usual += of_hour
        return usual >= USUAL_GAPS

    def _on_other_days(self, start: int) -> float:
        """What the same local hour brings on most of the days around it; 0 where too few are
        known."""
        if start not in self._usual:
            counts = [self._count(each) for each in self._others(start)]
            self._usual[start] = float(np.median(counts)) if len(counts) >= LEAST_OTHERS else 0.0
        return self._usual[start]

    def _others(self, start: int) -> list[int]:
        return [each for each in on_other_days(start, self.zone) if self._knows(each)]

    def _count(self, start: int) -> int:
        return _count(self.history, start, self.column)

    def _knows(self, start: int) -> bool:
        """Whether it is known what an hour brought, once it has settled: nothing where no source
        has rows of it. Not of a lost one, nor of that within which the lanes may have begun."""
        if start + HOUR_MS > self.settled_ms:
            return False
        sources, lost = self.history.sources, self.history.lost
        is_known = bool(sources.known(start)[0, COUNTS_CELL])
        return is_known and start not in lost and start != sources.born_ms


def _beside(start: int) -> tuple[int, int]:
    return start - HOUR_MS, start + HOUR_MS


def _count(history: HourHistory, start: int, column: int) -> int:
    row = history.whole(start)
    return row[column] if row else 0
