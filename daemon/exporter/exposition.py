"""Scores as text: all the traffic's series in the Prometheus text format and in OpenMetrics.

Pure. Families come from one table; a segment's labels are put together once and reused for all its
samples, whose lines are then only joined. A text stays in pieces: to join or to copy megabytes at
once would hold the interpreter, and with it the event loop.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final, TypeAlias

import numpy as np

from relevanced.metrics.lists import Floats
from relevanced.metrics.propensities import WeightSums, clipped_share, effective_sample_size

from ..events.types import DROP_REASONS, REJECTION_REASONS, SKIP_REASONS
from ..experiments.types import NOTHING, Findings
from ..lane.counts import FEEDBACK_OUTCOMES, IMPRESSION_OUTCOMES
from ..lane.paged_rows import Rows
from ..plan import COUNT_COLUMNS, WEIGHT_UNIT, Plan, Surfaces
from ..telemetry.families import BY_NAME
from ..telemetry.family import Family
from .baselines import Comparison, averaged
from .chunks import Chunks, gathered
from .counters import Counters
from .experiment_series import samples
from .labels import escape, label_names, segment_labels
from .selection import Selection
from .snapshot import VIEWS, Snapshot, estimates

GAUGE_OF_COLUMN: Final = dict(
    zip(
        COUNT_COLUMNS,
        (
            "relevanced_impressions",
            "relevanced_impressions_with_feedback",
            "relevanced_zero_result_impressions",
            "relevanced_feedback",
        ),
        strict=True,
    )
)
_COMPARED_COLUMNS: Final = tuple(GAUGE_OF_COLUMN.values())[:3]
COUNTER_OF_COLUMN: Final = {
    column: name.replace("relevanced_", "relevanced_settled_") + "_total"
    for column, name in GAUGE_OF_COLUMN.items()
}
FAMILY_OF_COUNT: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "events": ("relevanced_events_total", ("impression", "feedback")),
    "rejected": ("relevanced_rejected_events_total", (*REJECTION_REASONS, *SKIP_REASONS)),
    "dropped_values": ("relevanced_dropped_attribute_values_total", DROP_REASONS),
    "impression_outcomes": ("relevanced_impression_outcomes_total", IMPRESSION_OUTCOMES),
    "feedback_outcomes": ("relevanced_feedback_outcomes_total", FEEDBACK_OUTCOMES),
    "experiment_overflow": (
        "relevanced_experiment_overflow_impressions_total",
        ("experiment", "variant"),
    ),
    "segment_overflow": ("relevanced_segment_overflow_total", ()),
    "gap_records": ("relevanced_gap_records_total", ()),
}
"""Family of stored counts → its family of series, and the labels that are there even at 0.

Of `segment_overflow` these are the configured groupings.
"""

_Chunks: TypeAlias = dict[str, list[bytes]]
"""Family name → its lines, as many together as were added together."""


@dataclass(frozen=True)
class Exposition:
    """The same series in both formats, long pieces shared. OpenMetrics lacks its `# EOF`: the
    process's own series follow."""

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
    chunks: _Chunks = {}
    attributes = dict(zip(plan.grouping_names, ((), *plan.groupings), strict=True))
    names = label_names(plan.groupings)
    _windows(chunks, snapshot, gauges, segment_labels(gauges.segments, attributes, names), plan)
    _counters(chunks, counters, segment_labels(counters.segments, attributes, names), plan)
    _counts(chunks, snapshot, plan)
    _times(chunks, snapshot, plan)
    if plan.surfaces is not None:
        _propensities(chunks, plan.surfaces)
    for family, told, value in samples(experiments):
        _add_lines(chunks, family, [f"{family}{{{told}}} {value:.9g}\n"])
    return _texts(chunks)


def render_compared(comparisons: Sequence[Comparison], gauges: Selection, plan: Plan) -> Exposition:
    """The last hours and what is usual for them, of the segments that gauges show."""
    chunks: _Chunks = {}
    attributes = dict(zip(plan.grouping_names, ((), *plan.groupings), strict=True))
    labels = segment_labels(gauges.segments, attributes, label_names(plan.groupings))
    for one in comparisons:
        tail = f',window="{one.window}"}} '
        _of_time(chunks, "recent", [one.recent], labels, tail, plan)
        if one.periods:
            _of_time(chunks, "baseline", one.periods, labels, tail, plan)
        unit = f'{{window="{one.window}",unit="{one.unit}"}} '
        _add(chunks, "relevanced_baseline_periods", "", [""], unit, [len(one.periods)])
    return _texts(chunks)


def _of_time(
    chunks: _Chunks,
    of: str,
    periods: Sequence[Floats],
    labels: Sequence[str],
    tail: str,
    plan: Plan,
) -> None:
    expected = np.mean(periods, axis=0)
    for column, name in enumerate(_COMPARED_COLUMNS):
        series = name.replace("relevanced_", f"relevanced_{of}_")
        _add_defined(chunks, series, "{", labels, tail, expected[:, column])
    for number, metric in enumerate(plan.metrics):
        head = f'{{metric="{escape(metric.name)}",'
        values = [estimates(rows, plan, number) for rows in periods]
        means, errors = values[0]
        if of == "baseline":
            means, errors = averaged(*(np.array(one) for one in zip(*values, strict=True)))
        _add_defined(chunks, f"relevanced_{of}_score", head, labels, tail, means)
        _add_defined(chunks, f"relevanced_{of}_score_stderr", head, labels, tail, errors)
        scored = expected[:, plan.metric_column(number)]
        name = f"relevanced_{of}_scored_impressions"
        _add_defined(chunks, name, head, labels, tail, scored)


def joined(first: Exposition, second: Exposition) -> Exposition:
    """Both texts of two expositions without a family in common."""
    return Exposition(first.text + second.text, first.openmetrics + second.openmetrics)


def _texts(chunks: _Chunks) -> Exposition:
    families = [(BY_NAME[name], body) for name, body in chunks.items() if body]
    return Exposition(
        text=gathered(piece for of, body in families for piece in (_text_head(of), *body)),
        openmetrics=gathered(
            piece for of, body in families for piece in (_openmetrics_head(of), *body)
        ),
    )


def _text_head(family: Family) -> bytes:
    return f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n".encode()


def _openmetrics_head(family: Family) -> bytes:
    name = family.name.removesuffix("_total")
    return f"# HELP {name} {family.help}\n# TYPE {name} {family.kind}\n".encode()


def _windows(
    chunks: _Chunks, snapshot: Snapshot, gauges: Selection, labels: Sequence[str], plan: Plan
) -> None:
    for window in snapshot.windows:
        rows = gauges.fold(window.rows)
        tail = f',window="{escape(window.window)}",view="{window.view}"}} '
        for column, name in enumerate(GAUGE_OF_COLUMN.values()):
            _add(chunks, name, "{", labels, tail, rows[:, column].tolist())
        for number, metric in enumerate(plan.metrics):
            head = f'{{metric="{escape(metric.name)}",'
            means, errors = estimates(rows, plan, number)
            _add_defined(chunks, "relevanced_score", head, labels, tail, means)
            _add_defined(chunks, "relevanced_score_stderr", head, labels, tail, errors)
            scored = rows[:, plan.metric_column(number)].tolist()
            _add(chunks, "relevanced_scored_impressions", head, labels, tail, scored)
        if plan.surfaces is not None:
            _weighed(chunks, rows[:, plan.weight_column :], labels, tail)


def _weighed(chunks: _Chunks, columns: Rows, labels: Sequence[str], tail: str) -> None:
    sums = [
        WeightSums(items, clipped, weights / WEIGHT_UNIT, squares / WEIGHT_UNIT)
        for items, clipped, weights, squares in columns.tolist()
    ]
    _add(chunks, "relevanced_ips_items", "{", labels, tail, [one.items for one in sums])
    sizes = np.array([effective_sample_size(one) for one in sums])
    _add_defined(chunks, "relevanced_ips_effective_sample_size", "{", labels, tail, sizes)
    shares = np.array([clipped_share(one) for one in sums])
    _add_defined(chunks, "relevanced_ips_clipped_share", "{", labels, tail, shares)


def _propensities(chunks: _Chunks, surfaces: Surfaces) -> None:
    for table in surfaces.tables:
        told = f'{{surface="{escape(table.surface)}",version="{escape(table.version)}"}} '
        _add(chunks, "relevanced_propensities_info", "", [""], told, [1])


def _counters(chunks: _Chunks, counters: Counters, labels: Sequence[str], plan: Plan) -> None:
    rows = counters.rows
    for column, name in enumerate(COUNTER_OF_COLUMN.values()):
        _add(chunks, name, "{", labels, "} ", rows[:, column].tolist())
    for number, metric in enumerate(plan.metrics):
        head = f'{{metric="{escape(metric.name)}",'
        for name, values in _metric_totals(rows, plan.metric_column(number), metric.unit):
            _add(chunks, name, head, labels, "} ", values)


def _metric_totals(rows: Rows, column: int, unit: int) -> Iterable[tuple[str, list[float]]]:
    yield "relevanced_settled_score_sum_total", (rows[:, column + 1] / unit).tolist()
    yield "relevanced_settled_score_squares_total", (rows[:, column + 2] / unit).tolist()
    yield "relevanced_settled_scored_impressions_total", rows[:, column].tolist()


def _counts(chunks: _Chunks, snapshot: Snapshot, plan: Plan) -> None:
    for stored, (name, always) in FAMILY_OF_COUNT.items():
        known = plan.grouping_names[1:] if stored == "segment_overflow" else always
        counts = dict.fromkeys(known, 0) | dict(snapshot.counts.get(stored, {}))
        labels = _labelled(BY_NAME[name].labels[0], counts)
        _add(chunks, name, "{", labels, "} ", list(counts.values()))


def _times(chunks: _Chunks, snapshot: Snapshot, plan: Plan) -> None:
    for window in snapshot.windows:
        tail = f'{{window="{escape(window.window)}",view="{window.view}"}} '
        _add_time(chunks, "relevanced_window_end_timestamp_seconds", tail, window.end_ms)
    if snapshot.as_of_ms is not None:
        for span in plan.timing.windows:
            left_out = [int((span.name, view) in snapshot.incomplete) for view in VIEWS]
            labels = [f'window="{escape(span.name)}",view="{view}"' for view in VIEWS]
            _add(chunks, "relevanced_window_incomplete", "{", labels, "} ", left_out)
    _add_time(chunks, "relevanced_as_of_timestamp_seconds", " ", snapshot.as_of_ms)
    for lane in snapshot.lanes:
        tail = f'{{lane="{lane.lane}"}} '
        _add_time(chunks, "relevanced_lane_time_timestamp_seconds", tail, lane.time_ms)
        _add_time(chunks, "relevanced_lane_watermark_timestamp_seconds", tail, lane.watermark_ms)


def _labelled(label: str, values: Mapping[str, int]) -> list[str]:
    return [f'{label}="{escape(value)}"' for value in values]


def _add_time(chunks: _Chunks, name: str, tail: str, time_ms: int | None) -> None:
    if time_ms is not None:
        _add_lines(chunks, name, [f"{name}{tail}{time_ms / 1000!r}\n"])


def _add_defined(
    chunks: _Chunks, name: str, head: str, labels: Sequence[str], tail: str, values: Floats
) -> None:
    """Add the samples that have a value: what is undefined is absent, neither 0 nor NaN.

    Nine digits: more than the millionths that rows are kept in, and half the time of all seventeen.
    """
    start = name + head
    defined = ~np.isnan(values)
    shown = zip(compress(labels, defined.tolist()), values[defined].tolist(), strict=True)
    _add_lines(chunks, name, [f"{start}{label}{tail}{value:.9g}\n" for label, value in shown])


def _add(
    chunks: _Chunks,
    name: str,
    head: str,
    labels: Sequence[str],
    tail: str,
    values: Sequence[float],
) -> None:
    start = name + head
    pairs = zip(labels, values, strict=True)
    _add_lines(chunks, name, [f"{start}{label}{tail}{value!r}\n" for label, value in pairs])


def _add_lines(chunks: _Chunks, name: str, lines: Sequence[str]) -> None:
    body = chunks.setdefault(name, [])
    if lines:
        body.append("".join(lines).encode())
