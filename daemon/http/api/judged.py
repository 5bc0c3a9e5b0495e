"""Judged scores: of each window, beside what is usual, and pane by pane. Pure.

They stand beside the scores of feedback and are another measure, also where a metric has the same
name: hence `judged_metric`.
"""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from ...events.timestamps import timestamp_text
from ...exporter.judged import IMPRESSIONS, JudgedScores, first_of_window, judged_shares
from ...exporter.pane_reader import Reading
from ...exporter.scores import optional
from ...exporter.snapshot import Segment, WindowRows, estimates
from .dated_files import DatedFile, LaneDatedFiles, dated_file, lane_files, refused_files
from .history import Pane, kept_starts, metric_index, panes_of, window_index
from .judged_changes import JudgedChange, Query, judged_changes, named_metrics, requested

PATH: Final = "/api/v1/judged"


class JudgedScore(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One judged metric of one segment in one window."""

    judged_metric: str
    """Name of the metric that is scored by judgements."""
    grouping: str
    segment: str
    window: str
    mean: float | None
    stderr: float | None
    """null below two scored impressions."""
    scored: int
    impressions: int
    """Impressions whose query is judged."""
    items_share: float | None
    """Share of the first places of their lists whose item is judged; null without any."""
    since: str | None
    """Where the file began within the window: since when it is counted."""
    judgements: str
    """Name of the file that graded; `mixed` where lanes disagree."""


class Judged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The judged scores of all lanes."""

    judged_metrics: tuple[str, ...]
    """The metrics that are scored by judgements; none where nothing is judged."""
    until: str | None
    """Event time at which the windows end: judged scores before it are final, without waiting for
    feedback."""
    judgements: str | None
    """Name of the file that grades; `mixed` where lanes disagree; null where none is in force, or
    not in all lanes yet."""
    since: str | None
    """Since when it is so. Nothing before is compared with what follows."""
    files: tuple[DatedFile, ...]
    """Those that grade: one, or several where it is mixed."""
    refused: tuple[DatedFile, ...]
    """Files that some lanes refused, because they were listed too late."""
    lanes: tuple[LaneDatedFiles, ...]
    """The lanes that grade."""
    depth: int
    """The first so many places are looked at for `items_share`."""
    unjudged: Literal["zero", "skip"] | None
    """What an item without a judgement is: `zero`, one without gain, so that scores are lower
    bounds; `skip`, none at all. null where nothing is judged."""
    scores: tuple[JudgedScore, ...]
    compared: tuple[JudgedChange, ...]
    """The last hours beside earlier ones."""


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
    panes: tuple[Pane, ...]


def judged(reading: Reading, wanted: Query) -> Judged:
    """The judged scores that pass the filters `wanted`."""
    found = reading.by_judgements
    if found is None or reading.plan.judged is None:
        return Judged((), None, None, None, (), (), (), 0, None, (), ())
    measure = found.measure
    plan = reading.plan.judged
    return Judged(
        judged_metrics=tuple(metric.name for metric in plan.metrics),
        until=_text(found.until_ms),
        judgements=None if measure is None else measure.name,
        since=None if measure is None else timestamp_text(measure.since_ms),
        files=() if measure is None else tuple(map(dated_file, measure.files)),
        refused=refused_files(found.files),
        lanes=tuple(map(lane_files, found.files)),
        depth=plan.depth,
        unjudged=plan.unjudged,
        scores=tuple(_scores(found, wanted)),
        compared=tuple(judged_changes(reading, found, wanted)),
    )


def judged_history(
    reading: Reading, judged_metric: str, segment: Segment, window: str
) -> JudgedHistory:
    """The panes of a segment, which must be one that is shown."""
    found = reading.by_judgements
    assert found is not None, "a judged metric was named"
    window_at = window_index(found.plan, window)
    span = found.plan.timing.windows[window_at]
    panes: tuple[Pane, ...] = ()
    if found.snapshot is not None and found.selection is not None and found.measure is not None:
        assert found.until_ms is not None
        of = Reading(found.plan, found.views, found.snapshot, found.selection)
        since_ms = found.measure.since_ms
        starts = [s for s in kept_starts(of, window_at, found.until_ms - 1) if s >= since_ms]
        if segment in found.selection.segments:
            rows = of.panes(window_at, starts, segment)
            panes = panes_of(
                rows, starts, span, found.plan, metric_index(found.plan, judged_metric)
            )
    return JudgedHistory(
        judged_metric=judged_metric,
        grouping=segment[0],
        segment=segment[1],
        window=window,
        window_seconds=span.length_ms // 1000,
        pane_seconds=span.pane_ms // 1000,
        as_of=_text(found.until_ms),
        settled_until=_text(found.until_ms),
        panes=panes,
    )


def _text(time_ms: int | None) -> str | None:
    return None if time_ms is None else timestamp_text(time_ms)


def _scores(found: JudgedScores, wanted: Query) -> Iterator[JudgedScore]:
    for window in found.windows:
        if "window" not in wanted or window.window in wanted["window"]:
            yield from _of_window(found, window, wanted)


def _of_window(found: JudgedScores, window: WindowRows, wanted: Query) -> Iterator[JudgedScore]:
    assert found.measure is not None
    first_ms = first_of_window(found, window)
    since = timestamp_text(first_ms) if first_ms > window.first_ms else None
    shares = optional(judged_shares(window.rows))
    for index, name in named_metrics(found, wanted):
        means, errors = (optional(values) for values in estimates(window.rows, found.plan, index))
        scored = window.rows[:, found.plan.metric_column(index)].tolist()
        for row, (grouping, segment) in requested(found, wanted):
            yield JudgedScore(
                judged_metric=name,
                grouping=grouping,
                segment=segment,
                window=window.window,
                mean=means[row],
                stderr=errors[row],
                scored=scored[row],
                impressions=int(window.rows[row, IMPRESSIONS]),
                items_share=shares[row],
                since=since,
                judgements=found.measure.name,
            )
