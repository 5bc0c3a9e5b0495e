"""Scores as rows: one for each metric of each segment; rows as CSV, lines of JSON, a table. Pure.

A row is a mapping of what is printed, in that order. What judgements score is another measure, also
where a metric has the same name: hence `judged_metric`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from relevanced.metrics.lists import Floats

from ..exporter.csv_cells import csv_text
from ..exporter.scores import optional
from ..exporter.snapshot import Segment, estimates
from ..judging import sentences
from ..lane.paged_rows import Rows as Counters
from ..plan import Plan

Row: TypeAlias = dict[str, Any]
FIELDS: Final = ("grouping", "segment", "metric", "mean", "stderr", "scored", "impressions")
"""`mean` is None where no impression has a defined value, `stderr` below two scored ones."""
NAMES: Final = ("start", "grouping", "segment")


def rows_of(
    rows: Counters | Floats, segments: Iterable[Segment], plan: Plan, **first: object
) -> Iterator[Row]:
    """A row for each segment that has an impression and each metric, from (segments, columns)."""
    columns = []
    for index, metric in enumerate(plan.metrics):
        means, errors = (optional(values) for values in estimates(rows, plan, index))
        columns.append((metric.name, means, errors, rows[:, plan.metric_column(index)]))
    for at, segment in enumerate(segments):
        if rows[at, 0]:
            for name, means, errors, scored in columns:
                counts = int(scored[at]), int(rows[at, 0])
                values = (*segment, name, means[at], errors[at], *counts)
                yield {**first, **dict(zip(FIELDS, values, strict=True))}


def judged(row: Row, **more: object) -> Row:
    """A row of a judged score."""
    return {"judged_metric" if name == "metric" else name: row[name] for name in row} | more


def as_csv(header: Iterable[str], rows: Iterable[Row]) -> str:
    """A header, and a line for each row; what is None or absent is an empty field."""
    names = tuple(dict.fromkeys(header))
    return csv_text(names, ([row.get(name) for name in names] for row in rows))


def as_json_lines(rows: Iterable[Row]) -> str:
    """A JSON object a line."""
    return "".join(msgspec.json.encode(row).decode() + "\n" for row in rows)


def as_table(
    rows: Iterable[Row],
    metrics: Iterable[str],
    mean: Callable[[Row], str],
    *,
    names: Sequence[str] = NAMES,
    counts: Mapping[str, Callable[[Row], str]],
    caption: str | None = None,
    title: Text | None = None,
) -> Table:
    """A line for each bucket and segment, and a column for each metric. `counts`: columns before
    these."""
    lines: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        lines.setdefault(tuple(row[name] for name in names), []).append(row)
    note = None if caption is None else Text(caption)
    table = Table(
        box=SIMPLE_HEAD, title=title, title_justify="left", caption=note, caption_justify="left"
    )
    for name in names:
        table.add_column(name, no_wrap=True)
    for name in (*counts, *metrics):
        table.add_column(Text(name), justify="right", no_wrap=True)
    for line, of_metrics in lines.items():
        first = of_metrics[0]
        at, *others = (sentences.printable(name) for name in line)
        cells = (at + ("" if first.get("settled", True) else " *"), *others)
        numbers = [count(first) for count in counts.values()]
        table.add_row(*map(Text, (*cells, *numbers, *map(mean, of_metrics))))
    return table
