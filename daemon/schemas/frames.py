"""The bytes around a body that name its schema: recognized, checked, and taken off. Pure.

    auto        the header `__value_schema_id`, else by the first byte
    confluent   0, 4 bytes of id (1, 16 bytes of GUID in the header); Redpanda, Karapace, Apicurio 3
    apicurio8   0, 8 bytes of global id (Apicurio 2)
    glue        3, 0 or 5 (zlib), 16 bytes of the schema version's UUID
    none        the body alone

Of Protobuf, the frame also says which message of the schema the body is: Confluent by indexes,
Apicurio by a name.
"""

import re
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from ..events import InvalidField
from .names import GLOBAL, GLUE_VERSION, GUID, ID, JSON, PROTOBUF, SchemaId, Unfit

AUTO: Final = "auto"
NONE: Final = "none"
CONFLUENT: Final = "confluent"
APICURIO8: Final = "apicurio8"
GLUE: Final = "glue"
FRAMINGS: Final = (AUTO, NONE, CONFLUENT, APICURIO8, GLUE)

HEADER: Final = "__value_schema_id"
MAGIC: Final = 0
MAGIC_GUID: Final = 1
MAGIC_GLUE: Final = 3
STARTS: Final = tuple(bytes((magic,)) for magic in (MAGIC, MAGIC_GUID, MAGIC_GLUE))
"""What frames begin with."""
FRAME_BYTES: Final = 18
"""No frame is longer, without what names a Protobuf message."""
MOST_UNPACKED_BYTES: Final = 16 << 20
MOST_INDEXES: Final = 64
_GLUE_PLAIN: Final = 0
_GLUE_ZLIB: Final = 5
_MAGIC_NAMES: Final = "0 (Confluent, Apicurio), 1 (a GUID) or 3 (Glue)"

Headers: TypeAlias = Sequence[tuple[str, bytes]]
Message: TypeAlias = tuple[int, ...] | int | str
"""Which message of a Protobuf schema a body is: indexes from the file down (Confluent), the number
among all full names in order (Glue), or a name (Apicurio)."""


_MOST_BYTES: Final = 10


class CutShort(ValueError):
    """The bytes end inside a value, or a number has more bytes than 64 bits need."""


def unsigned_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at `at`, and where it ends. Raises CutShort."""
    number = shift = 0
    for place in range(at, min(at + _MOST_BYTES, len(data))):
        byte = data[place]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place + 1
        shift += 7
    raise CutShort


def zigzag_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number, whose lowest bit is its sign, and where it ends. Raises CutShort."""
    number, at = unsigned_varint(data, at)
    return (number >> 1) ^ -(number & 1), at


class Framing(NamedTuple):
    """How the records of a topic are framed."""

    codec: str = JSON
    name: str = AUTO

    @property
    def names_schemas(self) -> bool:
        """Whether a body cannot be read without the schema that its frame names."""
        return self.codec != JSON and self.name != NONE

    def head_bytes(self, first: int) -> int:
        """Return how many bytes of a record that begins with this byte have the schema's id."""
        if self.name == APICURIO8:
            return 9
        return 5 if first == MAGIC else FRAME_BYTES


class Frame(NamedTuple):
    """A body, and what its frame says about it."""

    schema: SchemaId | None
    body: bytes
    message: Message | None = None


def frame_of(framing: Framing, value: bytes, headers: Headers = ()) -> Frame:
    """Return the frame of a record. Raises InvalidField: bad_framing, or too_large for a body that
    unpacks to more than MOST_UNPACKED_BYTES."""
    codec, name = framing
    if name == NONE:
        return Frame(None, value)
    try:
        stated = _schema_header(headers) if name in (AUTO, CONFLUENT) else None
        if codec == JSON and (name == AUTO or stated is not None) and value[:1] not in STARTS:
            return Frame(None, value)  # needs no schema, and a text begins with none of these
        if stated is not None and codec != JSON:
            schema, at = _schema_id(CONFLUENT, stated)
            return Frame(
                schema, value, _message_indexes(stated, at)[0] if codec == PROTOBUF else None
            )
        return _framed(codec, name, value)
    except CutShort:
        raise _bad_framing(f"{len(value)} bytes end inside the frame") from None


def may_be_framed(framing: Framing, value: bytes) -> bool:
    """Return whether a record of JSON is not simply its text: quick, for those that are."""
    return framing.name != NONE and (framing.name != AUTO or value[:1] in STARTS)


def json_text(framing: Framing, value: bytes, headers: Headers = ()) -> bytes:
    """Return the text of a record of JSON. Raises InvalidField, and Unfit where it unpacks to more
    than the record: work is bounded by its bytes."""
    if not may_be_framed(framing, value):
        return value
    body = frame_of(framing, value, headers).body
    if len(body) > len(value):
        raise Unfit
    return body


def named_schema(framing: Framing, head: bytes, headers: Headers = ()) -> SchemaId | None:
    """Return the schema that a record names, by its first FRAME_BYTES; None where it names none, or
    its frame is broken."""
    if not framing.names_schemas:
        return None
    if framing.name in (AUTO, CONFLUENT):
        stated = _schema_header(headers)
        head = head if stated is None else stated
    try:
        return _schema_id(framing.name, head)[0]
    except (InvalidField, CutShort):
        return None


def uuid_text(data: bytes) -> str:
    """Return 16 bytes as the text of a UUID."""
    digits = data.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _schema_header(headers: Headers) -> bytes | None:
    for name, value in headers:
        if name == HEADER:
            return value
    return None


def _framed(codec: str, name: str, value: bytes) -> Frame:
    if value[:1] == bytes((MAGIC_GLUE,)) and name in (AUTO, GLUE):
        return _glue_frame(codec, value)
    schema, at = _schema_id(name, value)
    message: Message | None = None
    if codec == PROTOBUF:
        is_named = name == APICURIO8 or reference_end(value, at)
        message, at = (_reference_name if is_named else _message_indexes)(value, at)
    return Frame(schema, value[at:], message)


def _schema_id(name: str, value: bytes) -> tuple[SchemaId, int]:
    """The schema that a frame names, and where the frame ends."""
    first = value[0] if value else None
    if name in (AUTO, CONFLUENT):
        if first == MAGIC:
            return SchemaId(ID, int.from_bytes(_frame_part(value, 1, 5))), 5
        if first == MAGIC_GUID:
            return SchemaId(GUID, uuid_text(_frame_part(value, 1, 17))), 17
    if name == APICURIO8 and first == MAGIC:
        return SchemaId(GLOBAL, int.from_bytes(_frame_part(value, 1, 9))), 9
    if name in (AUTO, GLUE) and first == MAGIC_GLUE:
        return SchemaId(GLUE_VERSION, uuid_text(_frame_part(value, 2, 18))), 18
    rules = {AUTO: _MAGIC_NAMES, GLUE: "3", APICURIO8: "0", CONFLUENT: "0 or 1"}
    shown = "no byte" if first is None else f"byte {first}"
    raise _bad_framing(f"begins with {shown}: must be {rules[name]}")


def _frame_part(value: bytes, start: int, end: int) -> bytes:
    if len(value) < end:
        raise CutShort
    return value[start:end]


def _message_indexes(value: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """How many indexes and each of them, zig-zag; a single 0 stands for the first message."""
    count, at = zigzag_varint(value, at)
    if count == 0:
        return (0,), at
    if not 0 < count <= MOST_INDEXES:
        raise _bad_framing(f"{count} message indexes: must be 0 to {MOST_INDEXES}")
    indexes = []
    for _ in range(count):
        index, at = zigzag_varint(value, at)
        if index < 0:
            raise _bad_framing(f"message index {index}: must be >= 0")
        indexes.append(index)
    return tuple(indexes), at


_NAME: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_NAME_TAG: Final = 0b1010
_TWO_LETTERS: Final = 2


def reference_end(value: bytes, at: int) -> int:
    """Return where the reference to a message ends that Apicurio 3 writes in place of indexes: n +
    2, 10, n, and a name of n bytes. 0 where it is none.

    As indexes, an odd n gives a negative count. An even n from 4 on gives a path of three or more
    whose third is a letter, so at least the 24th message inside one that is itself inside another;
    and all of the name would have to stand there. Of two letters, indexes may be meant.
    """
    head = value[at : at + 3]
    if len(head) < 3 or head[1] != _NAME_TAG or head[0] != head[2] + 2 or head[0] >= 0x80:
        return 0
    end = at + 1 + head[0]
    if end > len(value) or head[2] == _TWO_LETTERS or not _NAME.fullmatch(value, at + 3, end):
        return 0
    return end


def _reference_name(value: bytes, at: int) -> tuple[str | None, int]:
    """The message `Ref { string name = 1; }` that Apicurio writes before a Protobuf body, with its
    length; an empty one names no message."""
    length, at = unsigned_varint(value, at)
    end = at + length
    if end > len(value):
        raise CutShort
    if not length:
        return None, end
    tag, at = unsigned_varint(value, at)
    size, at = unsigned_varint(value, at)
    if tag != _NAME_TAG or at + size != end:
        raise _bad_framing("the reference before the body names no message")
    try:
        return value[at:end].decode(), end
    except UnicodeDecodeError:
        raise _bad_framing("the name of the message is no UTF-8") from None


def _glue_frame(codec: str, value: bytes) -> Frame:
    schema, at = _schema_id(GLUE, value)
    if value[1] not in (_GLUE_PLAIN, _GLUE_ZLIB):
        raise _bad_framing(
            f"compression {value[1]}: must be {_GLUE_PLAIN} (none) or {_GLUE_ZLIB} (zlib)"
        )
    body = value[at:]
    if value[1] == _GLUE_ZLIB:
        body = _unpacked(body)
    if codec != PROTOBUF:
        return Frame(schema, body)
    number, at = unsigned_varint(body, 0)
    return Frame(schema, body[at:], number)


def _unpacked(packed: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(packed, MOST_UNPACKED_BYTES + 1)
    except zlib.error as error:
        raise _bad_framing(f"the body is not zlib: {error}") from None
    if len(body) > MOST_UNPACKED_BYTES:
        rule = f"must be <= {MOST_UNPACKED_BYTES} bytes"
        raise InvalidField("too_large", f"record: unpacks to more: {rule}")
    if not stream.eof or stream.unused_data:
        raise _bad_framing("the body is not one whole zlib stream")
    return body


def _bad_framing(rule: str) -> InvalidField:
    return InvalidField("bad_framing", f"record: {rule}")
