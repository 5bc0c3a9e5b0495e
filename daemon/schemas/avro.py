"""Reads bodies of Avro: one generated function for each schema and set of members. Pure.

Integers stay integers, enums are their symbols, a union is the value of its branch, bytes are text
(base64 where they are no UTF-8), decimals numbers. Nothing in a body raises anything but
InvalidField, and what it costs is bounded by its length.
"""

import struct
from collections.abc import Callable, Hashable
from typing import Any, Final, TypeAlias

from ..events.fields import InvalidField
from .avro_parts import MOST_VALUES, NAMES
from .avro_source import MAIN, AvroSource, Wanted
from .avro_typed import TypedSource
from .avro_types import Array, Record, avro_type
from .avro_weights import Weights
from .frames import Message, uuid_text
from .members import Members, members_key
from .typed import Reader, Typed, Unfit
from .types import AVRO, SchemaText, UnreadableSchema
from .values import BadBody, TooManyValues
from .varints import CutShort

Generated: TypeAlias = Callable[[bytes, int, int, list[int]], tuple[Any, int]]
"""(body, first byte, 0, [most values]) → the value, and where it ends."""

_ENDS: Final = "ends inside a value, or has an index that its schema lacks"


class AvroSchema:
    """One schema that bodies were written by."""

    codec: Final = AVRO

    def __init__(self, text: SchemaText) -> None:
        """Raise UnreadableSchema for a text that is no schema, or one that no body can be read by
        in bounded time."""
        self._type = avro_type(text)
        self._readers: dict[Hashable, Generated] = {}
        try:
            _, values = Weights().of(self._type)
            self.generated(None)
        except RecursionError:
            raise UnreadableSchema("is nested too deep") from None
        if values > MOST_VALUES:
            raise UnreadableSchema(f"has more than {MOST_VALUES} values in a body of few bytes")

    @property
    def name(self) -> str | None:
        """The full name of the record; None for a schema of another type."""
        return self._type.name if isinstance(self._type, Record) else None

    def message_name(self, message: Message | None) -> str | None:
        """The same, whatever a frame says of messages: it says nothing."""
        return self.name

    def reader(self, message: Message | None, members: Members) -> Callable[[bytes], object]:
        """Return what reads these members of a body."""
        generated = self.generated(members)
        return lambda body: whole(generated, body)

    def generated(self, members: Members) -> Generated:
        """Return the generated function for these members."""
        key = members_key(members)
        found = self._readers.get(key)
        if found is None:
            found = self._readers[key] = _compiled(AvroSource(self._type), members)
        return found

    def instances(self, message: Message | None, typed: Typed, listed: Typed | None) -> Reader:
        """Return what reads bodies into instances, or into lists of such as `listed` wants."""
        if isinstance(self._type, Array) and listed is not None:
            typed = Typed(element=listed)
        generated = _compiled(TypedSource(self._type), typed)

        def read(record: bytes, first: int) -> Any:
            try:
                value, end = generated(record, first, 0, [MOST_VALUES])
            except (IndexError, struct.error):
                raise Unfit from None
            if end != len(record):
                raise Unfit
            return value

        return Reader(read, lambda records, first: [read(one, first) for one in records])


def whole(generated: Generated, body: bytes) -> object:
    """Return the value of a whole body. Raises InvalidField: bad_payload or too_many."""
    try:
        value, end = generated(body, 0, 0, [MOST_VALUES])
    except TooManyValues as error:
        raise InvalidField("too_many", f"record: {error}") from None
    except BadBody as error:
        raise InvalidField("bad_payload", f"record: {error}") from None
    except UnicodeDecodeError:
        raise InvalidField("bad_payload", "record: has a text that is no UTF-8") from None
    except (IndexError, CutShort, struct.error):
        raise InvalidField("bad_payload", f"record: {_ENDS}") from None
    if end != len(body):
        rule = f"must end after {len(body)} bytes, but its schema ends after {end}"
        raise InvalidField("bad_payload", f"record: {rule}")
    return value


def _compiled(source: AvroSource, wanted: Wanted) -> Generated:
    names: dict[str, Any] = {**NAMES, "uuid_text": uuid_text, "Unfit": Unfit}
    text = source.text(wanted)
    names.update(source.constants)
    # The source is our own, and has nothing of a schema but quoted texts.
    exec(compile(text, "<reader of an Avro schema>", "exec"), names)  # noqa: S102
    found: Generated = names[MAIN]
    return found
