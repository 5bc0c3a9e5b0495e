"""How the cost per event of a worker grows with open impressions, in one long run in which no
impression settles."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.bench.cpu import Sample
from tests.bench.effort import Effort
from tests.bench.findings import PartResult
from tests.bench.growth import curve_of, slope
from tests.bench.memory import ALL_STAY_OPEN, all_open
from tests.bench.stage import Job, Stage

COUNTS: Final = (10_000, 100_000, 1_000_000, 10_000_000)
BYTES_PER_OPEN: Final = 1500
"""Free memory required per open impression, for all processes and the log of the broker;
generous."""
BATCH: Final = 2_000
"""Small enough for several batches between the two closest points."""


async def measure(stage: Stage, effort: Effort) -> PartResult:
    """The cost at each count of open impressions: over the events from half that count to it."""
    capacity = _free_bytes() // BYTES_PER_OPEN
    most = max(effort.of(COUNTS[-1]), COUNTS[1])  # two points at least
    planned = [count for count in COUNTS if count <= most]
    counts = [count for count in planned if count <= capacity]
    notes = [
        f"{count:,} open impressions: not enough memory" for count in planned if count > capacity
    ]
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
    return PartResult([slope(curve)], [curve], notes)


def _cost_us(samples: Sequence[Sample], low: float, high: float) -> float:
    first = next(sample for sample in samples if sample.events >= low)
    last = next(sample for sample in samples if sample.events >= round(high))
    return (last.cpu_s - first.cpu_s) / (last.events - first.events) * 1e6


def _free_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) * 1024
