"""Keys of a lane that vanish from the store: found by looking, written anew from memory."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import structlog

from ..errors import Damaged, Unavailable
from ..storage import (
    Answer,
    ClaimedLane,
    Commit,
    Store,
    lose_hours,
    missing_keys,
    past_hour_keys,
    plan_commit,
    plan_repair,
)
from ..telemetry import Telemetry
from .lane_opening import VERIFY_EVERY_S, OwnedLane

log = structlog.get_logger(__name__)

MOST_REPAIRS: Final = 5
"""Tries of a repair during which further keys vanish."""

Retry: TypeAlias = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Calls until there is an answer, while the lane is ours."""


@dataclass(frozen=True)
class Damage:
    """What the store has lost of a lane."""

    what: str
    only_past_hours: bool = False


class Integrity:
    """Checks whether all keys of the lanes of one worker are there, and repairs them from memory.

    A commit compares how many keys and names there are; that every key is there is checked once in
    a while. Whatever is missing, the owner writes everything it has anew in one commit. Only rows
    of past hours are in the store alone: an hour of which pages are missing is removed and noted as
    lost.
    """

    def __init__(self, store: Store, telemetry: Telemetry) -> None:
        self._store = store
        self._telemetry = telemetry

    def is_due(self, owned: OwnedLane) -> bool:
        """Whether the lane's keys are to be checked now."""
        return time.monotonic() - owned.verified_s >= VERIFY_EVERY_S

    async def damage(self, owned: OwnedLane) -> Damage | None:
        """What the store has lost of the lane as of its last commit; None where it is whole or
        cannot be asked now. Raises Lost."""
        claimed, owned.verified_s = owned.claimed, time.monotonic()
        lane = claimed.lane
        try:
            missing = await self._store.verify(lane.number, claimed.token, claimed.sequence)
        except Unavailable:
            return None  # asked again: the next commit or touch waits for an answer
        except Damaged as error:
            return Damage(str(error))
        if not missing:
            return None
        only_past = set(missing) <= set(past_hour_keys(lane))
        return Damage(missing_keys(missing), only_past)

    async def repair(
        self, owned: OwnedLane, damage: Damage, idle_ms: int | None, retry: Retry
    ) -> tuple[Commit, Answer]:
        """Write all of the lane anew, or, where only past hours are damaged, without those; returns
        the commit and its answer. Raises Lost, and Damaged where keys vanish as fast as they are
        written."""
        claimed, lane = owned.claimed, owned.claimed.lane
        log.error("a damaged lane is repaired from memory", lane=lane.number, reason=damage.what)
        for attempt in range(MOST_REPAIRS):
            await self._lose_hours(claimed, retry)
            plan = plan_commit if damage.only_past_hours and not attempt else plan_repair
            commit = await asyncio.to_thread(plan, claimed, idle_ms)
            answer = await retry(partial(self._store.commit, commit))
            if answer != "damaged":
                self._telemetry.lane_repairs.inc()
                return commit, answer
        raise Damaged(f"lane {lane.number}: keys vanish from Redis while they are written")

    async def _lose_hours(self, claimed: ClaimedLane, retry: Retry) -> None:
        lane, past = claimed.lane, past_hour_keys(claimed.lane)
        if past:
            ask = partial(self._store.verify, lane.number, claimed.token, claimed.sequence, past)
            missing = await retry(ask)
            lose_hours(lane, missing)
            if missing:
                log.error("rows of past hours are lost", lane=lane.number, hours=len(missing))
