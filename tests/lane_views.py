"""Small lanes for tests of the reading side, built impression by impression; reading texts back."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from prometheus_client.metrics_core import Metric as SeriesFamily
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from relevanced.daemon.experiments import NO_FINDINGS, Findings
from relevanced.daemon.exporter import (
    BaselineComparison,
    Condition,
    Exposition,
    MeasureScores,
    Published,
    Reading,
    clicks_measure,
    joined,
    publish,
    render_compared,
    render_traffic,
    render_windows,
)
from relevanced.daemon.lane import PAGE_ROWS, Pages, Rows, escape
from relevanced.daemon.panes import HOUR_MS, pane_start
from relevanced.daemon.plan import ALL, Plan
from relevanced.daemon.timing import timing
from relevanced.daemon.views import (
    LaneView,
    Names,
    PreviousSelection,
    Report,
    Snapshot,
    busiest,
    counters_of,
    evaluate,
    report,
)
from relevanced.metrics import parse

NOW_MS = 1_795_176_000_000
"""A multiple of every pane below."""
PLAN = Plan(
    timing=timing([("1m", 60), ("10m", 600)], attribution_s=60, lateness_s=4),
    metrics=(parse("P@1"), parse("RR@10"), parse("nDCG@10")),
    groupings=(("country",), ("country", "device")),
    grades={"click": 1.0},
    max_segments=2,
)


@dataclass(frozen=True)
class Shown:
    """One impression and its metric values; None is undefined."""

    time_ms: int = NOW_MS - 1000
    country: str = "US"
    device: str = "ios"
    values: tuple[float | None, float | None, float | None] = (1.0, 0.5, None)
    feedback: int = 1
    zero_result: bool = False
    listed: int = 10

    @property
    def segments(self) -> tuple[tuple[str, str], ...]:
        country, device = escape(self.country), escape(self.device)
        return ((ALL, ALL), ("country", country), ("country,device", f"{country},{device}"))

    def row(self) -> list[int]:
        counted = [1, int(self.feedback > 0), int(self.zero_result), self.feedback]
        counted += [self.listed, self.listed**2]
        for metric, value in zip(PLAN.metrics, self.values, strict=True):
            if value is None:
                counted += [0, 0, 0]
            else:
                unit = metric.unit
                counted += [1, int(unit * value + 0.5001), int(unit * value * value + 0.5001)]
        return counted


def lane_view(
    impressions: Iterable[Shown],
    *,
    lane: int = 0,
    watermark_ms: int | None = NOW_MS,
    idle_ms: int | None = None,
    counts: Mapping[str, Mapping[str, int]] | None = None,
    plan: Plan = PLAN,
) -> LaneView:
    """The lane that accepted these impressions and is at this watermark; of `plan` only the timing
    is used."""
    ids: dict[tuple[str, str], int] = {(ALL, ALL): 0}
    cells: dict[tuple[int, int], dict[int, list[int]]] = {}
    totals: dict[int, list[int]] = {}
    seen = 0
    for impression in impressions:
        seen += 1
        segments = [ids.setdefault(name, len(ids)) for name in impression.segments]
        settled = (
            watermark_ms is not None and plan.timing.closes_at(impression.time_ms) <= watermark_ms
        )
        into = [totals] if settled else []
        for index, window in enumerate(plan.timing.windows):
            start = pane_start(impression.time_ms, window.pane_ms)
            into.append(cells.setdefault((index, start), {}))
        for rows in into:
            for segment in segments:
                _add(rows, segment, impression.row())
    return LaneView(
        lane=lane,
        token="t",
        sequence=1,
        names=Names(ids),
        panes={key: pages_of(_matrix(rows)) for key, rows in cells.items()},
        totals=pages_of(_matrix(totals)),
        counts={"events": {"impression": seen}} if counts is None else counts,
        watermark_ms=watermark_ms,
        idle_ms=idle_ms,
    )


def exposed(
    views: list[LaneView], plan: Plan = PLAN, experiments: Findings = NO_FINDINGS
) -> Exposition:
    """Both texts of these lanes."""
    snapshot = evaluate(views, plan)
    gauges = busiest(snapshot, plan)
    counters, _ = counters_of(snapshot, gauges, plan, PreviousSelection())
    scores = MeasureScores(clicks_measure(plan), views, snapshot, gauges)
    return joined(render_windows(scores), render_traffic(snapshot, counters, plan, experiments))


def exposed_compared(views: list[LaneView], plan: Plan = PLAN) -> Exposition:
    """Both texts of the last hours of these lanes, twice a week apart."""
    return render_compared(compared(views, plan))


def compared(views: list[LaneView], plan: Plan = PLAN) -> MeasureScores:
    """The last hour of these lanes beside the same a week and two weeks before."""
    snapshot = evaluate(views, plan)
    selection = busiest(snapshot, plan)
    rows = selection.fold(snapshot.windows[-1].rows).astype(np.float64)
    until_ms = snapshot.as_of_ms or 0
    weeks = {week * 7 * 24 * HOUR_MS: rows for week in (1, 2)}
    comparison = BaselineComparison("1h", until_ms - HOUR_MS, until_ms, rows, "week", weeks, None)
    found = MeasureScores(clicks_measure(plan), views, snapshot, selection)
    return replace(found, comparisons=[comparison])


def reported(views: list[LaneView], plan: Plan = PLAN) -> Report:
    """The scores of these lanes."""
    snapshot = evaluate(views, plan)
    return report(snapshot, busiest(snapshot, plan), plan)


def reading_of(views: list[LaneView], plan: Plan = PLAN) -> Reading:
    """What requests about these lanes are answered from."""
    snapshot = evaluate(views, plan)
    return reading_at(views, snapshot, plan)


def reading_at(views: Sequence[LaneView], snapshot: Snapshot, plan: Plan = PLAN) -> Reading:
    """The same of a snapshot."""
    shown = busiest(snapshot, plan)
    return Reading((MeasureScores(clicks_measure(plan), views, snapshot, shown),))


def published_of(reading: Reading, *conditions: Condition) -> Published:
    """What an exporter publishes of it."""
    plan, views = reading.plan, list(reading.views)
    made = report(reading.snapshot, reading.selection, plan)
    return publish(exposed(views, plan), made, reading, conditions or (Condition("redis", True),))


def read_text(text: bytes) -> list[SeriesFamily]:
    """The families of a text in the Prometheus format."""
    parse: Callable[[str], Iterable[SeriesFamily]] = text_string_to_metric_families
    return list(parse(text.decode()))


def read_openmetrics(text: bytes) -> list[SeriesFamily]:
    """The families of a text in OpenMetrics, `# EOF` included."""
    parse: Callable[[str], Iterable[SeriesFamily]] = (
        openmetrics_parser.text_string_to_metric_families
    )
    return list(parse(text.decode()))


def _add(rows: dict[int, list[int]], segment: int, row: list[int]) -> None:
    before = rows.setdefault(segment, [0] * len(row))
    rows[segment] = [a + b for a, b in zip(before, row, strict=True)]


def pages_of(rows: Rows) -> Pages:
    """(segments, columns) by segment id as pages; pages of zeros are left out."""
    paged: dict[int, Rows] = {}
    for page in range(-(-len(rows) // PAGE_ROWS)):
        part = rows[page * PAGE_ROWS : (page + 1) * PAGE_ROWS]
        if part.any():
            paged[page] = np.zeros((PAGE_ROWS, rows.shape[1]), np.int64)
            paged[page][: len(part)] = part
    return paged


def _matrix(rows: Mapping[int, list[int]]) -> Rows:
    matrix = np.zeros((max(rows, default=-1) + 1, PLAN.row_width), np.int64)
    for segment, row in rows.items():
        matrix[segment] = row
    return matrix


def with_clicks(reading: Reading, *, plan: Plan | None = None, **changes: Any) -> Reading:
    """A reading whose scores of clicks differ in these fields, or are under another plan."""
    clicks, *others = reading.scores
    if plan is not None:
        changes["measure"] = replace(clicks.measure, plan=plan)
    return replace(reading, scores=(replace(clicks, **changes), *others))
