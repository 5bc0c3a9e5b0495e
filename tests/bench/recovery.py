"""How long lanes make no progress after their worker was killed with a million open impressions.

The session timeout is not included: the second worker starts after the group removed the first.
"""

import asyncio
import signal
import time
from typing import Final

from tests.bench.effort import Effort
from tests.bench.findings import PartResult, number
from tests.bench.memory import ALL_STAY_OPEN, all_open
from tests.bench.stage import Job, Running, Stage

OPEN_IMPRESSIONS: Final = 1_000_000
ROUNDS: Final = 3
SPARE: Final = 1.25
"""Factor of additional traffic, so that there are records to commit after the restart."""
SESSION_TIMEOUT_S: Final = 6
FIRST_GOAL_S: Final = 1.5
ALL_GOAL_S: Final = 3.0
POLL_EVERY_S: Final = 0.01


async def measure(stage: Stage, effort: Effort) -> PartResult:
    """Seconds from the start of the new process, including the start of Python."""
    traffic = all_open(effort.of(OPEN_IMPRESSIONS * SPARE))
    job = Job(traffic, attribution=ALL_STAY_OPEN, session_timeout=f"{SESSION_TIMEOUT_S}s")
    times = [await _round(stage, job) for _ in range(effort.rounds(ROUNDS))]
    at = f"{effort.of(OPEN_IMPRESSIONS):,} open impressions"
    first, every = [first for first, _ in times], [every for _, every in times]
    return PartResult(
        [
            number("recovery.first_s", f"restart to first commit, {at}", first, "s", FIRST_GOAL_S),
            number("recovery.all_s", "restart to a commit of every lane", every, "s", ALL_GOAL_S),
        ]
    )


async def _round(stage: Stage, job: Job) -> tuple[float, float]:
    topic, name = await stage.topic(job.traffic), stage.name()
    stage.redis.flush()
    with stage.worker(job, topic, name) as first:
        await first.follow(round(job.traffic.records / SPARE))
        first.daemon.terminate(signal.SIGKILL)
        before = first.offsets()
    await asyncio.sleep(SESSION_TIMEOUT_S + 1)
    began_s = time.monotonic()
    unfinished = {lane: at for lane, at in before.items() if at < stage.ends(topic)[lane]}
    with stage.worker(job, topic, name) as second:
        return await _moved_s(second, unfinished, began_s)


async def _moved_s(worker: Running, before: dict[int, int], began_s: float) -> tuple[float, float]:
    """Seconds after which the first lane, and after which all lanes have made progress."""
    first_s = None
    still = set(before)
    while still:
        await asyncio.sleep(POLL_EVERY_S)
        now = worker.offsets()
        still = {lane for lane in still if now[lane] == before[lane]}
        if first_s is None and len(still) < len(before):
            first_s = time.monotonic() - began_s
    assert first_s is not None
    return first_s, time.monotonic() - began_s
