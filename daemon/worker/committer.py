"""Making a lane's batch durable: dead letters acknowledged, then the commit.

Each is one lane's alone: whoever waits here holds back no other lane.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

import structlog

from ..backoff import pause_s, stopped_within
from ..errors import Unavailable
from ..storage.commit import confirm, plan_commit
from ..storage.store import Store
from ..telemetry.process import Telemetry
from .batch import DeadLetter
from .ownership import OwnedLane, Ownership
from .refused_records import Refusals
from .source import Source

log = structlog.get_logger(__name__)
T = TypeVar("T")

LAST_PAUSE_S: Final = 0.5
REDIS: Final = "Redis"
DEAD_LETTERS: Final = "dead letters"
LETTERS_AT_ONCE: Final = 50
LETTERS_PATIENCE_S: Final = 3.0
"""Without an acknowledgement for this long, dead letters are sent again."""


class DeadLetters(Protocol):
    """Where records go that no event could be made of."""

    async def publish(self, letters: Sequence[DeadLetter]) -> None:
        """Returns when all are acknowledged. Raises Unavailable."""


class Finisher:
    """What a lane does with the outside world between two batches."""

    def __init__(
        self,
        source: Source,
        store: Store,
        ownership: Ownership,
        dead_letters: DeadLetters | None,
        telemetry: Telemetry,
        stop: asyncio.Event,
    ) -> None:
        self._source = source
        self._store = store
        self._ownership = ownership
        self._dead_letters = dead_letters
        self._telemetry = telemetry
        self._stop = stop
        self._refusals = Refusals()
        self.waiting_for: dict[str, str] = {}
        """What does not answer, and for which lane, with the reason."""

    def forget(self, lane: int) -> None:
        """The lane was taken away: whatever it waited for."""
        self.waiting_for.pop(f"{REDIS}, lane {lane}", None)

    async def finish(
        self, owned: OwnedLane, dead: list[DeadLetter], idle_ms: int | None, began_s: float
    ) -> None:
        """Make a processed batch durable: until then the lane's memory is ahead of the store."""
        lane = owned.held.lane.number
        if dead:
            self._refusals.tell(dead, time.monotonic())
            await self._insist(lane, DEAD_LETTERS, lambda: self._publish(dead))
        commit = plan_commit(owned.held, idle_ms)
        answer = await self._insist(lane, REDIS, lambda: self._store.commit(commit))
        self._telemetry.commits.labels(answer).inc()
        self._telemetry.batch_duration_s.observe(time.perf_counter() - began_s)
        if answer == "lost":
            await self._ownership.give_up(lane, "the store has another owner", confirm_first=True)
            return
        confirm(owned.held, commit)
        self._ownership.commit_taken(owned)
        self._source.hint(lane, owned.held.lane.offsets)

    async def touch(self, owned: OwnedLane, idle_ms: int | None) -> None:
        """Compare, and write the idle mark; a lane that has another owner is given up."""
        held = owned.held
        lane = held.lane.number
        place = f"{REDIS}, lane {lane}"
        try:
            async with self._source.batch_in_hand():
                known = await self._store.touch(lane, held.token, held.sequence, idle_ms)
        except Unavailable as error:
            # Nothing is at stake: the next batch, or the next touch, finds out.
            self.waiting_for[place] = str(error)
            return
        self.waiting_for.pop(place, None)
        if not known:
            self._telemetry.commits.labels("lost").inc()
            await self._ownership.give_up(lane, "the store has another owner", confirm_first=True)

    async def _publish(self, dead: list[DeadLetter]) -> None:
        while dead and self._dead_letters is not None:
            some = dead[:LETTERS_AT_ONCE]
            try:
                async with asyncio.timeout(LETTERS_PATIENCE_S):
                    await self._dead_letters.publish(some)
            except TimeoutError as error:
                raise Unavailable("not acknowledged in time") from error
            # Once acknowledged they are not sent again, however long the others take.
            del dead[: len(some)]
            self._telemetry.dead_letters.inc(len(some))

    async def _insist(self, lane: int, world: str, call: Callable[[], Awaitable[T]]) -> T:
        """Call until it is answered. A rebalance waits for a call, but not for the pauses between
        calls: it takes the lane, and this is cancelled."""
        failures, place = 0, f"{world}, lane {lane}"
        try:
            while True:
                try:
                    async with self._source.batch_in_hand():
                        answer = await call()
                except Unavailable as error:
                    failures += 1
                    if failures == 1:
                        log.warning("waiting", world=world, lane=lane, reason=str(error))
                    self.waiting_for[place] = str(error)
                else:
                    if failures:
                        log.info("answered again", world=world, lane=lane, failures=failures)
                    return answer
                await self._rest(pause_s(failures, random.random()))
        finally:
            self.waiting_for.pop(place, None)

    async def _rest(self, seconds: float) -> None:
        """Wait before the next try. Being told to stop ends a long pause."""
        if self._stop.is_set():
            await asyncio.sleep(min(seconds, LAST_PAUSE_S))
        else:
            await stopped_within(self._stop, seconds)
