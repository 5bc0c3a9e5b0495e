"""`relevanced backfill` on the command line."""

import sys
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import Progress

from . import options

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..config import Config
    from ..recompute.backfill import HoursSource
    from ..recompute.backfill_report import Filled


@click.command("backfill")
@click.argument(
    "files",
    nargs=-1,
    type=click.Path(exists=True, dir_okay=False),
    metavar="[FILE...]",
)
@options.config_option("The configuration that the workers run with.")
@click.option(
    "--kafka", "from_kafka", is_flag=True, help="Count what Kafka has, in place of files."
)
@click.option("--format", "format_name", help="Format of the files.  [default: as configured]")
@options.kcat_option()
@options.topic_option()
@click.option(
    "--from",
    "from_ms",
    type=options.instant,
    help="Hours from this time on.  [default: as far back as hours are kept]",
)
@click.option("--to", "to_ms", type=options.instant, help="Hours before this time.  [default: now]")
@click.option(
    "--whole", is_flag=True, help="The files have every event: few in an hour are no sign of a gap."
)
@click.option(
    "--replace", is_flag=True, help="Count again what earlier runs filled, in place of it."
)
def backfill_command(
    files: tuple[str, ...],
    config_file: str | None,
    from_kafka: bool,
    format_name: str | None,
    kcat: bool,
    topic: str | None,
    from_ms: int | None,
    to_ms: int | None,
    whole: bool,
    replace: bool,
) -> None:
    """Fill the hours that the lanes do not have, from Kafka or from recorded events.

    The hours of the last weeks are what baselines and the hourly scores are made of. They lack a
    metric or a grouping that was added since, and all that was before the lanes began. This counts
    them from the log or from files, in whole hours, and stores them beside the lanes; exporters
    show them within seconds, marked as filled.

    Files do not say when recording began, or that one is missing. So hours with under 5% of the
    impressions of the busiest hour within a week are left out, with those beside them, and the
    output names them. With --whole these are filled too: all after the hour of the first event.

    The lanes are not touched, and what they have is not replaced: of each hour, a column comes from
    the lanes or from one filling, the first that has it, or the last one with --replace. Windows,
    counters and judged scores are not filled. All of a run is published at its end, or nothing; it
    may be ended and started again at any time. No consumer group is joined.

    Exits with 0 where nothing is missing or something was filled, 1 where nothing could be, and 2
    for a wrong configuration.
    """
    if from_kafka == bool(files):
        raise click.UsageError("one of FILE... and --kafka")
    if not files and (format_name or kcat or topic or whole):
        raise click.UsageError("--format, --kcat, --topic, --whole: only with files")
    if from_ms is not None and to_ms is not None and from_ms >= to_ms:
        raise click.UsageError("--from: must be before --to")
    given = {"--format": ("RELEVANCED_EVENTS__FORMAT", format_name)}
    config = options.configured(config_file, given, takes_sources=True)

    def source_at(bars: Progress) -> "HoursSource":
        from ..recompute.backfill import FileHours as FilesSource, KafkaHours as KafkaSource

        if files:
            return FilesSource(config, files, bars, kcat=kcat, topic=topic, are_whole=whole)
        return KafkaSource(config)

    asked = from_ms, to_ms, replace
    found = _run(config, source_at, asked, progress=sys.stderr.isatty())
    from ..recompute.backfill_report import lines

    for line in lines(found):
        click.echo(line)
    sys.exit(0 if found.is_filled else 1)


def _run(
    config: "Config",
    source_at: "Callable[[Progress], HoursSource]",
    asked: tuple[int | None, int | None, bool],
    *,
    progress: bool,
) -> "Filled":
    """Run it with a progress bar. Raises click.ClickException."""
    from ..errors import Damaged, StartError, Unavailable
    from ..recompute.backfill import BackfillRefused as Refused, HoursToFill as Asked, backfill
    from ..recompute.files import NoRoom, UnknownTopic
    from ..recompute.from_kafka import RecordsGone
    from ..worker import LogChanged, configure_allocator

    configure_allocator()
    known = (Refused, Unavailable, Damaged, StartError, LogChanged, RecordsGone, OverflowError)
    console = Console(file=sys.stderr, quiet=not progress)
    try:
        with Progress(console=console, transient=True) as bars:
            bar = bars.add_task("backfill", total=1.0)

            def show(share: float) -> None:
                bars.update(bar, completed=share)

            return backfill(config, Asked(*asked), source_at(bars), show)
    except (*known, UnknownTopic, NoRoom, OSError) as error:
        raise click.ClickException(str(error)) from error
