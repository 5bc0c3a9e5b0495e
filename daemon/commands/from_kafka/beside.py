"""Hourly scores that were computed anew beside the stored ones, as table, CSV and JSON. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from relevanced.metrics.lists import Integers

from ...events.timestamps import timestamp_text
from ...exporter.csv_cells import csv_text
from ...exporter.scores import optional
from ...exporter.snapshot import estimates
from ...judging import sentences
from ...plan import Plan
from .hour_rows import HourRows, Segment

LEGEND: Final = "Computed now / stored; –: there is none. *: feedback may still come."


class BesideScore(msgspec.Struct, frozen=True, gc=False):
    """One metric of one segment in one hour, computed now and as it is stored. null: there is
    none."""

    start: str
    grouping: str
    segment: str
    metric: str
    mean: float | None
    stderr: float | None
    scored: int
    impressions: int
    settled: bool
    """False where feedback may still come."""
    stored_mean: float | None
    stored_stderr: float | None
    stored_scored: int | None
    stored_impressions: int | None


class _Counts(msgspec.Struct, frozen=True):
    """What one row says of one metric."""

    mean: float | None = None
    stderr: float | None = None
    scored: int | None = None
    impressions: int | None = None


def scores(
    computed: HourRows, stored: HourRows, busiest: Sequence[Segment] | None = None
) -> Iterator[BesideScore]:
    """A row for each hour, segment with an impression, and metric of the computed ones: of these
    segments, or of the busiest ones."""
    busiest = computed.busiest() if busiest is None else busiest
    for start in computed.starts:
        at, settled = timestamp_text(start), computed.is_settled(start)
        rows, stored_rows = computed.rows[start], stored.settled_rows(start)
        for segment in busiest:
            if segment in rows:
                other = stored_rows.get(segment)
                known = {} if other is None else _metrics(other, stored.plan)
                absent = _Counts() if other is None else _Counts(impressions=int(other[0]))
                for name, one in _metrics(rows[segment], computed.plan).items():
                    pair = one, known.get(name, absent)
                    yield _score(at, segment, name, settled, *pair)


def _score(
    at: str, segment: Segment, metric: str, settled: bool, computed: _Counts, stored: _Counts
) -> BesideScore:
    return BesideScore(
        start=at,
        grouping=segment[0],
        segment=segment[1],
        metric=metric,
        mean=computed.mean,
        stderr=computed.stderr,
        scored=computed.scored or 0,
        impressions=computed.impressions or 0,
        settled=settled,
        stored_mean=stored.mean,
        stored_stderr=stored.stderr,
        stored_scored=stored.scored,
        stored_impressions=stored.impressions,
    )


def _metrics(row: Integers, plan: Plan) -> dict[str, _Counts]:
    """By name."""
    rows, found = row[np.newaxis], {}
    for index, metric in enumerate(plan.metrics):
        (mean,), (error,) = (optional(values) for values in estimates(rows, plan, index))
        scored = int(row[plan.metric_column(index)])
        found[metric.name] = _Counts(mean, error, scored, int(row[0]))
    return found


def as_csv(computed: HourRows, stored: HourRows) -> str:
    """A header, and a line for each row; null is an empty field."""
    rows = map(msgspec.structs.astuple, scores(computed, stored))
    return csv_text(BesideScore.__struct_fields__, rows)


def as_json_lines(computed: HourRows, stored: HourRows) -> str:
    """A JSON object a line."""
    lines = (msgspec.json.encode(one).decode() + "\n" for one in scores(computed, stored))
    return "".join(lines)


def as_table(computed: HourRows, stored: HourRows) -> Table:
    """A line for each hour and segment, and a column for each metric: the mean that was computed
    now, and the stored one."""
    return table_of(scores(computed, stored), LEGEND)


def table_of(rows: Iterable[BesideScore], caption: str) -> Table:
    """The same of these rows."""
    lines: dict[tuple[str, str, str], list[BesideScore]] = {}
    for one in rows:
        lines.setdefault((one.start, one.grouping, one.segment), []).append(one)
    table = Table(box=SIMPLE_HEAD, caption=Text(caption), caption_justify="left")
    for name in ("start", "grouping", "segment"):
        table.add_column(name, no_wrap=True)
    metrics = dict.fromkeys(one.metric for of_metrics in lines.values() for one in of_metrics)
    for name in ("impressions", *metrics):
        table.add_column(Text(name), justify="right", no_wrap=True)
    for (start, grouping, segment), of_metrics in lines.items():
        first = of_metrics[0]
        names = (start + ("" if first.settled else " *"), grouping, segment)
        counts = _pair(f"{first.impressions:,}", _count(first.stored_impressions))
        means = [_pair(_mean(one.mean), _mean(one.stored_mean)) for one in of_metrics]
        table.add_row(*(Text(sentences.printable(name)) for name in names), counts, *means)
    return table


def _pair(computed: str, stored: str) -> Text:
    return Text(f"{computed} / {stored}")


def _count(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"


def _mean(mean: float | None) -> str:
    return "–" if mean is None else f"{mean:.4f}"
