"""Fills a book of schemas with what records name: asks a registry, each id once, however many wait
for it.

A topic whose records begin as a frame does, with ids that are none, names a new id with each
record. So questions are bounded in number at once and in a second (`rate`), and what is not there
is remembered for a minute.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import structlog

from ..codecs import SchemaBook, SchemaId, UnreadableSchema
from ..events import LogRecord
from ..telemetry import RateLimit
from .client import MissingSchema, Registry
from .protocol import Rate

log = structlog.get_logger(__name__)

AT_ONCE: Final = 8
"""So many questions are on their way at most."""
MISSING_FOR_MS: Final = 60_000
"""How long until a schema is asked for again that is not there or cannot be read."""


class SchemaFiller:
    """What records name, from a registry into a book."""

    def __init__(self, book: SchemaBook, registry: Registry, rate: Rate | None = None) -> None:
        self.book = book
        self._registry = registry
        self._rate = rate or Rate()
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._asked: dict[SchemaId, asyncio.Task[None]] = {}
        self._log_limit = RateLimit[str]()

    def unknown(self, records: Mapping[str, Sequence[LogRecord]]) -> set[SchemaId]:
        """The schemas that must be fetched before these records are decoded."""
        found = set[SchemaId]()
        for topic in self.book.topics:
            if topic in records:
                found |= self.book.unknown(records[topic], _now_ms())
        return found

    async def fetch(self, wanted: set[SchemaId]) -> None:
        """Ask for schemas, until each is in the book or noted as missing. Those are removed from
        `wanted`, also where this raises RegistryUnavailable."""
        for some in _in_parts(sorted(wanted, key=str), AT_ONCE):
            # Others may have got an answer since the caller looked.
            still = [schema for schema in some if self.book.is_unknown(schema, _now_ms())]
            wanted.difference_update(set(some).difference(still))
            tasks = {schema: self._task(schema) for schema in still}
            # Shielded: others may wait for the same answer.
            results = await asyncio.gather(
                *(asyncio.shield(task) for task in tasks.values()), return_exceptions=True
            )
            for schema, result in zip(tasks, results, strict=True):
                if result is None:
                    wanted.discard(schema)
            for result in results:
                if isinstance(result, BaseException):
                    raise result

    async def close(self) -> None:
        """Give up what is asked, and close the connections."""
        for task in self._asked.values():
            task.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)
        await self._registry.close()

    def _task(self, schema: SchemaId) -> "asyncio.Task[None]":
        task = self._asked.get(schema)
        if task is None:
            task = self._asked[schema] = asyncio.create_task(self._ask(schema))
            task.add_done_callback(lambda done: self._answered(schema, done))
        return task

    def _answered(self, schema: SchemaId, task: "asyncio.Task[None]") -> None:
        self._asked.pop(schema, None)
        if not task.cancelled():
            task.exception()  # Seen, also where whoever waited for it has left.

    async def _ask(self, schema: SchemaId) -> None:
        await asyncio.sleep(self._rate.take(time.monotonic()))
        async with self._at_once:
            try:
                text = await self._registry.schema(schema)
                self.book.add(schema, text)
            except MissingSchema as error:
                self._miss(schema, str(error))
            except UnreadableSchema as error:
                self._miss(schema, f"cannot be read: {error}")
            else:
                log.debug("schema read", schema=str(schema), codec=text.codec)

    def _miss(self, schema: SchemaId, why: str) -> None:
        self.book.add_missing(schema, _now_ms() + MISSING_FOR_MS, why)
        schemas = self._log_limit.due("missing", 1, time.monotonic())
        if schemas is not None:
            log.warning(
                "records name a schema that cannot be used",
                schema=str(schema),
                why=why,
                schemas=schemas,
            )


def _in_parts(schemas: Sequence[SchemaId], size: int) -> Iterable[Sequence[SchemaId]]:
    return (schemas[first : first + size] for first in range(0, len(schemas), size))


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
