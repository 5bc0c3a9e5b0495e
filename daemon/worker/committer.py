"""Making a lane's batch durable: dead letters acknowledged first, then the commit.

That order is what makes dead letters at-least-once: the commit moves the stored offsets past the
refused records, and nothing reads them again. A crash between the two steps sends the letters
twice; in the other order it would lose them.

Each step belongs to one lane alone: a lane that waits here holds back no other.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import structlog

from ..backoff import pause_s, stopped_within
from ..errors import Damaged, Lost, SourceReplaced, Unavailable
from ..schemas import SchemaId
from ..storage import Answer, Commit, StallMark, confirm, plan_commit
from ..telemetry import Telemetry
from . import batch as batches
from .batch import DeadLetter, Records
from .dated_files import FileWaits, WatchedDirectory, classes_use, judgements_use
from .dead_letters import RefusedRecordsLog
from .lane_opening import OwnedLane
from .memory_repair import Damage, Integrity
from .ownership import Ownership
from .schema_waits import SchemaWaits
from .stalls import MARKS, is_suspect, is_to_pass_over, one_by_one
from .taking_over import Ports, Process

log = structlog.get_logger(__name__)
T = TypeVar("T")

LAST_PAUSE_S: Final = 0.5
"""The longest pause between tries once the process is to stop."""
REDIS: Final = "Redis"
DEAD_LETTERS: Final = "dead letters"
LETTERS_AT_ONCE: Final = 50
LETTERS_TIMEOUT_S: Final = 3.0
"""So long does a rebalance wait for dead letters that are not acknowledged."""
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
        with self._telemetry.span("relevanced.commit", lane=lane) as span:
            if letters:
                self._refused_records.log(letters, time.monotonic())
                await self._publish(lane, letters)
            commit = plan_commit(claimed, idle_ms)
            answer = await self._retry(lane, REDIS, lambda: self._store.commit(commit))
            span.set_attribute("result", answer)
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
            with self._telemetry.span("relevanced.commit", lane=lane) as span:
                commit, answer = await self._integrity.repair(
                    owned, damage, idle_ms, lambda call: self._retry(lane, REDIS, call)
                )
                span.set_attribute("result", answer)
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

    async def _publish(self, lane: int, letters: list[DeadLetter]) -> None:
        """Send these, some at a time. A rebalance waits for them no longer than for anything else,
        but what is on its way is waited for and not sent again: a topic that takes longer than that
        would get the same letters for ever."""
        topic, sending = self._dead_letters, None
        if topic is None:
            return

        async def acknowledged(chunk: list[DeadLetter]) -> None:
            nonlocal sending
            if sending is None:
                sending = asyncio.create_task(topic.publish(chunk))
            done, _ = await asyncio.wait({sending}, timeout=LETTERS_TIMEOUT_S)
            if not done:
                raise Unavailable("not acknowledged in time")
            ended, sending = sending, None
            ended.result()

        try:
            while letters:
                chunk = letters[:LETTERS_AT_ONCE]
                await self._retry(lane, DEAD_LETTERS, partial(acknowledged, chunk))
                del letters[: len(chunk)]
                self._telemetry.dead_letters.inc(len(chunk))
        finally:
            if sending is not None:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)

    async def _retry(self, lane: int, server: str, call: Callable[[], Awaitable[T]]) -> T:
        """Call until there is an answer. A rebalance waits for a call in flight, but not for the
        pauses between calls: there it takes the lane away, and this is cancelled."""
        failures, key, trouble = 0, _waiting_key(server, lane), None
        try:
            while True:
                try:
                    async with self._source.batch_in_hand():
                        answer = await call()
                except Unavailable as error:
                    failures += 1
                    if error.trouble != trouble:
                        trouble, reason = error.trouble, str(error)
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


REASON: Final = "stalls"
"""Of a dead letter: work on the record takes so long that its lane is lost."""

Apply: TypeAlias = Callable[[OwnedLane, Records, Mapping[str, int]], Awaitable[list[DeadLetter]]]
"""Applies records to a lane in memory; returns their dead letters."""


class WaitingLanes:
    """Takes batches that are not processed in turn with those of other lanes, by a task for each:
    those that must wait for schemas or dated files, and those whose records are taken one by one,
    each with a commit of its own (see `stalls`)."""

    def __init__(
        self,
        ports: Ports,
        process: Process,
        ownership: Ownership,
        committer: Committer,
        apply: Apply,
    ) -> None:
        self._source = ports.source
        self._span = process.telemetry.span
        self._ownership = ownership
        self._committer = committer
        self._apply = apply
        self._waits = SchemaWaits(ports.schemas, process.stop)
        self.files = FileWaits(
            _directories(ports, process.telemetry),
            lambda: [owned.claimed.lane for owned in ownership.lanes.values()],
            process.stop,
        )

    @property
    def waiting_for(self) -> dict[str, str]:
        """What does not answer, or is not there → which lanes wait for what: for readiness."""
        return self._waits.waiting_for | self.files.waiting_for

    def step(
        self, owned: OwnedLane, batch: Records, next_offsets: Mapping[str, int]
    ) -> Coroutine[Any, Any, None] | None:
        """What takes this batch apart from those of other lanes; None if it can be taken in turn
        with them."""
        wanted = self._waits.unknown(batch)
        # Who waits for schemas first is not said to wait for files: the lane may be gone by then.
        is_ready = not self.files.obstacles(owned.claimed.lane, batch)
        if not wanted and is_ready and _suspicion(owned) is None:
            return None
        return self._take(owned, batch, next_offsets, wanted)

    async def _take(
        self,
        owned: OwnedLane,
        batch: Records,
        next_offsets: Mapping[str, int],
        wanted: set[SchemaId],
    ) -> None:
        """Process and commit a batch, once the schemas that it names are fetched, and the files are
        there that grade and class it. Ends early where the lane is lost, or the process is to stop
        before: then nothing of it is applied."""
        number = owned.claimed.lane.number
        if wanted and not await self._waits.fetched(number, wanted):
            await self._leave(owned)
            return
        if not await self.files.given(owned.claimed.lane, batch):
            await self._leave(owned)
            return
        mark, parts = _suspicion(owned), [(batch, next_offsets)]
        if mark is not None:
            log.warning("records are taken one by one", lane=number, until=mark.until)
            parts = list(one_by_one(mark, batch, next_offsets))
        for records, offsets in parts:
            count = sum(map(len, records.values()))
            with self._span("relevanced.batch", lane=number, records=count):
                await self._take_part(owned, mark, records, offsets)
            if self._ownership.lanes.get(number) is not owned:
                return

    async def _take_part(
        self,
        owned: OwnedLane,
        mark: StallMark | None,
        records: Records,
        next_offsets: Mapping[str, int],
    ) -> None:
        """Process and commit records, unless the lane is lost meanwhile."""
        number, began_s = owned.claimed.lane.number, time.perf_counter()
        try:
            async with self._source.batch_in_hand():
                if self._ownership.lanes.get(number) is not owned:
                    return
                if mark is not None and is_to_pass_over(mark, records):
                    letters = [_passed_over(owned, records, next_offsets)]
                else:
                    letters = await self._apply(owned, records, next_offsets)
        except (OverflowError, SourceReplaced) as error:
            await self._ownership.halt(number, error)
            return
        await self._committer.commit(owned, letters, None, began_s)

    async def _leave(self, owned: OwnedLane) -> None:
        """Forget a lane of which a batch is not applied: no later one of it may be polled."""
        number = owned.claimed.lane.number
        if self._ownership.lanes.get(number) is owned:
            self._ownership.forget(number)
            await self._source.close(number)


def _directories(ports: Ports, telemetry: Telemetry) -> list[WatchedDirectory[Any]]:
    """The directories of dated files that lanes may need."""
    of_classes = (
        WatchedDirectory(classes_use(attribute, telemetry), directory, ports.max_future_ms)
        for attribute, directory in ports.classes.items()
    )
    judgements = judgements_use(telemetry)
    return [WatchedDirectory(judgements, ports.judgements, ports.max_future_ms), *of_classes]


def _suspicion(owned: OwnedLane) -> StallMark | None:
    """The mark that makes the next records of the lane suspect, if there is one."""
    mark = owned.claimed.stall
    return mark if is_suspect(mark, owned.claimed.lane.offsets) else None


def _passed_over(owned: OwnedLane, records: Records, next_offsets: Mapping[str, int]) -> DeadLetter:
    """Move the lane past a record without reading it; returns its dead letter."""
    ((record,),) = records.values()
    lane = owned.claimed.lane
    batches.begin(lane)
    lane.count("rejected", REASON)
    if lane.chain is not None:
        lane.chain.note_gap()
    batches.end(lane, next_offsets)
    log.error(
        "record passed over: work on it took so long that the lane was lost, each time",
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        reason=REASON,
    )
    detail = f"{MARKS} owners of its lane lost it while they worked on this record alone"
    return DeadLetter(record, REASON, detail)
