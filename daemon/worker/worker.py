"""The worker: records of its lanes in, commits out. One direction; not polling is the
back-pressure.

    poll ─▶ process each lane ─▶ poll …
                    └▶ dead letters acknowledged ─▶ commit    (a task per lane)

A lane whose batch is being made durable is busy: its next records wait in the source, and no other
lane waits for it. So a lane has one writer, one step at a time, and a world that does not answer
one lane holds back that lane alone.
"""

import asyncio
import gc
import math
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..events.types import Decoder, LogRecord
from ..storage.store import Store
from ..telemetry.process import Telemetry
from . import batch as batches
from .batch import DeadLetter
from .committer import DeadLetters, Finisher
from .memory import IdleTrim, MemoryBound
from .ownership import OwnedLane, Ownership
from .pacing import LEAST_RECORDS, Work, is_backlog, next_piece, next_size
from .reporting import Reporter
from .source import Batch, Source

TOUCH_EVERY_S: Final = 2.0
"""An idle owner compares, and writes its idle mark, this often; readers rely on 5 s."""
POLL_MS: Final = 500
BUSY_POLL_MS: Final = 20
"""While lanes are busy, or being opened: their next records wait for the end of the poll."""
LAST_TRY_S: Final = 5.0
"""How long batches in hand are still tried to be committed when the process is told to stop."""
WRONG_LANE_SAMPLE: Final = 20
"""Waiting feedback per batch that is looked up in the other lanes."""


@dataclass(frozen=True)
class Pace:
    """How much a batch gathers, at most."""

    max_records: int
    commit_interval_s: float


class Worker:
    """Moves its lanes forward until it is told to stop."""

    def __init__(
        self,
        source: Source,
        store: Store,
        ownership: Ownership,
        decoder: Decoder,
        pace: Pace,
        telemetry: Telemetry,
        dead_letters: DeadLetters | None,
        clock: Callable[[], float],
        stop: asyncio.Event,
        memory: MemoryBound | None = None,
    ) -> None:
        self._source = source
        self._ownership = ownership
        self._decoder = decoder
        self._pace = pace
        self._telemetry = telemetry
        self._clock = clock
        self._stop = stop
        self.memory = memory or MemoryBound(None)
        self._idle_trim = IdleTrim()
        bound = self.memory.bytes
        telemetry.memory_bound_bytes.set(math.inf if bound is None else bound)
        self._size = min(LEAST_RECORDS, pace.max_records)
        self._piece = LEAST_RECORDS
        self._busy: dict[int, asyncio.Task[None]] = {}
        self._polled_ms = 0
        self._reporter = Reporter(source, ownership, telemetry)
        self._finisher = Finisher(source, store, ownership, dead_letters, telemetry, stop)
        self._lane_went = False
        """Whether a lane was dropped since the last report."""

    @property
    def waiting_for(self) -> dict[str, str]:
        """What does not answer, and for which lane or partition, with the reason: for readiness."""
        return self._finisher.waiting_for | self._reporter.kafka_faults

    async def run(self) -> None:
        """Work until told to stop; the batches in hand are committed before this returns, if that
        takes no longer than LAST_TRY_S."""
        try:
            while not self._stop.is_set():
                await self._turn()
        finally:
            await self._end()

    async def _turn(self) -> None:
        began_s, size = time.monotonic(), self._size
        self._drop_lost()
        if has_room := self._has_room():
            self._ownership.open_assigned()
        free = await self._free_lanes()
        unasked, opening = list(self._busy.values()), has_room and self._ownership.is_opening
        timeout_ms = BUSY_POLL_MS if unasked or opening else POLL_MS
        batch = await self._source.poll(size, timeout_ms, free if has_room else ())
        self._polled_ms = int(self._clock() * 1000)
        async with self._source.batch_in_hand():
            self._drop_lost()
            work = await self._take(batch, asked_all=not unasked)
            self._touch_idle(batch)
            # The new tasks begin: each holds its own batch in hand from here on.
            await asyncio.sleep(0)
        self._size = next_size(size, work, self._pace.max_records)
        self._piece = next_piece(self._piece, work)
        self._report()
        self._idle_trim.after_turn(work.taken, time.monotonic())
        if not (is_backlog(size, work) or (has_room and self._ownership.is_opening)):
            await self._gather(began_s, unasked)

    def _has_room(self) -> bool:
        """Whether this process may take more into its memory; else it stays in the group and reads
        nothing."""
        is_full = self.memory.is_reached()
        self._telemetry.memory_bound_met.set(is_full)
        return not is_full

    async def _end(self) -> None:
        """Give the batches in hand a last chance, and leave no task behind."""
        tasks = list(self._busy.values())
        if tasks:
            await asyncio.wait(tasks, timeout=LAST_TRY_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, self._ownership.stop_opening(), return_exceptions=True)
        for task in tasks:
            _raise_fault(task)

    # Lanes

    def _drop_lost(self) -> None:
        for lane in self._ownership.drop_lost():
            self._lane_went = True
            if lane in self._busy:
                self._busy[lane].cancel()
            self._finisher.forget(lane)

    async def _free_lanes(self) -> frozenset[int]:
        """The lanes whose next records can be taken. Waits for one, but not for long."""
        self._reap()
        if self._busy and self._busy.keys() >= self._ownership.lanes.keys():
            tasks = self._busy.values()
            await asyncio.wait(tasks, timeout=POLL_MS / 1000, return_when=asyncio.FIRST_COMPLETED)
            self._reap()
        return frozenset(self._ownership.lanes.keys() - self._busy.keys())

    def _reap(self) -> None:
        for lane, task in list(self._busy.items()):
            if task.done():
                del self._busy[lane]
                _raise_fault(task)

    def _begin(self, owned: OwnedLane, step: Coroutine[Any, Any, None]) -> None:
        self._busy[owned.held.lane.number] = asyncio.create_task(step)

    # Batches

    async def _take(self, batch: Batch, *, asked_all: bool) -> Work:
        """Process each lane, and begin to make it durable."""
        work = Work(0, asked_all=asked_all)
        for number, topics in batch.lanes.items():
            owned = self._ownership.lanes.get(number)
            if owned is None:
                continue
            began_s = time.perf_counter()
            try:
                dead, work = await self._process(owned, topics, batch.next_offsets[number], work)
            except OverflowError as error:
                # Its memory is half a batch ahead; the next owner would meet the same.
                await self._ownership.halt(number, error)
                continue
            if self._ownership.lanes.get(number) is not owned:
                continue
            self._sample_wrong_lanes(owned)
            idle_ms = self._idle_ms(number, batch)
            self._begin(owned, self._finisher.finish(owned, dead, idle_ms, began_s))
            records = sum(map(len, topics.values()))
            spent = work.batch.or_longer(records, time.perf_counter() - began_s)
            work = replace(work, taken=work.taken + records, batch=spent)
            await asyncio.sleep(0)
        return work

    async def _process(
        self,
        owned: OwnedLane,
        topics: Mapping[str, Sequence[LogRecord]],
        next_offsets: Mapping[str, int],
        work: Work,
    ) -> tuple[list[DeadLetter], Work]:
        """Take a batch into the lane's memory, and let others have their turn after each piece."""
        lane, longest = owned.held.lane, work.piece
        dead: list[DeadLetter] = []
        batches.begin(lane)
        for topic, records in batches.pieces(topics, self._piece):
            began_s = time.perf_counter()
            dead += batches.take(lane, topic, records, self._decoder)
            longest = longest.or_longer(len(records), time.perf_counter() - began_s)
            await asyncio.sleep(0)
        began_s = time.perf_counter()
        batches.end(lane, next_offsets)
        closing_s = max(work.closing_s, time.perf_counter() - began_s)
        return dead, replace(work, piece=longest, closing_s=closing_s)

    # Idle lanes

    def _touch_idle(self, batch: Batch) -> None:
        """Compare for every lane that had nothing to commit for a while."""
        due_s = time.monotonic() - TOUCH_EVERY_S
        for number, owned in self._ownership.lanes.items():
            if owned.asked_s <= due_s and number not in self._busy:
                owned.asked_s = time.monotonic()
                self._begin(owned, self._finisher.touch(owned, self._idle_ms(number, batch)))

    def _idle_ms(self, lane: int, batch: Batch) -> int | None:
        """The clock when the end of the log was last seen, where it was."""
        return self._polled_ms if lane in batch.caught_up else None

    # Beside the flow

    async def _gather(self, began_s: float, unasked: Sequence["asyncio.Task[None]"]) -> None:
        """Let records come together when there are few, so that a quiet topic does not make a
        commit for each. A lane that was busy ends it: it may have more than a few."""
        left_s = began_s + self._pace.commit_interval_s - time.monotonic()
        if left_s <= 0 or any(task.done() for task in unasked):
            return
        stopped = asyncio.ensure_future(self._stop.wait())
        ends = {stopped, *unasked}
        await asyncio.wait(ends, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()

    def _sample_wrong_lanes(self, owned: OwnedLane) -> None:
        """Feedback whose impression another lane of this process holds: the topics are not
        partitioned alike."""
        waiting = owned.held.lane.waiting
        last = min(waiting.next_serial, owned.held.next_serial + WRONG_LANE_SAMPLE)
        for serial in range(owned.held.next_serial, last):
            held = waiting.by_serial.get(serial)
            if held is None or held.bound_ms is not None:
                continue
            others = (o.held.lane for o in self._ownership.lanes.values() if o is not owned)
            if any(lane.open.slots_of(held.impression_id) for lane in others):
                self._telemetry.wrong_lane_feedback.inc()

    def _report(self) -> None:
        if self._reporter.report() and self._lane_went:
            # What was fetched for a lane that went is megabytes that refer to themselves in the
            # client: only the garbage collector finds them.
            gc.collect()
            self._lane_went = False


def _raise_fault(task: "asyncio.Task[None]") -> None:
    """Let out what nobody foresaw: it ends the process, and nothing uncommitted is kept."""
    if not task.cancelled():
        task.result()
