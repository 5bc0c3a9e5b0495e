"""`relevanced replay`: recorded events through the daemon's own pipeline, files in and scores out,
without a clock, Kafka or Redis.

`recorded/` reads the files, puts the events in order of time and applies them to a lane; the scores
are those of the daemon's own snapshot of it.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TextIO

import msgspec
from rich.console import Console
from rich.progress import Progress

from ..config.loading import Config
from ..events.timestamps import timestamp_text
from ..experiments.exclusion import Stretch
from ..experiments.findings import findings
from ..experiments.types import Findings
from ..exporter import scores, selection, snapshot
from ..exporter.scores import Report
from ..judging.story import Story
from ..lane.experiments import settle_pane
from ..lane.lane import Lane
from ..queries.plan import OFF, PLAIN
from .query_table import query_text
from .experiment_report import UnknownExperiment, experiment_report, with_days
from .recorded.buckets import Buckets, OverTime
from .recorded.experiments import NothingLeft, days_of, with_excluded
from .recorded.falls import fallen
from .recorded.format_guess import explained
from .recorded.line_decoding import UnknownTopic
from .recorded.over_time import as_csv, as_json_lines, as_table, changes_text
from .recorded.pipeline import Replayed, replayed
from .recorded.query_hours import ALL_DAYS
from .recorded.report import ReplayReport, replay_report, summary
from .recorded.time_order import NoRoom
from .recorded.views import view_of

if TYPE_CHECKING:
    from .recorded.looks import Looks

CHANGES_EVERY_MS: Final = 60_000
"""The buckets that changes are looked for in, unless others are asked for."""
PLOT_EVERY_MS: Final = 600_000
LATEST_MS: Final = 10**14
DEFAULT_PORT: Final = 9465
"""That of the demo."""
WIDEST_TABLE: Final = 10_000
NARROWEST_TABLE: Final = 100
"""Columns of the table on a narrower terminal, or on none."""


@dataclass(frozen=True)
class Asked:
    """What is printed in place of the scores."""

    experiment: str | None = None
    every_ms: int | None = None
    """The scores in each bucket of so much event time."""
    changes: bool = False
    """Which scores fell, by these buckets."""
    from_ms: int = 0
    to_ms: int = LATEST_MS
    excluded: tuple[Stretch, ...] = ()
    """Stretches of time that are left out of the experiment."""
    by_day: bool = False
    """The effect of the experiment on each day, and up to its end."""
    plot: str | None = None
    """The file that the scores in these buckets are drawn to."""
    serve_at: int | None = None
    """Serve the page at this port of the loopback, 0 for any that is free."""
    queries: str | None = None
    """The order in which queries are listed."""

    @property
    def needs_changes(self) -> bool:
        """Whether it is asked which scores fell."""
        return self.changes or self.plot is not None

    @property
    def bucket_ms(self) -> int | None:
        """The length of buckets; None where none are needed."""
        if self.every_ms is not None:
            return self.every_ms
        if self.changes:
            return CHANGES_EVERY_MS
        return None if self.plot is None else PLOT_EVERY_MS


SCORES: Final = Asked()


def replay(
    paths: Sequence[str],
    config: Config,
    output: str,
    asked: Asked = SCORES,
    *,
    as_is: bool,
    progress: bool,
    kcat: bool = False,
    topic: str | None = None,
) -> int:
    """Score the files and print the scores, or what was asked for in their place; returns the exit
    code: 1 where a file cannot be read, or nothing in them counts."""
    console = Console(file=sys.stderr, quiet=not progress)
    config = keeping_queries(config, asked)
    looks = None if asked.serve_at is None else _looks(config)
    try:
        with Progress(console=console, transient=True) as bars:
            found = replayed(
                paths,
                config,
                bars,
                as_is=as_is,
                every_ms=asked.bucket_ms,
                looks=looks,
                excluded=asked.excluded,
                kcat=kcat,
                topic=topic,
            )
    except (NoRoom, UnknownTopic) as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, UnknownTopic) else 1
    except ValueError as error:
        print(f"--every: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{error.filename}: cannot be read: {error.strerror}", file=sys.stderr)
        return 1
    report = whole_report(found, paths)
    if asked == SCORES:
        print_report(report, output, sys.stdout)
    if asked != SCORES or output == "csv":
        print(summary(report), file=sys.stderr)
    if not found.accepted:
        print(_explained(found, config), file=sys.stderr)
        return 1
    if looks is not None and asked.serve_at is not None:
        from .recorded.serving import serve, words_of

        served = looks.published(found.lane, words_of(paths, found.lane))
        return serve(served, found.lane, asked.serve_at, config.links.runbook)
    return print_asked(found, config, asked, output)


def print_asked(found: Replayed, config: Config, asked: Asked, output: str) -> int:
    """Print what was asked for in place of the scores; returns the exit code."""
    if asked.queries is not None and found.queries is not None:
        listed = found.queries.finished(found.lane, asked.queries)
        print(query_text(listed, output), end="")
        return 0
    if found.buckets is not None:
        return print_over_time(found.buckets, found.lane, config, asked, output)
    if asked.experiment is None:
        return 0
    return print_experiment(found.lane, asked.experiment, output, asked.by_day)


def keeping_queries(config: Config, asked: Asked) -> Config:
    """The configuration with all hours of queries where they are asked for, and none where not."""
    text = config.queries.text if config.queries.is_on else PLAIN
    text = OFF if asked.queries is None else text
    return replace(config, queries=replace(config.queries, text=text, days=ALL_DAYS))


def _looks(config: Config) -> "Looks":
    # Exporter and HTTP server are loaded where they are needed only: they take memory.
    from .recorded.looks import Looks

    return Looks(config.plan, config.resolved_judging, config.segments.version_attribute)


def print_over_time(buckets: Buckets, lane: Lane, config: Config, asked: Asked, output: str) -> int:
    """Print the scores in each bucket, or which scores fell, and draw them; returns the exit
    code."""
    shown = _shown(lane)
    buckets.finish(lane)
    found = OverTime.of(buckets, lane, shown, range(asked.from_ms, asked.to_ms))
    stories = fallen(found.settled, config.resolved_judging) if asked.needs_changes else ((), ())
    if asked.changes:
        for line in changes_text(found.settled, *stories):
            print(line)
    elif asked.every_ms is None:
        pass  # only drawn
    elif output == "table":
        Console(width=WIDEST_TABLE).print(as_table(found))
    else:
        print(as_csv(found) if output == "csv" else as_json_lines(found), end="")
    return 0 if asked.plot is None else _draw(found, (*stories[0], *stories[1]), asked.plot)


def _draw(found: OverTime, changes: Sequence[Story], path: str) -> int:
    try:
        from .recorded.plot import plot  # matplotlib is optional, and slow to load
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        print("--plot needs matplotlib: pip install 'relevanced[plot]'", file=sys.stderr)
        return 1
    try:
        plot(found, changes, path)
    except (OSError, ValueError) as error:
        print(f"--plot {path}: {error}", file=sys.stderr)
        return 1
    return 0


def _shown(lane: Lane) -> selection.Selection:
    view = view_of(lane)
    whole = snapshot.evaluate([view], lane.plan, view.names.segments)
    return selection.busiest(snapshot.with_everything(whole, [view], lane.plan), lane.plan)


def read_lane(paths: Sequence[str], config: Config, bars: Progress, *, as_is: bool) -> Lane:
    """One lane to which all events of the files were applied; see `replayed`."""
    return replayed(paths, config, bars, as_is=as_is).lane


def whole_report(found: Replayed, paths: Sequence[str]) -> ReplayReport:
    """The scores, and what became of every event of these files."""
    lane = found.lane
    kinds = found.ignored_kinds.by_kind()
    return replay_report(
        report_of(lane), found.refusals.listed(paths), kinds, waiting=len(lane.waiting)
    )


def _explained(found: Replayed, config: Config) -> str:
    counts = found.lane.counts
    if config.sources and not counts["events"].total():
        return "No event was read by [[sources]]: relevanced map prints what the records come to."
    return explained(
        counts["events"].total(),
        counts["impression_outcomes"],
        found.refusals.counts,
        found.refusals.samples,
        config.events.format,
    )


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


def print_experiment(lane: Lane, experiment: str, output: str, by_day: bool) -> int:
    """Print what one experiment shows, as `table` or `json`; returns the exit code."""
    found = experiments_of(lane)
    if by_day:
        found = with_days(found, experiment, days_of(lane, experiment))
    try:
        text = experiment_report(with_excluded(found, lane, experiment), experiment, output)
    except (UnknownExperiment, NothingLeft) as error:
        print(error, file=sys.stderr)
        return 1
    if output == "csv":
        print("--experiment: no csv, but table or json", file=sys.stderr)
        return 2
    print(text, end="")
    return 0


def print_report(report: ReplayReport, output: str, stream: TextIO) -> None:
    """Print a report as `table`, `json` or `csv`."""
    of_scores = Report(report.as_of, report.events, report.scores)
    if output == "json":
        print(msgspec.json.encode(report).decode(), file=stream)
    elif output == "csv":
        print(scores.to_csv(of_scores), end="", file=stream)
    else:
        width = max(Console(file=stream).width, NARROWEST_TABLE)
        whole = report.whole
        print(
            scores.to_table(of_scores, whole.window, whole.view, width=width), end="", file=stream
        )
        print(summary(report), file=stream)
