"""What `relevanced replay --kafka` does, from its options to what it prints."""

import asyncio
import os
import sys
from dataclasses import dataclass

import click
from rich.console import Console
from rich.progress import Progress

from ...config.loading import read
from ...config.settings import Config
from ...errors import StartError, Unavailable
from ...events.timestamps import timestamp_text
from ...panes import HOUR_MS
from ...worker.memory import configure_allocator
from ...worker.source import LogChanged
from ..score_rows import as_json_lines
from .beside import all_scores, as_csv, as_tables
from .hour_rows import LATEST_MS, HourRows
from .judged_hours import AllHours
from .lanes import computed_hours, stored_hours

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

            def show(lane: int, lanes: int, share: float) -> None:
                bars.update(bar, completed=(lane + share) / lanes)

            computed = asyncio.run(computed_hours(config, span, show))
        stored = asyncio.run(stored_hours(of_workers, span))
    except (Unavailable, StartError, LogChanged, OverflowError) as error:
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
