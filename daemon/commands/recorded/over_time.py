"""What `replay --every` and `replay --changes` print. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from ...events.timestamps import timestamp_text
from ...exporter.csv_cells import csv_text
from ...exporter.scores import optional
from ...exporter.snapshot import estimates
from ...judging import sentences
from ...judging.story import Story
from ...judging.incidents import Incident
from .buckets import OverTime

NOTHING_SETTLED: Final = (
    "Nothing has settled: the files end before the attribution window of their first searches has"
    " passed. Record for longer, or configure a shorter attribution.window."
)
CUT: Final = "feedback may have come after the end of the files"
"""What may be missing of a bucket that has not settled."""
NOTHING_FELL: Final = "No score fell by more than chance explains."


class BucketScore(msgspec.Struct, frozen=True, gc=False):
    """One metric of one segment in one bucket of event time."""

    start: str
    grouping: str
    segment: str
    metric: str
    mean: float | None
    """null where no impression has a defined value."""
    stderr: float | None
    """null below two scored impressions."""
    scored: int
    impressions: int
    settled: bool
    """False where feedback may have come after the end of the files."""


def scores(found: OverTime) -> Iterator[BucketScore]:
    """A row for each bucket, segment with an impression, and metric."""
    for start, rows in zip(found.starts.tolist(), found.rows, strict=True):
        at, impressions = timestamp_text(start), rows[:, 0].astype(np.int64).tolist()
        settled = start + found.plan.hour_ms <= found.settled_ms
        columns = []
        for index, metric in enumerate(found.plan.metrics):
            means, errors = (optional(each) for each in estimates(rows, found.plan, index))
            scored = rows[:, found.plan.metric_column(index)].astype(np.int64).tolist()
            columns.append((metric.name, means, errors, scored))
        for row, segment in enumerate(found.selection.segments):
            for name, means, errors, scored in columns:
                if impressions[row]:
                    counts = (scored[row], impressions[row])
                    yield BucketScore(at, *segment, name, means[row], errors[row], *counts, settled)


def as_csv(found: OverTime) -> str:
    """A header, and a line for each row; null is an empty field."""
    return csv_text(BucketScore.__struct_fields__, map(msgspec.structs.astuple, scores(found)))


def as_json_lines(found: OverTime) -> str:
    """A JSON object a line."""
    return "".join(msgspec.json.encode(one).decode() + "\n" for one in scores(found))


def as_table(found: OverTime) -> Table:
    """A line for each bucket and segment, and a column for each metric."""
    return table_of(found, CUT)


@dataclass(frozen=True)
class Column:
    """A column of a table beside those of scores."""

    name: str
    cells: Mapping[tuple[str, str, str], str]
    """By (start, grouping, segment)."""


def table_of(found: OverTime, cut: str, column: Column | None = None) -> Table:
    """As `as_table`, with another column before the metrics; `cut` says what may be missing of
    buckets that have not settled."""
    note = f"*: {cut}." if _is_cut(found) else None
    table = Table(box=SIMPLE_HEAD, caption=note, caption_justify="left")
    for name in ("start", "grouping", "segment"):
        table.add_column(name, no_wrap=True)
    further = () if column is None else (column.name,)
    for name in ("impressions", *further, *(metric.name for metric in found.plan.metrics)):
        table.add_column(Text(name), justify="right", no_wrap=True)
    lines: dict[tuple[str, str, str], list[BucketScore]] = {}
    for one in scores(found):
        lines.setdefault((one.start, one.grouping, one.segment), []).append(one)
    for (start, grouping, segment), of_metrics in lines.items():
        means = ["undefined" if s.mean is None else f"{s.mean:.4f}" for s in of_metrics]
        count = f"{of_metrics[0].impressions:,}"
        cells = [] if column is None else [column.cells[start, grouping, segment]]
        mark = "" if of_metrics[0].settled else " *"
        names = [sentences.printable(name) for name in (start + mark, grouping, segment)]
        table.add_row(*map(Text, names), count, *cells, *means)
    return table


def _is_cut(found: OverTime) -> bool:
    return len(found.settled.starts) < len(found.starts)


def changes_text(
    found: OverTime, incidents: Sequence[Incident], judged_until_ms: int | None
) -> Iterator[str]:
    """What fell by the buckets that have settled, and by those that are judged for good where any
    are: a line for each incident, and what else is known of it."""
    if not len(found.starts):
        yield NOTHING_SETTLED
    else:
        until = sentences.clock(found.end_ms, 0)
        yield f"Up to {until} UTC, where the feedback of all searches is known:"
    if judged_until_ms is not None:
        yield f"By judgements up to {sentences.clock(judged_until_ms, 0)} UTC."
    if not incidents and (judged_until_ms is not None or len(found.starts)):
        yield NOTHING_FELL
    end_ms = max(found.end_ms, judged_until_ms or 0)
    for incident in sorted(incidents, key=lambda incident: not incident.is_open):
        yield _sentence(incident.story, end_ms)
        if incident.is_open and (detail := sentences.detail(incident.story)):
            yield f"    {detail}"
        if incident.beside is not None:
            yield f"    {_sentence(incident.beside, end_ms)}"


def _sentence(story: Story, now_ms: int) -> str:
    if story.fall.ended_ms is None:
        return sentences.headline(story, now_ms)
    return sentences.recovery(story, now_ms)
