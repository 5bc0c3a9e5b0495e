"""The same traffic in JSON, Avro and Protobuf, and what maps it."""

import json
from typing import Any, Final

from relevanced.daemon.config import applied_sources, load
from relevanced.daemon.events import Limits
from relevanced.daemon.mapping import Mapper, mapper
from relevanced.daemon.schemas import AVRO, SchemaBook, SchemaId, SchemaText
from tests.daemon.codecs import avro_bodies, protobuf_messages

LIMITS: Final = Limits(depth=100, max_grade=10.0)
AVRO_ID: Final = SchemaId("id", 12)
PROTOBUF_ID: Final = SchemaId("id", 13)
AVRO_HEAD: Final = b"\0\0\0\0\x0c"
PROTOBUF_HEAD: Final = b"\0\0\0\0\x0d\2\2"

TABLES: Final = """
[sources.impression]
where = "event == 'Product List Viewed'"
id = "properties.search_id || messageId"
time = "timestamp"
items = "properties.products"
item = "product_id || sku"
rank = "position"
visitor = "anonymousId || userId"
attributes = { country = "context.location.country", type = "type", "*" = "context.facets" }
[sources.feedback]
kind = "event"
kinds = { "Product Clicked" = "click" }
id = "properties.search_id"
time = "timestamp"
item = "properties.product_id"
"""
PROTOBUF_TABLES: Final = """
[sources.impression]
where = "message() == 'acme.Track' && kind == 'SHOWN'"
id = "id"
time = "at"
items = "products"
item = "product_id || sku"
rank = "position"
visitor = "visitor"
attributes = { country = "country", "*" = "facets" }
[sources.feedback]
where = "kind == 'CLICKED'"
kind = "'click'"
id = "id"
time = "at_ms"
item = "products[0].product_id"
rank = "page"
"""


def book() -> SchemaBook:
    """A book that knows both schemas."""
    found = SchemaBook()
    found.add(AVRO_ID, SchemaText(AVRO, json.dumps(avro_bodies.TRACK)))
    found.add(PROTOBUF_ID, protobuf_messages.TEXT)
    return found


CONFLUENT = '[registry]\nurl = "http://sr"\n'
GLUE = '[registry]\nkind = "glue"\nregion = "eu-west-1"\n'
"""Where the schemas of `book` would come from: nobody is asked."""


def mapper_of(text: str, limits: Limits = LIMITS) -> Mapper:
    """The mapper of a source, with the schemas of the book."""
    registry = GLUE if 'framing = "glue"' in text else CONFLUENT
    config = load(f'{registry}[[sources]]\ntopic = "t"\n{text}', {}, "test.toml")
    return mapper(applied_sources(config.sources)[0], limits, book())


def click(**fields: Any) -> dict[str, Any]:
    """A click as a record of Avro or JSON."""
    properties = {"search_id": "s-1", "product_id": "P2", "products": [], "best": None}
    return avro_bodies.track(event="Product Clicked", properties=properties, **fields)


def avro(value: Any) -> bytes:
    """A record of Avro in its frame."""
    return AVRO_HEAD + avro_bodies.written(avro_bodies.TRACK, value)


def protobuf(message: Any) -> bytes:
    """A record of Protobuf in its frame."""
    body: bytes = message.SerializeToString()
    return PROTOBUF_HEAD + body
