"""A topic of Avro behind a schema registry that may go away."""

import asyncio
import io
import json
import threading
from collections.abc import Coroutine, Mapping
from typing import Any, Final

import fastavro

from tests.registry_server import MemoryRegistry

MAGIC: Final = b"\x00"
PATIENCE_S: Final = 30.0
FIELDS: Final = [
    {"name": "type", "type": "string"},
    {"name": "impression_id", "type": "string"},
    {"name": "timestamp", "type": "long"},
    *(
        {"name": name, "type": ["null", kind], "default": None}
        for name, kind in (
            ("items", {"type": "array", "items": "string"}),
            ("country", "string"),
            ("device", "string"),
            ("kind", "string"),
            ("item", "string"),
            ("rank", "int"),
        )
    ),
]
NEW: Final = [{"name": "app_version", "type": ["null", "string"], "default": None}]
VERSIONS: Final = (FIELDS, [*NEW, *FIELDS])
SECTIONS: Final = """
[registry]
url = "{url}"
[[sources]]
topic = "{topic}"
codec = "avro"
[sources.impression]
where = "type == 'impression'"
id = "impression_id"
time = "timestamp"
items = "items"
attributes = {{ country = "country", device = "device" }}
[sources.feedback]
where = "type == 'feedback'"
id = "impression_id"
time = "timestamp"
kind = "kind"
item = "item"
rank = "rank"
"""


class Registered:
    """Writes events by one of two versions of a schema, and serves both until `stop`."""

    def __init__(self) -> None:
        self._server = MemoryRegistry()
        self._schemas = [
            fastavro.parse_schema({"type": "record", "name": "Event", "fields": fields})
            for fields in VERSIONS
        ]
        self._ids = [
            self._server.add(json.dumps({"type": "record", "name": "Event", "fields": fields}))
            for fields in VERSIONS
        ]
        self.version = 0
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._run(self._server.start())

    def sections(self, topic: str) -> str:
        """The part of the configuration that reads such a topic."""
        return SECTIONS.format(url=self._server.url, topic=topic)

    def encode(self, event: Mapping[str, Any]) -> bytes:
        """Return a record with the frame of Confluent's serializers."""
        body = io.BytesIO()
        row = {**event, **event.get("attributes", {})}
        if "items" in row:
            row["items"] = list(row["items"])  # a tuple would name a branch of the union
        fastavro.schemaless_writer(body, self._schemas[self.version], row)
        return MAGIC + self._ids[self.version].to_bytes(4, "big") + body.getvalue()

    def stop(self) -> None:
        """Refuse connections."""
        self._run(self._server.stop())

    def _run(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(PATIENCE_S)
