"""`relevanced simulate`: send simulated traffic to a Kafka topic in real time, or to a file.

events ─▶ paced by the clock ─▶ sink (Kafka topic or file)
"""

import asyncio
import sys
from contextlib import nullcontext
from math import inf
from typing import Final

import click
from rich.console import Console

from ..commands import options
from ..config import Config
from ..errors import RecordRefused, StartError, Unavailable
from ..kafka import kafka_settings
from ..plan import ALL, EXPERIMENT_PREFIX
from ..telemetry import logs
from .traffic import (
    BREAKAGES,
    CONTROL,
    EXPERIMENT,
    NATIVE,
    SHAPES,
    SHARES,
    TREATMENT,
    Breakage,
    Faults,
    FileSink,
    KafkaSink,
    Recording,
    RecordShape,
    Regression,
    SendingProgress,
    SendingSpan,
    Sink,
    Traffic,
    broken_queries,
    clock_ms,
    run_until_interrupted,
    span_of,
    write_judgements,
)

PARTITIONS: Final = 4


def check_segment(segment: dict[str, str]) -> None:
    """Raises BadParameter for an attribute or value that the simulated traffic does not have."""
    allowed = {name: list(values) for name, values in SHARES.items()}
    allowed[f"{EXPERIMENT_PREFIX}{EXPERIMENT}"] = [CONTROL, TREATMENT]
    for name, value in segment.items():
        if name not in allowed:
            raise click.BadParameter(f"{name}: must be one of {', '.join(allowed)}")
        if value not in allowed[name]:
            raise click.BadParameter(f"{name}={value}: must be one of {', '.join(allowed[name])}")


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
    "--kcat",
    is_flag=True,
    help="With --out: write records as kcat -J prints them, with topic, partition, key and time.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice([NATIVE, *SHAPES]),
    default=NATIVE,
    show_default=True,
    help="Shape of the records: that of a preset of [[sources]]. The source that reads them is"
    " printed on standard error.",
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
    help="Length of the live traffic, also if Kafka is away.  [default: until interrupted;"
    " with --out none]",
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
    help="Break something from then on, counted from the start of the live traffic.",
)
@click.option(
    "--repair-after",
    type=options.duration,
    help="Repair it so long after it broke.  [default: never]",
)
@click.option(
    "--regression-segment",
    type=options.segment,
    default="country=DE",
    show_default=True,
    help="Segment of --regression-after, by country, device or"
    f" {EXPERIMENT_PREFIX}{EXPERIMENT}; all=all for all searches.",
)
@click.option(
    "--regression-kind",
    type=click.Choice(BREAKAGES),
    default=BREAKAGES[0],
    show_default=True,
    help="What breaks: lists are ranked at random; items of one index shard of five are missing;"
    " a fifth of the clicks is lost; a third of all other searches moves to the segment, which has"
    " always clicked less.",
)
@click.option(
    "--break-queries",
    "broken_file",
    metavar="FILE",
    help="File with a query on each line, whose results become irrelevant.",
)
@click.option(
    "--break-share",
    type=click.FloatRange(0, 1, min_open=True),
    help="Share of the lists of these queries.  [default: 1]",
)
@click.option(
    "--break-after",
    type=options.duration,
    help="When they break, counted from the start of the live traffic.  [default: 0s]",
)
@click.option(
    "--judgements",
    "judgements_file",
    metavar="FILE.csv",
    help="Write judgements of the most frequent queries to this file: what a rater would say who"
    " knows how attractive items are.",
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
    kcat: bool,
    format_name: str,
    rate: float,
    duration: int | None,
    backfill: int,
    start: int | None,
    seed: int,
    regression_after: int | None,
    repair_after: int | None,
    regression_segment: dict[str, str],
    regression_kind: Breakage,
    broken_file: str | None,
    break_share: float | None,
    break_after: int | None,
    judgements_file: str | None,
    effect: float,
    faults: float,
) -> None:
    """Simulate search traffic: impressions, clicks, purchases, and an experiment."""
    span = span_of(clock_ms(), start, backfill, duration, paced=out is None)
    shape = SHAPES.get(format_name)
    _check_usage(kafka, config_file, out, start, span)
    _check_written(out, kcat, format_name, shape, start)
    segment = _segment(regression_segment, regression_kind)
    regression = None
    if regression_after is not None:
        after_s = (backfill + regression_after) / 1000
        until_s = inf if repair_after is None else after_s + repair_after / 1000
        regression = Regression(after_s, segment, regression_kind, until_s)
    elif repair_after is not None:
        raise click.UsageError("--repair-after: only with --regression-after")
    traffic = Traffic(
        seed=seed,
        rate=rate,
        regression=regression,
        broken_queries=broken_queries(broken_file, break_share, backfill, break_after),
        effect=effect,
        faults=Faults(faults, faults, faults, faults),
    )
    try:
        traffic.treated_share
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    write_judgements(judgements_file, traffic)
    config = _config(config_file, kafka, topic)
    logs.configure(config.log.level, config.log.format, sys.stderr)
    if shape is not None:
        click.echo(shape.source(config.kafka.topics[0], format_name), err=True)
    raise SystemExit(_run(traffic, span, _sink(config, span, out, partitions, kcat), shape))


def _segment(given: dict[str, str], kind: Breakage) -> dict[str, str]:
    """The segment that breaks; empty for all searches. Raises BadParameter."""
    if given == {ALL: ALL} and kind != "mix":
        return {}
    check_segment(given)
    return given


def _check_usage(
    kafka: str | None,
    config_file: str | None,
    out: str | None,
    start: int | None,
    span: SendingSpan,
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


def _check_written(
    out: str | None, kcat: bool, name: str, shape: RecordShape | None, start: int | None
) -> None:
    """Raises UsageError for what `--format` and `--kcat` cannot write."""
    if kcat and out is None:
        raise click.UsageError("--kcat: only allowed with --out")
    if shape is not None and shape.is_part and start is None:
        raise click.UsageError(
            f"--format {name}: is one of two topics, so give --out, and for both topics the same"
            " --seed, --rate, --start and --duration"
        )


def _config(config_file: str | None, kafka: str | None, topic: str | None) -> Config:
    """The configuration with the overrides of the command line, validated as a whole."""
    given = {
        "--kafka": ("RELEVANCED_KAFKA__BOOTSTRAP_SERVERS", kafka),
        "--topic": ("RELEVANCED_KAFKA__TOPICS", topic),
    }
    return options.read(config_file, given, takes_sources=True)


def _sink(config: Config, span: SendingSpan, out: str | None, partitions: int, kcat: bool) -> Sink:
    topic = config.kafka.topics[0]
    if out is None:
        return KafkaSink(kafka_settings(config), topic, partitions, span.waits_until_ms)
    return FileSink(out, Recording(topic, partitions).line if kcat else None)


def _run(traffic: Traffic, span: SendingSpan, sink: Sink, shape: RecordShape | None) -> int:
    console = Console(stderr=True)
    status = console.status("starting") if console.is_terminal else None
    progress = SendingProgress(status)
    try:
        with status or nullcontext():
            asyncio.run(run_until_interrupted(traffic, span, sink, progress, shape))
    except BrokenPipeError:
        raise  # Whoever read the events has enough.
    except (Unavailable, RecordRefused, StartError, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    click.echo(f"{progress.sent:,} events sent", err=True)
    return 0
