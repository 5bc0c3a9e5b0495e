"""One schema of a registry, with all that it refers to."""

from collections.abc import Callable
from typing import Final, Literal, Protocol, TypeAlias

from ..errors import RegistryUnavailable
from ..schemas.types import GLUE_VERSION, PROTOBUF, SchemaId, SchemaText, UnreadableSchema
from . import protocol
from .client import RegistryClient
from .protocol import Answer, Reference

Outcome: TypeAlias = Literal["ok", "missing", "failed"]

MOST_REFERENCES: Final = 100
"""Of one schema, however deep; equal ones count each time."""
MOST_DEPTH: Final = 16
NOT_THERE: Final = "is not in the registry"
NO_GUIDS: Final = (
    "cannot be asked for: the registry has no /schemas/guids (Confluent has, from version 8.0 on)"
)


class MissingSchema(Exception):
    """The registry has no such schema. The text completes "schema 12 …" for people."""


class Registry(Protocol):
    """Where schemas come from."""

    async def schema(self, schema: SchemaId) -> SchemaText:
        """Return a schema. Raises MissingSchema, UnreadableSchema, RegistryUnavailable."""

    async def close(self) -> None:
        """Close the connections."""


class ConfluentRegistry:
    """A registry of Confluent's protocol."""

    def __init__(self, client: RegistryClient, count: Callable[[Outcome], None]) -> None:
        """`count` is called for each question to the registry, with what became of it."""
        self._client = client
        self._count = count
        self._references: dict[Reference, SchemaText] = {}
        """Versions of subjects never change."""

    async def schema(self, schema: SchemaId) -> SchemaText:
        """Return a schema with its references. Raises MissingSchema, UnreadableSchema,
        RegistryUnavailable."""
        if schema.kind == GLUE_VERSION:
            raise MissingSchema('is one of AWS Glue: needs registry.kind = "glue"')
        if not protocol.is_askable(schema):
            raise MissingSchema(NOT_THERE)
        return await self._text(schema, _Bound())

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _text(self, wanted: SchemaId | Reference, bound: "_Bound") -> SchemaText:
        stored = protocol.stored(wanted, await self._get(wanted))
        text = stored.text
        if stored.codec == PROTOBUF:
            if isinstance(wanted, SchemaId) and wanted.kind == "global":
                raise UnreadableSchema(protocol.NO_DESCRIPTOR)
            text = protocol.descriptor_of(await self._get(wanted, serialized=True))
        references = []
        for reference in stored.references:
            references.append((reference.name, await self._referred(reference, bound)))
        return SchemaText(stored.codec, text, tuple(references))

    async def _referred(self, reference: Reference, bound: "_Bound") -> SchemaText:
        bound.enter(reference)
        # Its name is that of the import, and may differ from one schema to the next.
        key = reference._replace(name="")
        found = self._references.get(key)
        if found is None:
            try:
                found = await self._text(reference, bound)
            except MissingSchema:
                where = f"version {reference.version} of subject {reference.subject}"
                text = f"needs {reference.name}, {where}, which is not in the registry"
                raise UnreadableSchema(text) from None
            self._references[key] = found
        bound.leave()
        return found

    async def _get(self, wanted: SchemaId | Reference, *, serialized: bool = False) -> Answer:
        def url_of(base: str) -> str:
            if isinstance(wanted, Reference):
                return protocol.reference_url(base, wanted, serialized=serialized)
            return protocol.schema_url(base, wanted, serialized=serialized)

        def lacks_guids(answer: Answer) -> bool:
            return isinstance(wanted, SchemaId) and protocol.has_no_guids(wanted, answer)

        def trouble_of(answer: Answer) -> str | None:
            return None if lacks_guids(answer) else protocol.trouble(answer)

        try:
            answer = await self._client.get(url_of, trouble_of)
        except RegistryUnavailable:
            self._count("failed")
            raise
        is_missing = protocol.is_missing(answer)
        self._count("missing" if is_missing or lacks_guids(answer) else "ok")
        if is_missing:
            raise MissingSchema(NOT_THERE)
        if lacks_guids(answer):
            raise MissingSchema(NO_GUIDS)
        return answer


class _Bound:
    """How many references of one schema were followed, and how deep it is now."""

    def __init__(self) -> None:
        self._count = self._depth = 0

    def enter(self, reference: Reference) -> None:
        """Raises UnreadableSchema where these are too many, as of a circle."""
        self._count += 1
        self._depth += 1
        if self._count > MOST_REFERENCES:
            raise UnreadableSchema(f"has more than {MOST_REFERENCES} references")
        if self._depth > MOST_DEPTH:
            raise UnreadableSchema(
                f"its references are more than {MOST_DEPTH} deep, at {reference.name}"
            )

    def leave(self) -> None:
        self._depth -= 1
