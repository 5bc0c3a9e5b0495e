"""Fills a book of schemas with what records name: asks a registry, each id once, however many wait
for it.

A registry that lags behind another does not have a new schema yet. So "there is none" counts for a
fresh record only when it is said again half a minute later; it is then remembered for a minute.

A topic whose records begin as a frame does, with ids that are none, names a new id with each
record. So questions are bounded in number at once and in a second (`rate`), and of many ids at once
those are not asked for that are far outside of what the registry lists.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import structlog

from ..backoff import finished_before_stop, stopped_within
from ..errors import RegistryUnavailable, SchemaNotThere
from ..events import LogRecord
from ..lane import topic_of
from ..schemas import MOST_MISSING, SchemaBook, SchemaId, UnreadableSchema
from ..telemetry import RateLimit
from .client import NOT_THERE, MissingSchema, Registry
from .protocol import BURST, Rate

log = structlog.get_logger(__name__)

AT_ONCE: Final = 8
"""So many questions are on their way at most."""
MISSING_FOR_MS: Final = 60_000
"""How long until a schema is asked for again that is not there or cannot be read."""
FRESH_MS: Final = 60_000
"""A schema is registered before the first record that names it. So much later every address of the
registry has it."""
LARGEST_CLOCK_ERROR_MS: Final = 86_400_000
"""A record further ahead of the clock is of another time than now."""
AGAIN_MS: Final = 30_000
"""So long after "there is none" the same is asked again for fresh records."""
SAID_LATELY_MS: Final = 300_000
"""So long after a schema was missing, one answer suffices that it still is."""
FORGET_MS: Final = 600_000
"""How long it is kept that fresh records named a schema, while nobody gets an answer."""
LOOK_AGAIN_S: Final = 60.0
"""In so long each schema that is held is asked for again."""
LEAST_PAUSE_S: Final = 1.0
"""Between two such questions."""


class _Doubt(NamedTuple):
    """Of a schema that fresh records name, and that may come yet."""

    seen_ms: int = 0
    """When such records were last seen."""
    first_ms: int | None = None
    """When the registry first had none."""


class SchemaFiller:
    """What records name, from a registry into a book."""

    def __init__(self, book: SchemaBook, registry: Registry, rate: Rate | None = None) -> None:
        self.book = book
        self._registry = registry
        self._rate = rate or Rate()
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._asked: dict[SchemaId, asyncio.Task[None]] = {}
        self._held: list[SchemaId] = []
        self._doubts: dict[SchemaId, _Doubt] = {}
        self._log_limit = RateLimit[str]()

    def unknown(self, records: Mapping[str, Sequence[LogRecord]]) -> set[SchemaId]:
        """The schemas that must be fetched before these records are decoded."""
        found, now_ms = set[SchemaId](), _now_ms()
        for log, of_log in records.items():
            if topic_of(log) in self.book.topics:
                named = self.book.unknown(of_log, now_ms)
                if named and is_any_fresh(of_log, _clock_ms()):
                    self._doubt(named, now_ms)
                found |= named
        return found

    async def fetch(self, wanted: set[SchemaId]) -> None:
        """Ask for schemas, until each is in the book or noted as missing. Those are removed from
        `wanted`, also where this raises RegistryUnavailable; SchemaNotThere is raised where nothing
        else is wrong than that fresh records name schemas that may come yet."""
        unlisted = await self._settle_unlisted(wanted)
        not_there = SchemaNotThere(LAGS) if unlisted else None
        asked = sorted(wanted - unlisted, key=str)
        for first in range(0, len(asked), AT_ONCE):
            part = asked[first : first + AT_ONCE]
            # Others may have got an answer since the caller looked.
            still = [schema for schema in part if self.book.is_unknown(schema, _now_ms())]
            wanted.difference_update(set(part).difference(still))
            tasks = {schema: self._task(schema) for schema in still}
            # Shielded: others may wait for the same answer.
            results = await asyncio.gather(
                *(asyncio.shield(task) for task in tasks.values()), return_exceptions=True
            )
            for schema, result in zip(tasks, results, strict=True):
                if result is None:
                    wanted.discard(schema)
            for result in results:
                if isinstance(result, SchemaNotThere):
                    not_there = result
                elif isinstance(result, BaseException):
                    raise result
        if not_there is not None:
            raise not_there

    async def watch(self, stop: asyncio.Event) -> None:
        """Ask again for what is held, one schema after the other, until the process stops: a
        registry that was made anew gives other schemas by the same ids. Then all are read again."""
        turn = list[SchemaId]()
        while not await stopped_within(stop, self._pause_s()):
            turn = turn or list(self._held)
            if turn:
                await finished_before_stop(self.look_again(turn.pop()), stop)

    def _pause_s(self) -> float:
        return max(LOOK_AGAIN_S / max(len(self._held), 1), LEAST_PAUSE_S)

    async def look_again(self, schema: SchemaId) -> None:
        """Ask again for one schema that is held."""
        try:
            if await self._registry.has_another(schema):
                log.error(
                    "the registry gives another schema by an id than before: it was made anew, or"
                    " is another one. All schemas are read again; records since then may have been"
                    " refused, or read wrongly",
                    schema=str(schema),
                    held=len(self._held),
                )
                await self._read_again(schema)
        except (MissingSchema, UnreadableSchema) as error:
            if (schemas := self._log_limit.due("gone", 1, time.monotonic())) is not None:
                log.warning(
                    "the registry has a schema no more that was read",
                    schema=str(schema),
                    why=str(error),
                    schemas=schemas,
                )
        except RegistryUnavailable as error:
            log.debug("the registry was not asked again", server=str(error))

    async def _read_again(self, first: SchemaId) -> None:
        """Read all that is held again; what is not there any more is kept for older records."""
        for schema in [first, *(one for one in self._held if one != first)]:
            await asyncio.sleep(self._rate.take(time.monotonic()))
            try:
                self.book.add(schema, await self._registry.schema(schema))
            except MissingSchema:
                continue
            except UnreadableSchema as error:
                self._held.remove(schema)
                self.book.forget(schema)
                self._miss(schema, f"cannot be read: {error}")

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
            asked_ms = _now_ms()
            try:
                text = await self._registry.schema(schema)
                self.book.add(schema, text)
            except MissingSchema as error:
                if not self._settle(schema, str(error), asked_ms):
                    raise SchemaNotThere(LAGS) from error
            except UnreadableSchema as error:
                self._doubts.pop(schema, None)
                self._miss(schema, f"cannot be read: {error}")
            else:
                self._doubts.pop(schema, None)
                self._held.append(schema)
                log.debug("schema read", schema=str(schema), codec=text.codec)

    async def _settle_unlisted(self, wanted: set[SchemaId]) -> set[SchemaId]:
        """Of more schemas than are asked for at once: remove those that the registry cannot have by
        what it lists. Returns those of them that must be looked up again."""
        if len(wanted) <= BURST:
            return set()
        await asyncio.sleep(self._rate.take(time.monotonic()))
        asked_ms = _now_ms()
        listing = await self._registry.listing()
        # A listing without what was read is not one of everything.
        if listing is None or any(map(listing.cannot_have, self._held)):
            return set()
        outside = {schema for schema in wanted if listing.cannot_have(schema)}
        why = f"{NOT_THERE}, which lists {listing}"
        again = {schema for schema in outside if not self._settle(schema, why, asked_ms)}
        wanted -= outside - again
        return again

    def _doubt(self, schemas: Iterable[SchemaId], now_ms: int) -> None:
        for schema in schemas:
            if not self.book.was_missing(schema, now_ms - SAID_LATELY_MS):
                self._doubts[schema] = self._doubts.get(schema, _Doubt())._replace(seen_ms=now_ms)
        if len(self._doubts) > MOST_MISSING:  # those of lanes that are in other hands since
            oldest_ms = now_ms - FORGET_MS
            kept = {s: doubt for s, doubt in self._doubts.items() if doubt.seen_ms > oldest_ms}
            self._doubts = kept

    def _settle(self, schema: SchemaId, why: str, asked_ms: int) -> bool:
        """Take that the registry has no such schema, as it said to a question of this time.
        Returns False where it must say so again."""
        doubt = self._doubts.get(schema)
        if doubt is not None:
            if doubt.first_ms is None:
                self._doubts[schema] = doubt._replace(first_ms=_now_ms())
            if doubt.first_ms is None or asked_ms - doubt.first_ms < AGAIN_MS:
                return False
        self._doubts.pop(schema, None)
        self._miss(schema, why)
        return True

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


LAGS: Final = f"asked again for {AGAIN_MS // 1000} s: where it lags, a new schema is not there yet"


def is_any_fresh(records: Iterable[LogRecord], now_ms: int) -> bool:
    """Whether any of these was written just now, by its own time."""
    earliest, latest = now_ms - FRESH_MS, now_ms + LARGEST_CLOCK_ERROR_MS
    return any(earliest < record.timestamp < latest for record in records)


def _now_ms() -> int:
    return int(time.monotonic() * 1000)


def _clock_ms() -> int:
    return int(time.time() * 1000)
