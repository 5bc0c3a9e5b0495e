"""Avro schemas as a graph of types. `fastavro` checks them and resolves their names. Pure.

Logical types are left out, apart from decimals and UUIDs, whose bytes say nothing to people: a time
stays the integer that it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from ..schemas import AVRO, SchemaText, UnreadableSchema
from .values import library

MOST_TYPES: Final = 10_000
"""Most types, fields included, of one schema with its references."""
MOST_SCALE: Final = 76
_PRIMITIVES: Final = frozenset("null boolean int long float double bytes string".split())
_UUID_BYTES: Final = 16
_NESTED: Final = ("type", "fields", "items", "values")
"""The keys below which schemas stand."""
_SYMBOLS: Final = "symbols as written"
"""Where the symbols of an enum stand while the library reads it."""


@dataclass(frozen=True, eq=False)
class Primitive:
    """One of Avro's primitive types. `scale`: of bytes that are a decimal."""

    kind: str
    scale: int | None = None


@dataclass(frozen=True, eq=False)
class Fixed:
    """So many bytes: a decimal where it has a scale, a UUID, or just bytes."""

    size: int
    scale: int | None = None
    is_uuid: bool = False


@dataclass(frozen=True, eq=False)
class Enum:
    """One of some names."""

    symbols: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Array:
    """Any number of one type."""

    items: "AvroType"


@dataclass(frozen=True, eq=False)
class Map:
    """Any number of one type, by name."""

    values: "AvroType"


@dataclass(frozen=True, eq=False)
class Union:
    """One of several types."""

    branches: tuple["AvroType", ...]


@dataclass(frozen=True, eq=False)
class AvroRecord:
    """Members in order. They may lead back to the record itself."""

    name: str
    fields: list[tuple[str, "AvroType"]] = field(default_factory=list)


AvroType: TypeAlias = Primitive | Fixed | Enum | Array | Map | Union | AvroRecord


def avro_type(text: SchemaText) -> AvroType:
    """Return the type that a schema declares. Raises UnreadableSchema."""
    named: dict[str, Any] = {}
    schema = _resolved(text, named, set())
    try:
        return _Types(named).of(schema)
    except RecursionError:
        raise UnreadableSchema("is nested too deep") from None


def _resolved(text: SchemaText, named: dict[str, Any], seen: set[str]) -> Any:
    """The schema with full names. What it needs and declares is added to `named`."""
    for name, reference in text.references:
        if name not in seen:
            seen.add(name)
            _resolved(reference, named, seen)
    parse_schema = library(AVRO, "schema").parse_schema
    schema = text.text.strip()
    try:
        if schema not in _PRIMITIVES:  # some tools write a bare name
            schema = _as_written(msgspec.json.decode(schema))
        return parse_schema(schema, named_schemas=named, _write_hint=False)
    except UnreadableSchema:
        raise
    except Exception as error:
        # The library raises whatever a malformed schema leads to, a KeyError as much as its own.
        words = " ".join(str(error).split())[:200] or type(error).__name__
        raise UnreadableSchema(f"is no Avro schema: {words}") from None


def _as_written(schema: Any) -> Any:
    """The schema without what only another reader needs: registries have kept defaults of a wrong
    type and symbols that are no names from before they checked them, and the library refuses
    both."""
    if isinstance(schema, list):
        return [_as_written(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: _as_written(value) if key in _NESTED else value
        for key, value in schema.items()
        if key != "default"
    }
    symbols = found.get("symbols")
    if found.get("type") == "enum" and isinstance(symbols, list):
        found |= {"symbols": [f"s{at}" for at in range(len(symbols))], _SYMBOLS: symbols}
    return found


class _Types:
    """Builds the graph; a name leads to one type, wherever it stands."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._built: dict[str, AvroType] = {}
        self._left = MOST_TYPES

    def of(self, schema: Any) -> AvroType:
        """The type of a resolved schema."""
        self._left -= 1
        if self._left < 0:
            raise UnreadableSchema(f"has more than {MOST_TYPES} types")
        if isinstance(schema, list):
            return Union(tuple(map(self.of, schema)))
        if isinstance(schema, str):
            return Primitive(schema) if schema in _PRIMITIVES else self._by_name(schema)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.of(kind)
        if kind in ("record", "error", "enum", "fixed"):
            return self._declared(kind, schema)
        if kind == "array":
            return Array(self.of(schema["items"]))
        if kind == "map":
            return Map(self.of(schema["values"]))
        if kind == "bytes":
            return Primitive(kind, _scale(schema))
        return self.of(kind)

    def _by_name(self, name: str) -> AvroType:
        built = self._built.get(name)
        if built is None:
            declared = self._named.get(name)
            if declared is None:
                raise UnreadableSchema(f"names a type that is not declared: {name}")
            return self._declared(declared["type"], declared)
        return built

    def _declared(self, kind: str, schema: Mapping[str, Any]) -> AvroType:
        name = schema["name"]
        if kind == "enum":
            symbols = schema.get(_SYMBOLS, (None,))
            if not all(isinstance(symbol, str) for symbol in symbols):
                raise UnreadableSchema(f"{name}.symbols: must be texts")
            found: AvroType = Enum(tuple(symbols))
        elif kind == "fixed":
            size = schema["size"]
            if type(size) is not int or not 0 <= size < 2**31:
                raise UnreadableSchema(f"{name}.size={size!r}: must be an integer >= 0")
            is_uuid = schema.get("logicalType") == "uuid" and size == _UUID_BYTES
            found = Fixed(size, _scale(schema), is_uuid)
        else:
            record = self._built[name] = AvroRecord(name)
            for member in schema["fields"]:
                record.fields.append((member["name"], self.of(member["type"])))
            return record
        self._built[name] = found
        return found


def _scale(schema: Mapping[str, Any]) -> int | None:
    """The digits after the point of a decimal; None for what is none."""
    if schema.get("logicalType") != "decimal":
        return None
    scale = schema.get("scale", 0)
    return scale if type(scale) is int and 0 <= scale <= MOST_SCALE else None


_LEAST_BYTES: Final = {"null": 0, "float": 4, "double": 8}


class Weights:
    """How few bytes each type of one schema has, and how many values that its bytes do not pay for.

    Each byte of a body pays for one value. What a type has beyond that, such as nulls without a
    byte, is bounded before it is read: so a body of n bytes has at most n + MOST_VALUES values. A
    record inside itself weighs nothing here: it is counted where it is read.
    """

    def __init__(self) -> None:
        self._records: dict[AvroRecord, tuple[int, int]] = {}

    def of(self, type_: AvroType) -> tuple[int, int]:
        """Return the least bytes of a value, and the most values that it has beyond one for each of
        its bytes, without the elements of arrays and maps."""
        if isinstance(type_, Primitive):
            least = _LEAST_BYTES.get(type_.kind, 1)
            return least, 1 - least
        if isinstance(type_, Fixed):
            return type_.size, 1 - type_.size
        if isinstance(type_, Union):
            branches = [self.of(branch) for branch in type_.branches] or [(0, 0)]
            return 1 + min(least for least, _ in branches), max(most for _, most in branches) - 1
        if isinstance(type_, AvroRecord):
            return self._record(type_)
        assert isinstance(type_, Enum | Array | Map)
        # An array or a map takes as long to make as several values, though it be empty.
        return 1, int(not isinstance(type_, Enum))

    def _record(self, record: AvroRecord) -> tuple[int, int]:
        known = self._records.get(record)
        if known is None:
            self._records[record] = 0, 0
            members = [self.of(type_) for _, type_ in record.fields]
            known = sum(least for least, _ in members), 1 + sum(most for _, most in members)
            self._records[record] = known
        return known


def repeated_records(top: AvroType) -> tuple[set[AvroRecord], set[AvroRecord]]:
    """Return the records that stand more than once in a schema, and those that lead back to
    themselves."""
    seen, twice, cyclic = set[AvroRecord](), set[AvroRecord](), set[AvroRecord]()
    path: list[AvroRecord] = []

    def visit(type_: AvroType) -> None:
        if isinstance(type_, AvroRecord):
            if type_ in path:
                cyclic.add(type_)
            if type_ in seen:
                twice.add(type_)
                return
            seen.add(type_)
            path.append(type_)
            for _, inner in type_.fields:
                visit(inner)
            path.pop()
        for inner in inner_types(type_):
            visit(inner)

    visit(top)
    return twice, cyclic


def inner_types(type_: AvroType) -> tuple[AvroType, ...]:
    """Return what a union, an array or a map is made of."""
    if isinstance(type_, Union):
        return type_.branches
    if isinstance(type_, Array):
        return (type_.items,)
    return (type_.values,) if isinstance(type_, Map) else ()
