"""`relevanced replay`: recorded events through the daemon's own pipeline, files in and scores out,
without a clock, Kafka or Redis.

lines ─▶ decode ─▶ order by event time ─▶ attribute ─▶ score ─▶ the same snapshot as the daemon's
"""

import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from errno import EIO
from pathlib import Path
from typing import Final, TextIO

from rich.console import Console
from rich.progress import Progress, TaskID

from ..attribution import rules
from ..config.loading import Config
from ..events.decoder import decoder
from ..events.timestamps import timestamp_text
from ..events.types import Decoded, Impression, Rejected
from ..experiments.findings import findings
from ..experiments.types import Findings
from ..exporter import scores, selection, snapshot
from ..exporter.lane_view import LaneView, Names
from ..exporter.scores import Report
from ..lane.experiments import settle_pane
from ..lane.lane import Lane, new_lane
from ..worker import batch
from .byte_order_mark import without_mark
from .experiment_report import UnknownExperiment, experiment_report

TOPIC: Final = "replay"
EVENTS_AT_ONCE: Final = 20_000
NARROWEST_TABLE: Final = 100
"""Columns of the table on a narrower terminal, or on none."""
DAMAGED: Final = (gzip.BadGzipFile, EOFError, zlib.error)


def replay(
    paths: Sequence[str],
    config: Config,
    output: str,
    *,
    experiment: str | None = None,
    as_is: bool,
    progress: bool,
) -> int:
    """Score the files and print the scores, or what one experiment shows where it is named; returns
    the exit code."""
    console = Console(file=sys.stderr, quiet=not progress)
    try:
        with Progress(console=console, transient=True) as bars:
            lane = read_lane(paths, config, bars, as_is=as_is)
    except OSError as error:
        print(f"{error.filename}: cannot be read: {error.strerror}", file=sys.stderr)
        return 1
    if experiment is not None:
        return print_experiment(lane, experiment, output)
    print_report(report_of(lane), output, sys.stdout)
    return 0


def read_lane(paths: Sequence[str], config: Config, bars: Progress, *, as_is: bool) -> Lane:
    """One lane to which all events of the files were applied, in order of their time, or in that of
    the files with `as_is`. Raises OSError for a file that cannot be read."""
    events = list(read_events(paths, config, bars))
    if not as_is:
        events.sort(key=_time_order)
    lane = new_lane(0, replace(config.plan, history_hours=0), {TOPIC: 0}, [TOPIC])
    bar = bars.add_task("scoring", total=len(events))
    for first in range(0, len(events), EVENTS_AT_ONCE):
        chunk = events[first : first + EVENTS_AT_ONCE]
        lane.forget_unused()
        rules.apply(lane, TOPIC, chunk)
        batch.advance(lane)
        lane.start_batch()
        bars.advance(bar, len(chunk))
    return lane


def read_events(paths: Sequence[str], config: Config, bars: Progress) -> Iterator[Decoded]:
    """The events of all lines of all files, one JSON value a line; empty lines are skipped."""
    decode = decoder(config.events.format, config.limits)
    for line in lines_of(paths, bars):
        yield from decode(line, None)


def lines_of(paths: Sequence[str], bars: Progress) -> Iterator[bytes]:
    """All lines of all files that are not empty."""
    for path in paths:
        bar = bars.add_task(f"reading {Path(path).name}", total=Path(path).stat().st_size)
        for line in _lines(path, bars, bar):
            if not line.isspace():
                yield line


def _lines(path: str, bars: Progress, bar: TaskID) -> Iterator[bytes]:
    with open(path, "rb") as file:
        lines: Iterable[bytes] = gzip.open(file) if path.endswith(".gz") else file
        try:
            for number, line in enumerate(lines):
                yield line if number else without_mark(line)
                if not number % 1000:
                    bars.update(bar, completed=file.tell() if file.seekable() else None)
        except DAMAGED as error:
            raise OSError(EIO, f"not a whole gzip file: {error}", path) from error


def _time_order(event: Decoded) -> tuple[int, int]:
    """The key that events are sorted by: impressions come before feedback of the same time, and
    rejected records, which have no time, come first."""
    if isinstance(event, Rejected):
        return (-1, 0)
    return (event.time_ms, 0 if isinstance(event, Impression) else 1)


def report_of(lane: Lane) -> Report:
    """The lane's scores: the windows as of its last event, and a window of everything."""
    view = view_of(lane)
    whole = snapshot.evaluate([view], lane.plan, view.names.segments)
    whole = snapshot.with_everything(whole, [view], lane.plan)
    return scores.report(whole, selection.busiest(whole, lane.plan), lane.plan)


def experiments_of(lane: Lane) -> Findings:
    """What the experiments show, open panes included. Settles them: the lane can take no more
    events afterwards."""
    for pane in lane.open.panes():
        settle_pane(lane, pane)
    at_ms = lane.watermark_ms
    as_of = None if at_ms is None else timestamp_text(at_ms)
    return findings([lane.experiments.by_name], lane.plan.tracking, lane.plan.metrics, at_ms, as_of)


def print_experiment(lane: Lane, experiment: str, output: str) -> int:
    """Print what one experiment shows, as `table` or `json`; returns the exit code."""
    try:
        text = experiment_report(experiments_of(lane), experiment, output)
    except UnknownExperiment as error:
        print(error, file=sys.stderr)
        return 1
    if output == "csv":
        print("--experiment: no csv, but table or json", file=sys.stderr)
        return 2
    print(text, end="")
    return 0


def view_of(lane: Lane) -> LaneView:
    """The view of the lane in memory that a reader of the store would have."""
    names = lane.plan.grouping_names
    return LaneView(
        lane=lane.number,
        token="",
        sequence=0,
        names=Names((names[grouping], segment) for grouping, segment in lane.segments.names),
        panes={key: rows.pages for key, rows in lane.panes.items()},
        totals=lane.totals.pages,
        counts=lane.counts,
        watermark_ms=lane.watermark_ms,
    )


def print_report(report: Report, output: str, stream: TextIO) -> None:
    """Print a report as `table`, `json` or `csv`."""
    if output == "json":
        print(scores.to_json(report).decode(), file=stream)
    elif output == "csv":
        print(scores.to_csv(report), end="", file=stream)
    else:
        width = max(Console(file=stream).width, NARROWEST_TABLE)
        print(
            scores.to_table(report, snapshot.EVERYTHING, snapshot.LIVE, width=width),
            end="",
            file=stream,
        )
        print(summary(report), file=stream)


def summary(report: Report) -> str:
    """How many events were read, and their outcomes, in one line."""
    events = report.events
    counts = [(f"rejected {reason}", n) for reason, n in events.rejected.items()]
    counts += [(f"left out {reason}", n) for reason, n in events.dropped_values.items()]
    counts += [(f"feedback {outcome}", n) for outcome, n in events.feedback_outcomes.items()]
    parts = [f"{name} {n:,}" for name, n in counts if n]
    read = f"{events.impressions:,} impressions, {events.feedback:,} feedback"
    return f"{read}: {', '.join(parts) or 'nothing else'}"
