"""The longest time for which a worker keeps its event loop from others while it works on a batch.

Measured as CPU time of the thread, so that other work of the machine does not count.
"""

import asyncio
import gc
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from relevanced.daemon.config import LogEnd
from relevanced.daemon.events import Decoder, LogRecord
from relevanced.daemon.lane import Lane
from relevanced.daemon.plan import Plan
from relevanced.daemon.storage import InForce, Layouts, plan_commit
from relevanced.daemon.telemetry import Telemetry
from relevanced.daemon.worker import (
    MAX_CHUNK_RECORDS,
    Beginning,
    DeadLetter,
    OwnedLane,
    Ownership,
    Pace,
    PollCost,
    Ports,
    Process,
    Worker,
)
from tests.builders import claimed, record
from tests.fakes import MemoryLane


@dataclass(frozen=True)
class Work:
    """One batch: the lane after it, its dead letters, and what it cost in seconds of CPU."""

    lane: Lane
    letters: list[DeadLetter]
    stall_s: float
    """The longest time between two turns of the event loop, or to put the commit together."""
    total_s: float


def worked(values: Sequence[bytes], decoder: Decoder, plan: Plan) -> Work:
    """The records as one batch of a lane that has seen nothing.

    What this process held before is exempt from garbage collection, as a daemon exempts what it
    holds when it starts: else a collection visits the objects of all tests before this one.
    """
    gc.freeze()
    try:
        return _worked(values, decoder, plan)
    finally:
        gc.unfreeze()


def _worked(values: Sequence[bytes], decoder: Decoder, plan: Plan) -> Work:
    owned = OwnedLane(claimed(MemoryLane(), plan=plan), 0.0, {})
    records = [record(value, offset=offset) for offset, value in enumerate(values)]
    began_s = time.thread_time()
    worker = worker_of(decoder, plan)
    # As after a long time of cheap records.
    worker._chunk_size = MAX_CHUNK_RECORDS
    letters, stall_s = asyncio.run(_watched(worker, owned, {"events": records}))
    planned_s = time.thread_time()
    plan_commit(owned.claimed)
    ended_s = time.thread_time()
    stall_s = max(stall_s, ended_s - planned_s)
    return Work(owned.claimed.lane, letters, stall_s, ended_s - began_s)


def worker_of(decoder: Decoder, plan: Plan) -> Worker:
    """A worker without servers."""
    ports = Ports(cast(Any, SimpleNamespace()), cast(Any, SimpleNamespace()))
    process = Process(Telemetry("test"), lambda: 0.0, asyncio.Event())
    ownership = Ownership(ports, process, Layouts(InForce(plan)), Beginning(LogEnd.EARLIEST, 1))
    return Worker(ports, process, ownership, decoder, Pace(10_000, 0.0))


async def _watched(
    worker: Worker, owned: OwnedLane, topics: Mapping[str, Sequence[LogRecord]]
) -> tuple[list[DeadLetter], float]:
    worst_s = 0.0

    async def watch() -> None:
        nonlocal worst_s
        seen_s = time.thread_time()
        while True:
            await asyncio.sleep(0)
            worst_s = max(worst_s, time.thread_time() - seen_s)
            seen_s = time.thread_time()

    watcher = asyncio.create_task(watch())
    await asyncio.sleep(0)
    offsets = {topic: len(records) for topic, records in topics.items()}
    letters, _ = await worker._process(owned, topics, offsets, PollCost(0))
    await asyncio.sleep(0)
    watcher.cancel()
    return letters, worst_s
