"""Event time cut into panes and windows: which pane an instant belongs to, what a window sums, when
something closes, settles, expires or is dropped.

Pure arithmetic on integer milliseconds since the epoch. Panes are epoch-aligned and half-open:
[start, start + length).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from functools import cached_property, lru_cache
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

HOUR_MS: Final = 3_600_000

PaneKey: TypeAlias = tuple[int, int]
"""(window index in `Timing.windows`, pane start in ms)."""

Instants = TypeVar("Instants", int, NDArray[np.int64])
"""Milliseconds: one instant, or an array of them."""

GRACE_MS: Final = 5_000
"""How far feedback may precede its impression: the clocks of two machines."""
JUMP_MS: Final = 300_000
"""A single event moves a watermark no further than this: five minutes without an event are rare in
busy topics, and clocks that are wrong by less do little harm."""
CONFIRMING: Final = 4
"""Impression ids that confirm a jump of the watermark: one, and three more."""
CONFIRMED_OVER_MS: Final = 60_000
"""The least event time between the first and last of them. A producer sends what it gathered at
once, so its records fill a partition for some seconds, but not for so long."""
MOST_NEAR: Final = 24
"""So many events near the watermark are remembered, half of them once it is JUMP_MS later. Half as
many impression ids must outweigh them: chance never makes twelve wrong clocks follow each other."""
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


@lru_cache(maxsize=8192)
def _ahead_ms(hour: int, zone: tzinfo) -> int:
    """How far local time is ahead of UTC in an hour since 1970."""
    ahead = datetime.fromtimestamp(hour * 3600, zone).utcoffset() or timedelta(0)
    return round(ahead.total_seconds() * 1000)


def pane_start(time_ms: Instants, pane_ms: int) -> Instants:
    """Start of the pane that contains the instant, or of each of several."""
    return time_ms - time_ms % pane_ms


@dataclass(frozen=True)
class Timing:
    """The configured windows, shortest first, and how long to wait for feedback."""

    windows: tuple[Window, ...]
    attribution_ms: int
    lateness_ms: int

    @cached_property
    def base_ms(self) -> int:
        """Length of the base pane, the unit of lateness and settling."""
        return self.windows[0].pane_ms

    @cached_property
    def settle_ms(self) -> int:
        """How far the watermark must pass the end of a base pane until nothing can change it."""
        return self.attribution_ms + self.lateness_ms

    @cached_property
    def index_by_length_ms(self) -> dict[int, int]:
        """Length of a window → its index."""
        return {window.length_ms: index for index, window in enumerate(self.windows)}

    @property
    def longest(self) -> Window:
        """The longest window."""
        return self.windows[-1]

    def settled_before(self, watermark_ms: int) -> int:
        """Start of the first base pane that has not settled at this watermark."""
        return pane_start(watermark_ms - self.settle_ms, self.base_ms)

    def closes_at(self, time_ms: Instants) -> Instants:
        """The watermark at which an impression of this time stops being open."""
        return pane_start(time_ms, self.base_ms) + self.base_ms + self.settle_ms

    def judged_until(self, time_ms: Instants) -> Instants:
        """The watermark at which the judged rows of an impression of this time are final."""
        return pane_start(time_ms, self.base_ms) + self.base_ms + self.lateness_ms

    def expires_at(self, time_ms: Instants) -> Instants:
        """The watermark from which waiting feedback of this time can join nothing any more."""
        return time_ms + GRACE_MS + self.base_ms + self.settle_ms

    def kept_ms(self, span: Window) -> int:
        """How far behind the watermark panes of a window are kept.

        The settled view needs the window that ended `settle_ms` ago. One more window is kept so
        that lanes ahead of the slowest one still have what a common view needs.
        """
        return 2 * span.length_ms + span.pane_ms + self.settle_ms

    def dropped_before(self, span: Window, watermark_ms: int) -> int:
        """Start of the first pane of the window that is still kept at this watermark."""
        return pane_start(watermark_ms - self.kept_ms(span), span.pane_ms)


def timing(
    windows: Iterable[tuple[str, int]],
    attribution_s: int,
    lateness_s: int,
    base_s: int | None = None,
) -> Timing:
    """Build the timing of (name, seconds) windows, with base panes of `base_s`; None: with those
    that the shortest window has by itself.

    The panes of the shortest window are base panes, however many it has. Raises ValueError where
    there is no window, or one is not a multiple of the base pane.
    """
    ordered = sorted(windows, key=lambda window: window[1])
    if not ordered:
        raise ValueError("windows: at least one is needed")
    base_s = window(*ordered[0]).pane_ms // 1000 if base_s is None else base_s
    first, *others = (window(name, seconds, base_s) for name, seconds in ordered)
    spans = (replace(first, pane_ms=base_s * 1000), *others)
    return Timing(spans, attribution_s * 1000, lateness_s * 1000)
