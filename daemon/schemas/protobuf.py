"""Reads bodies of Protobuf by upb, the library's own parser in C. Pure.

Members have the names of the .proto file. Enums are their names; a number without a name stays a
number. A scalar that is absent and has no presence reads as its zero, but an empty text as null; a
member with presence reads as null. A Timestamp is ISO 8601, a wrapper its value, a map an object.
"""

from collections.abc import Callable, Hashable, Sequence
from operator import itemgetter
from typing import Any, Final

from ..events.fields import InvalidField
from .frames import Message
from .libraries import library
from .members import Members, members_key
from .protobuf_pool import Pool, pool_of, pool_of_set
from .protobuf_typed import MessageSource
from .protobuf_values import MOST_VALUES, Converter, converter
from .typed import Reader, Typed, Unfit
from .types import PROTOBUF, SchemaText, UnreadableSchema
from .values import TooManyValues


class ProtobufSchema:
    """The messages of one schema."""

    codec: Final = PROTOBUF

    def __init__(self, pool: Pool, main: Any, declared: str | None = None) -> None:
        """`main`: the file whose messages frames count; `declared`: the full name of the one that
        all bodies are."""
        self._pool, self._main, self._declared = pool, main, declared
        self._converters: dict[Hashable, Converter] = {}

    def message_name(self, message: Message | None) -> str:
        """Return the full name of the message that a frame names. Raises InvalidField:
        bad_framing."""
        if self._declared is not None:
            return self._declared
        if message is None:
            # Nothing names one: a schema of a single message needs none.
            message = (0,)
        name = _named(self._main, message, self._pool)
        if name is None:
            shown = list(message) if isinstance(message, tuple) else message
            raise InvalidField("bad_framing", f"record: message {shown} is not in its schema")
        return name

    def reader(self, message: Message | None, members: Members) -> Callable[[bytes], object]:
        """Return what reads these members of a body. Raises InvalidField: bad_framing."""
        name = self.message_name(message)
        parse = self.parser(name)
        key = name, members_key(members)
        convert = self._converters.get(key)
        if convert is None:
            descriptor = self._pool.descriptor(name)
            convert = self._converters[key] = converter(descriptor, members)
        return lambda body: _value(parse, convert, body)

    def instances(self, message: Message | None, typed: Typed, listed: Typed | None) -> Reader:
        """Return what reads bodies into instances."""
        name = self.message_name(message)
        parse, error = self.parser(name), library(PROTOBUF, "message").DecodeError
        make = MessageSource().compiled(self._pool.descriptor(name), typed)

        def several(records: Sequence[bytes], first: int) -> list[Any]:
            bodies = map(itemgetter(slice(first, None)), records) if first else records
            try:
                # One after the other: a message is freed while its memory is still in cache.
                return list(map(make, map(parse, bodies)))
            except error:
                raise Unfit from None

        return Reader(lambda record, first: several((record,), first)[0], several)

    def parser(self, name: str) -> Callable[[bytes], Any]:
        """Return the library's parser of a message. It raises DecodeError."""
        message_class = library(PROTOBUF, "message_factory").GetMessageClass(
            self._pool.descriptor(name)
        )
        parse: Callable[[bytes], Any] = message_class.FromString
        return parse


def protobuf_schema(text: SchemaText) -> ProtobufSchema:
    """Return the schema of a registry's answer. Raises UnreadableSchema."""
    pool, main = pool_of(text)
    if not main.message_type:
        raise UnreadableSchema("declares no message")
    return ProtobufSchema(pool, main)


def protobuf_file(data: bytes, message: str) -> ProtobufSchema:
    """Return one message of a serialized FileDescriptorSet. Raises UnreadableSchema; its text lists
    the messages where it has not this one."""
    pool = pool_of_set(data)
    names = pool.names()
    if message not in names:
        listed = ", ".join(names[:20]) + ("…" if len(names) > 20 else "")
        raise UnreadableSchema(f"has no message {message}: must be one of {listed}")
    return ProtobufSchema(pool, None, message)


def _named(main: Any, message: Message, pool: Pool) -> str | None:
    if isinstance(message, int):
        names = sorted(pool.names(main.name))
        return names[message] if message < len(names) else None
    parts = [main.package] if main.package else []
    if isinstance(message, str):
        if message not in (one.name for one in main.message_type):
            return None
        return ".".join((*parts, message))
    inside = main.message_type
    for index in message:
        if index >= len(inside):
            return None
        parts.append(inside[index].name)
        inside = inside[index].nested_type
    return ".".join(parts)


def _value(parse: Callable[[bytes], Any], convert: Converter, body: bytes) -> object:
    try:
        message = parse(body)
    except library(PROTOBUF, "message").DecodeError:
        raise InvalidField("bad_payload", "record: is no message of its schema") from None
    try:
        return convert(message, [MOST_VALUES + len(body)])
    except TooManyValues as error:
        raise InvalidField("too_many", f"record: {error}") from None
