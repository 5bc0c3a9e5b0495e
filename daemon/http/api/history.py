"""One metric of one segment over time: pane by pane, by feedback or by judgements, in the two
periods that are compared, and hour by hour for weeks. Pure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from relevanced.metrics import Floats

from ...events import instant_ms, timestamp_ms, timestamp_text
from ...exporter import MeasureScores, Reading, best_case_of, judged_shares
from ...lane import Rows
from ...panes import HOUR_MS, Window, pane_start
from ...plan import Plan
from ...views import (
    COUNTS_CELL,
    Segment,
    estimates,
    kept_from,
    optional,
    optional_counts,
    pane_starts,
)
from .parameters import BadRequest, Query, requested


class Pane(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A short interval of event time, without its end."""

    start: str
    end: str
    mean: float | None
    """null where no impression has a defined value."""
    stderr: float | None
    """null below two scored impressions."""
    scored: int | None
    """null where the metric counts only from later on."""
    impressions: int | None
    """null where the grouping counts only from later on."""


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
    starts = [] if as_of_ms is None else kept_starts(reading.clicks, window_at, as_of_ms)
    rows = reading.clicks.known_panes(window_at, starts, segment)
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


def kept_since(reading: MeasureScores, window_at: int, end_ms: int) -> int:
    """Start of the first pane of a window that every lane keeps, as seen from `end_ms`; later than
    that where a lane is so far ahead of the others."""
    timing = reading.plan.timing
    span = timing.windows[window_at]
    return max(
        pane_start(end_ms - timing.kept_ms(span), span.pane_ms) + span.pane_ms,
        kept_from(reading.views, reading.plan, window_at),
    )


def kept_starts(reading: MeasureScores, window_at: int, end_ms: int) -> list[int]:
    """Start times of the panes of a window that every lane keeps, up to the pane of `end_ms`."""
    first = kept_since(reading, window_at, end_ms)
    return list(range(first, end_ms + 1, reading.plan.timing.windows[window_at].pane_ms))


def panes_of(
    rows: Rows | Floats, starts: list[int], span: Window, plan: Plan, metric_at: int
) -> tuple[Pane, ...]:
    """The panes that begin then, of one row each; NaN is not known."""
    means, errors = (optional(values) for values in estimates(rows, plan, metric_at))
    counts = (optional_counts(rows[:, at]) for at in (plan.metric_column(metric_at), 0))
    columns = zip(starts, means, errors, *counts, strict=True)
    return tuple(
        Pane(timestamp_text(start), timestamp_text(start + span.pane_ms), *numbers)
        for start, *numbers in columns
    )


class JudgedPane(Pane, frozen=True, forbid_unknown_fields=True):
    """A short interval of event time, without its end, by judgements."""

    best_case: float | None
    """The mean if items without a judgement were as good as judged ones."""
    items_share: float | None
    """Share of the first places of the lists whose item is judged; null without any."""


class JudgedHistory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The panes of a window that are kept and that the files of now graded, oldest first."""

    judged_metric: str
    """Name of the metric that is scored by judgements."""
    grouping: str
    segment: str
    window: str
    window_seconds: int
    pane_seconds: int
    as_of: str | None
    settled_until: str | None
    """The same as as_of: judged scores wait for no feedback."""
    panes: tuple[JudgedPane, ...]


def judged_history(
    reading: Reading, judged_metric: str, segment: Segment, window: str
) -> JudgedHistory:
    """The panes of a segment, which must be one that is shown."""
    found = reading.judged
    assert found is not None, "a judged metric was named"
    window_at = window_index(found.plan, window)
    span = found.plan.timing.windows[window_at]
    panes: tuple[JudgedPane, ...] = ()
    if found.grading is not None:
        assert found.until_ms is not None
        since_ms = found.grading.since_ms
        starts = [s for s in kept_starts(found, window_at, found.until_ms - 1) if s >= since_ms]
        if segment in found.segments:
            rows = found.known_panes(window_at, starts, segment)
            panes = _panes(rows, starts, span, found.plan, judged_metric)
    until = None if found.until_ms is None else timestamp_text(found.until_ms)
    return JudgedHistory(
        judged_metric=judged_metric,
        grouping=segment[0],
        segment=segment[1],
        window=window,
        window_seconds=span.length_ms // 1000,
        pane_seconds=span.pane_ms // 1000,
        as_of=until,
        settled_until=until,
        panes=panes,
    )


def _panes(
    rows: Rows | Floats, starts: list[int], span: Window, plan: Plan, judged_metric: str
) -> tuple[JudgedPane, ...]:
    """The panes that begin then, of one row each."""
    at, best_case = metric_index(plan, judged_metric), best_case_of(plan)
    assert best_case is not None
    by_score, by_best_case = (panes_of(rows, starts, span, each, at) for each in (plan, best_case))
    return tuple(
        JudgedPane(**msgspec.structs.asdict(pane), best_case=best.mean, items_share=share)
        for pane, best, share in zip(
            by_score, by_best_case, optional(judged_shares(rows)), strict=True
        )
    )


class Stretch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An interval of event time, without its end."""

    start: str
    end: str

    @property
    def span(self) -> tuple[int, int]:
        """The same in ms."""
        return timestamp_ms(self.start), timestamp_ms(self.end)


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


def compared_periods(reading: Reading, window: str, end_ms: int) -> tuple[Period, Period | None]:
    """The window that ends at `end_ms`, and the period that it is compared with; None where not
    every lane keeps all of that.

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
    until_ms = reading.snapshot.as_of_ms or end_ms
    for kept_at, kept in enumerate(timing.windows):
        last_end = pane_start(min(now.end_ms - back_ms, now.starts[0]), kept.pane_ms)
        count = -(-span.length_ms // kept.pane_ms)
        starts = range(last_end - count * kept.pane_ms, last_end, kept.pane_ms)
        if starts[0] >= kept_since(reading.clicks, kept_at, until_ms):
            return now, Period(kept_at, starts, kept.pane_ms)
    starts = range(now.starts[0] - span.length_ms, now.starts[0], span.pane_ms)
    is_kept = starts[0] >= kept_since(reading.clicks, window_at, until_ms)
    return now, Period(window_at, starts, span.pane_ms) if is_kept else None


MOST_HOUR_ROWS: Final = 100_000
"""In one answer: some 20 MB of JSON."""
DEFAULT_HOURS: Final = 24
LATEST_MS: Final = 10**14
"""As for the times of events."""


class HourScore(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One metric of one segment in one hour of event time, over what has settled."""

    start: str
    metric: str
    grouping: str
    segment: str
    mean: float | None
    """null where no impression has a defined value."""
    stderr: float | None
    """null below two scored impressions."""
    scored: int
    impressions: int
    complete: bool
    """Whether all of the hour is in these numbers: false for the hour in which counting began, and
    for hours that have not settled yet."""
    filled: bool
    """Whether `relevanced backfill` counted this, of a log or of files, and not the lanes."""


class Hours(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    """The hours of a span, oldest first. Hours without any impression are left out."""

    hour_seconds: int
    as_of: str | None
    settled_until: str | None
    """Everything before it is in the hours."""
    from_: str | None
    """Start of the first hour that was asked for."""
    to: str | None
    """End of the last hour that was asked for."""
    lost: tuple[str, ...]
    """Starts of hours of which the store has lost rows that are not filled. They are left out; in
    CSV they have rows without numbers."""
    rows: tuple[HourScore, ...]


class LostHour(msgspec.Struct, frozen=True, gc=False):
    """A row of CSV for an hour that is lost: an `HourScore` without numbers."""

    start: str
    metric: str | None
    grouping: str | None
    segment: str | None
    mean: None = None
    stderr: None = None
    scored: None = None
    impressions: None = None
    complete: bool = False
    filled: bool = False


class HoursTable(msgspec.Struct, frozen=True):
    """The hours as CSV has them, oldest first."""

    rows: tuple[HourScore | LostHour, ...]


def with_lost_hours(found: Hours) -> HoursTable:
    """The rows, and for each hour that is lost one of each series that others have: where it had
    none, it would look like an hour without traffic. Without any series it is one row."""
    series = dict.fromkeys((row.metric, row.grouping, row.segment) for row in found.rows)
    names: list[tuple[str | None, str | None, str | None]] = [*series] or [(None, None, None)]
    lost = (LostHour(start, *name) for start in found.lost for name in names)
    return HoursTable(tuple(sorted((*found.rows, *lost), key=lambda row: row.start)))


@dataclass(frozen=True)
class Span:
    """Instants in milliseconds; hours that begin in [from_ms, to_ms) are meant."""

    from_ms: int
    to_ms: int


def hours(reading: Reading, wanted: Query, from_: str | None, to: str | None) -> Hours:
    """The hours of the shown segments that pass the filters `wanted` (name → allowed values).
    Raises BadRequest."""
    plan, as_of_ms = reading.plan, reading.snapshot.as_of_ms
    kept = reading.clicks.hour_sources.starts
    chosen = requested(reading.selection.segments, wanted)
    if as_of_ms is None or not kept or not chosen:
        return Hours(
            plan.hour_ms // 1000,
            None if as_of_ms is None else timestamp_text(as_of_ms),
            None,
            None,
            None,
            (),
            (),
        )
    settled_ms = _settled_ms(reading)
    span = _span(from_, to, plan.hour_ms, kept[-1] + plan.hour_ms)
    lost = reading.clicks.hour_sources.not_filled
    starts = [start for start in kept if span.from_ms <= start < span.to_ms and start not in lost]
    names = list(wanted.get("metric") or [metric.name for metric in plan.metrics])
    if len(starts) * len(names) * len(chosen) > MOST_HOUR_ROWS:
        raise BadRequest(
            400,
            f"{len(starts)} hours of {len(names)} metrics of {len(chosen)} segments: must be at"
            f" most {MOST_HOUR_ROWS:,} rows: narrow from, to, metric, grouping or segment",
        )
    first_ms = max(reading.clicks.hour_sources.born_ms, kept[0]) + plan.hour_ms
    complete = range(first_ms, pane_start(settled_ms, plan.hour_ms), plan.hour_ms)
    return Hours(
        hour_seconds=plan.hour_ms // 1000,
        as_of=timestamp_text(as_of_ms),
        settled_until=timestamp_text(settled_ms),
        from_=timestamp_text(span.from_ms),
        to=timestamp_text(span.to_ms),
        lost=tuple(timestamp_text(s) for s in sorted(lost) if span.from_ms <= s < span.to_ms),
        rows=tuple(
            row
            for start in starts
            for row in _rows(reading, start, names, chosen, start in complete)
        ),
    )


def _settled_ms(reading: Reading) -> int:
    """The instant before which every lane with events has settled."""
    lanes = [lane.settled_before or 0 for lane in reading.views if lane.has_events]
    return min(lanes, default=0)


def _span(from_: str | None, to: str | None, hour_ms: int, end_ms: int) -> Span:
    until_ms = end_ms if to is None else _instant("to", to)
    since_ms = until_ms - DEFAULT_HOURS * hour_ms if from_ is None else _instant("from", from_)
    if since_ms >= until_ms:
        raise BadRequest(400, f"from={from_}: must be before to={to or timestamp_text(until_ms)}")
    first = pane_start(since_ms, hour_ms)
    return Span(max(first, 0), pane_start(until_ms - 1, hour_ms) + hour_ms)


def _instant(name: str, value: str) -> int:
    try:
        time_ms = instant_ms(value)
    except ValueError:
        time_ms = -1
    if not 0 <= time_ms < LATEST_MS:
        rule = "must be a time with its zone such as 2026-11-20T12:00:00Z, from 1970 to 5138"
        raise BadRequest(400, f"{name}={value}: {rule}")
    return time_ms


def _rows(
    reading: Reading,
    start: int,
    names: Sequence[str],
    chosen: Sequence[tuple[int, Segment]],
    complete: bool,
) -> Iterator[HourScore]:
    at, plan = timestamp_text(start), reading.plan
    rows = _summed(reading, start)
    cells = reading.clicks.hour_sources.filled(start)
    line_of = {grouping: line for line, grouping in enumerate(plan.grouping_names)}
    for name in names:
        metric_at = metric_index(plan, name)
        means, errors = (optional(values) for values in estimates(rows, plan, metric_at))
        scored = rows[:, plan.metric_column(metric_at)].tolist()
        for index, segment in chosen:
            impressions = int(rows[index, 0])
            if impressions:
                filled = bool(cells[line_of[segment[0]], 1 + metric_at])
                yield HourScore(
                    at,
                    name,
                    *segment,
                    mean=means[index],
                    stderr=errors[index],
                    scored=scored[index],
                    impressions=impressions,
                    complete=complete or bool(cells[line_of[segment[0]], COUNTS_CELL]),
                    filled=filled,
                )


def _summed(reading: Reading, start: int) -> Rows:
    """(selected segments, columns): the rows of an hour, of all sources."""
    summed = np.zeros((len(reading.selection.segments) + 1, reading.plan.row_width), np.int64)
    sources = reading.clicks.hour_sources
    for source, pages in zip(sources.each, sources.pages(start), strict=True):
        for page in pages or {}:
            into = reading.selection.rows_of(source.names.of_page(page))
            np.add.at(summed, into, source.hour_rows(reading.plan, start, page)[: len(into)])
    return summed[:-1]
