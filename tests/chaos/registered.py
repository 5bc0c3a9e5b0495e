"""Events as records of Avro whose schemas a registry has, and what such records hold."""

import io
import json
from typing import Final

import fastavro

from tests.registry_server import IMPROPER, MemoryRegistry

EACH: Final = 300
"""So many records name the same schema: there is always one that a worker has not asked for yet."""
SOURCE: Final = """
[[sources]]
topic = "{topic}"
codec = "avro"
each = "parse_json(payload)"
[sources.impression]
where = "type == 'impression'"
id = "impression_id"
time = "timestamp"
query = "query"
items = "items"
user = "user_id"
attributes = {{ "*" = "attributes" }}
experiments = {{ map = "experiments" }}
[sources.feedback]
where = "type == 'feedback'"
id = "impression_id"
time = "timestamp"
kind = "kind"
item = "item"
rank = "rank"
"""


class Registered:
    """Writes events by schemas of its registry, and knows what it wrote."""

    def __init__(self) -> None:
        self.server = MemoryRegistry()
        self.native: dict[bytes, bytes] = {}
        """Record → the same in the native format."""
        self._written = 0
        self._id, self._schema = 0, None

    def encode(self, event: bytes) -> bytes:
        """Return a record with the frame of Confluent's serializers."""
        if self._written % EACH == 0:
            name = f"Event{self._written}"
            fields = [{"name": "payload", "type": "string"}]
            schema = {"type": "record", "name": name, "fields": fields}
            self._id = self.server.add(json.dumps(schema), name)
            self._schema = fastavro.parse_schema(schema)
        self._written += 1
        body = io.BytesIO()
        fastavro.schemaless_writer(body, self._schema, {"payload": event.decode()})
        record = b"\0" + self._id.to_bytes(4) + body.getvalue()
        self.native[record] = event
        return record

    def disturb(self, fraction: float) -> None:
        """Answer with what is no schema, until `heal`."""
        status, body, _ = [*IMPROPER.values()][int(fraction * len(IMPROPER))]
        self.server.faults.status, self.server.faults.body = status, body

    def heal(self) -> None:
        """Answer as a registry does."""
        self.server.faults.status = None
