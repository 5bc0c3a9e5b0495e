"""When a score that fell has recovered: judged by what lies wholly behind its fall, against what
lay before it. Pure.

It has recovered from an instant on if what lies behind that instant is nearer to before than to the
depth of the fall by three errors, and is not low by itself. Two ways find the instant. A rise that
lane `hour` would call if it were a fall is seen within minutes. What is too small for that is seen
in the last 1, 3, 6, 12 or 24 hours; after a whole day that is not low the fall is over whatever its
depth was.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from relevanced.metrics import Booleans, Floats, Integers

from .evidence import STANDS_Z
from .levels import level, loss, onsets, within
from .scan import MOST_BEFORE_MS, called, sides, threshold
from .timeline import HOUR_MS, ScoreNoise, ScoreTimeline

WINDOWS_H: Final = (1, 3, 6, 12, 24)
ERRORS: Final = 3.0
"""A level is nearer to before than to the depth only beyond so many errors, in which drift does not
grow with time: a fall of 15 % would else never be seen to end."""
LEAST_SCORED: Final = 100.0
"""Scored impressions that a window must have."""


def before_from(since_ms: Floats, end_ms: int) -> Floats:
    """Where the stretch before a fall begins, at the start of an hour: it is as long as the time
    since then, at least an hour and at most a day."""
    begin = since_ms - np.clip(end_ms - since_ms, MOST_BEFORE_MS, 24 * HOUR_MS)
    return np.asarray(np.floor(begin / HOUR_MS) * HOUR_MS)


@dataclass(frozen=True, eq=False)
class Falls:
    """When some series fell, in ms: (series,) each."""

    onset_ms: Floats
    """What lies before is what they fell from."""
    low_since_ms: Floats
    """The onset, or when they fell last."""
    latest_ms: Floats
    """The latest instant at which they fell last."""


@dataclass(frozen=True, eq=False)
class Recoveries:
    """From which instants on some series are better, ms; NaN where they are not: (series,) each."""

    whole: Floats
    """As good as before."""
    partly: Floats
    """Better, but not as good as before."""


def recovered(
    timeline: ScoreTimeline, directions: Floats, falls: Falls, noise: ScoreNoise
) -> Recoveries:
    """Which series have recovered, by the first reading: the lower bound of judged scores."""
    timeline, latest_ms = timeline.alone, falls.latest_ms
    if not len(timeline.starts) or not len(latest_ms):
        return Recoveries(*(np.full(len(latest_ms), np.nan) for _ in range(2)))
    end_ms = int(timeline.ends[-1])
    judged = _Fallen(timeline, directions, falls, noise)
    behind = timeline.only(timeline.starts[:, None] >= latest_ms)
    rises = called(behind, sides(behind, -directions, noise), threshold(len(latest_ms)))
    rise = np.where(rises.called, rises.since_ms.astype(np.float64), np.nan)
    instant = np.where(judged.is_over(rise), rise, np.nan)
    for hours in WINDOWS_H:
        begin = np.full(len(latest_ms), float(end_ms - hours * HOUR_MS))
        begin = np.where(begin >= latest_ms, begin, np.nan)
        over = judged.is_over(begin, whatever_depth=hours == WINDOWS_H[-1])
        instant = np.where(np.isnan(instant) & over, begin, instant)
    instant = _refined(behind, directions, latest_ms, instant, noise)
    return Recoveries(instant, np.where(np.isnan(instant), rise, np.nan))


class _Fallen:
    """Series that fell, and what they had before."""

    def __init__(
        self, timeline: ScoreTimeline, directions: Floats, falls: Falls, noise: ScoreNoise
    ) -> None:
        self.timeline, self.directions = timeline, directions
        self.since_ms, self.noise = falls.low_since_ms, noise
        self.end_ms = int(timeline.ends[-1])
        onset_ms = falls.onset_ms
        stretch = within(timeline, before_from(onset_ms, self.end_ms), onset_ms)
        self.before = level(timeline, stretch)

    def is_over(self, instant_ms: Floats, *, whatever_depth: bool = False) -> Booleans:
        """(series,): whether each has recovered by what lies behind its instant; False where that
        is NaN."""
        known = ~np.isnan(instant_ms)
        at = np.where(known, instant_ms, self.end_ms)
        now = level(self.timeline, within(self.timeline, at, np.full(len(at), self.end_ms)))
        low = level(self.timeline, within(self.timeline, self.since_ms, at))
        lost = loss(self.before, now, self.directions, self.noise)
        depth = loss(self.before, low, self.directions, self.noise)
        with np.errstate(invalid="ignore"):
            stands = (lost.z > STANDS_Z) & (now.scored >= LEAST_SCORED) & known
            nearer = lost.amount < depth.amount / 2 - ERRORS * lost.least_error
        return np.asarray(stands & (nearer | whatever_depth), np.bool_)


def _refined(
    behind: ScoreTimeline, directions: Floats, latest_ms: Floats, instant: Floats, noise: ScoreNoise
) -> Floats:
    """The likeliest instants of the rises, where the bins tell them."""
    which: Integers = np.flatnonzero(~np.isnan(instant)).astype(np.int64)
    if len(which):
        since = latest_ms[which].astype(np.int64)
        found = onsets(behind.of(which), -directions[which], since, noise.of(which)).likely
        instant[which] = np.where(np.isnan(found), instant[which], found)
    return instant
