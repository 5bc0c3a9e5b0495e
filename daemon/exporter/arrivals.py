"""Whether searches or feedback have stopped, snapshot after snapshot.

Pure apart from what it keeps: how long ago the newest of each usually was, as feedback comes late
and some producers send in batches. In the first hour after a start that is not known, and the
attribution window counts.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

import numpy as np

from ..changes import LEAST_SILENCE_MS, MINUTE_MS, USUAL_DELAYS, Silence, Stream, silence
from ..panes import HOUR_MS, pane_start
from ..views import WHOLE, HourHistory
from .measures import MeasureScores

COLUMNS: Final[tuple[tuple[Stream, str], ...]] = (
    ("searches", "impressions"),
    ("feedback", "items_with_feedback"),
)
WEEK_HOURS: Final = 168
BACK_HOURS: Final = (*(week * WEEK_HOURS for week in (1, 2, 3)), *(day * 24 for day in (1, 2, 3)))
"""What is usual is the mean of these hours where they are known, else that of the last whole hour
before."""
REMEMBERED: Final = 60
"""So many minutes in which something came are remembered."""
KNOWN_AFTER: Final = 3
"""What is usual is known from so many of them on, after an hour."""


class Arrivals:
    """What has come, as of each snapshot."""

    def __init__(self) -> None:
        self._waits = {stream: _Waits() for stream, _ in COLUMNS}

    def of(self, scores: MeasureScores, history: HourHistory) -> tuple[Silence, ...]:
        """What has stopped; feedback only while searches come. Raises Damaged."""
        found = tuple(self._stopped(scores, history))
        are_all = any(each.stream == "searches" for each in found)
        return tuple(each for each in found if not are_all or each.stream == "searches")

    def _stopped(self, scores: MeasureScores, history: HourHistory) -> Iterator[Silence]:
        now_ms, plan = scores.snapshot.as_of_ms, scores.plan
        if now_ms is None:
            return
        for stream, name in COLUMNS:
            column = plan.count_columns.index(name)
            ended_ms = (
                _last_pane(scores, window, column) for window in range(len(plan.timing.windows))
            )
            since_ms = next(filter(None, ended_ms), None) or _last_hour(history, column)
            if since_ms is None:
                continue
            since_ms = min(since_ms, now_ms)
            delay_ms = self._waits[stream].usual_ms(now_ms, since_ms)
            if now_ms - since_ms < LEAST_SILENCE_MS:
                continue
            usual = _usual(history, now_ms, since_ms, column)
            if delay_ms is None:
                delay_ms = plan.timing.attribution_ms / USUAL_DELAYS
            found = None if usual is None else silence(stream, since_ms, now_ms, usual, delay_ms)
            if found is not None:
                yield found


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


def _last_pane(scores: MeasureScores, window: int, column: int) -> int | None:
    """The end of the last pane of the window that has any; None where none has that is kept."""
    pane_ms = scores.plan.timing.windows[window].pane_ms
    starts = (
        start
        for lane in scores.views
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


def _usual(history: HourHistory, now_ms: int, since_ms: int, column: int) -> float | None:
    """How many come in an hour like this one; None where no hour is known."""
    hour = pane_start(now_ms, HOUR_MS)
    known = [start for start in history.starts if start + HOUR_MS <= since_ms]
    earlier = [start for back in BACK_HOURS if (start := hour - back * HOUR_MS) in known]
    earlier = earlier or known[-1:]
    counts = [_count(history, start, column) for start in earlier]
    return float(np.mean(counts)) if counts else None


def _count(history: HourHistory, start: int, column: int) -> int:
    return int(history.rows_of(start, [WHOLE])[0, column])
