"""Lanes that wait for schemas: which, why, and until when."""

import asyncio
import random
from collections.abc import Collection
from typing import Final

import structlog

from ..backoff import finished_before_stop, pause_s, stopped_within
from ..errors import RegistryUnavailable
from ..schemas import SchemaId
from .batch import Records
from .taking_over import Schemas

log = structlog.get_logger(__name__)

NAMED: Final = 3
"""So many schemas are named that a lane waits for."""
MANY: Final = 100
"""A lane that asks for more schemas than this at once says so: its records may not be framed."""
REGISTRY: Final = "registry"


class SchemaWaits:
    """Lanes whose next records name schemas that are not known yet: they wait until these are
    fetched.

    Nothing of such a batch is applied before, so a lane that is taken away meanwhile, or a process
    that ends, leaves nothing behind. Lanes whose records name only known schemas go on, whatever
    the registry does.
    """

    def __init__(self, schemas: Schemas | None, stop: asyncio.Event) -> None:
        self._schemas = schemas
        self._stop = stop
        self._waiting: dict[int, tuple[str, str, str]] = {}
        """Lane → (what the registry does, which schemas the lane waits for, why)."""

    @property
    def waiting_for(self) -> dict[str, str]:
        """What the registry does → which lanes wait for which schemas: for readiness."""
        lanes, reasons = dict[str, list[str]](), dict[str, str]()
        for lane, (server, schemas, why) in sorted(self._waiting.items()):
            lanes.setdefault(server, []).append(f"lane {lane} waits for {schemas}")
            reasons[server] = f" ({why})" if why else reasons.get(server, "")
        return {server: "; ".join(several) + reasons[server] for server, several in lanes.items()}

    def unknown(self, records: Records) -> set[SchemaId]:
        """The schemas to wait for before these records are decoded."""
        return set() if self._schemas is None else self._schemas.unknown(records)

    async def fetched(self, lane: int, wanted: set[SchemaId]) -> bool:
        """Wait until the schemas are fetched, however often the registry fails; returns False where
        the process is to stop before."""
        assert self._schemas is not None
        failures, said = 0, set[str]()
        try:
            if len(wanted) > MANY:
                self._say_many(lane, wanted)
            while not self._stop.is_set():
                try:
                    return await finished_before_stop(self._schemas.fetch(wanted), self._stop)
                except RegistryUnavailable as error:
                    failures += 1
                    self._note(lane, wanted, error, str(error) not in said)
                    said.add(str(error))
                await stopped_within(self._stop, pause_s(failures, random.random()))
            return False
        finally:
            if self._waiting.pop(lane, None) is not None:
                log.info("no longer waiting for schemas", lane=lane, failures=failures)

    def _note(
        self, lane: int, wanted: Collection[SchemaId], error: RegistryUnavailable, is_new: bool
    ) -> None:
        self._waiting[lane] = (str(error), schema_names(wanted), error.reason)
        if is_new:
            log.warning(
                "waiting for schemas",
                server=str(error),
                lane=lane,
                schemas=schema_names(wanted),
                reason=error.reason,
            )

    def _say_many(self, lane: int, wanted: Collection[SchemaId]) -> None:
        why = "asked for some at a time: are its records framed? If not, set framing of the source"
        self._waiting[lane] = (REGISTRY, f"{len(wanted):,} unknown schemas", why)
        log.warning(
            "many unknown schemas", lane=lane, schemas=len(wanted), example=schema_names(wanted)
        )


def schema_names(schemas: Collection[SchemaId]) -> str:
    """The names of schemas, the first few of many: `schema 12`; `schemas 12, 13, 14 and 5 more`."""
    listed = sorted(schemas, key=lambda schema: (schema.kind, str(schema.value).zfill(20)))
    texts = [str(schema).removeprefix("schema ") for schema in listed[:NAMED]]
    more = f" and {len(listed) - NAMED} more" if len(listed) > NAMED else ""
    return f"schema{'s' if len(listed) > 1 else ''} {', '.join(texts)}{more}"
