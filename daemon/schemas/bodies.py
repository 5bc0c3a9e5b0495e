"""Reads the records of one topic: the frame, the schema that it names, the body. Pure.

A body is read as JSON would give it, or into instances for what is compiled. Schemas are those that
the process knows, by the ids that records name: nobody is asked here.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from importlib import import_module
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from ..events import InvalidField, LogRecord, decoded
from .frames import (
    AUTO,
    CONFLUENT,
    FRAME_BYTES,
    HEADER,
    MAGIC,
    NONE,
    Frame,
    Framing,
    Headers,
    Message,
    frame_of,
    named_schema,
    reference_end,
)
from .names import (
    AVRO,
    EVERYTHING,
    JSON,
    PROTOBUF,
    InstanceReader,
    Members,
    SchemaId,
    SchemaText,
    Typed,
    Unfit,
    UnreadableSchema,
)


class Schema(Protocol):
    """Reads the bodies that were written by one schema."""

    @property
    def codec(self) -> str:
        """How the bodies are written."""

    def names(self, message: Message | None) -> Callable[[bytes], str | None]:
        """Return what tells the full name of what a body is that was read. Raises InvalidField:
        bad_framing, or not_mapped for another message than the one that a file is for."""

    def reader(self, message: Message | None, members: Members) -> Callable[[bytes], object]:
        """Return what reads these members of a body, as JSON would give them. Both raise
        InvalidField, and nothing else."""

    def instances(
        self, message: Message | None, typed: Typed, listed: Typed | None
    ) -> InstanceReader:
        """Return what reads bodies into instances, or into lists of such as `listed` wants."""


PARSERS: Final = {AVRO: "AvroSchema", PROTOBUF: "protobuf_schema"}
"""Codec → what parses a schema of it in the room `codecs`."""


def parsed_schema(text: SchemaText) -> Schema:
    """Return what reads bodies by this schema. Raises UnreadableSchema."""
    name = PARSERS.get(text.codec)
    if name is None:
        raise UnreadableSchema(f"is of {text.codec}: must be one of {', '.join(PARSERS)}")
    schema: Schema = _from_codecs(name)(text)
    return schema


def parsed_schema_file(data: bytes, message: str | None) -> Schema:
    """Return what reads all bodies by the schema of a file: a message of a descriptor set of
    Protobuf, or without a message Avro's JSON. Raises UnreadableSchema."""
    if message is not None:
        schema: Schema = _from_codecs("protobuf_file")(data, message)
        return schema
    try:
        return parsed_schema(SchemaText(AVRO, data.decode("utf-8-sig")))
    except UnicodeDecodeError:
        raise UnreadableSchema("is no Avro schema: is not UTF-8") from None


def _from_codecs(name: str) -> Any:
    # The room is loaded with the first schema: a process that reads JSON needs none of it.
    return getattr(import_module("..codecs", __package__), name)


MOST_MISSING: Final = 100_000
"""So many ids that nobody knows are remembered: the oldest are forgotten first."""
NOT_KNOWN: Final = "is not known"


class _Missing(NamedTuple):
    until_ms: int
    why: str


class SchemaBook:
    """Schemas for the life of the process.

    Whoever fetches them asks `unknown` before records are decoded, and answers each id by `add` or
    `add_missing`. Decoding finds what is there, and refuses what is not.
    """

    def __init__(self, framings: Mapping[str, Framing] | None = None) -> None:
        """`framings`: how each topic is framed whose records name their schemas."""
        self._framings = {
            topic: framing for topic, framing in (framings or {}).items() if framing.names_schemas
        }
        self._schemas: dict[SchemaId, Schema] = {}
        self._missing: dict[SchemaId, _Missing] = {}
        self._made: list[dict[Hashable, Any]] = []

    def __len__(self) -> int:
        """How many schemas are known."""
        return len(self._schemas)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics whose records name schemas: of others, nothing is ever unknown."""
        return tuple(self._framings)

    def unknown(self, records: Iterable[LogRecord], now_ms: int) -> set[SchemaId]:
        """Return the schemas that these records name and that are to be asked for now: neither
        known, nor missing until later. Broken frames name none."""
        named = set[SchemaId | None]()
        heads = set[tuple[str, bytes]]()
        for record in records:
            framing = self._framings.get(record.topic)
            if framing is None or not record.value:
                continue
            if record.headers:
                named.add(named_schema(framing, record.value[:FRAME_BYTES], record.headers))
            else:
                heads.add((record.topic, record.value[: framing.head_bytes(record.value[0])]))
        for topic, head in heads:
            named.add(named_schema(self._framings[topic], head))
        return {
            schema for schema in named if schema is not None and self.is_unknown(schema, now_ms)
        }

    def add(self, schema: SchemaId, text: SchemaText) -> None:
        """Take a schema that records name by this id, also in place of another one. Raises
        UnreadableSchema, and forgets nothing."""
        is_held = schema in self._schemas
        self._schemas[schema] = parsed_schema(text)
        self._missing.pop(schema, None)
        if is_held:
            self._drop_made()

    def forget(self, schema: SchemaId) -> None:
        """Forget a schema: it is unknown again."""
        if self._schemas.pop(schema, None) is not None:
            self._drop_made()

    def empties(self, made: dict[Any, Any]) -> None:
        """From now on empty this dict, of what was made by schemas, whenever one is replaced."""
        self._made.append(made)

    def _drop_made(self) -> None:
        for made in self._made:
            made.clear()

    def add_missing(self, schema: SchemaId, until_ms: int, why: str = NOT_KNOWN) -> None:
        """Take that nobody knows a schema, or can read it: it is unknown again from this time on.
        `why` completes "schema 12 …" for people."""
        self._missing.pop(schema, None)
        self._missing[schema] = _Missing(until_ms, why)
        for oldest in list(islice(self._missing, max(0, len(self._missing) - MOST_MISSING))):
            del self._missing[oldest]

    def find(self, schema: SchemaId) -> Schema:
        """Return a schema. Raises InvalidField: unknown_schema."""
        found = self._schemas.get(schema)
        if found is None:
            missing = self._missing.get(schema)
            raise InvalidField(
                "unknown_schema", f"{schema} {missing.why if missing else NOT_KNOWN}"
            )
        return found

    def was_missing(self, schema: SchemaId, since_ms: int) -> bool:
        """Whether a schema was missing until this time or longer."""
        missing = self._missing.get(schema)
        return missing is not None and missing.until_ms >= since_ms

    def is_unknown(self, schema: SchemaId, now_ms: int) -> bool:
        """Whether a schema is to be asked for now."""
        if schema in self._schemas:
            return False
        missing = self._missing.get(schema)
        return missing is None or missing.until_ms <= now_ms


MOST_READERS: Final = 10_000
"""So many pairs of a schema and a message have a reader at hand; then all are made anew."""
_JSON: Final = msgspec.json.Decoder()


class Body(NamedTuple):
    """What a record has: its value as JSON would give it, and the name of the message or record
    that it is by its schema; None where it has none."""

    value: object
    message: str | None = None


class _Reader(NamedTuple):
    read: Callable[[bytes], object]
    message: Callable[[bytes], str | None]


class Bodies:
    """Reads the bodies of one topic.

    `book` knows the schemas that frames name; `own` is that of a file, in place of them all: frames
    only say whether a body is its message. `members`: what of a body is read.
    """

    def __init__(
        self,
        framing: Framing,
        book: SchemaBook,
        own: Schema | None = None,
        members: Members = EVERYTHING,
    ) -> None:
        self.framing = framing
        self._book, self._own, self._members = book, own, members
        self._readers: dict[Hashable, _Reader] = {}
        book.empties(self._readers)

    def reading(self, members: Members) -> "Bodies":
        """The same bodies, of which these members are read."""
        return Bodies(self.framing, self._book, self._own, members)

    def body(self, value: bytes, headers: Headers = ()) -> Body:
        """Return the body of a record. Raises InvalidField."""
        frame = frame_of(self.framing, value, headers)
        if self.framing.codec == JSON:
            return Body(decoded("record", frame.body, _JSON, "wrong_type"))
        reader = self._reader(frame)
        return Body(reader.read(frame.body), reader.message(frame.body))

    def _reader(self, frame: Frame) -> _Reader:
        named = self.named(frame)
        found = self._readers.get(named)
        if found is None:
            schema, message = self.schema_of(frame), frame.message
            found = _Reader(schema.reader(message, self._members), schema.names(message))
            if len(self._readers) >= MOST_READERS:
                self._readers.clear()
            self._readers[named] = found
        return found

    def empties(self, made: dict[Any, Any]) -> None:
        """See SchemaBook."""
        self._book.empties(made)

    def named(self, frame: Frame) -> Hashable:
        """Return what of a frame decides how its body is read: a schema of a file reads all bodies
        of its message, whichever schema their frames name."""
        return (None if self._own is not None else frame.schema), frame.message

    def schema_of(self, frame: Frame) -> Schema:
        """Return the schema that a body was written by. Raises InvalidField: unknown_schema."""
        if self._own is not None:
            return self._own
        if frame.schema is None:
            raise InvalidField("unknown_schema", "record: no frame and no file names its schema")
        schema = self._book.find(frame.schema)
        codec = self.framing.codec
        if schema.codec != codec:
            detail = f"{frame.schema} is of {schema.codec}, where codec = {codec}"
            raise InvalidField("unknown_schema", detail)
        return schema


_AVRO_HEAD: Final = 5
_LEAST_BYTES: Final = _AVRO_HEAD + 2
"""Shorter records are looked at one by one."""
_FIRST_MESSAGE: Final = 0
_ONE_INDEX: Final = 2


class BodyInstances:
    """Reads the bodies of one topic. The usual frame, an id before the body, is recognised by bytes
    that were read before."""

    def __init__(self, bodies: Bodies, typed: Typed, listed: Typed | None) -> None:
        """`typed`: what is wanted of a record; `listed`: of an element of a record that is a list;
        None where none may be."""
        self._bodies, self._typed, self._listed = bodies, typed, listed
        framing = bodies.framing
        self._by_head = framing.name in (AUTO, CONFLUENT)
        self._is_protobuf = framing.codec == PROTOBUF
        self._is_bare = framing.name == NONE
        self._readers: dict[Hashable, InstanceReader] = {}
        bodies.empties(self._readers)

    def instance(self, value: bytes, headers: Headers = ()) -> Any:
        """Return the instance of a record. Raises a ValueError where another reader must say what
        it comes to."""
        if self._by_head and (not headers or all(name != HEADER for name, _ in headers)):
            length = self._head_bytes(value)
            if length:
                return self._by_first_bytes(value, length).one(value, length)
        frame = frame_of(self._bodies.framing, value, headers)
        if len(frame.body) > len(value):
            raise Unfit  # unpacked: work is bounded by the bytes of the record
        return self._reader(value, headers).one(frame.body, 0)

    def instances(self, values: Sequence[bytes], headers: Sequence[Headers]) -> list[Any]:
        """Return the instance of each record. What begins a record is looked up once where they
        all begin alike. Raises what `instance` raises of one of them."""
        in_headers = any(name == HEADER for one in headers if one for name, _ in one)
        if self._by_head and values and not in_headers:
            length = self._head_bytes(values[0])
            head = values[0][:length]
            alike = length and all([value.startswith(head) for value in values])
            if alike and min(map(len, values)) >= _LEAST_BYTES:
                return self._by_first_bytes(values[0], length).several(values, length)
        return list(map(self.instance, values, headers))

    def _by_first_bytes(self, value: bytes, length: int) -> InstanceReader:
        """What reads the records that begin with so many bytes of this one."""
        head = value[:length]
        read = self._readers.get(head)
        if read is None:
            read = self._reader(value, ())
            self._keep(head, read)
        return read

    def _head_bytes(self, value: bytes) -> int:
        """How many bytes are before the body; 0 for another frame."""
        if len(value) < _LEAST_BYTES or value[0] != MAGIC:
            return 0
        if not self._is_protobuf:
            return _AVRO_HEAD
        if value[_AVRO_HEAD] == _FIRST_MESSAGE:
            return _AVRO_HEAD + 1
        if value[_AVRO_HEAD] == _ONE_INDEX and value[_AVRO_HEAD + 1] < 0x80:
            return _AVRO_HEAD + 2
        return reference_end(value, _AVRO_HEAD)

    def _reader(self, value: bytes, headers: Headers) -> InstanceReader:
        frame = frame_of(self._bodies.framing, value, headers)
        named = self._bodies.named(frame)
        read = self._readers.get(named)
        if read is None:
            schema = self._bodies.schema_of(frame)
            read = schema.instances(frame.message, self._typed, self._listed)
            self._keep(named, read)
        return read

    def _keep(self, key: Hashable, read: InstanceReader) -> None:
        if len(self._readers) >= MOST_READERS:
            self._readers.clear()
        self._readers[key] = read
