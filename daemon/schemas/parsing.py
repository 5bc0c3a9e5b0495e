"""From the text of a schema to what reads bodies by it. Pure."""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from .avro import AvroSchema
from .frames import Message
from .members import Members
from .protobuf import protobuf_schema
from .typed import Reader, Typed
from .types import AVRO, PROTOBUF, SchemaText, UnreadableSchema


class Schema(Protocol):
    """Reads the bodies that were written by one schema."""

    @property
    def codec(self) -> str:
        """How the bodies are written."""

    def message_name(self, message: Message | None) -> str | None:
        """Return the full name of what a body is. Raises InvalidField: bad_framing."""

    def reader(self, message: Message | None, members: Members) -> Callable[[bytes], object]:
        """Return what reads these members of a body, as JSON would give them. Both raise
        InvalidField, and nothing else."""

    def instances(self, message: Message | None, typed: Typed, listed: Typed | None) -> Reader:
        """Return what reads bodies into instances, or into lists of such as `listed` wants."""


PARSERS: Final[Mapping[str, Callable[[SchemaText], Schema]]] = {
    AVRO: AvroSchema,
    PROTOBUF: protobuf_schema,
}
"""Codec → what reads a schema of it."""


def parsed(text: SchemaText) -> Schema:
    """Return what reads bodies by this schema. Raises UnreadableSchema."""
    parser = PARSERS.get(text.codec)
    if parser is None:
        raise UnreadableSchema(f"is of {text.codec}: must be one of {', '.join(PARSERS)}")
    return parser(text)
