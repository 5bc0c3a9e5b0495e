"""Open changes of scores and of the data behind them as samples: what the alert rules compare, and
what their texts say. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import Final, NamedTuple

import numpy as np

from ..changes import (
    HOUR_MS,
    STANDING_MS,
    TRAFFIC_COUNTS,
    WHOLE,
    ChangeSettings,
    Moved,
    Standing,
    Story,
    ToldChange,
    TrafficChange,
    TrafficSides,
    Urgency,
    is_below_floor,
    traffic_changes,
    urgency_of,
)
from ..plan import Plan
from ..telemetry import FAMILIES
from ..views import Segment, estimates
from .baselines import BaselineComparison
from .measures import Detection, MeasureScores, expected
from .sample_series import ONSET_BOUNDS, Sample, escape, labels_of

SIDES: Final = ("before", "now")
"""Values of the label `side`."""


def open_change_samples(measure: str, found: Detection, plan: Plan) -> Iterator[Sample]:
    """The samples of the changes of a measure; what is unknown is absent. `plan` has the groupings
    of its segments."""
    segments = labels_of([each.series[:2] for each in found.told], plan)
    for change, segment in zip(found.told, segments, strict=True):
        metric = escape(change.series[2])
        yield from _of(change, f'measure="{measure}",metric="{metric}",{segment}')


def traffic_changes_of(
    scores: MeasureScores, change_settings: ChangeSettings
) -> tuple[TrafficChange, ...]:
    """What is far from usual in the traffic of the last hour, by the scores of clicks;
    `change_settings` have the design effect that is used."""
    hour, six_hours = (_sides(scores.comparisons, window) for window in ("1h", "6h"))
    if hour is None:
        return ()
    telling = [*_telling(scores, change_settings), *_accepted(scores)]
    return tuple(
        traffic_changes(
            scores.segments,
            hour,
            six_hours,
            change_settings,
            _most_urgent(each for each in telling if not each.stands),
            _standing(scores.comparisons, [each for each in telling if each.stands]),
            has_gap=_has_gap(scores),
        )
    )


def traffic_change_samples(found: Sequence[TrafficChange], plan: Plan) -> Iterator[Sample]:
    """The samples of what is far from usual. `plan` has the groupings of its segments."""
    segments = labels_of([change.segment for change in found], plan)
    for change, segment in zip(found, segments, strict=True):
        labels = f'metric="{change.metric}",{segment}'
        urgency = f'{labels},urgency="{change.urgency}"'
        yield FAMILIES["relevanced_traffic_change_open"], urgency, 1
        for side, level in zip(SIDES, (change.before, change.now), strict=True):
            of_side = f'{labels},side="{side}"'
            yield FAMILIES["relevanced_traffic_change_open_level"], of_side, round(level, 6)
        if change.z is not None:
            yield FAMILIES["relevanced_traffic_change_open_z"], labels, round(change.z, 3)


def floor_samples(scores: MeasureScores, change_settings: ChangeSettings) -> Iterator[Sample]:
    """The scores by feedback of the last hour that are below their floor, where no change tells it,
    be it open or just over."""
    comparison = _comparison(scores.comparisons, "1h")
    if comparison is None or _has_gap(scores):
        return
    names = [metric.name for metric in scores.plan.metrics]
    floors = {
        (each.metric, each.grouping, each.segment): each for each in change_settings.score_floors
    }
    told = _most_urgent(_telling(scores, change_settings))
    for (metric, *segment), floor in floors.items():
        if metric not in names or tuple(segment) not in scores.segments:
            continue
        row, index = scores.segments.index((floor.grouping, floor.segment)), names.index(metric)
        score = float(estimates(comparison.recent, scores.plan, index)[0][row])
        scored = float(comparison.recent[row, scores.plan.metric_column(index)])
        if is_below_floor(floor, score, scored, change_settings, told):
            (label,) = labels_of([scores.segments[row]], scores.plan)
            labels = f'metric="{escape(metric)}",{label}'
            yield FAMILIES["relevanced_score_below_floor"], labels, round(score, 6)


def _comparison(
    comparisons: Sequence[BaselineComparison], window: str
) -> BaselineComparison | None:
    return next((each for each in comparisons if each.window == window), None)


def _sides(comparisons: Sequence[BaselineComparison], window: str) -> TrafficSides | None:
    """None where there is nothing to compare with."""
    found = _comparison(comparisons, window)
    if found is None or not found.periods:
        return None
    periods = [rows[:, :TRAFFIC_COUNTS] for rows in found.periods.values()]
    before = expected(periods).astype(np.float64)
    known = np.sum([~np.isnan(rows[:, 0]) for rows in periods], axis=0)
    return TrafficSides(found.recent[:, :TRAFFIC_COUNTS], before, known)


class _Telling(NamedTuple):
    """A change by feedback that tells of the last settled hour of a segment."""

    segment: Segment
    urgency: Urgency
    """That of its first week."""
    stands: bool
    """Whether it has lasted for longer: it is a ticket now."""
    latest_ms: float
    """The latest instant at which it began."""


def _most_urgent(telling: Iterable[_Telling]) -> dict[Segment, Urgency]:
    """Segment → the highest urgency of what tells of it."""
    told: dict[Segment, Urgency] = {}
    for each in telling:
        if each.urgency == "page" or each.segment not in told:
            told[each.segment] = each.urgency
    return told


def _standing(
    comparisons: Sequence[BaselineComparison], telling: Sequence[_Telling]
) -> Standing | None:
    """What stands, beside the hours since all of it began."""
    if not telling:
        return None
    since_ms = max(each.latest_ms for each in telling)
    hour, six_hours = (_during(comparisons, window, since_ms) for window in ("1h", "6h"))
    return Standing(any(each.urgency == "page" for each in telling), hour, six_hours)


def _during(
    comparisons: Sequence[BaselineComparison], window: str, since_ms: float
) -> TrafficSides | None:
    """The last hours beside the earliest of their periods since then, or the day before: what is
    new is no baseline for as long as possible."""
    found = _comparison(comparisons, window)
    if found is None:
        return None
    known = [rows for by, rows in found.periods.items() if found.from_ms - by >= since_ms]
    rows = known[-1] if known else found.yesterday
    if rows is None:
        return None
    now, before = (each[:, :TRAFFIC_COUNTS].astype(np.float64) for each in (found.recent, rows))
    return TrafficSides(now, before, 1)


def _telling(scores: MeasureScores, change_settings: ChangeSettings) -> Iterator[_Telling]:
    """The changes that tell of the last settled hour: those that are open, and those that ended
    within it."""
    end_ms = scores.changes.end_ms or 0
    open_now = ((each.series[:2], each.urgency, each.story, end_ms) for each in scores.changes.told)
    for segment, urgency, story, at_ms in (*open_now, *_ended(scores, change_settings)):
        onset = story.fall.onset
        stands = at_ms - onset.likely > STANDING_MS
        if stands and urgency != "none":
            urgency = urgency_of(story, change_settings, round(onset.likely))
        if urgency != "none":
            yield _Telling(segment, urgency, stands, onset.latest)


def _accepted(scores: MeasureScores) -> Iterator[_Telling]:
    """What is usual since lately: it tells of shares while earlier weeks have what was before."""
    for fall in scores.changes.accepted:
        urgency: Urgency = "page" if fall.series[:2] == WHOLE else "ticket"
        yield _Telling(fall.series[:2], urgency, True, fall.onset.latest)


def _ended(
    scores: MeasureScores, change_settings: ChangeSettings
) -> Iterator[tuple[Segment, Urgency, Story, int]]:
    """(segment, urgency, change, its end) of those that ended within the last settled hour."""
    hour = _comparison(scores.comparisons, "1h")
    begin_ms = hour.until_ms - HOUR_MS if hour else 0
    for story in scores.changes.closed:
        grouping, segment, _ = story.fall.series
        ended_ms = round(story.fall.ended_ms or 0)
        if ended_ms <= begin_ms:
            continue
        urgency = urgency_of(story, change_settings, ended_ms)
        yield (grouping, segment), urgency, story, ended_ms
        if urgency != "none":
            others = [(grouping, carrying) for carrying in story.segments]
            for other in (*others, *(series[:2] for series in story.fell)):
                yield other, "ticket", story, ended_ms


def _has_gap(scores: MeasureScores) -> bool:
    """Whether some of the last hour that has settled is a time without feedback."""
    hour, gaps = _comparison(scores.comparisons, "1h"), scores.changes.gaps
    return bool(hour and gaps and gaps[-1].end_ms > hour.until_ms - HOUR_MS)


def _of(change: ToldChange, labels: str) -> Iterator[Sample]:
    story, moved, onset = change.story, change.moved, change.onset
    told = f'against="{change.against}",pattern="{change.pattern}",urgency="{change.urgency}"'
    yield FAMILIES["relevanced_change_open"], f"{labels},{told}", 1
    bounds = (onset.earliest, onset.likely, onset.latest)
    for bound, time_ms in zip(ONSET_BOUNDS, bounds, strict=True):
        if time_ms is not None:
            yield FAMILIES[
                "relevanced_change_open_since_timestamp_seconds"
            ], f'{labels},bound="{bound}"', time_ms / 1000
    for side, measured in zip(SIDES, (moved.before, moved.now), strict=True):
        if measured.mean is not None:
            yield FAMILIES["relevanced_change_open_score"], f'{labels},side="{side}"', round(
                measured.mean, 6
            )
    yield from _judged(moved, labels)
    yield FAMILIES["relevanced_change_open_scored_impressions"], labels, moved.now.scored
    if change.loss_ratio is not None:
        yield FAMILIES["relevanced_change_open_loss_ratio"], labels, round(change.loss_ratio, 6)
    if change.z is not None and isfinite(change.z):
        yield FAMILIES["relevanced_change_open_z"], labels, round(change.z, 3)
    if story.explanation is not None:
        yield FAMILIES["relevanced_change_open_carried_ratio"], labels, round(
            story.explanation.carried, 4
        )
    named, pattern = f"{story.fall.series[0]} {_listed(story.segments)}", story.pattern
    words, look_at = ("", "") if pattern is None else (pattern.words, pattern.look_at)
    info = {"named": named, "words": words, "look_at": look_at}
    text = ",".join(f'{name}="{escape(value)}"' for name, value in info.items())
    yield FAMILIES["relevanced_change_open_text"], f"{labels},{text}", 1


def _judged(moved: Moved, labels: str) -> Iterator[Sample]:
    """What stands beside a judged score."""
    for name, values in (
        ("relevanced_change_open_best_case_score", moved.best_case),
        ("relevanced_change_open_judged_items_ratio", moved.judged_shares),
    ):
        for side, value in zip(SIDES, values, strict=True):
            if value is not None:
                yield FAMILIES[name], f'{labels},side="{side}"', round(value, 6)


def _listed(segments: tuple[str, ...]) -> str:
    """`DE`, `DE and FR`, `DE, FR and IT`."""
    *first, last = segments
    return f"{', '.join(first)} and {last}" if first else last
