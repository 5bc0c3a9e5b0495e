"""The worker: records of its lanes in, commits out. Back-pressure is not polling.

    poll ─▶ process each lane ─▶ poll …
                    └▶ dead letters acknowledged ─▶ commit    (a task per lane)

A lane is busy while its batch is made durable: its next records wait in the source. So a lane has
one writer that does one step at a time, and a silent server holds back that lane alone.
"""

import asyncio
import gc
import math
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..errors import SourceReplaced
from ..events import Decoder
from ..lane import new_lifts
from ..storage import note_read
from . import batch as batches
from .batch import DeadLetter, Records, idle_mark
from .committer import Committer, WaitingLanes
from .lane_opening import OwnedLane
from .lanes_advice import meeting_advice
from .ownership import Ownership
from .pacing import (
    MAX_BATCH_BYTES,
    MIN_BATCH_RECORDS,
    Pace,
    PollCost,
    is_backlog,
    next_batch_size,
    next_chunk_size,
)
from .process_memory import IdleTrim, MemoryBound
from .reporting import Reporter
from .source import Batch
from .stall_watch import StallWatch, take_steps
from .taking_over import Ports, Process

TOUCH_EVERY_S: Final = 2.0
"""How often an idle owner compares token and sequence and writes its idle mark. Readers rely on
5 s."""
POLL_MS: Final = 500
BUSY_POLL_MS: Final = 20
"""The timeout of a poll while lanes are busy or opening: one that becomes free waits for it."""
OPENING_TURN_S: Final = 0.25
"""While lanes are being opened, the open ones get a turn after each, and at least so often: else
the backlog of the first ones takes the time in which the others are rebuilt."""
LAST_TRY_S: Final = 5.0
"""How long the commits of batches in hand are still tried once the process is to stop."""
WRONG_LANE_SAMPLE: Final = 20
"""How much waiting feedback of a batch is looked up in the other lanes."""


FEW_SAMPLED: Final = 200
LEAST_MISPLACED: Final = 0.05


@dataclass
class Misplaced:
    """How much of the feedback that was looked up lately, at the start and where it waits, has its
    impression in another lane: the topics are not partitioned alike."""

    looked: int = 0
    found: int = 0
    cores: float = 0.0
    """What all lanes together take, as far as that is known."""

    def note(self, looked: int, found: int) -> None:
        """Note what came of one sample; earlier ones count less and less."""
        if self.looked > 10 * FEW_SAMPLED:
            self.looked, self.found = self.looked // 2, self.found // 2
        self.looked, self.found = self.looked + looked, self.found + found

    @property
    def text(self) -> str:
        """What readiness says; "" while it is little, or little was looked up."""
        if self.looked < FEW_SAMPLED or self.found < LEAST_MISPLACED * self.looked:
            return ""
        return (
            f"{self.found:,} of {self.looked:,} sampled pieces of feedback have their impression in"
            " another lane: the topics have different keys or partitioners (relevanced doctor tells"
            f" which). Mend that, or {meeting_advice(self.cores)}"
        )


class Worker:
    """Moves its lanes forward until the process is to stop."""

    def __init__(
        self,
        ports: Ports,
        process: Process,
        ownership: Ownership,
        decoder: Decoder,
        pace: Pace,
        memory: MemoryBound | None = None,
        stalls: StallWatch | None = None,
    ) -> None:
        self._source = ports.source
        self._ownership = ownership
        self._decoder = decoder
        self._pace = pace
        self._telemetry = process.telemetry
        self._clock = process.clock
        self._stop = process.stop
        self.memory = memory or MemoryBound(None)
        self._idle_trim = IdleTrim()
        self._stalls = stalls or StallWatch(None, math.inf)
        bound = self.memory.bytes
        self._telemetry.memory_bound_bytes.set(math.inf if bound is None else bound)
        self._batch_size = min(MIN_BATCH_RECORDS, pace.max_records)
        self._chunk_size = MIN_BATCH_RECORDS
        self._busy: dict[int, asyncio.Task[None]] = {}
        self._polled_ms = 0
        self._reporter = Reporter(ports.source, ownership, process.telemetry, process.clock)
        self._committer = Committer(ports, process, ownership)
        self._waiting_lanes = WaitingLanes(
            ports, process, ownership, self._committer, self._process_alone
        )
        self.files = self._waiting_lanes.files
        self._lane_dropped = False
        """Whether a lane was dropped since the last report."""
        self.misplaced = Misplaced()

    @property
    def waiting_for(self) -> dict[str, str]:
        """Which server does not answer, for which lane or partition, and why: for readiness."""
        return (
            self._committer.waiting_for
            | self._waiting_lanes.waiting_for
            | self._reporter.kafka_faults
        )

    @property
    def ahead_of_clock(self) -> dict[str, float]:
        """Which topic-partitions are ahead of the clock, and by how many seconds: for readiness."""
        return self._reporter.ahead

    async def run(self) -> None:
        """Work until the process is to stop. The batches in hand are committed before this returns,
        if that takes no longer than LAST_TRY_S."""
        try:
            with self._stalls.running(), self.files.running():
                while not self._stop.is_set():
                    await self._turn()
        finally:
            await self._end()

    async def _turn(self) -> None:
        began_s, size = time.monotonic(), self._batch_size
        self._drop_lost()
        if has_room := self._has_room():
            self._ownership.open_assigned()
        free = await self._free_lanes()
        busy, opening = list(self._busy.values()), has_room and self._ownership.is_opening
        timeout_ms = BUSY_POLL_MS if busy or opening else POLL_MS
        batch = await self._source.poll(size, timeout_ms, free if has_room else ())
        self._polled_ms = int(self._clock() * 1000)
        async with self._source.batch_in_hand():
            self._drop_lost()
            batch = self._with_lifts(batch)
            cost = await self._process_lanes(batch, polled_all=not busy)
            self._touch_idle(batch)
            # The new tasks begin: from here on each keeps its own batch in hand.
            await asyncio.sleep(0)
        self._batch_size = next_batch_size(size, cost, self._pace.max_records)
        self._chunk_size = next_chunk_size(self._chunk_size, cost)
        self._report()
        self._idle_trim.after_turn(cost.taken, time.monotonic())
        if has_room and self._ownership.is_opening:
            await self._ownership.opened_within(OPENING_TURN_S)
        elif not is_backlog(size, cost):
            await self._gather(began_s, busy)

    def _has_room(self) -> bool:
        """Whether this process may take more into its memory. Where it may not, it stays in the
        group and reads nothing."""
        is_full = self.memory.is_reached()
        self._telemetry.memory_bound_met.set(is_full)
        return not is_full

    async def _end(self) -> None:
        """Try to commit the batches in hand for a while, and leave no task behind."""
        tasks = list(self._busy.values())
        if tasks:
            await asyncio.wait(tasks, timeout=LAST_TRY_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, self._ownership.stop_opening(), return_exceptions=True)
        for task in tasks:
            _raise_unexpected(task)

    # Lanes

    def _drop_lost(self) -> None:
        for lane in self._ownership.drop_lost():
            self._lane_dropped = True
            if lane in self._busy:
                self._busy[lane].cancel()
            self._committer.forget(lane)

    async def _free_lanes(self) -> frozenset[int]:
        """The lanes that are not busy. Where all are, waits for one, but not for long."""
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
                _raise_unexpected(task)

    def _begin(self, owned: OwnedLane, step: Coroutine[Any, Any, None]) -> None:
        self._busy[owned.claimed.lane.number] = asyncio.create_task(step)

    # Batches

    async def _process_lanes(self, batch: Batch, *, polled_all: bool) -> PollCost:
        """Process each lane's batch, and begin to commit it; returns what that cost."""
        cost = PollCost(0, polled_all=polled_all)
        for number, topics in batch.lanes.items():
            owned = self._ownership.lanes.get(number)
            if owned is None:
                continue
            next_offsets = batch.next_offsets[number]
            if step := self._waiting_lanes.step(owned, topics, next_offsets):
                self._begin(owned, step)
                continue
            cost = await self._process_in_turn(owned, batch, cost)
            await asyncio.sleep(0)
        return cost

    async def _process_in_turn(self, owned: OwnedLane, batch: Batch, cost: PollCost) -> PollCost:
        """Process the batch of one lane, and begin to commit it; returns what all cost so far."""
        number, began_s = owned.claimed.lane.number, time.perf_counter()
        topics, next_offsets = batch.lanes[number], batch.next_offsets[number]
        records = sum(map(len, topics.values()))
        with self._telemetry.span("relevanced.batch", lane=number, records=records):
            try:
                letters, cost = await self._process(owned, topics, next_offsets, cost)
            except (OverflowError, SourceReplaced) as error:
                # The lane in memory is half a batch ahead, and any other owner would fail alike.
                await self._ownership.halt(number, error)
                return cost
            if self._ownership.lanes.get(number) is not owned:
                return cost
            self._sample_wrong_lanes(owned)
            idle_ms = self._idle_ms(owned, batch)
            self._begin(owned, self._committer.commit(owned, letters, idle_ms, began_s))
        longest = cost.batch.or_longer(records, time.perf_counter() - began_s)
        cut = cost.ended_by_bytes or self._is_cut_by_bytes(topics, records)
        return replace(cost, taken=cost.taken + records, batch=longest, ended_by_bytes=cut)

    def _is_cut_by_bytes(self, topics: Records, records: int) -> bool:
        if records * 2 > self._batch_size:
            return False  # It is a backlog anyway: no need to add up.
        return any(batches.bytes_of(part) >= MAX_BATCH_BYTES for part in topics.values())

    async def _process(
        self, owned: OwnedLane, topics: Records, next_offsets: Mapping[str, int], cost: PollCost
    ) -> tuple[list[DeadLetter], PollCost]:
        """Apply a batch to the lane in memory, and let other tasks run in between."""
        lane, longest = owned.claimed.lane, cost.chunk
        letters: list[DeadLetter] = []
        with self._stalls.work(owned.claimed, topics, next_offsets) as work:
            batches.begin(lane)
            assert lane.has_its_files
            for topic, records in batches.chunks(topics, self._chunk_size):
                steps = batches.steps(lane, topic, records, self._decoder, letters)
                longest = longest.or_longer(len(records), await take_steps(steps, work))
            began_s = time.perf_counter()
            batches.end(lane, next_offsets)
            note_read(owned.claimed.logs, topics)
            closing_s = max(cost.closing_s, time.perf_counter() - began_s)
        return letters, replace(cost, chunk=longest, closing_s=closing_s)

    async def _process_alone(
        self, owned: OwnedLane, topics: Records, next_offsets: Mapping[str, int]
    ) -> list[DeadLetter]:
        letters, _ = await self._process(owned, topics, next_offsets, PollCost(0))
        return letters

    # Idle logs, and idle lanes

    def _with_lifts(self, batch: Batch) -> Batch:
        """Lift idle logs to where the others are; returns the batch with the lanes that must
        commit this, also where they got no record."""
        lanes, next_offsets = dict(batch.lanes), dict(batch.next_offsets)
        for number, idle in batch.idle.items():
            owned = self._ownership.lanes.get(number)
            if owned is None or number in self._busy:
                continue
            lane = owned.claimed.lane
            lateness_ms = lane.plan.timing.lateness_ms
            lifts = new_lifts(lane.watermarks, lane.lifts, idle, lateness_ms, self._polled_ms)
            if lifts:
                lane.lifts |= lifts
                lanes.setdefault(number, {})
                next_offsets.setdefault(number, {})
        return replace(batch, lanes=lanes, next_offsets=next_offsets)

    def _touch_idle(self, batch: Batch) -> None:
        """Touch every lane that had nothing to commit for a while."""
        due_s = time.monotonic() - TOUCH_EVERY_S
        for number, owned in self._ownership.lanes.items():
            if owned.checked_s <= due_s and number not in self._busy:
                owned.checked_s = time.monotonic()
                self._begin(owned, self._committer.touch(owned, self._idle_ms(owned, batch)))

    def _idle_ms(self, owned: OwnedLane, batch: Batch) -> int | None:
        """The idle mark to write, if one is to be written now."""
        claimed, clock_ms = owned.claimed, self._polled_ms
        is_caught_up = claimed.lane.number in batch.caught_up
        if (chain := claimed.lane.chain) is not None:
            complete_ms = chain.complete_ms(claimed.lane.watermarks)
            is_caught_up = is_caught_up and complete_ms is not None
            clock_ms = min(clock_ms, complete_ms or clock_ms)
        return idle_mark(claimed.idle_ms, clock_ms, is_caught_up)

    # Beside the flow

    async def _gather(self, began_s: float, busy: Sequence["asyncio.Task[None]"]) -> None:
        """Wait for more records when there are few: a quiet topic must not cost a commit for each.
        The end of a task of `busy` ends the wait: its lane was not polled, and may have many."""
        left_s = began_s + self._pace.commit_interval_s - time.monotonic()
        if left_s <= 0 or any(task.done() for task in busy):
            return
        stopped = asyncio.ensure_future(self._stop.wait())
        ends = {stopped, *busy}
        await asyncio.wait(ends, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()

    def _sample_wrong_lanes(self, owned: OwnedLane) -> None:
        """Count feedback whose impression is in another lane of this process: the topics are not
        partitioned alike."""
        if len(self._ownership.lanes) < 2:
            return
        looked = found = 0
        waiting, first = owned.claimed.lane.waiting, owned.claimed.next_serial
        for serial in range(first, min(waiting.next_serial, first + WRONG_LANE_SAMPLE)):
            feedback = waiting.by_serial.get(serial)
            if feedback is None or feedback.bound_ms is not None:
                continue
            others = (o.claimed.lane for o in self._ownership.lanes.values() if o is not owned)
            looked += 1
            found += any(lane.open.slots_of(feedback.impression_id) for lane in others)
        self._telemetry.wrong_lane_feedback.inc(found)
        self.misplaced.note(looked, found)

    def _report(self) -> None:
        if self._reporter.report() and self._lane_dropped:
            # What was fetched for a dropped lane is megabytes in reference cycles of the client:
            # only the garbage collector frees them.
            gc.collect()
            self._lane_dropped = False


def _raise_unexpected(task: "asyncio.Task[None]") -> None:
    """Raise what a task raised. Tasks handle the errors that they expect, so this one ends the
    process; what is not committed is read again."""
    if not task.cancelled():
        task.result()
