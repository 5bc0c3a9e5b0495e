"""Scores as text: the series of all the traffic in the Prometheus text format and in OpenMetrics.
Pure.

The families come from `telemetry`, the one table of their names. The labels of a
segment are formatted once and reused for all its samples, so that a sample costs one string.
A text stays in chunks: joining or copying megabytes in one call would hold the interpreter, and
with it the event loop. Without those copies rendering took half the time.

A long text in chunks, because making or copying megabytes in one call holds the interpreter.

What was judged, as samples.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final, TypeAlias

import numpy as np

from relevanced.metrics import Floats, WeightSums, clipped_share, effective_sample_size

from ..changes import Marker, newest
from ..events import DROP_REASONS, REJECTION_REASONS, SKIP_REASONS
from ..experiments import NOTHING, Findings
from ..lane import FEEDBACK_OUTCOMES, IMPRESSION_OUTCOMES, Rows, topic_and_reason
from ..plan import COUNT_COLUMNS, WEIGHT_UNIT, Plan, Surfaces
from ..telemetry import FAMILIES, Family
from ..views import VIEWS, Counters, Selection, Snapshot, estimates, list_lengths
from . import judged, sample_series
from .baselines import BaselineComparison
from .detector import Detection, FoundChanges
from .judged import (
    BASELINE,
    Bodies,
    JudgedScores,
    add,
    add_defined,
    add_lines,
    add_scores,
    of_periods,
)
from .sample_series import escape, experiment_samples, label_names, segment_labels

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


SHOWN_COUNTS: Final = (
    "impressions",
    "impressions_with_feedback",
    "zero_result_impressions",
    "feedback",
)
"""How families call the first of `COUNT_COLUMNS`, which every window shows: the lengths of lists
are shown beside their baseline only."""
assert len(SHOWN_COUNTS) == COUNT_COLUMNS.index("items_listed")
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


def render(
    snapshot: Snapshot,
    gauges: Selection,
    counters: Counters,
    plan: Plan,
    experiments: Findings = NOTHING,
) -> Exposition:
    """Both texts of a snapshot. A family without a sample is left out."""
    bodies: Bodies = {}
    _add_windows(bodies, snapshot, gauges, _segment_labels(gauges.segments, plan), plan)
    _add_counters(bodies, counters, _segment_labels(counters.segments, plan), plan)
    _add_counts(bodies, snapshot, plan)
    _add_times(bodies, snapshot, plan)
    if plan.surfaces is not None:
        _add_propensities(bodies, plan.surfaces)
    others = (*sample_series.layout_samples(snapshot, plan), *sample_series.query_samples(snapshot))
    for family, labels, value in (*experiment_samples(experiments), *others):
        add_lines(bodies, family, [f"{family.name}{{{labels}}} {value:.9g}\n"])
    return _texts(bodies)


def render_compared(
    comparisons: Sequence[BaselineComparison], gauges: Selection, plan: Plan
) -> Exposition:
    """Both texts of the last hours and their baselines, for the segments that gauges show."""
    bodies: Bodies = {}
    labels = _segment_labels(gauges.segments, plan)
    for comparison in comparisons:
        tail = f',window="{comparison.window}"}} '
        _add_period(bodies, "recent", [comparison.recent], labels, tail, plan)
        if comparison.periods:
            _add_period(bodies, BASELINE, [*comparison.periods.values()], labels, tail, plan)
        unit = f'{{window="{comparison.window}",unit="{comparison.unit}"}} '
        add(
            bodies,
            FAMILIES["relevanced_baseline_periods"],
            "",
            [""],
            unit,
            [len(comparison.periods)],
        )
    return _texts(bodies)


def render_judged(scores: JudgedScores) -> Exposition:
    """Both texts of the judged scores."""
    bodies: Bodies = {}
    judged.add_judged(bodies, scores)
    return _texts(bodies)


def render_design_effect(used: float, measured: float | None) -> Exposition:
    """Both texts of the design effect: the one to judge with, and the measured one, if known."""
    bodies: Bodies = {}
    of_kind = {"used": used} | ({} if measured is None else {"measured": measured})
    for kind, value in of_kind.items():
        add(bodies, FAMILIES["relevanced_design_effect"], "", [""], f'{{kind="{kind}"}} ', [value])
    return _texts(bodies)


def render_changes(found: Iterable[tuple[Family, str, float]]) -> Exposition:
    """Both texts of what was judged: (family, labels, value) of each sample."""
    bodies: Bodies = {}
    for family, labels, value in found:
        named = f"{family.name}{{{labels}}}" if labels else family.name
        add_lines(bodies, family, [f"{named} {value!r}\n"])
    return _texts(bodies)


def joined(first: Exposition, second: Exposition) -> Exposition:
    """Both texts of two expositions that have no family in common."""
    return Exposition(first.text + second.text, first.openmetrics + second.openmetrics)


def _segment_labels(segments: Sequence[tuple[str, str]], plan: Plan) -> list[str]:
    attributes = dict(zip(plan.grouping_names, ((), *plan.groupings), strict=True))
    return segment_labels(segments, attributes, label_names(plan.groupings))


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


def _add_windows(
    bodies: Bodies, snapshot: Snapshot, gauges: Selection, labels: Sequence[str], plan: Plan
) -> None:
    for window in snapshot.windows:
        rows = gauges.fold(window.rows)
        tail = f',window="{escape(window.window)}",view="{window.view}"}} '
        for column, name in enumerate(SHOWN_COUNTS):
            add(bodies, FAMILIES[f"relevanced_{name}"], "{", labels, tail, rows[:, column].tolist())
        for index, metric in enumerate(plan.metrics):
            head = f'{{metric="{escape(metric.name)}",'
            means, errors = estimates(rows, plan, index)
            add_defined(bodies, FAMILIES["relevanced_score"], head, labels, tail, means)
            add_defined(bodies, FAMILIES["relevanced_score_stderr"], head, labels, tail, errors)
            scored = rows[:, plan.metric_column(index)].tolist()
            add(bodies, FAMILIES["relevanced_scored_impressions"], head, labels, tail, scored)
        if plan.surfaces is not None:
            _add_weights(bodies, rows[:, plan.weight_column :], labels, tail)


def _add_weights(bodies: Bodies, columns: Rows, labels: Sequence[str], tail: str) -> None:
    sums = [
        WeightSums(items, clipped, weights / WEIGHT_UNIT, squares / WEIGHT_UNIT)
        for items, clipped, weights, squares in columns.tolist()
    ]
    add(
        bodies,
        FAMILIES["relevanced_ips_items"],
        "{",
        labels,
        tail,
        [weights.items for weights in sums],
    )
    sizes = np.array([effective_sample_size(weights) for weights in sums])
    add_defined(bodies, FAMILIES["relevanced_ips_effective_sample_size"], "{", labels, tail, sizes)
    shares = np.array([clipped_share(weights) for weights in sums])
    add_defined(bodies, FAMILIES["relevanced_ips_clipped_share"], "{", labels, tail, shares)


def _add_period(
    bodies: Bodies,
    period: str,
    rows_of_periods: Sequence[Floats],
    labels: Sequence[str],
    tail: str,
    plan: Plan,
) -> None:
    """Add the last hours, which are one period, or the baseline, the average of several."""
    expected = np.mean(rows_of_periods, axis=0)
    for column, name in enumerate(SHOWN_COUNTS):
        family = FAMILIES[f"relevanced_{period}_{name}"]
        add_defined(bodies, family, "{", labels, tail, expected[:, column])
    is_baseline = period == BASELINE
    lengths = [list_lengths(rows) for rows in rows_of_periods]
    means, errors = of_periods(lengths, is_baseline=is_baseline)
    add_defined(bodies, FAMILIES[f"relevanced_{period}_list_length"], "{", labels, tail, means)
    add_defined(
        bodies, FAMILIES[f"relevanced_{period}_list_length_stderr"], "{", labels, tail, errors
    )
    add_scores(bodies, period, rows_of_periods, labels, tail, plan, is_baseline=is_baseline)


def _add_propensities(bodies: Bodies, surfaces: Surfaces) -> None:
    for table in surfaces.tables:
        tail = f'{{surface="{escape(table.surface)}",version="{escape(table.version)}"}} '
        add(bodies, FAMILIES["relevanced_propensities_info"], "", [""], tail, [1])


def _add_counters(bodies: Bodies, counters: Counters, labels: Sequence[str], plan: Plan) -> None:
    rows = counters.rows
    for column, name in enumerate(SHOWN_COUNTS):
        add(
            bodies,
            FAMILIES[f"relevanced_settled_{name}_total"],
            "{",
            labels,
            "} ",
            rows[:, column].tolist(),
        )
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
        counts = dict.fromkeys(expected, 0) | dict(snapshot.counts.get(stored, {}))
        labels = [_count_labels(family, value) for value in counts]
        add(bodies, family, "{", labels, "} ", list(counts.values()))


def _count_labels(family: Family, value: str) -> str:
    """The labels of a count, whose label in the lane is one text."""
    parts = (
        topic_and_reason(value)
        if family is FAMILIES["relevanced_skipped_events_total"]
        else (value,)
    )
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


BOUNDS: Final = ("earliest", "likely", "latest")
"""Values of the label `bound` of an onset."""
Sample: TypeAlias = tuple[Family, str, float]
"""(family, labels, value)."""
MARKERS_WITHIN_MS: Final = 86_400_000
MARKERS_OF_KIND: Final = 5
"""Each text is a series of its own, so only the latest few of the last day are served."""


def change_samples(judged: Detection, plan: Plan) -> Iterator[Sample]:
    """The samples of one look; what is unknown is absent."""
    attributes = dict(zip(plan.grouping_names, ((), *plan.groupings), strict=True))
    segments = segment_labels(judged.segments, attributes, label_names(plan.groupings))
    metrics = [f'metric="{escape(metric.name)}",' for metric in plan.metrics]
    labels = [metric + segment for segment in segments for metric in metrics]
    for found in judged.found:
        yield from _of_found(found, labels)
    for against, least in judged.noticeable.items():
        for label, ratio in zip(labels, least.tolist(), strict=True):
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
        for bound, times in zip(BOUNDS, bounds, strict=True):
            if isfinite(times[index]):
                yield FAMILIES[
                    "relevanced_change_onset_timestamp_seconds"
                ], f'{label},bound="{bound}"', float(times[index]) / 1000


def marker_samples(markers: Iterable[Marker], now_ms: int | None) -> Iterator[Sample]:
    """The times of the latest markers, by kind and text; of two with the same labels the later."""
    if now_ms is None:
        return
    times: dict[str, float] = {}
    for marker in newest(markers, now_ms, MARKERS_WITHIN_MS, MARKERS_OF_KIND):
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
