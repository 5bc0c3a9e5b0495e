"""How the worker's cost per event grows with open impressions: one long run in which none
settles."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.bench.cpu import Sample
from tests.bench.effort import Effort
from tests.bench.findings import Found
from tests.bench.growth import curve_of, slope
from tests.bench.memory import ALL_STAY_OPEN, all_open
from tests.bench.stage import Job, Stage

COUNTS: Final = (10_000, 100_000, 1_000_000, 10_000_000)
BYTES_PER_OPEN: Final = 1500
"""Of memory that must be free, over all processes and the broker's log: more than they take."""
BATCH: Final = 2_000
"""Several between the points that are nearest to each other."""


async def measure(stage: Stage, effort: Effort) -> Found:
    """Cost where so many impressions are open: of the events from half as many to so many."""
    room = _free_bytes() // BYTES_PER_OPEN
    most = max(effort.of(COUNTS[-1]), COUNTS[1])  # two points at least
    wanted = [count for count in COUNTS if count <= most]
    counts = [count for count in wanted if count <= room]
    notes = [f"{count:,} open impressions: not enough memory" for count in wanted if count > room]
    traffic = all_open(counts[-1])
    topic = await stage.topic(traffic)
    stage.redis.flush()
    job = replace(Job(traffic, attribution=ALL_STAY_OPEN), batch=BATCH)
    with stage.worker(job, topic, stage.name()) as worker:
        samples = await worker.follow(traffic.records, seldom=False)
    await stage.forget(traffic)
    per_event = traffic.impressions / traffic.records
    costs = [_cost_us(samples, count / 2 / per_event, count / per_event) for count in counts]
    curve = curve_of("open_impressions", "open impressions", counts, costs)
    return Found([slope(curve)], [curve], notes)


def _cost_us(samples: Sequence[Sample], low: float, high: float) -> float:
    first = next(sample for sample in samples if sample.events >= low)
    last = next(sample for sample in samples if sample.events >= round(high))
    return (last.cpu_s - first.cpu_s) / (last.events - first.events) * 1e6


def _free_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) * 1024
