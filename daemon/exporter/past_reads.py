"""The filled hours of a namespace as an exporter knows them, read once: they never change."""

from collections.abc import Mapping
from typing import Protocol

import structlog

from ..errors import Damaged
from ..plan import Plan
from ..storage.past import Filling, StoredPast
from .baselines import DAY

log = structlog.get_logger(__name__)


class Past(Protocol):
    """Where filled hours are stored. All methods raise Unavailable and Damaged."""

    async def fillings(self) -> Mapping[int, Filling]:
        """What is published, by number."""

    async def load(self, filling: Filling) -> StoredPast:
        """A filling with its rows."""


class PastReads:
    """The filled hours of one namespace, for one exporter."""

    def __init__(self, past: Past, plan: Plan) -> None:
        self._past = past
        self._keep_ms = (plan.history_hours + DAY) * plan.hour_ms  # with a day for clocks
        self._known: dict[str, StoredPast | None] = {}
        """By id; None: it cannot be read, and is left out."""

    async def refresh(self, now_ms: int) -> tuple[StoredPast, ...]:
        """Read what is new, and return all, in the order in which it was published. Raises
        Unavailable."""
        try:
            fillings = [*(await self._past.fillings()).values()]
        except Damaged as error:
            log.error("the filled hours cannot be read: they are left out", reason=str(error))
            fillings = []
        for filling in fillings:
            if filling.id not in self._known:
                self._known[filling.id] = await self._load(filling, now_ms)
        self._known = {filling.id: self._known[filling.id] for filling in fillings}
        return tuple(past for past in self._known.values() if past is not None)

    async def _load(self, filling: Filling, now_ms: int) -> StoredPast | None:
        try:
            past = await self._past.load(filling)
        except Damaged as error:
            if filling.until_ms < now_ms - self._keep_ms:
                return None  # it has expired
            log.error("filled hours are left out: fill them again", reason=str(error))
            return None
        if past.lost:
            log.error("Redis lost rows of filled hours: these are left out", hours=len(past.lost))
        return past
