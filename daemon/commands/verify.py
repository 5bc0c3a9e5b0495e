"""`relevanced verify` on the command line."""

import asyncio
import os
import sys
from typing import Final

import click
from rich.console import Console
from rich.progress import Progress

from ..config import read
from ..errors import StartError, Unavailable
from . import options

PARALLEL: Final = 1


@click.command("verify")
@options.config_option("The configuration that the workers run with.")
@click.option(
    "--lane",
    "lanes",
    type=click.IntRange(min=0),
    multiple=True,
    help="Verify this lane only. May be repeated.  [default: all lanes]",
)
@click.option(
    "--parallel",
    type=click.IntRange(min=1),
    default=PARALLEL,
    show_default=True,
    help="So many lanes at a time, each in a process of its own.",
)
@options.output_option("How the result is printed.", "table", "json")
def verify_command(
    config_file: str | None, lanes: tuple[int, ...], parallel: int, output: str
) -> None:
    """Prove the numbers in Redis from the records in Kafka.

    Reads each lane as it is stored at one commit, then its records from the lane's first offset to
    those of this commit, and compares rows of panes and hours, judged rows, totals, counts of
    events and outcomes, experiments, watermarks, tables and examples of queries, open impressions,
    waiting feedback and admitted values. What is left out is listed with the reason. The workers go
    on meanwhile; nothing is written, neither to Redis nor to Kafka, and no consumer group is
    joined.

    Where Kafka has deleted the first records of a lane, panes and hours are compared from the
    instant on from which the rest proves them.

    Exits with 0 where all that was compared is equal, 1 where a lane differs or cannot be proven,
    and 2 for a wrong configuration. A lane takes the time of reading its records again, the memory
    of one lane of a worker, and that of what is stored of it.
    """
    from ..recompute import verifying as door
    from ..recompute.proof import as_json, as_text, exit_code

    config = read(config_file, os.environ)
    door.prepare_process()
    console = Console(file=sys.stderr, quiet=not sys.stderr.isatty())
    try:
        try:
            count = asyncio.run(door.lanes_of(config))
        except ValueError as error:  # only the Redis client knows which options a URL may have
            raise click.UsageError(f"redis.url: {error}") from error
        wanted = _wanted(lanes, count)
        with Progress(console=console, transient=True) as bars:
            outcomes = door.verified(config_file, wanted, parallel, bars)
    except (Unavailable, StartError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(as_json(outcomes) if output == "json" else as_text(outcomes))
    sys.exit(exit_code(outcomes))


def _wanted(lanes: tuple[int, ...], count: int) -> list[int]:
    """The lanes to verify, of so many. Raises click.ClickException, click.UsageError."""
    if not count:
        raise click.ClickException(
            "no worker has registered under this configuration yet: there is nothing to verify"
        )
    beyond = sorted(lane for lane in set(lanes) if lane >= count)
    if beyond:
        listed = ", ".join(map(str, beyond))
        raise click.UsageError(f"--lane {listed}: there are the lanes 0 to {count - 1}")
    return sorted(set(lanes)) or list(range(count))
