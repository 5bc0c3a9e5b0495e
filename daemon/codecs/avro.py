"""Reads bodies of Avro: one generated function for each schema and set of members. Pure.

Integers stay integers, enums are their symbols, a union is the value of its branch, bytes are text
(base64 where they are no UTF-8), decimals numbers. Nothing in a body raises anything but
InvalidField, and what it costs is bounded by its length.
"""

import struct
from collections.abc import Callable, Hashable
from typing import Any, Final, TypeAlias

from ..events import InvalidField
from ..schemas import (
    AVRO,
    CutShort,
    InstanceReader,
    Members,
    Message,
    SchemaText,
    Typed,
    Unfit,
    UnreadableSchema,
    members_key,
    unsigned_varint,
    uuid_text,
    zigzag_varint,
)
from .avro_source import MAIN, AvroSource, TypedSource, Wanted
from .avro_types import Array, AvroRecord, Union, Weights, avro_type
from .values import MOST_VALUES, BadBody, TooManyValues, bytes_text, decimal_number, finite

MOST_DEPTH: Final = 64
"""Records may stand so deep in records of their own type."""
BOOLEANS: Final = (False, True)
_FLOAT: Final = struct.Struct("<f").unpack_from
_DOUBLE: Final = struct.Struct("<d").unpack_from
_LONGS: Final = 1 << 64

# What generated readers call for the less frequent parts of a body. `b` is the body, `i` the next
# byte of it. A byte that is not there raises IndexError, as it does in generated code.


def size(b: bytes, i: int) -> tuple[int, int]:
    """Return twice a length or an index of several bytes, and where it ends. A negative one is
    refused, as is any that no body has room for."""
    number, i = unsigned_varint(b, i)
    if number & 1:
        raise BadBody("has a negative length or index")
    return number, i


def long(b: bytes, i: int) -> tuple[int, int]:
    """Return a signed number of 64 bits, and where it ends."""
    number, i = unsigned_varint(b, i)
    if number >= _LONGS:
        raise BadBody("has a number of more than 64 bits")
    return (number >> 1) ^ -(number & 1), i


def block(b: bytes, i: int, least_bytes: int, weight: int, left: list[int]) -> tuple[int, int]:
    """Return how many elements follow, and where the first begins: 0 ends the array. Each has at
    least so many bytes, and at most so many values that they do not pay for, which are taken off
    `left`."""
    count, i = zigzag_varint(b, i)
    if count < 0:
        count = -count
        _, i = size(b, i)
    if count * least_bytes > len(b) - i:
        raise CutShort
    left[0] -= count * weight
    if left[0] < 0:
        raise TooManyValues(f"has more than {MOST_VALUES} values that have no byte of their own")
    return count, i


def deeper(depth: int, weight: int, left: list[int]) -> int:
    """Return the depth of a record inside one of its own type."""
    left[0] -= weight
    if depth >= MOST_DEPTH:
        raise TooManyValues(f"is nested deeper than {MOST_DEPTH}")
    return depth + 1


def float4(b: bytes, i: int) -> float | None:
    """Return a number of 4 bytes; None for NaN and the infinities."""
    return finite(_FLOAT(b, i)[0])


def float8(b: bytes, i: int) -> float | None:
    """Return a number of 8 bytes; None for NaN and the infinities."""
    return finite(_DOUBLE(b, i)[0])


def bad_branch(index: int) -> BadBody:
    """Return the error of a union's index that has no type."""
    return BadBody(f"has branch {index >> 1} of a union that has fewer")


NAMES: Final[dict[str, Any]] = {
    "size": size,
    "long": long,
    "block": block,
    "deeper": deeper,
    "float4": float4,
    "float8": float8,
    "bad_branch": bad_branch,
    "BOOLEANS": BOOLEANS,
    "bytes_text": bytes_text,
    "decimal_number": decimal_number,
}
"""The names that generated code finds."""


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

    def names(self, message: Message | None) -> Callable[[bytes], str | None]:
        """Return what tells the full name of the record that a body is, in a union at the top that
        of its branch; None for another type. A frame says nothing of messages."""
        if not isinstance(self._type, Union):
            name = self._type.name if isinstance(self._type, AvroRecord) else None
            return lambda body: name
        branches = [t.name if isinstance(t, AvroRecord) else None for t in self._type.branches]
        return lambda body: branches[zigzag_varint(body, 0)[0]]

    def reader(self, message: Message | None, members: Members) -> Callable[[bytes], object]:
        """Return what reads these members of a body."""
        generated = self.generated(members)
        return lambda body: whole(generated, body)

    def generated(self, members: Members) -> Generated:
        """Return the generated function for these members."""
        key = members_key(members)
        reader = self._readers.get(key)
        if reader is None:
            reader = self._readers[key] = _compiled(AvroSource(self._type), members)
        return reader

    def instances(
        self, message: Message | None, typed: Typed, listed: Typed | None
    ) -> InstanceReader:
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

        return InstanceReader(read, lambda records, first: [read(one, first) for one in records])


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
