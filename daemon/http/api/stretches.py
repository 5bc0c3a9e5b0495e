"""Which stretches of time are compared: a window now, and one an hour before. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ...events.timestamps import timestamp_text
from ...exporter.pane_reader import Reading
from ...exporter.snapshot import pane_starts
from ...panes import HOUR_MS, pane_start
from .history import kept_starts, window_number


class Stretch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stretch of event time, up to but without its end."""

    start: str
    end: str


@dataclass(frozen=True)
class Span:
    """Panes of one window, oldest first."""

    window: int
    starts: Sequence[int]
    pane_ms: int

    @property
    def end_ms(self) -> int:
        """The instant after its last pane."""
        return self.starts[-1] + self.pane_ms

    def said(self) -> Stretch:
        """As it is told."""
        return Stretch(timestamp_text(self.starts[0]), timestamp_text(self.end_ms))


def spans(reading: Reading, window: str, end_ms: int) -> tuple[Span, Span]:
    """The window that ends at this instant, and what it is compared with.

    That is as long, ends an hour earlier, or for longer windows their own length, and is made of
    the shortest panes that are kept for so long: where they do not divide the window it is longer
    by a part of one. Where nothing is kept for an hour it is the window just before.
    """
    timing = reading.plan.timing
    number = window_number(reading.plan, window)
    span = timing.windows[number]
    now = Span(number, pane_starts(span, end_ms), span.pane_ms)
    back_ms = max(HOUR_MS, span.length_ms)
    for donor, kept in enumerate(timing.windows):
        last_end = pane_start(min(now.end_ms - back_ms, now.starts[0]), kept.pane_ms)
        count = -(-span.length_ms // kept.pane_ms)
        starts = range(last_end - count * kept.pane_ms, last_end, kept.pane_ms)
        if starts[0] >= kept_starts(reading, donor, reading.snapshot.as_of_ms or end_ms)[0]:
            return now, Span(donor, starts, kept.pane_ms)
    starts = range(now.starts[0] - span.length_ms, now.starts[0], span.pane_ms)
    return now, Span(number, starts, span.pane_ms)
