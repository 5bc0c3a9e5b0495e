"""`relevanced replay` on the command line: its options, and which of them go together."""

import sys
from typing import TYPE_CHECKING

import click

from . import options

if TYPE_CHECKING:
    from ..config import Config
    from ..recompute.over_time_output import Asked
    from ..recompute.replay_kafka import AskedHours


@click.command("replay")
@click.argument(
    "files",
    nargs=-1,
    type=click.Path(exists=True, dir_okay=False),
    metavar="[FILE...]",
)
@options.config_option()
@click.option("--format", "format_name", help="Format of the events.  [default: as configured]")
@options.kcat_option()
@options.topic_option()
@options.output_option("How the scores are printed.", "table", "json", "csv")
@click.option("--experiment", help="Print what this experiment shows instead of the scores.")
@click.option(
    "--exclude",
    "excluded",
    type=options.stretch,
    multiple=True,
    metavar="FROM/TO",
    help="With --experiment: leave out what was shown then, for a cause outside of the outcome;"
    " dates or times, in UTC unless an offset is given. May be repeated.",
)
@click.option(
    "--by-day",
    is_flag=True,
    help="With --experiment: print the effect on each UTC day and up to its end as well.",
)
@click.option(
    "--every",
    type=options.duration,
    help="Print the scores in each bucket of so much event time, such as 10m; json: a line each.",
)
@click.option(
    "--changes", is_flag=True, help="Print which scores fell, since when and whether for good."
)
@click.option("--from", "from_ms", type=options.instant, help="Buckets or hours from this time on.")
@click.option("--to", "to_ms", type=options.instant, help="Buckets or hours before this time.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False),
    metavar="FILE.svg|png",
    help="Draw the scores over time and where they fell, in buckets of --every, else of 10m.",
)
@click.option(
    "--serve", is_flag=True, help="Serve the web page and the API as of the end of the files."
)
@click.option(
    "--queries",
    type=click.Choice(("impressions", "worst", "zero_results", "lost", "gained")),
    help="Print the queries in this order instead of the scores, as [queries] says, or serve them"
    " with --serve. lost, gained: the last 24 hours against the days before.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Where --serve listens on this machine, 0: any free port.  [default: 9465]",
)
@click.option("--as-is", is_flag=True, help="Keep the order of the files, as a live stream would.")
@click.option(
    "--kafka",
    "from_kafka",
    is_flag=True,
    help="In place of files: the whole hours of --from and --to as Kafka has their records, under"
    " --config, beside what is stored. Joins no group and writes nothing.",
)
@click.option(
    "--stored",
    "stored_file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="With --kafka: the configuration that the workers run with.  [default: as --config]",
)
def replay_command(
    files: tuple[str, ...],
    config_file: str | None,
    format_name: str | None,
    kcat: bool,
    topic: str | None,
    output: str,
    experiment: str | None,
    excluded: tuple[tuple[int, int], ...],
    by_day: bool,
    every: int | None,
    changes: bool,
    from_ms: int | None,
    to_ms: int | None,
    plot: str | None,
    serve: bool,
    queries: str | None,
    port: int | None,
    as_is: bool,
    from_kafka: bool,
    stored_file: str | None,
) -> None:
    """Score recorded events with the daemon's own pipeline."""
    given = {"--format": ("RELEVANCED_EVENTS__FORMAT", format_name)}
    if from_kafka:
        others = (experiment, excluded, by_day, every, changes, plot, serve, port, as_is, files)
        if any(other not in (None, False, ()) for other in (*others, kcat, topic, queries)):
            raise click.UsageError("--kafka: not together with files, or with what is of them only")
        asked_hours = _hours(from_ms, to_ms, stored_file)
        sys.exit(
            _replay_kafka(
                options.configured(config_file, given, takes_sources=True), asked_hours, output
            )
        )
    if not files:
        raise click.UsageError("Missing argument 'FILE...'.")
    if stored_file is not None:
        raise click.UsageError("--stored: only with --kafka")
    from ..recompute.over_time_output import LATEST_MS, Asked
    from ..recompute.replay_files import DEFAULT_PORT, replay

    asked = Asked(
        experiment,
        every,
        changes,
        from_ms or 0,
        LATEST_MS if to_ms is None else to_ms,
        excluded,
        by_day,
        plot,
        (DEFAULT_PORT if port is None else port) if serve else None,
        queries,
    )
    _check_together(asked, output, has_span=(from_ms, to_ms) != (None, None), port=port)
    code = replay(
        list(files),
        options.configured(config_file, given, takes_sources=True),
        output,
        asked,
        as_is=as_is,
        progress=sys.stderr.isatty(),
        kcat=kcat,
        topic=topic,
    )
    sys.exit(code)


def _replay_kafka(config: "Config", asked: "AskedHours", output: str) -> int:
    from ..recompute.replay_kafka import replay_hours

    return replay_hours(config, asked, output, progress=sys.stderr.isatty())


def _hours(from_ms: int | None, to_ms: int | None, stored_file: str | None) -> "AskedHours":
    """The hours that are asked for. Raises click.UsageError where they are not whole."""
    from ..panes import HOUR_MS
    from ..recompute.replay_kafka import AskedHours

    if from_ms is None or to_ms is None:
        raise click.UsageError("--kafka: needs --from and --to")
    if from_ms % HOUR_MS or to_ms % HOUR_MS or from_ms >= to_ms:
        raise click.UsageError("--from, --to: with --kafka must be whole hours, the earlier first")
    return AskedHours(from_ms, to_ms, stored_file)


def _check_together(asked: "Asked", output: str, *, has_span: bool, port: int | None) -> None:
    """Refuse what does not go together. Raises click.UsageError."""
    over_time, of_experiment = asked.bucket_ms is not None, asked.experiment is not None
    faults = {
        "--experiment: not together with --every, --changes or --plot": over_time and of_experiment,
        "--from, --to: only with --every, --changes or --plot": has_span and not over_time,
        "--exclude: only with --experiment": asked.excluded and not of_experiment,
        "--by-day: only with --experiment": asked.by_day and not of_experiment,
        "--serve: not together with what is printed in its place": asked.serve_at is not None
        and (over_time or of_experiment or output != "table"),
        "--queries: not together with what is printed in its place": asked.queries is not None
        and (over_time or of_experiment),
        "--port: only with --serve": port is not None and asked.serve_at is None,
        f"--changes: no {output}, but text": asked.changes and output != "table",
    }
    for words, holds in faults.items():
        if holds:
            raise click.UsageError(words)
