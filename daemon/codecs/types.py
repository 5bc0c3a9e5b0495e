"""Schemas as registries and files name and give them. Pure.

Values of binary formats, as JSON would give them.

Numbers of variable length, as Avro and Protobuf write them.

Which members of a record are read: the others are skipped unread.

What of a body is read into instances: objects with an attribute for each member.

A value of another kind than the one that is wanted raises Unfit, and whoever wanted it reads the
body as JSON would give it.

The libraries of codecs, which are extras: what is not installed is found out when it is needed.
"""

import base64
import importlib
import importlib.util
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

AVRO: Final = "avro"
PROTOBUF: Final = "protobuf"
JSON: Final = "json"
CODECS: Final = (JSON, AVRO, PROTOBUF)
"""How the body of a record is written; `json` includes JSON Schema, whose frame is stripped."""

ID: Final = "id"
GUID: Final = "guid"
GLOBAL: Final = "global"
GLUE_VERSION: Final = "glue"


class SchemaId(NamedTuple):
    """What a record names its schema by.

    kind `id`: an int of 32 bits (Confluent, Redpanda, Karapace, Apicurio 3); `guid`: a UUID as
    text, of Confluent's header; `global`: an int of 64 bits, Apicurio 2's global id; `glue`: a UUID
    as text, of a schema version in AWS Glue.
    """

    kind: str
    value: int | str

    def __str__(self) -> str:
        return f"schema {'' if self.kind == ID else f'{self.kind} '}{self.value}"


@dataclass(frozen=True)
class SchemaText:
    """A schema as it is stored: Avro's JSON, or the base64 of a Protobuf FileDescriptorProto."""

    codec: str
    text: str
    references: tuple[tuple[str, "SchemaText"], ...] = ()
    """The schemas that it needs, by the name of the reference; of Protobuf: by the name of the
    imported file. They may have references in turn."""


class UnreadableSchema(ValueError):
    """A text is no schema that records can be read by; its message is the reason, for people."""


MOST_DECIMAL_BYTES = 32
"""A decimal of more bytes is refused: no number of people has 77 digits."""


class BadBody(ValueError):
    """A body is not what its schema says; its message is for people."""


class TooManyValues(BadBody):
    """A body has more values than one record may have."""


def bytes_text(data: bytes) -> str:
    """Return bytes as a text: themselves where they are UTF-8, else their base64."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


def decimal_number(data: bytes, scale: int) -> int | float:
    """Return a decimal: an integer where its scale is 0, else the nearest float."""
    if len(data) > MOST_DECIMAL_BYTES:
        raise BadBody(f"a decimal has {len(data)} bytes: must be <= {MOST_DECIMAL_BYTES}")
    number = int.from_bytes(data, signed=True)
    return number / 10**scale if scale else number


def finite(number: float) -> float | None:
    """Return the number; None for those that JSON lacks: NaN and the infinities."""
    return number if number - number == 0.0 else None


_MOST_BYTES: Final = 10


class CutShort(ValueError):
    """The bytes end inside a value, or a number has more bytes than 64 bits need."""


def unsigned(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at `at`, and where it ends. Raises CutShort."""
    number = shift = 0
    for place in range(at, min(at + _MOST_BYTES, len(data))):
        byte = data[place]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place + 1
        shift += 7
    raise CutShort


def zigzag(data: bytes, at: int) -> tuple[int, int]:
    """Return the number, whose lowest bit is its sign, and where it ends. Raises CutShort."""
    number, at = unsigned(data, at)
    return (number >> 1) ^ -(number & 1), at


Members: TypeAlias = Mapping[str, "Members"] | None
"""The members that are read, by name, each with what is read of it; None: all. Arrays pass it on to
their elements."""

EVERYTHING: Final[Members] = None
UNREAD: Final = ""
"""A member with null in place of those that are not read, where none is: an object that has members
stays one that is not empty."""


def members_key(members: Members) -> Hashable:
    """Return a value that is equal where the same members are read."""
    if members is None:
        return None
    return frozenset((name, members_key(inner)) for name, inner in members.items())


MOST_LISTED: Final = 1000
"""Longest list that is read into instances."""
_LARGEST: Final = 2**63


class Unfit(ValueError):
    """A value is not of a kind that is wanted of it."""


@dataclass(frozen=True, eq=False)
class Typed:
    """What is wanted of one value: members, elements, or the value itself. Null fits everything."""

    members: Mapping[str, "Typed"] = field(default_factory=dict)
    make: Callable[..., Any] | None = None
    """Makes an instance of the values of `members`, in their order; None where members are not
    wanted."""
    absent: Any = None
    """The instance without values: a member that is null."""
    element: "Typed | None" = None
    or_one: bool = False
    """Whether the value may also be one element instead of a list of them."""
    kinds: frozenset[type] = frozenset()
    longest: int | None = None
    """Most characters of a text."""
    is_any: bool = False
    """Whether it is wanted as JSON would give it."""
    attributes: Sequence[str] = ()
    """Of a list of which `Columns` may be made: the attribute of each member of its elements."""

    def fit(self, value: Any) -> Any:
        """Return a value that is of one of the kinds. Raises Unfit."""
        kind = type(value)
        if value is None or kind in self.kinds:
            if kind is str and self.longest is not None and len(value) > self.longest:
                raise Unfit
            if kind is int and not -_LARGEST <= value < _LARGEST:
                raise Unfit
            return value
        raise Unfit


@dataclass(frozen=True)
class InstanceReader:
    """Reads the bodies of one schema into instances. Both raise a ValueError where something is
    not as it should be, or not as it is wanted."""

    one: Callable[[bytes, int], Any]
    """Of the record whose body begins at a byte."""
    several: Callable[[Sequence[bytes], int], list[Any]]
    """Of several, whose bodies begin at the same byte."""


class MemberColumns(msgspec.Struct, frozen=True, gc=False):
    """A list of instances, attribute by attribute: most are never made. A text of a column may be
    longer than `longest`; making an instance of it raises Unfit then."""

    columns: dict[str, list[Any]]
    """Attribute → its values, all of one length; at least one."""
    make: Callable[..., Any]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, index: int | slice) -> Any:
        values = {name: column[index] for name, column in self.columns.items()}
        return MemberColumns(values, self.make) if isinstance(index, slice) else self.make(**values)

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(len(self)))


Elements: TypeAlias = Sequence[Any] | MemberColumns
"""The elements of a list, which may be read more than once."""


def merged(several: Sequence[MemberColumns]) -> MemberColumns:
    """Return the lists, at least one, all of the same attributes, one after the other."""
    first = several[0]
    columns = {
        name: list(chain.from_iterable([one.columns[name] for one in several]))
        for name in first.columns
    }
    return MemberColumns(columns, first.make)


_MODULES: Final[Mapping[str, str]] = {AVRO: "fastavro", PROTOBUF: "google.protobuf"}


def missing_extra(codec: str) -> str | None:
    """Return the extra that a codec needs and that is not installed; None where nothing lacks."""
    module = _MODULES.get(codec)
    if module is None:
        return None
    try:
        is_there = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of a package inside one that is not there
        is_there = False
    return None if is_there else codec


@lru_cache(maxsize=None)
def library(codec: str, name: str) -> Any:
    """Return a module of the codec's library. Raises UnreadableSchema where it is not installed."""
    try:
        return importlib.import_module(f"{_MODULES[codec]}.{name}")
    except ImportError:
        raise UnreadableSchema(
            f"needs a package that is not installed: pip install 'relevanced[{codec}]'"
        ) from None
