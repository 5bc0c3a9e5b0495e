"""Avro schemas, and bodies written by them by fastavro: examples, and any others."""

import io
import json
from typing import Any, Final

import fastavro
from hypothesis import strategies as st

from relevanced.daemon.codecs import AvroSchema, bytes_text
from relevanced.daemon.schemas import AVRO, SchemaText

PRODUCT: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Product",
    "fields": [
        {"name": "product_id", "type": "string"},
        {"name": "sku", "type": ["null", "string"]},
        {"name": "name", "type": "string"},
        {"name": "price", "type": "double"},
        {"name": "position", "type": "int"},
        {"name": "category", "type": "string"},
        {"name": "url", "type": ["null", "string"]},
        {"name": "image_url", "type": ["null", "string"]},
    ],
}
LOCATION: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Location",
    "fields": [
        {"name": "country", "type": ["null", "string"]},
        {"name": "city", "type": ["null", "string"]},
    ],
}
TRACK: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Track",
    "namespace": "com.acme",
    "fields": [
        {"name": "messageId", "type": "string"},
        {"name": "anonymousId", "type": ["null", "string"]},
        {"name": "userId", "type": ["null", "string"]},
        {"name": "type", "type": {"type": "enum", "name": "Type", "symbols": ["track", "page"]}},
        {"name": "event", "type": "string"},
        {"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "context",
            "type": {
                "type": "record",
                "name": "Context",
                "fields": [
                    {"name": "userAgent", "type": "string"},
                    {"name": "ip", "type": "string"},
                    {"name": "location", "type": LOCATION},
                    {"name": "facets", "type": {"type": "map", "values": "string"}},
                ],
            },
        },
        {
            "name": "properties",
            "type": {
                "type": "record",
                "name": "Properties",
                "fields": [
                    {"name": "search_id", "type": ["null", "string"]},
                    {"name": "product_id", "type": ["null", "string"]},
                    {"name": "products", "type": {"type": "array", "items": "com.acme.Product"}},
                    {"name": "best", "type": ["null", PRODUCT]},
                ],
            },
        },
    ],
}
# The record that a name refers to stands before its use.
_properties = TRACK["fields"][-1]["type"]["fields"]
_properties[2]["type"]["items"], _properties[3]["type"] = PRODUCT, ["null", "com.acme.Product"]


def avro(schema: Any) -> AvroSchema:
    """What reads bodies of this schema."""
    return AvroSchema(SchemaText(AVRO, json.dumps(schema)))


def written(schema: Any, value: Any) -> bytes:
    """The body of a value, as fastavro writes it."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    return body.getvalue()


def read_by_library(schema: Any, body: bytes) -> Any:
    """The value as fastavro reads it, in JSON's terms. Raises whatever it raises."""
    stream = io.BytesIO(body)
    value = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None)
    if stream.tell() != len(body):
        raise ValueError("bytes are left")
    return as_json(value)


def as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: as_json(one) for name, one in value.items()}
    if isinstance(value, list):
        return [as_json(one) for one in value]
    if isinstance(value, float):
        return value if value - value == 0 else None
    return bytes_text(value) if isinstance(value, bytes) else value


def product(number: int) -> dict[str, Any]:
    return {
        "product_id": f"P{number}",
        "sku": f"S{number}" if number % 2 else None,
        "name": "Laufschuh für Straßen",
        "price": 79.9,
        "position": number,
        "category": "Shoes/Running",
        "url": f"https://shop.example.com/p/{number}",
        "image_url": None,
    }


def track(products: int = 3, **fields: Any) -> dict[str, Any]:
    """A record of TRACK."""
    return {
        "messageId": "ajs-next-1-9f31",
        "anonymousId": "507f191e810c",
        "userId": None,
        "type": "track",
        "event": "Product List Viewed",
        "timestamp": 1795176000000,
        "context": {
            "userAgent": "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36",
            "ip": "203.0.113.9",
            "location": {"country": "DE", "city": None},
            "facets": {"colour": "red", "size": "42"},
        },
        "properties": {
            "search_id": "s-1",
            "product_id": None,
            "products": [product(number + 1) for number in range(products)],
            "best": None,
        },
        **fields,
    }


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3, names: list[int] | None = None) -> Any:
    """Any schema without logical types."""
    names = [0] if names is None else names
    primitives = "null boolean int long float double bytes string".split()
    composed = ["record", "array", "map", "union", "enum", "fixed"] if depth else ["enum", "fixed"]
    kind = draw(st.sampled_from(primitives + composed * 2))
    names[0] += 1
    name, inner = f"N{names[0]}", schemas(depth - 1, names)
    if kind == "record":
        types = [draw(inner) for _ in range(draw(st.integers(0, 5)))]
        fields = [{"name": f"f{index}", "type": one} for index, one in enumerate(types)]
        return {"type": kind, "name": name, "fields": fields}
    if kind in ("array", "map"):
        return {"type": kind, "items" if kind == "array" else "values": draw(inner)}
    if kind == "union":
        chosen = draw(st.lists(st.sampled_from(primitives), min_size=1, max_size=4, unique=True))
        return [*chosen, *([{"type": "array", "items": draw(inner)}] if depth > 1 else [])]
    if kind == "enum":
        return {"type": kind, "name": name, "symbols": ["A", "B", "C"]}
    if kind == "fixed":
        return {"type": kind, "name": name, "size": draw(st.integers(0, 5))}
    return kind


_LEAVES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "bytes": st.binary(max_size=200),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=100),
}


def values(schema: Any) -> st.SearchStrategy[Any]:
    """Any value of a schema."""
    if isinstance(schema, str):
        return _LEAVES[schema]
    if isinstance(schema, list):
        return st.one_of([values(branch) for branch in schema])
    kind = schema["type"]
    if kind == "record":
        return st.fixed_dictionaries({one["name"]: values(one["type"]) for one in schema["fields"]})
    if kind == "array":
        return st.lists(values(schema["items"]), max_size=4)
    if kind == "map":
        return st.dictionaries(_LEAVES["string"], values(schema["values"]), max_size=4)
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    return st.binary(min_size=schema["size"], max_size=schema["size"])
