"""Making a lane's batch durable: dead letters acknowledged first, then the commit.

That order is what makes dead letters at-least-once: the commit moves the stored offsets past the
refused records, and nothing reads them again. A crash between the two steps sends the letters
twice; in the other order it would lose them.

Each step belongs to one lane alone: a lane that waits here holds back no other.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from ..backoff import pause_s, stopped_within
from ..errors import Damaged, Lost, Unavailable
from ..storage.commit import Commit, confirm, plan_commit
from ..storage.store import Answer
from .batch import DeadLetter
from .integrity import Damage, Integrity
from .ownership import OwnedLane, Ownership
from .ports import Ports, Process
from .refused_records import RefusedRecordsLog

log = structlog.get_logger(__name__)
T = TypeVar("T")

LAST_PAUSE_S: Final = 0.5
"""The longest pause between tries once the process is to stop."""
REDIS: Final = "Redis"
DEAD_LETTERS: Final = "dead letters"
LETTERS_AT_ONCE: Final = 50
LETTERS_TIMEOUT_S: Final = 3.0
"""Dead letters that are not acknowledged within this time are sent again."""
NOT_OURS: Final = "another process claimed the lane, or the store lost or rolled back its state"


class Committer:
    """Commits batches, and compares the owner of idle lanes, however often a server fails."""

    def __init__(self, ports: Ports, process: Process, ownership: Ownership) -> None:
        self._source = ports.source
        self._store = ports.store
        self._dead_letters = ports.dead_letters
        self._ownership = ownership
        self._telemetry = process.telemetry
        self._stop = process.stop
        self._integrity = Integrity(ports.store, process.telemetry)
        self._refused_records = RefusedRecordsLog(process.log_record_values)
        self.waiting_for: dict[str, str] = {}
        """Which server does not answer, for which lane, and why."""

    def forget(self, lane: int) -> None:
        """Wait for nothing more on behalf of a lane that was taken away."""
        self.waiting_for.pop(_waiting_key(REDIS, lane), None)

    async def commit(
        self, owned: OwnedLane, letters: list[DeadLetter], idle_ms: int | None, began_s: float
    ) -> None:
        """Make a processed batch durable: until then the lane in memory is ahead of the store."""
        claimed = owned.claimed
        lane = claimed.lane.number
        if letters:
            self._refused_records.log(letters, time.monotonic())
            await self._retry(lane, DEAD_LETTERS, lambda: self._publish(letters))
        commit = plan_commit(claimed, idle_ms)
        answer = await self._retry(lane, REDIS, lambda: self._store.commit(commit))
        self._telemetry.commits.labels(answer).inc()
        self._telemetry.batch_duration_s.observe(time.perf_counter() - began_s)
        if answer == "damaged":
            await self._repair(owned, Damage("keys or names are missing"), idle_ms)
            return
        if await self._is_taken(owned, commit, answer) and self._integrity.is_due(owned):
            await self._verify(owned, idle_ms)

    async def _is_taken(self, owned: OwnedLane, commit: Commit, answer: Answer) -> bool:
        """Note the answer to a commit; returns whether the lane is still ours."""
        claimed = owned.claimed
        if answer == "lost":
            await self._ownership.give_up(claimed.lane.number, NOT_OURS, confirm_first=True)
            return False
        confirm(claimed, commit)
        self._ownership.commit_confirmed(owned)
        self._source.hint(claimed.lane.number, claimed.lane.offsets)
        return True

    async def _verify(self, owned: OwnedLane, idle_ms: int | None) -> None:
        """Check that all of the lane's keys are there, and repair the lane if they are not."""
        try:
            async with self._source.batch_in_hand():
                damage = await self._integrity.damage(owned)
        except Lost:
            lane = owned.claimed.lane.number
            await self._ownership.give_up(lane, NOT_OURS, confirm_first=True)
            return
        if damage is not None:
            await self._repair(owned, damage, idle_ms)

    async def _repair(self, owned: OwnedLane, damage: Damage, idle_ms: int | None) -> None:
        lane = owned.claimed.lane.number
        try:
            commit, answer = await self._integrity.repair(
                owned, damage, idle_ms, lambda call: self._retry(lane, REDIS, call)
            )
        except Lost:
            await self._ownership.give_up(lane, NOT_OURS, confirm_first=True)
        except Damaged as error:
            await self._ownership.halt(lane, error)
        else:
            self._telemetry.commits.labels(answer).inc()
            await self._is_taken(owned, commit, answer)

    async def touch(self, owned: OwnedLane, idle_ms: int | None) -> None:
        """Compare token and sequence, and write the idle mark. A lane that is not ours any more
        is given up."""
        claimed = owned.claimed
        lane = claimed.lane.number
        key = _waiting_key(REDIS, lane)
        try:
            async with self._source.batch_in_hand():
                is_owner = await self._store.touch(lane, claimed.token, claimed.sequence, idle_ms)
        except Unavailable as error:
            # Not tried again: the next batch or touch compares too.
            self.waiting_for[key] = str(error)
            return
        self.waiting_for.pop(key, None)
        if not is_owner:
            self._telemetry.commits.labels("lost").inc()
            await self._ownership.give_up(lane, NOT_OURS, confirm_first=True)
            return
        if idle_ms is not None:
            claimed.idle_ms = idle_ms
        if self._integrity.is_due(owned):
            await self._verify(owned, idle_ms)

    async def _publish(self, letters: list[DeadLetter]) -> None:
        while letters and self._dead_letters is not None:
            chunk = letters[:LETTERS_AT_ONCE]
            try:
                async with asyncio.timeout(LETTERS_TIMEOUT_S):
                    await self._dead_letters.publish(chunk)
            except TimeoutError as error:
                raise Unavailable("not acknowledged in time") from error
            # Acknowledged letters are not sent again, however long the others take.
            del letters[: len(chunk)]
            self._telemetry.dead_letters.inc(len(chunk))

    async def _retry(self, lane: int, server: str, call: Callable[[], Awaitable[T]]) -> T:
        """Call until there is an answer. A rebalance waits for a call in flight, but not for the
        pauses between calls: there it takes the lane away, and this is cancelled."""
        failures, key = 0, _waiting_key(server, lane)
        try:
            while True:
                try:
                    async with self._source.batch_in_hand():
                        answer = await call()
                except Unavailable as error:
                    failures += 1
                    if failures == 1:
                        reason = str(error)
                        log.warning(
                            "waiting for an answer", server=server, lane=lane, reason=reason
                        )
                    self.waiting_for[key] = str(error)
                else:
                    if failures:
                        log.info("answered again", server=server, lane=lane, failures=failures)
                    return answer
                await self._pause(pause_s(failures, random.random()))
        finally:
            self.waiting_for.pop(key, None)

    async def _pause(self, seconds: float) -> None:
        """Wait before the next try. A stop ends a long pause."""
        if self._stop.is_set():
            await asyncio.sleep(min(seconds, LAST_PAUSE_S))
        else:
            await stopped_within(self._stop, seconds)


def _waiting_key(server: str, lane: int) -> str:
    return f"{server}, lane {lane}"
