"""Judged scores: of each window, beside what is usual, and pane by pane; and the dated files of
each lane, of judgements and of classes of queries. Pure.

They stand beside the scores of feedback and are another measure, also where a metric has the same
name: hence `judged_metric`. The arithmetic is that of the alert rules.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
import numpy as np

from ...changes import settings
from ...events import timestamp_text
from ...exporter import (
    IMPRESSIONS,
    BaselineComparison,
    MeasureScores,
    Reading,
    judged_shares,
)
from ...judgements import NOTHING_READ, IndexEntry
from ...views import LaneFiles, Segment, WindowRows, classes_by_attribute, estimates, optional
from .compared import ComparedRow, EarlierHours, Estimate, Verdict, wanted_metrics
from .history import Pane, kept_starts, metric_index, panes_of, window_index
from .parameters import Query, requested
from .voice import Voice

JUDGED_PATH: Final = "/api/v1/judged"
CLASSES_PATH: Final = "/api/v1/classes"
BEYOND: Final = abs(settings.DROPPED_HOUR)
"""A change beyond so many standard errors is called."""
Unit: TypeAlias = Literal["week", "day", "hour"]
_UNITS: Final[Mapping[str, Unit]] = {
    "week": "week",
    "day": "day",
    "hour": "hour",
}


NOTHING: Final = Estimate(None, None, 0, 0)
NOTHING_BEFORE: Final = ComparedRow(NOTHING, NOTHING, None, None, "no_traffic")


class JudgedChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One judged metric of one segment in the last hours, and in earlier ones that the same file
    graded."""

    judged_metric: str
    """Name of the metric that is scored by judgements."""
    grouping: str
    segment: str
    window: str
    now: Estimate
    before: Estimate
    difference: float | None
    """Now minus before; null where either is undefined."""
    noise: float | None
    """Standard error of the difference, drift included."""
    verdict: Verdict
    """As that of /api/v1/changes."""
    unit: Unit | None
    """What `before` is the mean of; null where it is the level before an open change."""
    periods: int
    """How many weeks, days or hours; 0 beside null."""
    since: str | None
    """The onset of an open change that says so: `now` is the level since then."""


def judged_changes(reading: Reading, found: MeasureScores, wanted: Query) -> Iterator[JudgedChange]:
    """The rows of the shown segments that pass the filters `wanted`, as the open changes have
    them. A row without earlier hours is there only where an open change names it."""
    voice = Voice.of(found.changes)
    for comparison in found.comparisons:
        rows = _against_usual(reading, found, comparison)
        for at in wanted_metrics(found.plan, wanted.get("judged_metric", ())):
            metric = found.plan.metrics[at].name
            usual = None if rows is None else rows(at)
            for row, segment in requested(found.segments, wanted):
                series = (*segment, metric)
                if usual is None and series not in voice.said:
                    continue
                compared = NOTHING_BEFORE if usual is None else usual[row]
                yield voice.of_row(
                    JudgedChange(
                        metric,
                        *segment,
                        comparison.window,
                        **compared._asdict(),
                        unit=None if series in voice.said else _UNITS[comparison.unit],
                        periods=0 if series in voice.said else len(comparison.periods),
                        since=None,
                    ),
                    series,
                    compared.verdict,
                    comparison.from_ms,
                )


def _against_usual(
    reading: Reading, found: MeasureScores, comparison: BaselineComparison
) -> Callable[[int], Sequence[ComparedRow]] | None:
    """The rows of a metric by its index; None where no earlier hours are known."""
    if not comparison.periods:
        return None
    periods = [*comparison.periods.values()]
    earlier = EarlierHours(
        comparison.recent,
        periods,
        found.plan,
        reading.change_settings.of_judged,
        of_days=comparison.unit != "week",
    )
    usual = np.mean(periods, axis=0)

    def of_metric(at: int) -> Sequence[ComparedRow]:
        direction = found.plan.metrics[at].direction
        return earlier.of_metric(at, usual).compared(BEYOND, direction)

    return of_metric


class DatedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of judgements, or of classes of queries."""

    name: str
    start: str
    """Event time from which on it is in force."""
    sha256: str
    """Of its bytes."""


class LaneDatedFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files that one lane has, of judgements or of classes."""

    lane: int
    """Its number: that of a partition."""
    latest: str | None
    """The latest event time that it has read; null before the first event. It refuses a file that
    it does not know and that does not start later."""
    first: str | None
    """Start of the first file that can still be needed: the lane passes over files that start
    before. null where it has none."""
    files: tuple[DatedFile, ...]
    """Those that it has adopted: of judgements as long as an hour that they graded is kept, of
    classes as long as an impression may need them."""
    refused: tuple[DatedFile, ...]
    """Those that it refused."""


class AttributeFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of classes of one attribute."""

    attribute: str
    """Its name, as in [[derive]]."""
    refused: tuple[DatedFile, ...]
    """Files that some lanes refused, because they were listed too late."""
    lanes: tuple[LaneDatedFiles, ...]
    """The lanes that have read an event with it."""


class ClassFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of classes by which lanes derive attributes of queries."""

    derived: tuple[AttributeFiles, ...]
    """By attribute; none where no attribute is derived by files."""


def class_files(reading: Reading) -> ClassFiles:
    """The files of classes of all lanes."""
    by_attribute = classes_by_attribute(reading.views, reading.plan)
    return ClassFiles(
        tuple(
            AttributeFiles(attribute, refused_files(lanes), tuple(map(lane_files, lanes)))
            for attribute, lanes in by_attribute.items()
        )
    )


def refused_files(lanes: Iterable[LaneFiles]) -> tuple[DatedFile, ...]:
    """The files that some of the lanes refused, by ascending start."""
    return tuple(map(dated_file, sorted({entry for lane in lanes for entry in lane.refused})))


def dated_file(entry: IndexEntry) -> DatedFile:
    """A file as answers name it."""
    return DatedFile(entry.name, timestamp_text(entry.start_ms), entry.sha256)


def lane_files(files: LaneFiles) -> LaneDatedFiles:
    """The files of a lane as answers list them."""
    return LaneDatedFiles(
        lane=files.lane,
        latest=None if files.latest_ms == NOTHING_READ else timestamp_text(files.latest_ms),
        first=timestamp_text(files.first_ms) if files.entries else None,
        files=tuple(map(dated_file, files.entries)),
        refused=tuple(map(dated_file, files.refused)),
    )


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
    found = reading.judged
    if found is None or reading.plan.judged is None:
        return Judged((), None, None, None, (), (), (), 0, None, (), ())
    grading = found.grading
    plan = reading.plan.judged
    return Judged(
        judged_metrics=tuple(metric.name for metric in plan.metrics),
        until=_text(found.until_ms),
        judgements=None if grading is None else grading.name,
        since=None if grading is None else timestamp_text(grading.since_ms),
        files=() if grading is None else tuple(map(dated_file, grading.files)),
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
    found = reading.judged
    assert found is not None, "a judged metric was named"
    window_at = window_index(found.plan, window)
    span = found.plan.timing.windows[window_at]
    panes: tuple[Pane, ...] = ()
    if found.grading is not None:
        assert found.until_ms is not None
        since_ms = found.grading.since_ms
        starts = [s for s in kept_starts(found, window_at, found.until_ms - 1) if s >= since_ms]
        if segment in found.segments:
            rows = found.panes(window_at, starts, segment)
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


def _scores(found: MeasureScores, wanted: Query) -> Iterator[JudgedScore]:
    for window in found.windows:
        if "window" not in wanted or window.window in wanted["window"]:
            yield from _of_window(found, window, wanted)


def _of_window(found: MeasureScores, window: WindowRows, wanted: Query) -> Iterator[JudgedScore]:
    assert found.grading is not None
    first_ms = found.first_of_window(window)
    since = timestamp_text(first_ms) if first_ms > window.first_ms else None
    shares = optional(judged_shares(window.rows))
    for index in wanted_metrics(found.plan, wanted.get("judged_metric", ())):
        means, errors = (optional(values) for values in estimates(window.rows, found.plan, index))
        scored = window.rows[:, found.plan.metric_column(index)].tolist()
        for row, (grouping, segment) in requested(found.segments, wanted):
            yield JudgedScore(
                judged_metric=found.plan.metrics[index].name,
                grouping=grouping,
                segment=segment,
                window=window.window,
                mean=means[row],
                stderr=errors[row],
                scored=scored[row],
                impressions=int(window.rows[row, IMPRESSIONS]),
                items_share=shares[row],
                since=since,
                judgements=found.grading.name,
            )
