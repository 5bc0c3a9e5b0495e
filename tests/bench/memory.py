"""Resident memory of a worker: per open impression, and with many segments."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from relevanced.daemon.events import BY_ID, JOINS
from tests.bench.effort import Effort
from tests.bench.findings import PartResult, number
from tests.bench.stage import Job, Running, Stage
from tests.bench.traffic import Traffic

OPEN_IMPRESSIONS: Final = 1_000_000
FEWER_OPEN_IMPRESSIONS: Final = 300_000
ALL_STAY_OPEN: Final = "6h"
GOAL_BYTES: Final = 190.0
TOUCH_GOAL_BYTES: Final = 16.0
VISITED_QUERIES: Final = 1_000
SEGMENT_RECORDS: Final = 200_000
MANY_COUNTRIES: Final = 1000
"""Together with the devices: 1 + 1,000 + 4 + 4,000 + 2 segments."""
PAGE_BYTES: Final = 4096
MIB: Final = 1 << 20


async def measure(stage: Stage, effort: Effort) -> PartResult:
    """Bytes per open impression above an idle worker, including feedback; memory with many
    segments."""
    idle = await resident_after(stage, Job(Traffic(records=8)), 8)
    fewer, of_fewer = await per_open_impression(stage, effort.of(FEWER_OPEN_IMPRESSIONS), idle)
    traffic = all_open(effort.of(OPEN_IMPRESSIONS))
    count, per_impression = await per_open_impression(stage, effort.of(OPEN_IMPRESSIONS), idle)
    seen = replace(traffic, queries=VISITED_QUERIES)  # with users, who are the visitors
    of_touch, of_ids = [
        await resident_after(stage, Job(seen, attribution=ALL_STAY_OPEN, join=join), seen.records)
        for join in (JOINS[-1], BY_ID)
    ]
    await stage.forget(seen)
    many = replace(Traffic(records=effort.of(SEGMENT_RECORDS)), countries=MANY_COUNTRIES)
    few = replace(many, countries=Traffic.countries)
    of_many = await resident_after(stage, Job(many, max_segments=10_000), many.records)
    of_few = await resident_after(stage, Job(few, max_segments=10_000), few.records)
    words = "worker, per open impression ({:,} open)".format
    return PartResult(
        [
            number(
                "memory.open_bytes",
                words(count),
                [per_impression],
                "B",
                GOAL_BYTES,
                compared=True,
            ),
            number(
                "memory.fewer_open_bytes",
                words(fewer),
                [of_fewer],
                "B",
                GOAL_BYTES,
                compared=True,
            ),
            number(
                "memory.touch_bytes",
                "last touch, more per open impression",
                [(of_touch - of_ids) / count],
                "B",
                TOUCH_GOAL_BYTES,
            ),
            number("memory.idle", "idle worker", [idle / MIB], "MiB"),
            number("memory.segments_147", "worker, 147 segments", [of_few / MIB], "MiB"),
            number("memory.segments_5007", "worker, 5,007 segments", [of_many / MIB], "MiB"),
        ]
    )


async def per_open_impression(stage: Stage, impressions: int, idle: int) -> tuple[int, float]:
    """The number of open impressions, and resident bytes of each above an idle worker."""
    traffic = all_open(impressions)
    topic = await stage.topic(traffic)
    stage.redis.flush()
    with stage.worker(Job(traffic, attribution=ALL_STAY_OPEN), topic, stage.name()) as worker:
        await worker.follow(traffic.records)
        count = await worker.open_impressions()
        return count, (resident(worker) - idle) / count


def all_open(impressions: int) -> Traffic:
    """Traffic with this number of impressions."""
    return Traffic(records=round(impressions * (1 + Traffic.feedback_per_impression)))


async def resident_after(stage: Stage, job: Job, records: int) -> int:
    """Resident bytes of a worker after it has processed `records` records."""
    topic = await stage.topic(job.traffic)
    stage.redis.flush()
    with stage.worker(job, topic, stage.name()) as worker:
        await worker.follow(records)
        await worker.open_impressions()
        return resident(worker)


def resident(worker: Running) -> int:
    """Resident bytes of the process now."""
    return int(Path(f"/proc/{worker.pid}/statm").read_text().split()[1]) * PAGE_BYTES
