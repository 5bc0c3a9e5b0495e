"""What `relevanced replay FILE…` does: files in, scores out, without a clock, Kafka or Redis."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import Progress

from ..config import Config
from ..errors import StartError, Unavailable
from ..events import timestamp_text
from ..experiments import Findings, findings
from ..lane import Lane, latest_ms, settle_experiments
from ..queries import OFF, PLAIN
from ..views import EVERYTHING, Report, scores, selection, snapshot
from .buckets import JudgedHours, view_of
from .driver import LATEST_MS
from .files import NoRoom, UnknownTopic, explained
from .libraries import whole_index
from .over_time import NOTHING_SETTLED
from .over_time_output import SCORES, Asked, print_over_time
from .query_hours import ALL_DAYS, EVERY_ROW, ROWS, NothingUsual
from .replay_pipeline import Replayed, replayed
from .replay_report import (
    NothingLeft,
    ReplayReport,
    UnknownExperiment,
    days_of,
    experiment_report,
    judged_report,
    print_report,
    replay_report,
    summary,
    with_days,
    with_excluded,
)
from .tables import IN_CSV, examples_text, more_text, query_text
from .unjoined import Unjoined

if TYPE_CHECKING:
    from .over_time import Looks

DEFAULT_PORT: Final = 9465
"""That of the demo."""


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
    code: 1 where a file cannot be read, nothing in them counts, or scores were asked for and of
    their feedback none joins."""
    console = Console(file=sys.stderr, quiet=not progress)
    config = keeping_queries(config, asked)
    try:
        judged = _judged(config, asked)
        looks = None if asked.serve_at is None else _looks(config, judged)
        with Progress(console=console, transient=True) as bars:
            found = replayed(
                paths,
                config,
                bars,
                as_is=as_is,
                every_ms=asked.bucket_ms,
                looks=looks,
                judged=judged,
                excluded=asked.excluded,
                kcat=kcat,
                topic=topic,
            )
    except (NoRoom, StartError, Unavailable, UnknownTopic, ValueError, OSError) as error:
        return _failed(error)
    report = whole_report(found, paths)
    if asked == SCORES:
        print_report(report, output, sys.stdout)
    if asked != SCORES or output == "csv":
        print(summary(report), file=sys.stderr)
    if not found.accepted:
        print(_explained(found, config), file=sys.stderr)
        return 1
    print(unconfirmed_text(found.lane, asked), end="", file=sys.stderr)
    kinds = report.events.ignored_kinds
    unjoined = None if config.plan.judged else Unjoined.of([found.lane], kinds)
    if unjoined is not None:
        print(unjoined.text(), file=sys.stderr)
    if looks is not None and asked.serve_at is not None:
        if not found.lane.totals.pages:
            print(NOTHING_SETTLED, file=sys.stderr)
        return _serve(found, looks, paths, asked.serve_at, config.links.runbook)
    if asked == SCORES and unjoined is not None and unjoined.is_failure:
        return 1
    return print_asked(found, config, asked, output)


def unconfirmed_text(lane: Lane, asked: Asked) -> str:
    """A line: what windows and changes lack at the end of the files, and what has it; "" where
    nothing is lacking. They stand at the watermark: at the latest event they would have this one
    alone where its clock is wrong."""
    if asked != SCORES and not asked.needs_changes and asked.serve_at is None:
        return ""
    at_ms, last_ms = lane.watermark_ms, latest_ms(lane)
    if at_ms is None or last_ms <= at_ms:
        return ""
    return (
        f"Windows and changes end at {timestamp_text(at_ms)}: events after that, up to"
        f" {timestamp_text(last_ms)}, are too few to confirm that no clock is wrong. The window"
        f" {EVERYTHING} has them, and --every.\n"
    )


def _failed(error: Exception) -> int:
    """Print why nothing was replayed; returns the exit code."""
    if isinstance(error, NoRoom | StartError | Unavailable | UnknownTopic):
        print(error, file=sys.stderr)
        return 2 if isinstance(error, UnknownTopic) else 1
    if isinstance(error, OSError):
        print(f"{error.filename}: cannot be read: {error.strerror}", file=sys.stderr)
        return 1
    print(f"--every: {error}", file=sys.stderr)
    return 2


def _serve(
    found: Replayed, looks: "Looks", paths: Sequence[str], port: int, runbook: str | None
) -> int:
    from .serving import serve, words_of

    served = looks.published(found.lane, words_of(paths, found.lane))
    stored = None if found.queries is None else found.queries.stored(found.lane)
    return serve(served, found.lane, port, runbook, stored)


def print_asked(found: Replayed, config: Config, asked: Asked, output: str) -> int:
    """Print what was asked for in place of the scores; returns the exit code."""
    if asked.queries is not None and found.queries is not None:
        try:
            found.driver.finish()
            limit = EVERY_ROW if output == "csv" else ROWS
            listed = found.queries.listed(asked.queries, limit)
        except NothingUsual as error:
            print(error, file=sys.stderr)
            return 1
        print(query_text(listed, output), end="")
        if output == "json" and listed.next is not None:  # a cursor that no replay takes
            print(more_text(listed, IN_CSV), file=sys.stderr)
        if output == "table":
            print(examples_text(listed.examples), end="")
        return 0
    if found.buckets is not None:
        return print_over_time(found, config, asked, output)
    if asked.experiment is None:
        return 0
    return print_experiment(found.lane, asked.experiment, output, asked.by_day)


def keeping_queries(config: Config, asked: Asked) -> Config:
    """The configuration with all hours of queries where they are asked for, and none where not: a
    page has those that the configuration keeps, too."""
    text = config.queries.text if config.queries.is_on else PLAIN
    is_served = asked.serve_at is not None and config.queries.is_on
    text = OFF if asked.queries is None and not is_served else text
    return replace(config, queries=replace(config.queries, text=text, days=ALL_DAYS))


def _judged(config: Config, asked: Asked) -> JudgedHours | None:
    """What grades, where scores or changes are printed, drawn or served. Raises StartError where a
    file of judgements cannot be read."""
    if asked != SCORES and asked.serve_at is None and asked.bucket_ms is None:
        return None
    found = whole_index(config)
    return None if found is None else JudgedHours(found.timeline, found.judgements)


def _looks(config: Config, judged: JudgedHours | None) -> "Looks":
    # Exporter and HTTP server are loaded where they are needed only: they take memory.
    from .over_time import Looks

    version = config.segments.version_attribute
    return Looks(config.plan, config.resolved_changes, version, judged)


def read_lane(paths: Sequence[str], config: Config, bars: Progress, *, as_is: bool) -> Lane:
    """One lane to which all events of the files were applied; see `replay_pipeline`."""
    return replayed(paths, config, bars, as_is=as_is).lane


def whole_report(found: Replayed, paths: Sequence[str]) -> ReplayReport:
    """The scores, and what became of every event of these files."""
    lane = found.lane
    kinds = found.ignored_kinds.by_kind()
    judged = None if found.judged is None else judged_report(lane, found.judged)
    refused, waiting = found.refusals.listed(paths), len(lane.waiting)
    return replay_report(report_of(lane), refused, kinds, waiting, judged)


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
    settle_experiments(lane, lane.open.slots_before(LATEST_MS))
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
