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
    """A short interval of event time, without its end."""

    start: str
    end: str
    mean: float | None
    """null where no impression has a defined value."""
    stderr: float | None
    """null below two scored impressions."""
    scored: int
    impressions: int


class History(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The panes of a window that are kept, oldest first; the last one contains as_of.

    The panes of one window length add up to its scores: the sum of squares of a pane follows from
    mean, stderr and scored.
    """

    metric: str
    grouping: str
    segment: str
    window: str
    window_seconds: int
    pane_seconds: int
    as_of: str | None
    settled_until: str | None
    """End of the settled view. Later panes still gather feedback."""
    panes: tuple[Pane, ...]


def window_index(plan: Plan, name: str) -> int:
    """The index of the window of this name."""
    return [span.name for span in plan.timing.windows].index(name)


def metric_index(plan: Plan, name: str) -> int:
    """The index of the metric of this name."""
    return [metric.name for metric in plan.metrics].index(name)


def history(reading: Reading, metric: str, segment: Segment, window: str) -> History:
    """The panes of a segment, which must be one that is shown."""
    plan, as_of_ms = reading.plan, reading.snapshot.as_of_ms
    window_at = window_index(plan, window)
    span = plan.timing.windows[window_at]
    settled_ms = None if as_of_ms is None else as_of_ms - plan.timing.settle_ms
    starts = [] if as_of_ms is None else kept_starts(reading, window_at, as_of_ms)
    rows = reading.panes(window_at, starts, segment)
    return History(
        metric=metric,
        grouping=segment[0],
        segment=segment[1],
        window=window,
        window_seconds=span.length_ms // 1000,
        pane_seconds=span.pane_ms // 1000,
        as_of=None if as_of_ms is None else timestamp_text(as_of_ms),
        settled_until=None if settled_ms is None else timestamp_text(settled_ms),
        panes=panes_of(rows, starts, span, plan, metric_index(plan, metric)),
    )


def kept_starts(reading: Reading, window_at: int, end_ms: int) -> list[int]:
    """Start times of the panes of a window that every lane keeps, up to the pane of `end_ms`."""
    timing = reading.plan.timing
    span = timing.windows[window_at]
    first = max(
        pane_start(end_ms - timing.kept_ms(span), span.pane_ms) + span.pane_ms,
        kept_from(reading.views, reading.plan, window_at),
    )
    return list(range(first, end_ms + 1, span.pane_ms))


def panes_of(
    rows: Rows, starts: list[int], span: Window, plan: Plan, metric_at: int
) -> tuple[Pane, ...]:
    """The panes that begin then, of one row each."""
    means, errors = (optional(values) for values in estimates(rows, plan, metric_at))
    scored = rows[:, plan.metric_column(metric_at)].tolist()
    return tuple(
        Pane(timestamp_text(start), timestamp_text(start + span.pane_ms), *numbers)
        for start, *numbers in zip(starts, means, errors, scored, rows[:, 0].tolist(), strict=True)
    )
