"""The schemas that a process knows, by the ids that records name. Asks nobody. Pure."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final, NamedTuple

from ..events.fields import InvalidField
from ..events.types import LogRecord
from .frames import FRAME_BYTES, Framing, named_schema
from .parsing import Schema, parsed
from .types import SchemaId, SchemaText

MOST_MISSING: Final = 100_000
"""So many ids that nobody knows are remembered: the oldest are forgotten first."""
NOT_KNOWN: Final = "is not known"


class _Missing(NamedTuple):
    until_ms: int
    why: str


class SchemaBook:
    """Schemas for the life of the process.

    Whoever fetches them asks `unknown` before records are decoded, and answers each id by `add` or
    `add_missing`. Decoding finds what is there, and refuses what is not.
    """

    def __init__(self, framings: Mapping[str, Framing] | None = None) -> None:
        """`framings`: how each topic is framed whose records name their schemas."""
        self._framings = {
            topic: framing for topic, framing in (framings or {}).items() if framing.names_schemas
        }
        self._schemas: dict[SchemaId, Schema] = {}
        self._missing: dict[SchemaId, _Missing] = {}

    def __len__(self) -> int:
        """How many schemas are known."""
        return len(self._schemas)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics whose records name schemas: of others, nothing is ever unknown."""
        return tuple(self._framings)

    def unknown(self, records: Iterable[LogRecord], now_ms: int) -> set[SchemaId]:
        """Return the schemas that these records name and that are to be asked for now: neither
        known, nor missing until later. Broken frames name none."""
        named = set[SchemaId]()
        heads = set[tuple[str, bytes]]()
        for record in records:
            framing = self._framings.get(record.topic)
            if framing is None or not record.value:
                continue
            if record.headers:
                found = named_schema(framing, record.value[:FRAME_BYTES], record.headers)
                if found is not None:
                    named.add(found)
            else:
                heads.add((record.topic, record.value[: framing.head_bytes(record.value[0])]))
        for topic, head in heads:
            found = named_schema(self._framings[topic], head)
            if found is not None:
                named.add(found)
        return {schema for schema in named if self.is_unknown(schema, now_ms)}

    def add(self, schema: SchemaId, text: SchemaText) -> None:
        """Take a schema that records name by this id. Raises UnreadableSchema, and forgets
        nothing."""
        self._schemas[schema] = parsed(text)
        self._missing.pop(schema, None)

    def add_missing(self, schema: SchemaId, until_ms: int, why: str = NOT_KNOWN) -> None:
        """Take that nobody knows a schema, or can read it: it is unknown again from this time on.
        `why` completes "schema 12 …" for people."""
        self._missing.pop(schema, None)
        self._missing[schema] = _Missing(until_ms, why)
        for oldest in list(islice(self._missing, max(0, len(self._missing) - MOST_MISSING))):
            del self._missing[oldest]

    def find(self, schema: SchemaId) -> Schema:
        """Return a schema. Raises InvalidField: unknown_schema."""
        found = self._schemas.get(schema)
        if found is None:
            missing = self._missing.get(schema)
            raise InvalidField(
                "unknown_schema", f"{schema} {missing.why if missing else NOT_KNOWN}"
            )
        return found

    def is_unknown(self, schema: SchemaId, now_ms: int) -> bool:
        """Whether a schema is to be asked for now."""
        if schema in self._schemas:
            return False
        missing = self._missing.get(schema)
        return missing is None or missing.until_ms <= now_ms
