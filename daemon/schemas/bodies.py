"""Reads the records of one topic: the frame, the schema that it names, the body. Pure."""

from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

import msgspec

from ..events.fields import InvalidField, decoded
from .book import SchemaBook
from .frames import Frame, Framing, Headers, frame_of
from .members import EVERYTHING, Members
from .parsing import Schema
from .types import JSON

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
    message: str | None


class Bodies:
    """Reads the bodies of one topic.

    `book` knows the schemas that frames name; `own` is the schema of all bodies, whatever their
    frames say, where a file gives it. `members`: what of a body is read.
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

    def of(self, value: bytes, headers: Headers = ()) -> Body:
        """Return the body of a record. Raises InvalidField."""
        frame = frame_of(self.framing, value, headers)
        if self.framing.codec == JSON:
            return Body(decoded("record", frame.body, _JSON, "wrong_type"))
        reader = self._reader(frame)
        return Body(reader.read(frame.body), reader.message)

    def _reader(self, frame: Frame) -> _Reader:
        # A schema of its own reads all bodies, whatever their frames name.
        named = (None, None) if self._own is not None else (frame.schema, frame.message)
        found = self._readers.get(named)
        if found is None:
            schema, message = self.schema_of(frame), named[1]
            found = _Reader(schema.reader(message, self._members), schema.message_name(message))
            if len(self._readers) >= MOST_READERS:
                self._readers.clear()
            self._readers[named] = found
        return found

    @property
    def has_own(self) -> bool:
        """Whether one schema, that of a file, reads all bodies."""
        return self._own is not None

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
