"""Recorded events through the daemon's own pipeline: files in, scores out. No clock, no Kafka, no
Redis.

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
from ..experiments.report import render_report
from ..experiments.types import Findings
from ..exporter import scores, selection, snapshot
from ..exporter.lane_view import LaneView, Names
from ..exporter.scores import Report
from ..lane.experiments import settle_pane
from ..lane.lane import Lane, new_lane
from ..worker import batch

TOPIC: Final = "replay"
EVENTS_AT_ONCE: Final = 20_000
NARROWEST_TABLE: Final = 100
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
    """Score the files and print the result, that of an experiment where one is named; returns the
    exit code."""
    console = Console(file=sys.stderr, quiet=not progress)
    try:
        with Progress(console=console, transient=True) as bars:
            lane = read_lane(paths, config, bars, as_is=as_is)
    except OSError as error:
        print(f"{error.filename}: cannot be read: {error.strerror}", file=sys.stderr)
        return 1
    if experiment is not None:
        return show_experiment(lane, experiment, output)
    show(report_of(lane), config, output, sys.stdout)
    return 0


def score_files(paths: Sequence[str], config: Config, bars: Progress, *, as_is: bool) -> Report:
    """The scores of all events in the files, as of the last one."""
    return report_of(read_lane(paths, config, bars, as_is=as_is))


def read_lane(paths: Sequence[str], config: Config, bars: Progress, *, as_is: bool) -> Lane:
    """One lane that has taken all events in the files."""
    events = list(read_events(paths, config, bars))
    if not as_is:
        events.sort(key=_place_in_time)
    lane = new_lane(0, replace(config.plan, history_hours=0), {TOPIC: 0}, [TOPIC])
    bar = bars.add_task("scoring", total=len(events))
    for first in range(0, len(events), EVENTS_AT_ONCE):
        some = events[first : first + EVENTS_AT_ONCE]
        lane.forget_what_is_over()
        rules.apply(lane, TOPIC, some)
        batch.advance(lane)
        lane.start_batch()
        bars.advance(bar, len(some))
    return lane


def read_events(paths: Sequence[str], config: Config, bars: Progress) -> Iterator[Decoded]:
    """The events of all lines of all files, one JSON value a line; empty lines are passed over."""
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
                yield line
                if not number % 1000:
                    bars.update(bar, completed=file.tell() if file.seekable() else None)
        except DAMAGED as error:
            raise OSError(EIO, f"not a whole gzip file: {error}", path) from error


def _place_in_time(event: Decoded) -> tuple[int, int]:
    """Impressions stand before feedback of the same time; what is no event has no time."""
    if isinstance(event, Rejected):
        return (-1, 0)
    return (event.time_ms, 0 if isinstance(event, Impression) else 1)


def report_of(lane: Lane) -> Report:
    """The lane's scores: the windows as of its last event, and everything in it."""
    view = view_of(lane)
    whole = snapshot.evaluate([view], lane.plan, view.names.segments)
    whole = snapshot.with_everything(whole, [view], lane.plan)
    return scores.report(whole, selection.busiest(whole, lane.plan), lane.plan)


def experiments_of(lane: Lane) -> Findings:
    """What the experiments show, settled or not. The lane is of no other use afterwards."""
    for pane in lane.open.panes():
        settle_pane(lane, pane)
    at_ms = lane.watermark_ms
    as_of = None if at_ms is None else timestamp_text(at_ms)
    return findings([lane.experiments.by_name], lane.plan.tracking, lane.plan.metrics, at_ms, as_of)


def show_experiment(lane: Lane, experiment: str, output: str) -> int:
    """Print what one experiment shows, as `table` or `json`; returns the exit code."""
    found = experiments_of(lane)
    named = [one for one in found.experiments if one.experiment == experiment]
    if not named or output == "csv":
        known = ", ".join(one.experiment for one in found.experiments) or "none"
        refused = f"{experiment}: no experiment of this name; known: {known}"
        print(refused if not named else "--experiment: no csv, but table or json", file=sys.stderr)
        return 1 if not named else 2
    print(render_report(named[0], found.as_of, output), end="")
    return 0


def view_of(lane: Lane) -> LaneView:
    """The lane in memory as a reader of the store would see it."""
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


def show(report: Report, config: Config, output: str, stream: TextIO) -> None:
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
        print(told(report), file=stream)


def told(report: Report) -> str:
    """What was read, and what became of it, in one line."""
    events = report.events
    counts = [(f"rejected {reason}", n) for reason, n in events.rejected.items()]
    counts += [(f"left out {reason}", n) for reason, n in events.dropped_values.items()]
    counts += [(f"feedback {outcome}", n) for outcome, n in events.feedback_outcomes.items()]
    parts = [f"{name} {n:,}" for name, n in counts if n]
    read = f"{events.impressions:,} impressions, {events.feedback:,} feedback"
    return f"{read}: {', '.join(parts) or 'nothing else'}"
