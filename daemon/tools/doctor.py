"""`relevanced doctor` on the command line."""

import asyncio
import csv
import re
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Final, TypeAlias

import click
import msgspec
from rich.console import Console
from rich.progress import Progress

from ..commands import options
from ..config import Config, decoder_of, load
from ..errors import StartError, Unavailable
from ..events import InvalidField, LogRecord, timestamp_text
from ..kafka import TopicPartition, kafka_settings, reached_ms, sampled_records
from ..recompute.files import (
    NO_STAMP,
    SAMPLES,
    RecordedRecord,
    guess,
    read_lines,
    record_of,
)
from ..schemas import JSON
from .diagnosis import (
    DoctorFinding,
    GivenBodies,
    Looked,
    as_json,
    as_text,
    bodies,
    compared_joins,
    config_of,
    configuration,
    findings,
    is_wrong,
    json_value,
    known_schemas,
    looked_at,
    own_schema,
    propose_sources,
)

FILE = click.Path(exists=True, dir_okay=False)
MINUTES = 10
MOST_MB = 200
MOST_LINE_BYTES = 16 << 20

NO_PROPOSAL = (
    "No configuration is proposed: describe the records in [[sources]], and see with"
    " `relevanced map` what they come to."
)
Samples: TypeAlias = dict[str, list[LogRecord]]


@click.command("doctor")
@click.argument(
    "files", nargs=-1, type=click.Path(exists=True, dir_okay=False), metavar="[FILE...]"
)
@click.option("--kafka", "brokers", metavar="HOST:PORT", help="Kafka brokers to read from.")
@click.option("--topics", help="The topics to look at, with commas between them.")
@click.option("--minutes", type=click.IntRange(min=1), default=MINUTES, show_default=True)
@click.option("--max-mb", type=click.IntRange(min=1), default=MOST_MB, show_default=True)
@click.option("--registry", help="Address of the schema registry that knows the records' schemas.")
@click.option("--schema-file", type=FILE, help="The Avro schema of records that name none.")
@click.option("--descriptor-set", type=FILE, help="A FileDescriptorSet of Protobuf, and with it:")
@click.option("--message", help="the full name of the message that the records are.")
@options.config_option(
    "The settings of Kafka, its topics, and of the registry, such as TLS and a login."
)
@click.option(
    "--out", type=click.Path(dir_okay=False), help="Write the proposed configuration here."
)
@click.option("--show-values", is_flag=True, help="Show refused values, and the names of segments.")
@click.option(
    "--compare-join",
    is_flag=True,
    help="Of records that name their search: say what last touch would join instead of the ids.",
)
@options.output_option("How the result is printed.", "text", "json")
def doctor_command(
    files: tuple[str, ...],
    brokers: str | None,
    topics: str | None,
    minutes: int,
    max_mb: int,
    registry: str | None,
    schema_file: str | None,
    descriptor_set: str | None,
    message: str | None,
    config_file: str | None,
    out: str | None,
    show_values: bool,
    compare_join: bool,
    output: str,
) -> None:
    """Look at topics, say what their events come to, and propose a configuration.

    Reads the last minutes of the topics, or FILEs: what `kcat -J` prints, or values alone, as JSON
    lines or CSV (`replay` takes JSON lines only). Joins no consumer group, commits nothing,
    produces nothing and needs no Redis. Values of records are not printed, unless --show-values is
    given.

    Exits with 1 where something makes numbers wrong, and with 2 for a wrong call.
    """
    if (files and topics) or not (files or topics or config_file):
        raise click.UsageError("either FILE..., or --topics with --kafka, or --config")
    if out is not None:
        _check_out(Path(out))
    config = _config(config_file, brokers, topics, registry)
    own, own_lines = own_schema(schema_file, descriptor_set, message)
    try:
        with Progress(console=_quiet_unless_terminal(), transient=True) as bars:
            if files:
                samples, cut = _recorded(files, bars), None
            else:
                since_ms = max(int(time.time() * 1000) - minutes * 60_000, 0)
                samples, cut = asyncio.run(_sampled(config, since_ms, max_mb, bars))
        given = asyncio.run(known_schemas(config, samples))
    except InvalidField as error:
        words = f"{error.detail}: the files must be JSON lines, CSV, or what `kcat -J` prints"
        raise click.ClickException(words) from error
    except (StartError, Unavailable, OSError) as error:
        raise click.ClickException(str(error)) from error
    if not samples:
        raise click.ClickException("the files have no records: kcat -C -b HOST -t TOPIC -J -e")
    given = replace(given, own=own, lines=own_lines)
    brokers_of = config.kafka.bootstrap_servers
    found, text = diagnosed(samples, brokers_of, given, values=show_values, joins=compare_join)
    found = [cut, *found] if cut is not None else found
    if output == "json":
        click.echo(as_json(found, text))
    else:
        click.echo("\n".join((*as_text(found), "", text or NO_PROPOSAL)))
    if text is not None and out is not None:
        _write(Path(out), text)
    sys.exit(1 if is_wrong(found) else 0)


def _check_out(path: Path) -> None:
    """Before anything is read. Raises UsageError."""
    if path.exists():
        rule = "the file exists and may be edited: name another one"
        raise click.UsageError(f"--out {path}: {rule}")
    if not path.parent.is_dir():
        raise click.UsageError(f"--out {path}: {path.parent} is no folder")


def _write(path: Path, text: str) -> None:
    """Write the proposal, after the findings are printed. Raises ClickException."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"--out: {error}") from error


def diagnosed(
    samples: Mapping[str, Sequence[LogRecord]],
    brokers: Sequence[str],
    given: GivenBodies | None = None,
    *,
    values: bool = False,
    joins: bool = False,
) -> tuple[list[DoctorFinding], str | None]:
    """What is found of the records of some topics, and the configuration to propose, if any.
    `given`: what is known of their schemas. `joins`: whether last touch is compared with ids."""
    given = given or GivenBodies()
    samples, ways = bodies.as_json(samples, bodies.written_of(samples), given)
    sources = propose_sources(samples, [topic for topic, way in ways.items() if way.codec != JSON])
    read = {one.topic: samples[one.topic] for one in sources}
    looked, config = Looked(), config_of(sources)
    if sources:
        since_s = time.process_time()
        looked = looked_at(read, decoder_of(config))
        looked.decode_us = (time.process_time() - since_s) * 1e6 / max(len(looked.seen), 1)
    text = configuration(sources, looked, config, brokers, ways, given)
    if text is not None:
        config = load(text, {}, "proposed")
    found = [*findings(samples, sources, looked, config, values=values)]
    if joins and sources:
        found.append(compared_joins(read, config).finding())
    return [*bodies.findings(ways), *found], text


def _quiet_unless_terminal() -> Console:
    return Console(file=sys.stderr, quiet=not sys.stderr.isatty())


def _config(
    config_file: str | None, brokers: str | None, topics: str | None, registry: str | None
) -> Config:
    """The settings of Kafka and of the registry. Raises ConfigError."""
    given = {
        "--registry": ("RELEVANCED_REGISTRY__URL", registry),
        "--kafka": ("RELEVANCED_KAFKA__BOOTSTRAP_SERVERS", brokers),
        "--topics": ("RELEVANCED_KAFKA__TOPICS", topics),
    }
    return options.configured(config_file, given, takes_sources=True)


async def _sampled(
    config: Config, since_ms: int, max_mb: int, bars: Progress
) -> tuple[Samples, DoctorFinding | None]:
    """The last records of the topics, in the order of their partitions, and a line where the limit
    cut them: then all partitions end at one time. Raises Unavailable, and ClickException where
    that leaves nothing of a topic."""
    found: Samples = {topic: [] for topic in config.kafka.topics}
    unfinished: Collection[TopicPartition] = ()
    bar = bars.add_task("reading", total=max_mb << 20)
    async for portion in sampled_records(kafka_settings(config), since_ms, max_mb << 20):
        unfinished = portion.unfinished
        for record in portion.records:
            found[record.topic].append(record)
            bars.advance(bar, len(record.value or b""))
    if not unfinished:
        return found, None
    until_ms = reached_ms(chain.from_iterable(found.values()), unfinished, since_ms)
    kept = {
        topic: [record for record in records if record.timestamp <= until_ms]
        for topic, records in found.items()
    }
    if any(found[topic] and not records for topic, records in kept.items()):
        words = f"--max-mb {max_mb} does not reach all partitions: give more, or fewer --minutes"
        raise click.ClickException(words)
    words = (
        f"cut by --max-mb {max_mb}: the records from {timestamp_text(since_ms)} to"
        f" {timestamp_text(until_ms)}, to which all partitions were read"
    )
    return kept, DoctorFinding("sample", "look", words)


def _recorded(files: Sequence[str], bars: Progress) -> Samples:
    """The records of files: what `kcat -J` prints, or values of a topic that is called as the file,
    as JSON lines or CSV. Raises OSError, and InvalidField for a line of another kind."""
    found: Samples = {}
    for file in files:
        topic = _NO_TOPIC.sub("-", Path(file).name.partition(".")[0]) or "events"
        lines = _lines(file, bars)
        first = next(lines, None)
        if first is None:
            continue
        value = json_value(first)
        rest: Iterator[bytes] = chain([first], lines)
        if isinstance(value, dict) and "topic" in value and _PAYLOADS & value.keys():
            records: Iterator[LogRecord] = map(record_of, rest)
        else:
            if not isinstance(value, dict | list):
                rest = _rows_as_json(first, lines)
            records = (
                RecordedRecord(topic, 0, at, NO_STAMP, None, line, ())
                for at, line in enumerate(rest)
            )
        for record in records:
            found.setdefault(record.topic, []).append(record)
    return found


_PAYLOADS: Final = {"payload", "payload_b64"}
_NO_TOPIC: Final = re.compile("[^A-Za-z0-9._-]+")
_NUMBER: Final = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,9})?", re.ASCII)
_SEPARATORS: Final = (",", "\t", ";")


def _lines(file: str, bars: Progress) -> Iterator[bytes]:
    for part in read_lines([file], bars, MOST_LINE_BYTES):
        for line in part.split() if part.too_long is None else ():
            if line and not line.isspace():
                yield line


def _rows_as_json(header: bytes, lines: Iterator[bytes]) -> Iterator[bytes]:
    """The rows of a CSV file as objects. Raises InvalidField where the header names no columns."""
    names, separator = max(
        (
            (next(csv.reader([header.decode(errors="replace")], delimiter=s)), s)
            for s in _SEPARATORS
        ),
        key=lambda found: len(found[0]),
    )
    if len(names) < 2 or header.lstrip().startswith((b"{", b"[")):
        raise InvalidField("not_json", guess([header, *islice(lines, SAMPLES)], "native"))
    texts = (line.decode(errors="replace") for line in lines)
    for row in csv.reader(texts, delimiter=separator):
        yield msgspec.json.encode(dict(zip(names, map(_cell, row), strict=False)))


def _cell(text: str) -> str | int | float:
    if not _NUMBER.fullmatch(text):
        return text
    return float(text) if "." in text else int(text)
