"""One metric of one segment, pane by pane. Pure."""

import msgspec

from ...events.timestamps import timestamp_text
from ...exporter.pane_reader import Reading
from ...exporter.scores import optional
from ...exporter.snapshot import Segment, estimates, kept_from
from ...lane.paged_rows import Rows
from ...panes import Window, pane_start
from ...plan import Plan


class Pane(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A short stretch of event time, up to but without its end."""

    start: str
    end: str
    mean: float | None
    """null where no impression has a defined value."""
    stderr: float | None
    """null below two scored impressions."""
    scored: int
    impressions: int


class History(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The panes of a window that are kept, oldest first; the last one holds as_of.

    Summed over the window's length they give its scores: a pane's sum of squares follows from mean,
    stderr and scored.
    """

    metric: str
    grouping: str
    segment: str
    window: str
    window_seconds: int
    pane_seconds: int
    as_of: str | None
    settled_until: str | None
    """Later panes still gather feedback: the settled view ends here."""
    panes: tuple[Pane, ...]


def window_number(plan: Plan, name: str) -> int:
    """Which of the windows has this name."""
    return [span.name for span in plan.timing.windows].index(name)


def metric_number(plan: Plan, name: str) -> int:
    """Which of the metrics has this name."""
    return [metric.name for metric in plan.metrics].index(name)


def history(reading: Reading, metric: str, segment: Segment, window: str) -> History:
    """What is kept of the segment, which must be shown."""
    plan, as_of_ms = reading.plan, reading.snapshot.as_of_ms
    number = window_number(plan, window)
    span = plan.timing.windows[number]
    settled_ms = None if as_of_ms is None else as_of_ms - plan.timing.settle_ms
    starts = [] if as_of_ms is None else kept_starts(reading, number, as_of_ms)
    rows = reading.panes(number, starts, segment)
    return History(
        metric=metric,
        grouping=segment[0],
        segment=segment[1],
        window=window,
        window_seconds=span.length_ms // 1000,
        pane_seconds=span.pane_ms // 1000,
        as_of=None if as_of_ms is None else timestamp_text(as_of_ms),
        settled_until=None if settled_ms is None else timestamp_text(settled_ms),
        panes=_panes(rows, starts, span, plan, metric_number(plan, metric)),
    )


def kept_starts(reading: Reading, number: int, end_ms: int) -> list[int]:
    """Where the panes of the window begin that every lane keeps, up to the one of this instant."""
    timing = reading.plan.timing
    span = timing.windows[number]
    first = max(
        pane_start(end_ms - timing.kept_ms(span), span.pane_ms) + span.pane_ms,
        kept_from(reading.views, reading.plan, number),
    )
    return list(range(first, end_ms + 1, span.pane_ms))


def _panes(
    rows: Rows, starts: list[int], span: Window, plan: Plan, number: int
) -> tuple[Pane, ...]:
    means, errors = (optional(values) for values in estimates(rows, plan, number))
    scored = rows[:, plan.metric_column(number)].tolist()
    return tuple(
        Pane(timestamp_text(start), timestamp_text(start + span.pane_ms), *numbers)
        for start, *numbers in zip(starts, means, errors, scored, rows[:, 0].tolist(), strict=True)
    )
