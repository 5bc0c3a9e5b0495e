"""Event time cut into panes and windows: which pane an instant belongs to, and what a window sums.

Pure arithmetic on integer milliseconds since the epoch. Panes are epoch-aligned and half-open:
[start, start + length).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

HOUR_MS: Final = 3_600_000


Instants = TypeVar("Instants", int, NDArray[np.int64])
"""Milliseconds: one instant, or an array of them."""

PaneKey: TypeAlias = tuple[int, int]
"""(window index in `Timing.windows`, pane start in ms)."""
PANES_PER_WINDOW: Final = 30
"""The most panes in a window: enough for a smooth curve, few enough to store."""


@dataclass(frozen=True)
class Window:
    """A sliding window, summed from whole panes. Lengths in milliseconds."""

    name: str
    length_ms: int
    pane_ms: int

    @property
    def pane_count(self) -> int:
        """Panes in one window."""
        return self.length_ms // self.pane_ms


def window(name: str, length_s: int, base_s: int = 1) -> Window:
    """The window of `length_s` seconds with the least pane ≥ length/30 that divides it and is a
    multiple of `base_s`. Raises ValueError where there is none."""
    if length_s < 1:
        raise ValueError(f"window {name}: must be at least 1s")
    if length_s % base_s:
        raise ValueError(f"windows: {name} must be a multiple of the base pane ({base_s}s)")
    base_panes = length_s // base_s
    each = -(-base_panes // PANES_PER_WINDOW)
    while base_panes % each:
        each += 1
    return Window(name, length_s * 1000, each * base_s * 1000)


def days_before(time_ms: int, days: int, zone: tzinfo, hour_ms: int = HOUR_MS) -> int:
    """How many milliseconds before an instant it was the same local time so many days before: 24
    hours each, but for a change of clocks."""
    by = days * 24 * hour_ms
    before_ms, now_ms = (_ahead_ms(at // HOUR_MS, zone) for at in (time_ms - by, time_ms))
    return by + before_ms - now_ms


def on_other_days(start: int, zone: tzinfo, hour_ms: int = HOUR_MS) -> Iterator[int]:
    """The starts of the same local hour of the days less than a week after and before, the nearest
    first."""
    for days in range(1, 7):
        later = start + days * 24 * hour_ms
        yield pane_start(start + days_before(later, days, zone, hour_ms), hour_ms)
        yield pane_start(start - days_before(start, days, zone, hour_ms), hour_ms)


def hours_ahead(hours: range, zone: tzinfo) -> NDArray[np.int64]:
    """By how many hours, rounded, local time is ahead of UTC at the starts of some hours."""
    ahead_ms = [_ahead_ms(start // HOUR_MS, zone) for start in hours]
    return np.rint(np.array(ahead_ms, np.float64) / hours.step).astype(np.int64)


@lru_cache(maxsize=8192)
def _ahead_ms(hour: int, zone: tzinfo) -> int:
    """How far local time is ahead of UTC in an hour since 1970."""
    ahead = datetime.fromtimestamp(hour * 3600, zone).utcoffset() or timedelta(0)
    return round(ahead.total_seconds() * 1000)


def pane_start(time_ms: Instants, pane_ms: int) -> Instants:
    """Start of the pane that contains the instant, or of each of several."""
    return time_ms - time_ms % pane_ms
