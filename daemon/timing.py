"""How long a lane waits for feedback, when an event is too late, and how long panes are kept.
Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from .panes import Instants, Window, pane_start, window

GRACE_MS: Final = 5_000
"""How far feedback may precede its impression: the clocks of two machines."""


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

    def final_before(self, watermark_ms: int) -> int:
        """Judged rows, which wait for no feedback, do not change any more in base panes that start
        before this instant."""
        return pane_start(watermark_ms - self.lateness_ms, self.base_ms)

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
