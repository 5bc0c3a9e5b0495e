"""Scores as text: the series of all the traffic in the Prometheus text format and in OpenMetrics.
Pure.

The families come from `telemetry.families`, the one table of their names. The labels of a segment
are formatted once and reused for all its samples, so that a sample costs one string. A text stays
in chunks: joining or copying megabytes in one call would hold the interpreter, and with it the
event loop. Without those copies rendering took half the time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Final, TypeAlias

import numpy as np

from relevanced.metrics import Floats, WeightSums, clipped_share, effective_sample_size

from ..changes import FeedbackGap, Marker, Silence, Stream, newest
from ..events import DROP_REASONS, REJECTION_REASONS, SKIP_REASONS
from ..experiments import NO_FINDINGS, Findings
from ..judgements import start_text
from ..lane import (
    FEEDBACK_OUTCOMES,
    IMPRESSION_OUTCOMES,
    TOUCH_OUTCOMES,
    Rows,
    topic_and_reason,
    topic_of,
)
from ..plan import ALL, WEIGHT_UNIT, Plan, Surfaces
from ..telemetry import FAMILIES, Family
from ..views import VIEWS, Counters, Snapshot, estimates
from . import sample_series
from .baselines import best_case_of
from .measures import (
    SHOWN_COUNTS,
    Detection,
    FoundChanges,
    Measure,
    MeasureScores,
    Periods,
    RowFamilies,
    expected,
    over_periods,
)
from .sample_series import (
    ONSET_BOUNDS,
    Bodies,
    Sample,
    add,
    add_defined,
    add_lines,
    escape,
    experiment_samples,
    labels_of,
    with_exemplar,
)

Chunks: TypeAlias = tuple[bytes, ...]

LONG_BYTES: Final = 16_384
"""A chunk of this length is worth a write of its own."""


def gathered(chunks: Iterable[bytes], long: int = LONG_BYTES) -> Chunks:
    """The same bytes in fewer chunks: short neighbours are joined, long chunks stay the same
    objects, so that two texts can share them.

    >>> gathered([b"a", b"b", b"long", b"c"], long=4)
    (b'ab', b'long', b'c')
    """
    into: list[bytes] = []
    for chunk in chunks:
        if into and max(len(into[-1]), len(chunk)) < long:
            into[-1] += chunk
        else:
            into.append(chunk)
    return tuple(into)


FAMILY_OF_COUNT: Final[Mapping[str, tuple[Family, tuple[str, ...]]]] = {
    "events": (FAMILIES["relevanced_events_total"], ("impression", "feedback")),
    "rejected": (FAMILIES["relevanced_rejected_events_total"], (*REJECTION_REASONS, *SKIP_REASONS)),
    "dropped_values": (FAMILIES["relevanced_dropped_attribute_values_total"], DROP_REASONS),
    "impression_outcomes": (FAMILIES["relevanced_impression_outcomes_total"], IMPRESSION_OUTCOMES),
    "feedback_outcomes": (FAMILIES["relevanced_feedback_outcomes_total"], FEEDBACK_OUTCOMES),
    "experiment_overflow": (
        FAMILIES["relevanced_experiment_overflow_impressions_total"],
        ("experiment", "variant"),
    ),
    "segment_overflow": (FAMILIES["relevanced_segment_overflow_total"], ()),
    "gap_records": (FAMILIES["relevanced_gap_records_total"], ()),
    "ahead_events": (FAMILIES["relevanced_ahead_events_total"], ()),
    "behind_lift": (FAMILIES["relevanced_behind_lift_total"], ()),
    "replaced_logs": (FAMILIES["relevanced_replaced_logs_total"], ()),
    "judged_late": (FAMILIES["relevanced_judged_impressions_late_total"], ()),
    "skipped": (FAMILIES["relevanced_skipped_events_total"], ()),
}
"""Family of stored counts → its family of series, and the label values that are exposed even at 0.

For `segment_overflow` these are the configured groupings.
"""


@dataclass(frozen=True)
class Exposition:
    """The same series in both formats, which share their long chunks. The OpenMetrics text lacks
    its `# EOF`, because the process's own series follow it."""

    text: Chunks = ()
    openmetrics: Chunks = ()


def render_windows(scores: MeasureScores) -> Exposition:
    """Both texts of the windows of a measure."""
    bodies: Bodies = {}
    plan, of_windows = scores.plan, scores.measure.families.windows
    labels = labels_of(scores.segments, plan)
    for window in scores.windows:
        tail = f',window="{escape(window.window)}"'
        tail += f',view="{window.view}"}} ' if "view" in of_windows.score.labels else "} "
        rows = scores.known(window.rows, scores.first_of_window(window))
        _add_rows(bodies, of_windows, scores.measure, [rows], labels, tail)
        if plan.surfaces is not None:
            _add_weights(bodies, rows[:, plan.weight_column :], labels, tail)
    return _texts(bodies)


def render_compared(scores: MeasureScores) -> Exposition:
    """Both texts of the last hours and their baselines, for the segments that gauges show."""
    bodies: Bodies = {}
    labels, measure = labels_of(scores.segments, scores.plan), scores.measure
    for comparison in scores.comparisons:
        tail = f',window="{comparison.window}"}} '
        periods = [*comparison.periods.values()]
        _add_rows(bodies, measure.families.recent, measure, [comparison.recent], labels, tail)
        if periods:
            _add_rows(bodies, measure.families.baseline, measure, periods, labels, tail)
        unit = f'{{window="{comparison.window}",unit="{comparison.unit}"}} '
        add(bodies, measure.families.baseline_periods, "", [""], unit, [len(periods)])
    return _texts(bodies)


def render_grading(scores: MeasureScores) -> Exposition:
    """Both texts of the files that grade a measure, and of those that lanes refused."""
    bodies: Bodies = {}
    refused = Counter(entry for lane in scores.files for entry in lane.refused)
    for entry, lanes in sorted(refused.items()):
        named = f'name="{escape(entry.name)}",start="{start_text(entry.start_ms)}"'
        add(bodies, FAMILIES["relevanced_judgements_refused_lanes"], "{", [named], "} ", [lanes])
    grading = scores.grading
    if grading is not None and scores.until_ms is not None:
        for family, value in (
            (FAMILIES["relevanced_judged_until_timestamp_seconds"], scores.until_ms / 1000),
            (FAMILIES["relevanced_judged_since_timestamp_seconds"], grading.since_ms / 1000),
            (FAMILIES["relevanced_judgements_mixed"], int(grading.is_mixed)),
        ):
            add(bodies, family, "", [""], " ", [value])
    return _texts(bodies)


def render_traffic(
    snapshot: Snapshot,
    counters: Counters,
    plan: Plan,
    experiments: Findings = NO_FINDINGS,
    exemplar: str = "",
) -> Exposition:
    """Both texts of what a snapshot says beside its windows. A family without a sample is left
    out. The exemplar, in OpenMetrics, is that of the whole by the first metric."""
    bodies: Bodies = {}
    _add_counters(bodies, counters, labels_of(counters.segments, plan), plan)
    _add_counts(bodies, snapshot, plan)
    _add_times(bodies, snapshot, plan)
    if plan.surfaces is not None:
        _add_propensities(bodies, plan.surfaces)
    others = (*sample_series.layout_samples(snapshot, plan), *sample_series.query_samples(snapshot))
    for family, labels, value in (*experiment_samples(experiments), *others):
        add_lines(bodies, family, [f"{family.name}{{{labels}}} {value:.9g}\n"])
    texts = _texts(bodies)
    if not exemplar:
        return texts
    labels = f'metric="{escape(plan.metrics[0].name)}",grouping="{ALL}",segment="{ALL}"'
    series = f"{FAMILIES['relevanced_settled_score_sum_total'].name}{{{labels}}}"
    return replace(texts, openmetrics=with_exemplar(texts.openmetrics, series, exemplar))


def render_design_effect(
    used: float, measured: float | None, drift_ratios: Mapping[str, float]
) -> Exposition:
    """Both texts of the design effect: the one to judge with, and the measured one, if known; and
    of the measured drift of each metric."""
    bodies: Bodies = {}
    of_kind = {"used": used} | ({} if measured is None else {"measured": measured})
    for kind, value in of_kind.items():
        add(bodies, FAMILIES["relevanced_design_effect"], "", [""], f'{{kind="{kind}"}} ', [value])
    for metric, ratio in drift_ratios.items():
        labels = f'{{metric="{escape(metric)}"}} '
        add(bodies, FAMILIES["relevanced_measured_drift_ratio"], "", [""], labels, [ratio])
    return _texts(bodies)


def render_changes(found: Iterable[tuple[Family, str, float]]) -> Exposition:
    """Both texts of what was judged: (family, labels, value) of each sample."""
    bodies: Bodies = {}
    for family, labels, value in found:
        named = f"{family.name}{{{labels}}}" if labels else family.name
        add_lines(bodies, family, [f"{named} {value!r}\n"])
    return _texts(bodies)


def joined(*expositions: Exposition) -> Exposition:
    """Both texts of expositions that have no family in common."""
    return Exposition(
        tuple(chunk for each in expositions for chunk in each.text),
        tuple(chunk for each in expositions for chunk in each.openmetrics),
    )


def _texts(bodies: Bodies) -> Exposition:
    found = [(FAMILIES[name], body) for name, body in bodies.items() if body]
    return Exposition(
        text=gathered(chunk for family, body in found for chunk in (_text_head(family), *body)),
        openmetrics=gathered(
            chunk for family, body in found for chunk in (_openmetrics_head(family), *body)
        ),
    )


def _text_head(family: Family) -> bytes:
    return f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n".encode()


def _openmetrics_head(family: Family) -> bytes:
    name = family.openmetrics_name
    return f"# HELP {name} {family.help}\n# TYPE {name} {family.kind}\n".encode()


def _add_rows(
    bodies: Bodies,
    of: RowFamilies,
    measure: Measure,
    periods: Periods,
    labels: Sequence[str],
    tail: str,
) -> None:
    """Add counts, lists and scores: of a window or of the last hours, which are one period, or of
    a baseline, the average of several."""
    plan, rows = measure.plan, expected(periods)
    is_baseline = of is measure.families.baseline
    for column, family in enumerate(of.counts):
        add_defined(bodies, family, "{", labels, tail, rows[:, column])
    if of.lists:
        for family, values in zip(of.lists, measure.lists(periods, is_baseline), strict=True):
            add_defined(bodies, family, "{", labels, tail, values)
    best_case = best_case_of(plan)
    readings: list[tuple[Plan, tuple[Family, ...]]] = [(plan, (of.score, of.score_stderr))]
    readings += [] if best_case is None else [(best_case, of.best_case)]
    for index, metric in enumerate(plan.metrics):
        head = f'{{metric="{escape(metric.name)}",'
        for columns, families in readings:
            values_of_periods = [estimates(each, columns, index) for each in periods]
            for family, values in zip(families, over_periods(values_of_periods, is_baseline)):
                add_defined(bodies, family, head, labels, tail, values)
        scored = rows[:, plan.metric_column(index)]
        add_defined(bodies, of.scored_impressions, head, labels, tail, scored)


def _add_weights(bodies: Bodies, columns: Rows | Floats, labels: Sequence[str], tail: str) -> None:
    sums = [
        WeightSums(items, clipped, weights / WEIGHT_UNIT, squares / WEIGHT_UNIT)
        for items, clipped, weights, squares in columns.tolist()
    ]
    add_defined(bodies, FAMILIES["relevanced_ips_items"], "{", labels, tail, columns[:, 0])
    sizes = np.array([effective_sample_size(weights) for weights in sums])
    add_defined(bodies, FAMILIES["relevanced_ips_effective_sample_size"], "{", labels, tail, sizes)
    shares = np.array([clipped_share(weights) for weights in sums])
    add_defined(bodies, FAMILIES["relevanced_ips_clipped_ratio"], "{", labels, tail, shares)


def _add_propensities(bodies: Bodies, surfaces: Surfaces) -> None:
    for table in surfaces.tables:
        tail = f'{{surface="{escape(table.surface)}",version="{escape(table.version)}"}} '
        add(bodies, FAMILIES["relevanced_propensities_info"], "", [""], tail, [1])


def _add_counters(bodies: Bodies, counters: Counters, labels: Sequence[str], plan: Plan) -> None:
    rows = counters.rows
    for column, name in enumerate(SHOWN_COUNTS):
        family = FAMILIES[f"relevanced_settled_{name}_total"]
        add(bodies, family, "{", labels, "} ", rows[:, column].tolist())
    for index, metric in enumerate(plan.metrics):
        head = f'{{metric="{escape(metric.name)}",'
        for family, values in _metric_totals(rows, plan.metric_column(index), metric.unit):
            add(bodies, family, head, labels, "} ", values)


def _metric_totals(rows: Rows, column: int, unit: int) -> Iterable[tuple[Family, list[float]]]:
    yield FAMILIES["relevanced_settled_score_sum_total"], (rows[:, column + 1] / unit).tolist()
    yield FAMILIES["relevanced_settled_score_squares_total"], (rows[:, column + 2] / unit).tolist()
    yield FAMILIES["relevanced_settled_scored_impressions_total"], rows[:, column].tolist()


def _add_counts(bodies: Bodies, snapshot: Snapshot, plan: Plan) -> None:
    for stored, (family, always) in FAMILY_OF_COUNT.items():
        expected = plan.grouping_names[1:] if stored == "segment_overflow" else always
        if stored == "feedback_outcomes" and plan.touch_ms is not None:
            expected = (*expected, *TOUCH_OUTCOMES)
        counts = dict.fromkeys(expected, 0) | dict(snapshot.counts.get(stored, {}))
        summed = dict[str, int]()  # of the logs of a topic
        for value, count in counts.items():
            labels = _count_labels(family, value)
            summed[labels] = summed.get(labels, 0) + count
        add(bodies, family, "{", list(summed), "} ", list(summed.values()))


def _count_labels(family: Family, value: str) -> str:
    """The labels of a count, whose label in the lane is one text."""
    parts: tuple[str, ...] = (value,)
    if family.labels == ("topic", "reason"):
        parts = topic_and_reason(value)
    elif family.labels == ("topic",):
        parts = (topic_of(value),)
    pairs = zip(family.labels, parts, strict=True)
    return ",".join(f'{label}="{escape(part)}"' for label, part in pairs)


def _add_times(bodies: Bodies, snapshot: Snapshot, plan: Plan) -> None:
    for window in snapshot.windows:
        tail = f'{{window="{escape(window.window)}",view="{window.view}"}} '
        _add_time(bodies, FAMILIES["relevanced_window_end_timestamp_seconds"], tail, window.end_ms)
    if snapshot.as_of_ms is not None:
        for span in plan.timing.windows:
            left_out = [int((span.name, view) in snapshot.incomplete) for view in VIEWS]
            labels = [f'window="{escape(span.name)}",view="{view}"' for view in VIEWS]
            add(bodies, FAMILIES["relevanced_window_incomplete"], "{", labels, "} ", left_out)
    _add_time(bodies, FAMILIES["relevanced_as_of_timestamp_seconds"], " ", snapshot.as_of_ms)
    for lane in snapshot.lanes:
        tail = f'{{lane="{lane.lane}"}} '
        _add_time(bodies, FAMILIES["relevanced_lane_time_timestamp_seconds"], tail, lane.time_ms)
        _add_time(
            bodies, FAMILIES["relevanced_lane_watermark_timestamp_seconds"], tail, lane.watermark_ms
        )


def _add_time(bodies: Bodies, family: Family, tail: str, time_ms: int | None) -> None:
    if time_ms is not None:
        add_lines(bodies, family, [f"{family.name}{tail}{time_ms / 1000!r}\n"])


WITHIN_MS: Final = 86_400_000
MARKERS_OF_KIND: Final = 5
"""Each text is a series of its own, so only the latest few of the last day are served."""


def change_samples(judged: Detection, plan: Plan) -> Iterator[Sample]:
    """The samples of one look; what is unknown is absent."""
    segments = labels_of(judged.segments, plan)
    metrics = [f'metric="{escape(metric.name)}",' for metric in plan.metrics]
    labels = [metric + segment for segment in segments for metric in metrics]
    for found in judged.found:
        yield from _of_found(found, labels)
    for against in dict.fromkeys(each.lane for each in judged.noticeable):
        of_lane = [each.drop for each in judged.noticeable if each.lane == against]
        for label, ratio in zip(labels, np.minimum.reduce(of_lane).tolist(), strict=True):
            if ratio < 1:
                yield FAMILIES[
                    "relevanced_noticeable_drop_ratio"
                ], f'{label},against="{against}"', round(ratio, 4)
    if judged.begin_ms is not None:
        yield FAMILIES["relevanced_history_begin_timestamp_seconds"], "", judged.begin_ms / 1000


def _of_found(found: FoundChanges, labels: list[str]) -> Iterator[Sample]:
    bounds = (found.onsets.earliest, found.onsets.likely, found.onsets.latest)
    for index, series in enumerate(found.series.tolist()):
        label = f'{labels[series]},against="{found.against}"'
        if found.loss is not None and found.z is not None:
            yield FAMILIES["relevanced_change_loss_ratio"], label, round(
                float(found.loss[index]), 6
            )
            yield FAMILIES["relevanced_change_z"], label, round(float(found.z[index]), 3)
        for bound, times in zip(ONSET_BOUNDS, bounds, strict=True):
            if isfinite(times[index]):
                yield FAMILIES[
                    "relevanced_change_onset_timestamp_seconds"
                ], f'{label},bound="{bound}"', float(times[index]) / 1000


def arrival_samples(
    per_hour: Mapping[Stream, float], usual_per_hour: Mapping[Stream, float]
) -> Iterator[Sample]:
    """How much of each stream comes in an hour, and how much is usual."""
    now, usual = "relevanced_arrivals_per_hour", "relevanced_arrivals_usual_per_hour"
    for name, arrivals in ((now, per_hour), (usual, usual_per_hour)):
        for stream, count in arrivals.items():
            yield FAMILIES[name], f'stream="{stream}"', round(count, 1)


def silence_samples(
    silences: Iterable[Silence], gaps: Sequence[FeedbackGap], now_ms: int | None
) -> Iterator[Sample]:
    """What has stopped as a whole, of which some is usual; and the end of the last time without
    feedback."""
    for each in silences:
        if each.usual_per_hour and not each.partitions:
            stream = f'stream="{each.stream}"'
            begin = FAMILIES["relevanced_silence_begin_timestamp_seconds"]
            yield begin, stream, each.since_ms / 1000
            usual = FAMILIES["relevanced_silence_usual_per_hour"]
            yield usual, stream, round(each.usual_per_hour, 1)
    if now_ms is not None and gaps and gaps[-1].end_ms > now_ms - WITHIN_MS:
        end = FAMILIES["relevanced_feedback_gap_end_timestamp_seconds"]
        yield end, "", gaps[-1].end_ms / 1000


def marker_samples(markers: Iterable[Marker], now_ms: int | None) -> Iterator[Sample]:
    """The times of the latest markers, by kind and text; of two with the same labels the later."""
    if now_ms is None:
        return
    times: dict[str, float] = {}
    for marker in newest(markers, now_ms, WITHIN_MS, MARKERS_OF_KIND):
        scope = marker.scope
        named = {
            "kind": marker.kind,
            "text": marker.text,
            "metric": scope.metric,
            "scope": _scope_text(scope.grouping, scope.segment),
        }
        label = ",".join(f'{name}="{escape(value or "")}"' for name, value in named.items())
        times[label] = marker.at_ms / 1000
    for label, time_s in times.items():
        yield FAMILIES["relevanced_marker_timestamp_seconds"], label, time_s


def _scope_text(grouping: str | None, segment: str | None) -> str:
    """`country=DE`, `country`, or nothing where everything is meant."""
    return "=".join(filter(None, (grouping, segment)))
