"""Protobuf schemas, and messages written by them by the library."""

import base64
from typing import Any, Final

from google.protobuf import descriptor_pb2, message_factory

from relevanced.daemon.schemas import PROTOBUF, SchemaText, parsed_schema

DOUBLE, FLOAT, INT64, UINT64, INT32, BOOL, STRING = 1, 2, 3, 4, 5, 8, 9
GROUP, MESSAGE, BYTES, ENUM = 10, 11, 12, 14
OPTIONAL, REPEATED = 1, 3

Field = tuple[str, int | str]
"""(name, kind); a kind may be `.the.name` of a message or an enum. `name*` is repeated, `name?` has
presence."""


def add_fields(message: Any, *fields: Field) -> None:
    for number, (name, kind) in enumerate(fields, len(message.field) + 1):
        field = message.field.add(name=name.strip("*?"), number=number, label=OPTIONAL)
        if name.endswith("*"):
            field.label = REPEATED
        if isinstance(kind, int):
            field.type = kind
        else:
            # As Redpanda answers: the name of the type, and not which kind it is of.
            field.type_name = kind
        if name.endswith("?"):
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{name.strip('?')}")


def add_map(message: Any, package: str, name: str, key: int, value: int | str) -> None:
    entry = message.nested_type.add(name=f"{name.title()}Entry")
    entry.options.map_entry = True
    add_fields(entry, ("key", key), ("value", value))
    field = message.field.add(name=name, number=len(message.field) + 1, label=REPEATED)
    field.type_name = f".{package}.{message.name}.{entry.name}"


def file_of(name: str = "track.proto", package: str = "acme", syntax: str = "proto3") -> Any:
    return descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax=syntax)


def track_file() -> Any:
    """acme.Product, acme.Track and acme.Other with acme.Other.Inner."""
    file = file_of()
    file.dependency.append("google/protobuf/timestamp.proto")
    product = file.message_type.add(name="Product")
    texts = [(name, STRING) for name in ("product_id", "sku", "name", "category", "url", "image")]
    add_fields(product, *texts, ("position", INT32), ("price", DOUBLE))
    kind = file.enum_type.add(name="Kind")
    for number, name in enumerate(("KIND_UNSPECIFIED", "SHOWN", "CLICKED")):
        kind.value.add(name=name, number=number)
    track = file.message_type.add(name="Track")
    add_fields(
        track,
        ("id", STRING),
        ("visitor?", STRING),
        ("kind", ".acme.Kind"),
        ("at", ".google.protobuf.Timestamp"),
        ("at_ms", INT64),
        ("country", STRING),
        ("products*", ".acme.Product"),
        ("parent", ".acme.Track"),
        ("tags*", STRING),
        ("raw", BYTES),
        ("page", INT32),
        ("score?", FLOAT),
        ("kinds*", ".acme.Kind"),
    )
    add_map(track, "acme", "facets", STRING, STRING)
    add_map(track, "acme", "best", INT32, ".acme.Product")
    other = file.message_type.add(name="Other")
    add_fields(other.nested_type.add(name="Inner"), ("name", STRING))
    add_fields(other, ("inner", ".acme.Other.Inner"))
    return file


def text_of(file: Any, *references: tuple[str, SchemaText]) -> SchemaText:
    """The schema as a registry answers it."""
    return SchemaText(PROTOBUF, base64.b64encode(file.SerializeToString()).decode(), references)


TEXT: Final = text_of(track_file())
SCHEMA: Final[Any] = parsed_schema(TEXT)


def message_class(name: str, schema: Any = SCHEMA) -> Any:
    """The library's class of a message."""
    return message_factory.GetMessageClass(schema._pool.descriptor(name))


def track(products: int = 3, **fields: Any) -> Any:
    """A message of acme.Track."""
    given = {"id": "s-1", "visitor": "v1", "kind": 1, "at_ms": 1795176000000, "country": "DE"}
    message = message_class("acme.Track")(**(given | fields))
    message.at.FromMilliseconds(1795176000000)
    for number in range(1, products + 1):
        message.products.add(
            product_id=f"P{number}",
            sku=f"S{number}",
            name="Laufschuh für Straßen, Modell 2026",
            category="Shoes/Running",
            url=f"https://shop.example.com/p/{number}",
            position=number,
            price=79.9,
        )
    return message
