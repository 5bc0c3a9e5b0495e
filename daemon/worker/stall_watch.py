"""Writes the mark of a batch that takes too long (see `stalls`), while the work goes on in steps.

A thread writes it, over a connection of its own: the work may keep the event loop from its turn
until the process is killed. It looks at the CPU time of the event loop's thread, of which only that
counts which goes into the batch.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeAlias

import structlog

from ..errors import Unavailable
from ..storage import ClaimedLane, StallMark
from .batch import Records
from .pacing import TURN_S
from .stalls import next_mark

log = structlog.get_logger(__name__)

LOOKS: Final = 10
"""How often it looks, while a batch spends the time that is too long."""

WriteMark: TypeAlias = Callable[[int, str, int, StallMark], Awaitable[bool]]
"""Called with lane, token, sequence and mark, in an event loop of the thread. True while that is
the writer. Raises Unavailable."""


class WatchedWork:
    """The CPU time that goes into some records of one lane."""

    def __init__(self, claimed: ClaimedLane, records: Records, next_offsets: Mapping[str, int]):
        self.claimed = claimed
        self.owner = claimed.lane.number, claimed.token, claimed.sequence
        self.records = records
        self.next_offsets = next_offsets
        self.is_marked = False
        self._spent_s = 0.0
        self._since_s: float | None = None

    def go_on(self) -> None:
        """The event loop's thread works on the records from now on."""
        self._since_s = time.thread_time()

    def pause(self) -> None:
        """It works on something else from now on."""
        since_s, self._since_s = self._since_s, None
        if since_s is not None:
            self._spent_s += time.thread_time() - since_s

    def seconds(self, now_s: float) -> float:
        """CPU time so far, where the clock of the event loop's thread shows `now_s`."""
        spent_s, since_s = self._spent_s, self._since_s
        return spent_s if since_s is None else spent_s + now_s - since_s


class StallWatch:
    """The batches that are worked on, and the thread that looks at them while it runs."""

    def __init__(self, write: WriteMark | None, limit_s: float) -> None:
        """`limit_s`: how much CPU time is too much. Without `write`, nothing is watched."""
        self._write = write
        self._limit_s = limit_s
        self._works: list[WatchedWork] = []
        self._ended = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch the work of this thread, whose event loop is running."""
        if self._write is None:
            yield
            return
        self._ended.clear()
        thread = threading.Thread(
            target=self._watch, args=(_cpu_clock(), self._write), daemon=True, name="stall watch"
        )
        thread.start()
        try:
            yield
        finally:
            self._ended.set()

    @contextmanager
    def work(
        self, claimed: ClaimedLane, records: Records, next_offsets: Mapping[str, int]
    ) -> Iterator[WatchedWork]:
        """The work on some records of a lane, from here on; `pause` it while others have their
        turn."""
        work = WatchedWork(claimed, records, next_offsets)
        self._works.append(work)
        work.go_on()
        try:
            yield work
        finally:
            work.pause()
            self._works.remove(work)

    def _watch(self, cpu_s: Callable[[], float], write: WriteMark) -> None:
        while not self._ended.wait(self._limit_s / LOOKS):
            for work in list(self._works):
                if not work.is_marked and work.seconds(cpu_s()) >= self._limit_s:
                    self._mark(work, write)

    def _mark(self, work: WatchedWork, write: WriteMark) -> None:
        lane, token, sequence = work.owner
        mark = next_mark(work.claimed.stall, sequence, work.records, work.next_offsets)
        try:
            is_owner = asyncio.run(_written(write(lane, token, sequence, mark)))
        except Unavailable:
            return  # It is tried again at the next look.
        work.is_marked = True
        if not is_owner:
            return
        log.warning(
            "a batch takes long",
            lane=lane,
            cpu_s=self._limit_s,
            offsets=dict(work.claimed.lane.offsets),
            record=mark.record,
            owners_in_a_row=mark.times,
        )


async def _written(writing: Awaitable[bool]) -> bool:
    return await writing


def _cpu_clock() -> Callable[[], float]:
    """Return a clock of this thread's CPU time that other threads may read. Where the platform has
    none, it is that of the process, which may be ahead."""
    if not hasattr(time, "pthread_getcpuclockid"):
        ahead_s = time.process_time() - time.thread_time()
        return lambda: time.process_time() - ahead_s
    clock = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(clock)


async def take_steps(steps: Iterator[None], work: WatchedWork) -> float:
    """Take all steps, with turns of other tasks in between and after the last; returns the longest
    time between two turns."""
    began_s, longest_s = time.perf_counter(), 0.0
    for _ in steps:
        took_s = time.perf_counter() - began_s
        if took_s >= TURN_S:
            longest_s = max(longest_s, took_s)
            await let_others_run(work)
            began_s = time.perf_counter()
    longest_s = max(longest_s, time.perf_counter() - began_s)
    await let_others_run(work)
    return longest_s


async def let_others_run(work: WatchedWork) -> None:
    """Let other tasks have their turn, which does not count as this work."""
    work.pause()
    await asyncio.sleep(0)
    work.go_on()
