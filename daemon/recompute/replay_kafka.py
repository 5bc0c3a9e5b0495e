"""What `relevanced replay --kafka` does: hours computed anew from the log, beside the stored ones.

What a lane has refused makes a difference to judged scores: hours are graded anew by the whole
index, and those in Redis were graded by the files that the lanes had adopted. Nothing is written,
and no consumer group is joined.
"""

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import click
import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from relevanced.metrics import Integers

from ..changes import sentences
from ..config import Config, read
from ..errors import Damaged, StartError, Unavailable
from ..events import instant_ms, timestamp_text
from ..panes import HOUR_MS
from ..plan import Plan
from ..storage import LaneDelta
from ..views import LaneView, Mirror
from ..worker import LogChanged, configure_allocator
from . import tables
from .driver import LATEST_MS
from .from_kafka import RecordsGone, Show, lanes_from_kafka
from .hour_rows import (
    AllHours,
    HourRows,
    Segment,
    empty,
    nothing,
    plan_of_hours,
    stored_rows,
)
from .libraries import whole_index
from .proof import StoredLane, stored_lane
from .redis_client import connected, whole_lanes
from .tables import NOTHING_JUDGED, Row, as_json_lines, title_of

LEGEND: Final = "Computed now / stored; –: none, or not of all lanes. *: {} may still come."
_STORED: Final = ("mean", "stderr", "scored", "impressions")
FIELDS: Final = ("start", *tables.FIELDS, "settled", *(f"stored_{name}" for name in _STORED))
"""`settled` is False where feedback may still come, or searches to be judged."""
JUDGED_FIELDS: Final = ("judged_metric", "judgements", "stored_judgements")
"""The fields that only judged scores have; these have no `metric`."""
_Files: TypeAlias = tuple[str | None, str | None]
"""The names of the file that graded now and of the one that had graded."""


def scores(
    computed: HourRows, stored: HourRows, busiest: Sequence[Segment] | None = None
) -> Iterator[Row]:
    """A row for each hour, segment with an impression, and metric of the computed ones: of these
    segments, or of the busiest ones."""
    busiest = computed.busiest() if busiest is None else busiest
    for start in computed.starts:
        at, settled = timestamp_text(start), computed.is_settled(start)
        rows, stored_rows = computed.rows[start], stored.settled_rows(start)
        for segment in busiest:
            other = stored_rows.get(segment)
            known = {} if other is None else _by_metric(other, segment, stored, start)
            absent = {} if other is None else {"impressions": int(other[0])}
            for row in _of(rows[segment], segment, computed.plan) if segment in rows else ():
                before = known.get(row["metric"], absent)
                beside = {f"stored_{name}": before.get(name) for name in _STORED}
                yield {"start": at, **row, "settled": settled, **beside}


def _of(row: Integers, segment: Segment, plan: Plan) -> Iterator[Row]:
    return tables.rows_of(row[np.newaxis], [segment], plan)


def _by_metric(row: Integers, segment: Segment, stored: HourRows, start: int) -> Mapping[str, Row]:
    """The scores of an hour that all lanes have."""
    lacking = stored.lacking.get(start, ())
    found = {score["metric"]: score for score in _of(row, segment, stored.plan)}
    return {metric: score for metric, score in found.items() if metric not in lacking}


def judged_scores(computed: AllHours, stored: AllHours) -> Iterator[Row]:
    """The same by judgements."""
    if computed.judged is None:
        return
    now = computed.judged
    before = stored.judged or empty(computed.clicks.plan, computed.clicks.span)
    for row in scores(now.known(), before.known(), computed.clicks.busiest()):
        at_ms = instant_ms(row["start"])
        files = dict(judgements=now.file_of(at_ms), stored_judgements=before.file_of(at_ms))
        yield tables.judged(row, **files)


def all_scores(computed: AllHours, stored: AllHours) -> list[Row]:
    """The rows of both."""
    return [*scores(computed.clicks, stored.clicks), *judged_scores(computed, stored)]


def as_csv(computed: AllHours, stored: AllHours) -> str:
    """A header, and a line for each row."""
    header = FIELDS if computed.judged is None else (*FIELDS, *JUDGED_FIELDS)
    return tables.as_csv(header, all_scores(computed, stored))


def as_tables(computed: AllHours, stored: AllHours) -> Iterator[Table | str]:
    """A line for each hour and segment, and a column for each metric; then the same for each file
    that graded now, and the one that had graded."""
    yield _table([*scores(computed.clicks, stored.clicks)], "metric", "feedback")
    by_files: dict[_Files, list[Row]] = {}
    for row in judged_scores(computed, stored):
        by_files.setdefault((row["judgements"], row["stored_judgements"]), []).append(row)
    for (now, before), rows in by_files.items():
        title = title_of(now or "–")
        if before is not None and before != now:
            title += Text(f" / {sentences.printable(before)}")
        yield _table(rows, "judged_metric", "searches", title)
    if computed.judged is not None and not by_files:
        yield NOTHING_JUDGED


def _table(rows: Sequence[Row], metric: str, waits_for: str, title: Text | None = None) -> Table:
    return tables.as_table(
        rows,
        dict.fromkeys(row[metric] for row in rows),
        lambda row: _pair(row, "mean", "{:.4f}"),
        counts={"impressions": lambda row: _pair(row, "impressions", "{:,}")},
        caption=LEGEND.format(waits_for),
        title=title,
    )


def _pair(row: Row, name: str, form: str) -> str:
    values = (row[name], row[f"stored_{name}"])
    return " / ".join("–" if value is None else form.format(value) for value in values)


async def computed_hours(
    config: Config, span: range, show: Show, workers: Config | None = None
) -> AllHours:
    """Return the hours that begin in the span, as this configuration counts the records that Kafka
    has, and grades them by the whole index. `workers` as in `lanes_from_kafka`. Raises Unavailable,
    StartError, LogChanged, RecordsGone and OverflowError."""
    plan, index = plan_of_hours(config.plan), whole_index(config)
    found = AllHours(HourRows(plan, span))
    if index is not None:
        found = AllHours(found.clicks, empty(plan, span), index.timeline)
    async for driver, _ in lanes_from_kafka(config, plan, span, found, show, index, workers):
        driver.finish()
    return found


async def stored_hours(config: Config, span: range) -> AllHours:
    """Return the hours that begin in the span, as the workers of this configuration have stored
    them: those that all lanes have; none where a lane is damaged. Raises Unavailable."""
    async with connected(config) as client:
        try:
            lanes = {lane: delta async for lane, delta in whole_lanes(client, config)}
            return hours_of(lanes, config.plan, span)
        except Damaged:
            return nothing(config.plan, span)  # a sum without this lane would be too small


def hours_of(lanes: Mapping[int, LaneDelta], plan: Plan, span: range) -> AllHours:
    """The same of all lanes by their numbers, as one read of the store found them. Raises
    Damaged."""
    views, graded = list[LaneView](), list[StoredLane]()
    for lane, delta in lanes.items():
        mirror = Mirror(lane, plan)
        mirror.apply(delta)
        views.append(mirror.view())
        if plan.judged is not None and views[-1].has_events:
            graded.append(stored_lane(lane, delta.head, delta.names, delta.pages, plan))
    return stored_rows(views, graded, plan, span)


WIDEST_TABLE = 10_000


@dataclass(frozen=True)
class AskedHours:
    """The hours that begin in [from_ms, to_ms), and where the stored ones come from."""

    from_ms: int
    to_ms: int
    stored_file: str | None
    """The configuration of the workers; None: the one that is asked about."""


def replay_hours(config: Config, asked: AskedHours, output: str, *, progress: bool) -> int:
    """Print the hours as this configuration counts them beside the stored ones; returns the exit
    code: 1 where Kafka has none of them. Raises click.ClickException, ConfigError."""
    configure_allocator()
    of_workers = config if asked.stored_file is None else read(asked.stored_file, os.environ)
    span = range(asked.from_ms, asked.to_ms)
    try:
        with Progress(console=Console(file=sys.stderr, quiet=not progress), transient=True) as bars:
            bar = bars.add_task("replay", total=1.0)

            async def show(share: float) -> None:
                bars.update(bar, completed=share)

            computed = asyncio.run(computed_hours(config, span, show, of_workers))
        stored = asyncio.run(stored_hours(of_workers, span))
    except (Unavailable, StartError, LogChanged, RecordsGone, OverflowError) as error:
        raise click.ClickException(str(error)) from error
    _print(computed, stored, output)
    if unproven := unproven_text(computed.clicks):
        print(unproven, file=sys.stderr)
    return 0 if computed.clicks.starts else 1


def _print(computed: AllHours, stored: AllHours, output: str) -> None:
    if output == "table":
        console = Console(width=WIDEST_TABLE)
        for part in as_tables(computed, stored):
            console.print(part)
    elif output == "json":
        print(as_json_lines(all_scores(computed, stored)), end="")
    else:
        print(as_csv(computed, stored), end="")


def unproven_text(computed: HourRows) -> str:
    """Which hours of the span are left out, and why; "" where none is."""
    if computed.first_ms >= LATEST_MS:
        return "Kafka no longer has the records that these hours need, of one lane at least."
    first_ms = -(-computed.first_ms // HOUR_MS) * HOUR_MS
    if first_ms > computed.span.start:
        return (
            f"Hours before {timestamp_text(first_ms)} are left out: Kafka no longer has all of"
            " the records that they need."
        )
    return "" if computed.starts else "No impression was shown in these hours."
