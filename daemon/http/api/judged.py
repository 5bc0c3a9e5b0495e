"""Judged scores of each window and beside what is usual; and the dated files of each lane, of
judgements and of classes of queries. Pure.

They stand beside the scores of feedback and are another measure, also where a metric has the same
name: hence `judged_metric`. The arithmetic is that of the alert rules.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from relevanced.metrics import Floats

from ...changes import settings
from ...events import timestamp_text
from ...exporter import (
    IMPRESSIONS,
    BaselineComparison,
    MeasureScores,
    Reading,
    best_case_of,
    expected,
    judged_shares,
)
from ...judgements import NOTHING_READ, IndexEntry
from ...lane import Rows
from ...plan import Plan
from ...views import (
    NEVER,
    LaneFiles,
    Segment,
    WindowRows,
    classes_by_attribute,
    estimates,
    optional,
    optional_counts,
)
from .compared import CALLS, EarlierHours, Estimate, Verdict, wanted_metrics
from .parameters import Query, requested
from .row_verdicts import ComparedSpans, Voice

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


class JudgedRow(NamedTuple):
    """One metric of one segment, now and before: fields of `JudgedChange`."""

    now: Estimate
    before: Estimate
    difference: float | None
    noise: float | None
    verdict: Verdict
    best_case_now: float | None = None
    best_case_before: float | None = None
    items_share_now: float | None = None
    items_share_before: float | None = None


NOTHING_BEFORE: Final = JudgedRow(NOTHING, NOTHING, None, None, "no_traffic")


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
    """As that of /api/v1/changes; `cannot_tell` where the score and its best case do not say the
    same."""
    best_case_now: float | None
    """The mean now if items without a judgement were as good as judged ones."""
    best_case_before: float | None
    """The same of the mean before."""
    items_share_now: float | None
    """Share of the first places of the lists whose item is judged."""
    items_share_before: float | None
    """The same before."""
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
        begin_ms, end_ms = comparison.from_ms, comparison.until_ms
        before = [(begin_ms - back_ms, end_ms - back_ms) for back_ms in comparison.periods]
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
                    ComparedSpans((begin_ms, end_ms), before),
                )


def _against_usual(
    reading: Reading, found: MeasureScores, comparison: BaselineComparison
) -> Callable[[int], Sequence[JudgedRow]] | None:
    """The rows of a metric by its index; None where no earlier hours are known."""
    if not comparison.periods:
        return None
    periods = [*comparison.periods.values()]
    best_case = best_case_of(found.plan)
    assert best_case is not None
    usual = np.asarray(expected(periods), np.float64)
    by_score, by_best_case = (
        EarlierHours(
            comparison.recent,
            periods,
            plan,
            reading.change_settings.of_judged,
            of_days=comparison.unit != "week",
        )
        for plan in (found.plan, best_case)
    )
    shares = [optional(judged_shares(rows)) for rows in (comparison.recent, usual)]

    def of_metric(at: int) -> Sequence[JudgedRow]:
        direction = found.plan.metrics[at].direction
        both = (
            earlier.of_metric(at, usual).compared(BEYOND, direction)
            for earlier in (by_score, by_best_case)
        )
        return [
            JudgedRow(
                **row._replace(verdict=_agreed(row.verdict, best.verdict))._asdict(),
                best_case_now=best.now.mean,
                best_case_before=best.before.mean,
                items_share_now=share_now,
                items_share_before=share_before,
            )
            for row, best, share_now, share_before in zip(*both, *shares, strict=True)
        ]

    return of_metric


def _agreed(verdict: Verdict, best_case: Verdict) -> Verdict:
    called = {verdict, best_case}.intersection(CALLS)
    return "cannot_tell" if called and verdict != best_case else verdict


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
    best_case: float | None
    """The mean if items without a judgement were as good as judged ones."""
    best_case_stderr: float | None
    """null below two scored impressions."""
    scored: int | None
    """null where not all of the window has the grouping: see `since`."""
    impressions: int | None
    """Impressions whose query is judged; null as `scored` is."""
    items_share: float | None
    """Share of the first places of their lists whose item is judged; null without any."""
    since: str | None
    """Where the file, or the grouping, began within the window: since when it is counted."""
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


def _text(time_ms: int | None) -> str | None:
    return None if time_ms is None else timestamp_text(time_ms)


def _scores(found: MeasureScores, wanted: Query) -> Iterator[JudgedScore]:
    for window in found.windows:
        if "window" not in wanted or window.window in wanted["window"]:
            yield from _of_window(found, window, wanted)


def _of_window(found: MeasureScores, window: WindowRows, wanted: Query) -> Iterator[JudgedScore]:
    assert found.grading is not None
    first_ms, coverage = found.first_of_window(window), found.snapshot.coverage
    groupings = {} if coverage is None else coverage.groupings

    def since(grouping: str) -> str | None:
        begins_ms = max(first_ms, groupings.get(grouping, first_ms))
        return timestamp_text(begins_ms) if window.first_ms < begins_ms < NEVER else None

    metrics = wanted_metrics(found.plan, wanted.get("judged_metric", ()))
    shown, rows = requested(found.segments, wanted), found.known(window.rows, first_ms)
    labels = window.window, since, found.grading.name
    yield from judged_scores(rows, found.plan, metrics, shown, labels)


def judged_scores(
    rows: Rows | Floats,
    plan: Plan,
    metrics: Iterable[int],
    shown: Iterable[tuple[int, Segment]],
    labels: tuple[str, Callable[[str], str | None], str],
) -> Iterator[JudgedScore]:
    """The scores of judged rows, (segments, columns), by the indices of metrics and of segments.
    `labels`: the window, since when by grouping, and what graded them."""
    window, since, judgements = labels
    best_case, segments = best_case_of(plan), [*shown]
    assert best_case is not None
    shares = optional(judged_shares(rows))
    for index in metrics:
        columns = (*estimates(rows, plan, index), *estimates(rows, best_case, index))
        means, errors, best_means, best_errors = map(optional, columns)
        counts = (optional_counts(rows[:, at]) for at in (plan.metric_column(index), IMPRESSIONS))
        scored, impressions = counts
        for row, (grouping, segment) in segments:
            yield JudgedScore(
                judged_metric=plan.metrics[index].name,
                grouping=grouping,
                segment=segment,
                window=window,
                mean=means[row],
                stderr=errors[row],
                best_case=best_means[row],
                best_case_stderr=best_errors[row],
                scored=scored[row],
                impressions=impressions[row],
                items_share=shares[row],
                since=since(grouping),
                judgements=judgements,
            )
