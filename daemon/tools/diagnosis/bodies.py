"""How the records of topics are written: frames and codecs by their bytes, the schemas to read
them by, and the records as JSON, which everything else looks at.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import click
import msgspec

from ...config import Config, urls_of
from ...events import NOT_MAPPED, InvalidField, LogRecord
from ...recompute.record_reader import record_reader
from ...schemas import (
    APICURIO8,
    AUTO,
    AVRO,
    CONFLUENT,
    GLUE,
    HEADER,
    JSON,
    NONE,
    PROTOBUF,
    Bodies,
    Framing,
    Schema,
    SchemaBook,
    SchemaId,
    UnreadableSchema,
    frame_of,
    named_schema,
    parsed_schema_file,
)
from .parts import DoctorFinding, percent, toml, with_value

LOOKED_AT: Final = 2000
"""So many records of a topic say how it is written."""
TRIED: Final = 200
"""So many records of a topic are tried behind each framing."""
GZIP: Final = "gzip"
BINARY: Final = "binary"
_MOST: Final = 0.5
"""Of the records must be written alike."""
_ALMOST_ALL: Final = 0.95
_GZIP_MAGIC: Final = b"\x1f\x8b"
_SHOWN: Final = 5
_PEOPLE: Final = {
    CONFLUENT: "in frames of Confluent's form",
    APICURIO8: "in frames of Apicurio's form of 8 bytes",
    GLUE: "in frames of AWS Glue",
    NONE: "without frames",
}
_CODECS: Final = {AVRO: "Avro", PROTOBUF: "Protobuf", JSON: "JSON"}


@dataclass(frozen=True)
class GivenBodies:
    """What is known of schemas: those that frames name, and that of a file."""

    book: SchemaBook = field(default_factory=SchemaBook)
    own: Schema | None = None
    lines: tuple[str, ...] = ()
    """What names the file in a source, as TOML."""
    registry: str | None = None
    """The address that was asked, without a login."""


@dataclass(frozen=True)
class Written:
    """How the records of a topic are written."""

    framing: str = NONE
    """One of the framings, or GZIP or BINARY where it is none that is known."""
    share: float = 1.0
    """Of the records that are written so."""
    schemas: tuple[SchemaId, ...] = ()
    codec: str | None = JSON
    """None: no schema is known that says it."""
    read: float = 1.0
    """The share of the records that could be read."""
    first: str = ""
    """Why the first of the others could not."""

    @property
    def is_plain(self) -> bool:
        """Whether it is JSON as it is."""
        return self.codec == JSON and self.framing == NONE


def written_of(samples: Mapping[str, Sequence[LogRecord]]) -> dict[str, Written]:
    """Topic → how its records are written, without the codec of a schema."""
    return {topic: _written(records[:LOOKED_AT]) for topic, records in samples.items()}


def _written(records: Sequence[LogRecord]) -> Written:
    framed = [(record, _framing(record)) for record in records if record.value]
    if not framed:
        return Written()
    (framing, count), *_ = Counter(name for _, name in framed).most_common(1)
    share = count / len(framed)
    if framing == NONE or share < _MOST:
        return Written()
    chosen = [record for record, name in framed if name == framing]
    if framing == CONFLUENT and all((record.value or b"")[1:5] == bytes(4) for record in chosen):
        framing = APICURIO8
    if framing in (GZIP, BINARY):
        return Written(framing, share, codec=None)
    texts = sum(_is_json(_body(framing, record)) for record in chosen)
    if texts >= _ALMOST_ALL * len(chosen):
        return Written(framing, share)
    named = (
        named_schema(Framing(AVRO, framing), record.value or b"", record.headers)
        for record in chosen
    )
    schemas = Counter(one for one in named if one is not None)
    return Written(framing, share, tuple(one for one, _ in schemas.most_common()), None)


def _framing(record: LogRecord) -> str:
    """What the first bytes of a record say."""
    value = record.value or b""
    if any(name == HEADER for name, _ in record.headers) or value[0] == 0 and len(value) > 5:
        return CONFLUENT
    if value[0] == 3 and len(value) >= 18 and value[1] in (0, 5):
        return GLUE
    if value.startswith(_GZIP_MAGIC):
        return GZIP
    return NONE if _is_text(value) else BINARY


def _is_text(value: bytes) -> bool:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return False
    return text.isprintable() or not any(ord(one) < 9 for one in text)


def _is_json(body: bytes) -> bool:
    return body.lstrip()[:1] in (b"{", b"[")


def _body(framing: str, record: LogRecord) -> bytes:
    try:
        return frame_of(Framing(JSON, framing), record.value or b"", record.headers).body
    except InvalidField:
        return b""


def book_of(written: Mapping[str, Written]) -> SchemaBook:
    """Return an empty book for the topics whose records name schemas."""
    # Both codecs name them alike.
    return SchemaBook({t: Framing(AVRO, one.framing) for t, one in written.items() if one.schemas})


def as_json(
    samples: Mapping[str, Sequence[LogRecord]], written: Mapping[str, Written], given: GivenBodies
) -> tuple[dict[str, Sequence[LogRecord]], dict[str, Written]]:
    """Return the records as JSON, as far as they can be read, and how they were written."""
    found: dict[str, Sequence[LogRecord]] = {}
    ways = dict(written)
    for topic, records in samples.items():
        way = _with_own(records, written[topic], given.own) if given.own else None
        way = way or _with_codec(written[topic], given)
        ways[topic], found[topic] = way, records
        if not way.is_plain and way.codec is not None and records:
            found[topic], ways[topic] = _decoded(records, way, given)
    return found, ways


def _with_codec(way: Written, given: GivenBodies) -> Written:
    if way.codec is not None or way.framing == GZIP:
        return way
    codecs = Counter(codec for one in way.schemas if (codec := _codec(given.book, one)))
    if codecs:
        return replace(way, codec=codecs.most_common(1)[0][0])
    return replace(way, first=_why(given, way.schemas))


def _why(given: GivenBodies, schemas: Sequence[SchemaId]) -> str:
    """Why a registry that was asked does not help."""
    if given.registry is not None:
        for schema in schemas:
            try:
                given.book.find(schema)
            except InvalidField as error:
                return error.detail
    return ""


def _with_own(records: Sequence[LogRecord], way: Written, own: Schema) -> Written | None:
    """How records are written of which a file gives the schema: by the framing behind which it
    reads the most of them; None where it reads hardly any, or they are JSON."""
    tried = [record for record in records[:TRIED] if record.value]
    if sum(_is_json(record.value or b"") for record in tried) > _MOST * len(tried):
        return None
    shares = {name: _read_share(tried, name, own) for name in (NONE, CONFLUENT, APICURIO8, GLUE)}
    framing = max(shares, key=lambda name: shares[name])
    if shares[framing] < _MOST:
        return None
    return replace(way, framing=framing, share=shares[framing], codec=own.codec)


def _read_share(records: Sequence[LogRecord], framing: str, own: Schema) -> float:
    bodies, read = Bodies(Framing(own.codec, framing), SchemaBook(), own), 0
    for record in records:
        try:
            bodies.body(record.value or b"", record.headers)
            read += 1
        except InvalidField as error:
            read += error.reason == NOT_MAPPED  # a frame of its file, around another message
    return read / len(records)


def _codec(book: SchemaBook, schema: SchemaId) -> str | None:
    try:
        return book.find(schema).codec
    except InvalidField:
        return None


def _decoded(
    records: Sequence[LogRecord], way: Written, given: GivenBodies
) -> tuple[Sequence[LogRecord], Written]:
    """The records as JSON; those that cannot be read stay as they are, and those of another message
    than the one that a file is for have no member."""
    own = None if way.codec == JSON else given.own
    bodies = Bodies(Framing(way.codec or AUTO, way.framing), given.book, own)
    found, first, read = list[LogRecord](), "", 0
    for record in records:
        value = record.value
        if value is not None:
            try:
                value = msgspec.json.encode(bodies.body(value, record.headers).value)
                read += 1
            except (InvalidField, OverflowError) as error:
                if isinstance(error, InvalidField) and error.reason == NOT_MAPPED:
                    value, read = b"{}", read + 1
                else:
                    first = first or getattr(error, "detail", str(error))
        found.append(with_value(record, value))
    return found, replace(way, read=read / len(records), first=first)


def lines(way: Written, given: GivenBodies) -> Iterator[str]:
    """The keys of a source that say how its records are written, as TOML with comments."""
    if way.is_plain or way.codec is None:
        return
    if way.codec != JSON:
        yield f"codec = {toml(way.codec)}  # {percent(way.read)} of the records were read so"
    if way.codec != JSON and given.own is not None:
        yield from given.lines
    # Those that auto recognizes need no name.
    if way.framing == APICURIO8 or (given.own is not None and way.framing != NONE):
        yield f"framing = {toml(way.framing)}  # of {percent(way.share)} of the records"


def registry_lines(ways: Mapping[str, Written], given: GivenBodies) -> Iterator[str]:
    """The section of the registry, where records need one."""
    needs = [way for way in ways.values() if way.codec not in (JSON, None) and given.own is None]
    if not needs:
        return
    yield "[registry]"
    if any(way.framing == GLUE for way in needs):
        yield 'kind = "glue"  # the records are in frames of AWS Glue'
        yield 'region = "eu-west-1"  # change it: where the registry is'
    elif given.registry is not None:
        yield f"url = {toml(given.registry)}  # add the login, if it needs one"
    else:
        yield 'url = "http://localhost:8081"  # change it: where the schema registry is'


def findings(ways: Mapping[str, Written]) -> Iterator[DoctorFinding]:
    """A line for each topic that is no plain JSON."""
    for topic, way in ways.items():
        if not way.is_plain:
            yield _finding(f"encoding of {topic}", way)


def _finding(name: str, way: Written) -> DoctorFinding:
    share = percent(way.share)
    if way.framing == GZIP:
        words = (
            f"{share} of the records are packed by gzip, which is not read: let the producer pack"
            " its batches instead (compression.type)"
        )
        return DoctorFinding(name, "wrong", words)
    schemas = [str(one) for one in way.schemas[:_SHOWN]] + ["…"] * (len(way.schemas) > _SHOWN)
    listed = f", {', '.join(schemas)}" if schemas else ""
    if way.codec is None:
        kind = f"{share} of the records are {_PEOPLE.get(way.framing, 'binary, in no known frame')}"
        why = f" ({way.first})" if way.first else ""
        words = (
            f"{kind}{listed}{why}: name their schema with --registry, or with --schema-file (Avro)"
            " or --descriptor-set and --message (Protobuf)"
        )
        return DoctorFinding(name, "wrong", words)
    words = f"{share} of the records are {_CODECS[way.codec]} {_PEOPLE[way.framing]}{listed}"
    if way.read < 1:
        words += f"; {percent(way.read)} could be read, the first of the others: {way.first}"
    return DoctorFinding(name, "wrong" if way.read < _ALMOST_ALL else "good", words)


async def known_schemas(config: Config, samples: Mapping[str, Sequence[LogRecord]]) -> GivenBodies:
    """Return what the registry of a configuration knows of the schemas that records name. Raises
    Unavailable and StartError."""
    book = book_of(written_of(samples))
    async with record_reader(config.of_inputs, book) as reader:
        for topic in book.topics:
            await reader.prepare(topic, samples[topic])
    url = config.registry.url
    return GivenBodies(book, registry=None if url is None else ",".join(urls_of(url.reveal())))


def own_schema(
    schema_file: str | None, descriptor_set: str | None, message: str | None
) -> tuple[Schema | None, tuple[str, ...]]:
    """Return the schema of files, and the keys that name them. Raises click.ClickException."""
    if (descriptor_set is None) != (message is None):
        raise click.UsageError("--descriptor-set and --message go together")
    try:
        if schema_file is not None:
            lines = (f"schema_file = {toml(schema_file)}  # as it was given",)
            return parsed_schema_file(Path(schema_file).read_bytes(), None), lines
        if descriptor_set is not None and message is not None:
            parsed = parsed_schema_file(Path(descriptor_set).read_bytes(), message)
            named = f"message = {toml(message)}  # as it was given"
            return parsed, (f"descriptor_set = {toml(descriptor_set)}  # as it was given", named)
    except UnreadableSchema as error:
        raise click.ClickException(f"{schema_file or descriptor_set}: {error}") from error
    return None, ()
