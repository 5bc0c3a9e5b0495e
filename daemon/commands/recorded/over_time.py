"""What `replay --every` and `replay --changes` print. Pure."""

from collections.abc import Iterator
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
from .buckets import OverTime

NOTHING_SETTLED: Final = (
    "Nothing has settled: the files end before the attribution window of their first searches has"
    " passed. Record for longer, or configure a shorter attribution.window."
)
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
    note = "*: feedback may have come after the end of the files." if _is_cut(found) else None
    table = Table(box=SIMPLE_HEAD, caption=note, caption_justify="left")
    for name in ("start", "grouping", "segment"):
        table.add_column(name, no_wrap=True)
    for name in ("impressions", *(metric.name for metric in found.plan.metrics)):
        table.add_column(Text(name), justify="right", no_wrap=True)
    lines: dict[tuple[str, str, str], list[BucketScore]] = {}
    for one in scores(found):
        lines.setdefault((one.start, one.grouping, one.segment), []).append(one)
    for (start, grouping, segment), of_metrics in lines.items():
        means = ["undefined" if s.mean is None else f"{s.mean:.4f}" for s in of_metrics]
        count = f"{of_metrics[0].impressions:,}"
        mark = "" if of_metrics[0].settled else " *"
        names = [sentences.printable(name) for name in (start + mark, grouping, segment)]
        table.add_row(*map(Text, names), count, *means)
    return table


def _is_cut(found: OverTime) -> bool:
    return len(found.settled.starts) < len(found.starts)


def changes_text(
    found: OverTime, open_now: tuple[Story, ...], closed: tuple[Story, ...]
) -> Iterator[str]:
    """What fell by the buckets that have settled: a line for each change, and what else is known of
    it."""
    if not len(found.starts):
        yield NOTHING_SETTLED
        return
    end_ms = found.end_ms
    yield f"Up to {sentences.clock(end_ms, 0)} UTC, where the feedback of all searches is known:"
    if not open_now and not closed:
        yield NOTHING_FELL
    for story in open_now:
        yield sentences.headline(story, end_ms)
        if detail := sentences.detail(story):
            yield f"    {detail}"
    for story in closed:
        yield sentences.recovery(story, end_ms)
