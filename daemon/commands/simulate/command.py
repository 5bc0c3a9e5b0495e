"""`relevanced simulate`: send simulated traffic to a Kafka topic in real time, or to a file.

events ─▶ paced by the clock ─▶ sink (Kafka topic or file)
"""

import asyncio
import os
import signal
import sys
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Final

import click
import msgspec
from rich.console import Console
from rich.status import Status

from ...config.loading import Config, read
from ...errors import RecordRefused, StartError, Unavailable
from ...kafka.settings import kafka_settings
from ...plan import EXPERIMENT_PREFIX
from ...telemetry import logs
from .. import options
from .sinks import FileSink, KafkaSink, Sink
from .traffic import (
    CONTROL,
    EXPERIMENT,
    SHARES,
    TREATMENT,
    Faults,
    Regression,
    Traffic,
    generate_events,
)

TICK_MS: Final = 10
"""Shortest pause: events that fall due within it are sent together."""
REPORT_MS: Final = 1_000
"""Time between two progress lines on a terminal, where each replaces the one before."""
LOG_REPORT_MS: Final = 10_000
"""Time between two progress lines where standard error is not a terminal."""
UNPACED_EVENTS: Final = 1_000
"""Events sent before the clock and the signals are checked again, where nothing is paced."""
PARTITIONS: Final = 4


@dataclass(frozen=True)
class Span:
    """The interval of event time to simulate, in milliseconds; `end_ms` None: until interrupted."""

    start_ms: int
    end_ms: int | None
    paced: bool
    """Whether each event is sent at its own time, instead of as fast as possible."""


@dataclass
class Progress:
    """Number of events sent, and when it was last reported."""

    status: Status | None
    sent: int = 0
    reported_ms: int = 0
    reported_sent: int = 0

    def due(self, now_ms: int) -> bool:
        """Whether the next report is due."""
        return now_ms - self.reported_ms >= (LOG_REPORT_MS if self.status is None else REPORT_MS)

    def report(self, now_ms: int, event_ms: int) -> None:
        """Print one line; on a terminal it replaces the line before."""
        per_s = (self.sent - self.reported_sent) * 1000 / max(now_ms - self.reported_ms, 1)
        self.reported_ms, self.reported_sent = now_ms, self.sent
        until = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(event_ms / 1000))
        line = f"{self.sent:,} events, {per_s:,.0f}/s, event time {until} UTC"
        if self.status is None:
            click.echo(line, err=True)
        else:
            self.status.update(line)


def span_of(
    now_ms: int, start_ms: int | None, backfill_ms: int, duration_ms: int | None, paced: bool
) -> Span:
    """The backfill, then the duration; a file without a duration gets the backfill only."""
    live_ms = now_ms if start_ms is None else start_ms + backfill_ms
    if duration_ms is None and not paced:
        duration_ms = 0
    end_ms = None if duration_ms is None else live_ms + duration_ms
    return Span(live_ms - backfill_ms, end_ms, paced)


def check_segment(segment: dict[str, str]) -> None:
    """Raises BadParameter for an attribute or value that the simulated traffic does not have."""
    allowed = {name: list(values) for name, values in SHARES.items()}
    allowed[f"{EXPERIMENT_PREFIX}{EXPERIMENT}"] = [CONTROL, TREATMENT]
    for name, value in segment.items():
        if name not in allowed:
            raise click.BadParameter(f"{name}: must be one of {', '.join(allowed)}")
        if value not in allowed[name]:
            raise click.BadParameter(f"{name}={value}: must be one of {', '.join(allowed[name])}")


async def send_all(traffic: Traffic, span: Span, sink: Sink, progress: Progress) -> None:
    """Open the sink, send the events of the span, each when it is due, and close the sink."""
    await sink.start()
    try:
        await _send_due(traffic, span, sink, progress)
    finally:
        await sink.stop()


async def _send_due(traffic: Traffic, span: Span, sink: Sink, progress: Progress) -> None:
    now_ms = progress.reported_ms = _now_ms()
    encode = msgspec.json.Encoder().encode
    for arrival_ms, event in generate_events(traffic, span.start_ms):
        if span.end_ms is not None and arrival_ms >= span.end_ms:
            break
        while span.paced and arrival_ms > now_ms:
            await asyncio.sleep(max(arrival_ms - now_ms, TICK_MS) / 1000)
            now_ms = _now_ms()
        await sink.send(event["impression_id"].encode(), encode(event), arrival_ms)
        progress.sent += 1
        if span.paced or progress.sent % UNPACED_EVENTS == 0:
            now_ms = _now_ms()
            if progress.due(now_ms):
                await sink.flush()
                progress.report(now_ms, arrival_ms)
        if progress.sent % UNPACED_EVENTS == 0:
            await asyncio.sleep(0)  # a file never awaits, and signals are handled only in between
    await sink.flush()


async def run_until_interrupted(
    traffic: Traffic, span: Span, sink: Sink, progress: Progress
) -> None:
    """`send_all`; SIGINT and SIGTERM end it after the sink is flushed and closed."""
    sending = asyncio.ensure_future(send_all(traffic, span, sink, progress))
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signal_number, sending.cancel)
    with suppress(asyncio.CancelledError):
        await sending


@click.command("simulate")
@click.option("--kafka", metavar="HOST:PORT", help="Kafka brokers to send to.")
@click.option("--topic", help="Topic to send to; created if missing.  [default: search-events]")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    default=PARTITIONS,
    show_default=True,
    help="Partitions of the topic, if it is created.",
)
@options.config_option("Configuration file with the other settings of Kafka.", None)
@click.option(
    "--out", metavar="FILE.jsonl", help="Write to a file instead (- for standard output)."
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    default=200.0,
    show_default=True,
    help="Events a second.",
)
@click.option(
    "--duration",
    type=options.duration,
    help="Length of the live traffic.  [default: until interrupted; with --out none]",
)
@click.option(
    "--backfill",
    type=options.duration,
    default="0s",
    show_default=True,
    help="First send this much history, as fast as possible.",
)
@click.option("--start", type=options.instant, help="Start of the traffic (with --out only).")
@click.option(
    "--seed",
    default=1,
    show_default=True,
    help="Seed of the random numbers: the same seed gives the same users.",
)
@click.option(
    "--regression-after",
    type=options.duration,
    help="Rank one segment at random from then on, counted from the start of the live traffic.",
)
@click.option(
    "--regression-segment",
    type=options.segment,
    default="country=DE",
    show_default=True,
    help=f"Segment of --regression-after, by country, device or {EXPERIMENT_PREFIX}{EXPERIMENT}.",
)
@click.option(
    "--effect",
    default=0.0,
    show_default=True,
    help=f"True difference in mean RR@10 between treatment and control of {EXPERIMENT}.",
)
@click.option(
    "--faults",
    type=click.FloatRange(0, 0.5),
    default=0.0,
    show_default=True,
    help="Share of duplicated events, of events out of order, of feedback without an impression and"
    " of feedback on items that were not shown.",
)
def simulate_command(
    kafka: str | None,
    topic: str | None,
    partitions: int,
    config_file: str | None,
    out: str | None,
    rate: float,
    duration: int | None,
    backfill: int,
    start: int | None,
    seed: int,
    regression_after: int | None,
    regression_segment: dict[str, str],
    effect: float,
    faults: float,
) -> None:
    """Simulate search traffic: impressions, clicks, purchases, and an experiment."""
    span = span_of(_now_ms(), start, backfill, duration, paced=out is None)
    _check_usage(kafka, config_file, out, start, span)
    check_segment(regression_segment)
    regression = None
    if regression_after is not None:
        regression = Regression((backfill + regression_after) / 1000, regression_segment)
    traffic = Traffic(
        seed=seed,
        rate=rate,
        regression=regression,
        effect=effect,
        faults=Faults(faults, faults, faults, faults),
    )
    _check_effect(traffic)
    config = _config(config_file, kafka, topic)
    logs.configure(config.log.level, config.log.format, sys.stderr)
    raise SystemExit(_run(traffic, span, config, out, partitions))


def _check_usage(
    kafka: str | None, config_file: str | None, out: str | None, start: int | None, span: Span
) -> None:
    if out is None and kafka is None and config_file is None:
        raise click.UsageError(
            "one of --kafka HOST:PORT, --config FILE, --out FILE.jsonl is required"
        )
    if out is not None and kafka is not None:
        raise click.UsageError("--kafka and --out: only one of them may be given")
    if start is not None and out is None:
        raise click.UsageError("--start: only allowed with --out")
    if span.start_ms == span.end_ms:
        raise click.UsageError("--duration: must be > 0s, or give --backfill")


def _check_effect(traffic: Traffic) -> None:
    try:
        traffic.treated_share
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _config(config_file: str | None, kafka: str | None, topic: str | None) -> Config:
    """The configuration with the overrides of the command line, validated as a whole."""
    overrides = {
        "RELEVANCED_KAFKA__BOOTSTRAP_SERVERS": kafka,
        "RELEVANCED_KAFKA__TOPICS": topic,
    }
    given = {name: value for name, value in overrides.items() if value is not None}
    return read(config_file, {**os.environ, **given})


def _run(traffic: Traffic, span: Span, config: Config, out: str | None, partitions: int) -> int:
    console = Console(stderr=True)
    status = console.status("starting") if console.is_terminal else None
    progress = Progress(status)
    try:
        with status or nullcontext():
            asyncio.run(_open_and_run(traffic, span, config, out, partitions, progress))
    except (Unavailable, RecordRefused, StartError, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    click.echo(f"{progress.sent:,} events sent", err=True)
    return 0


async def _open_and_run(
    traffic: Traffic,
    span: Span,
    config: Config,
    out: str | None,
    partitions: int,
    progress: Progress,
) -> None:
    sink: Sink
    if out is not None:
        sink = FileSink(out)
    else:
        sink = KafkaSink(kafka_settings(config), config.kafka.topics[0], partitions)
    await run_until_interrupted(traffic, span, sink, progress)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
