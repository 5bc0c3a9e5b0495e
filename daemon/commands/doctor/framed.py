"""Topics whose records name schemas of a registry: their bodies as JSON, as all else reads them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from ...config.registry_urls import urls_of
from ...config.settings import Config
from ...events.fields import InvalidField
from ...events.types import LogRecord
from ...schemas.bodies import Bodies
from ...schemas.book import SchemaBook
from ...schemas.frames import FRAME_BYTES, Framing, named_schema
from ...schemas.types import AVRO, JSON, SchemaId
from ..recorded.kcat import RecordedRecord
from ..schema_registry import record_reader
from .finding import Finding
from .trials import toml

LEAST_FRAMED: Final = 0.8
"""Of the records of a topic must name a schema for it to be taken as framed."""
ANY: Final = Framing(AVRO)
"""The framing of a topic while its codec is not known."""


@dataclass(frozen=True)
class Opened:
    """Samples without their frames."""

    samples: Mapping[str, Sequence[LogRecord]]
    codecs: Mapping[str, str] = field(default_factory=dict)
    """Topic → how its bodies are written, by the registry."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Topic → why its bodies cannot be read, though they are framed."""
    registry: tuple[str, ...] = ()
    """The registry as TOML, without a login."""

    def findings(self) -> Iterator[Finding]:
        """What is said of them."""
        for topic, codec in self.codecs.items():
            yield Finding(f"schemas of {topic}", "good", f"the registry knows them: {codec}")
        for topic, why in self.unread.items():
            yield Finding(f"schemas of {topic}", "wrong", why)


NOTHING: Final = Opened({})


def is_framed(records: Sequence[LogRecord]) -> bool:
    """Whether most records with a value name a schema."""
    values = [record for record in records if record.value]
    return bool(values) and sum(map(_names, values)) >= LEAST_FRAMED * len(values)


def _names(record: LogRecord) -> bool:
    return _schema(record) is not None


def _schema(record: LogRecord) -> SchemaId | None:
    return named_schema(ANY, (record.value or b"")[:FRAME_BYTES], record.headers)


async def opened(config: Config, samples: Mapping[str, Sequence[LogRecord]]) -> Opened:
    """The samples, in which the bodies of framed topics are JSON as far as the registry knows their
    schemas. Raises Unavailable and StartError."""
    framed = [topic for topic, records in samples.items() if is_framed(records)]
    if not framed:
        return Opened(samples)
    if not config.registry.is_given:
        why = "its records name schemas: give the registry in [registry] of the file of --config"
        return Opened(samples, unread=dict.fromkeys(framed, why))
    book = SchemaBook(dict.fromkeys(framed, ANY))
    async with record_reader(config, book) as reader:
        for topic in framed:
            await reader.prepare(topic, samples[topic])
    read, codecs, unread = dict(samples), dict[str, str](), dict[str, str]()
    for topic in framed:
        codec = _codec(book, samples[topic])
        if codec is None:
            unread[topic] = _why(book, samples[topic])
            continue
        codecs[topic] = codec
        bodies = Bodies(Framing(codec), book)
        read[topic] = [_as_json(record, bodies) for record in samples[topic]]
    return Opened(read, codecs, unread, tuple(_registry(config)))


def _codec(book: SchemaBook, records: Sequence[LogRecord]) -> str | None:
    """The codec of most schemas that the records name; None where none of them is known."""
    found = Counter[str]()
    for schema in set(filter(None, map(_schema, records))):
        try:
            found[book.find(schema).codec] += 1
        except InvalidField:
            continue
    return found.most_common(1)[0][0] if found else None


def _why(book: SchemaBook, records: Sequence[LogRecord]) -> str:
    for schema in filter(None, map(_schema, records)):
        try:
            book.find(schema)
        except InvalidField as error:
            return error.detail
    return "no schema is known"


def _as_json(record: LogRecord, bodies: Bodies) -> LogRecord:
    """The record with its body as JSON; as it is where the body cannot be read."""
    if not record.value:
        return record
    try:
        body = bodies.of(record.value, record.headers).value
        value = msgspec.json.encode(body)
    except (InvalidField, TypeError, ValueError):
        return record
    place = record.topic, record.partition, record.offset, record.timestamp
    return RecordedRecord(*place, record.key, value, tuple(record.headers))


def _registry(config: Config) -> Iterator[str]:
    registry = config.registry
    yield "[registry]"
    if registry.url is None:
        yield f"kind = {toml(registry.kind)}"
        yield f"region = {toml(registry.region)}"
    else:
        url = ",".join(urls_of(registry.url.reveal()))
        yield f"url = {toml(url)}  # add the login, if it needs one"


def with_codec(lines: Iterator[str], codec: str) -> Iterator[str]:
    """The lines of a source, with its codec below its topic."""
    for line in lines:
        yield line
        if line.startswith("topic = ") and codec != JSON:
            yield f"codec = {toml(codec)}  # by the registry"
