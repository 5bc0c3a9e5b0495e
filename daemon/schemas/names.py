"""Schemas as registries and files name and give them, and what of a body is read. Pure.

Members that nobody wants are skipped unread. A value of another kind than the one that is wanted
raises Unfit, and whoever wanted it reads the body as JSON would give it.
"""

import importlib.util
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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


LIBRARIES: Final[Mapping[str, str]] = {AVRO: "fastavro", PROTOBUF: "google.protobuf"}
"""Codec → the package that reads it, which comes with the extra of the same name."""


def missing_extra(codec: str) -> str | None:
    """Return the extra that a codec needs and that is not installed; None where nothing lacks."""
    module = LIBRARIES.get(codec)
    if module is None:
        return None
    try:
        is_there = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of a package inside one that is not there
        is_there = False
    return None if is_there else codec


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


def merged_columns(several: Sequence[MemberColumns]) -> MemberColumns:
    """Return the lists, at least one, all of the same attributes, one after the other."""
    first = several[0]
    columns = {
        name: list(chain.from_iterable([one.columns[name] for one in several]))
        for name in first.columns
    }
    return MemberColumns(columns, first.make)
