"""The two periods that are compared: a window now, and one an hour before. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ...events.timestamps import timestamp_text
from ...exporter.pane_reader import Reading
from ...exporter.snapshot import pane_starts
from ...panes import HOUR_MS, pane_start
from .history import kept_starts, window_index


class Stretch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An interval of event time, without its end."""

    start: str
    end: str


@dataclass(frozen=True)
class Period:
    """Panes of one window, oldest first."""

    window_at: int
    """Index of the window in `plan.timing.windows`."""
    starts: Sequence[int]
    pane_ms: int

    @property
    def end_ms(self) -> int:
        """End of the last pane."""
        return self.starts[-1] + self.pane_ms

    def stretch(self) -> Stretch:
        """The period as the API returns it."""
        return Stretch(timestamp_text(self.starts[0]), timestamp_text(self.end_ms))


def compared_periods(reading: Reading, window: str, end_ms: int) -> tuple[Period, Period]:
    """The window that ends at `end_ms`, and the period that it is compared with.

    That period is as long and ends an hour earlier, or one window length earlier for windows longer
    than an hour. It is made of the shortest panes that are kept for so long; if these do not divide
    the window length, it is longer by a part of a pane. If no panes are kept for an hour, it is the
    window just before.
    """
    timing = reading.plan.timing
    window_at = window_index(reading.plan, window)
    span = timing.windows[window_at]
    now = Period(window_at, pane_starts(span, end_ms), span.pane_ms)
    back_ms = max(HOUR_MS, span.length_ms)
    for kept_at, kept in enumerate(timing.windows):
        last_end = pane_start(min(now.end_ms - back_ms, now.starts[0]), kept.pane_ms)
        count = -(-span.length_ms // kept.pane_ms)
        starts = range(last_end - count * kept.pane_ms, last_end, kept.pane_ms)
        if starts[0] >= kept_starts(reading, kept_at, reading.snapshot.as_of_ms or end_ms)[0]:
            return now, Period(kept_at, starts, kept.pane_ms)
    starts = range(now.starts[0] - span.length_ms, now.starts[0], span.pane_ms)
    return now, Period(window_at, starts, span.pane_ms)
