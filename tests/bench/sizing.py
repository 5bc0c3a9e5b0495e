"""How large an installation is, by its events per second: a model of CPU time, memory and Redis,
fitted to the results of `make bench`. A worker's CPU time is that of events in large batches, and
that of each partition for its fetches and commits, however few records these have.

    python -m tests.bench.sizing

prints the table of the guide. Pure. Absolute figures are those of the machine of the results.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from tests.bench import results
from tests.bench.findings import Curve, formatted
from tests.bench.results import Results
from tests.bench.traffic import Traffic

RATES: Final = (1_000, 20_000, 200_000, 2_000_000)
OPEN_S: Final = 1_860
"""How long an impression is open: the default window of attribution, lateness and a pane."""
IMPRESSIONS: Final = 1 / (1 + Traffic.feedback_per_impression)
"""The share of impressions among events."""
BUSY: Final = 0.5
"""Of a core, in usual traffic: twice as much is caught up with."""
WORKER_GIB: Final = 8.0
SHARD_GIB: Final = 16.0
LANES_PER_WORKER: Final = 4
"""Partitions for each worker, so that more workers can share them later."""
GIB: Final = 1 << 30
FITTED: Final = ("segments", "partitions", "feedback", "metrics", "windows", "open_impressions")


@dataclass(frozen=True)
class Fit:
    """A curve as a straight line."""

    per_unit: float
    """By how much one more raises the cost per event, as a share of the cost with the fewest."""
    error: float
    """The largest difference between a point and the line, as a share of the point."""


@dataclass(frozen=True)
class Size:
    """What an installation needs."""

    open_impressions: float
    cores: float
    """Busy in usual traffic, of all workers."""
    memory_gib: float
    """Of all workers."""
    redis_gib: float
    redis_cores: float
    workers: int
    partitions: int
    shards: int


def fit(curve: Curve) -> Fit:
    """The line with the least squares of relative differences; never one that falls."""
    x, y = np.array(curve.x), np.array(curve.cpu_us)
    columns = np.stack([np.ones_like(x), x], axis=1) / y[:, None]
    base, slope = np.linalg.lstsq(columns, np.ones_like(y), rcond=None)[0]
    if slope < 0:
        slope, base = 0.0, 1 / np.mean(1 / y)
    at_least = base + slope * x.min()
    error = np.abs((base + slope * x) / y - 1).max()
    return Fit(float(slope / at_least), float(error))


def size_of(rate: float, found: Results) -> Size:
    """What so many events per second need, with the segments and metrics of the benchmark."""
    values = {name: finding.value for name, finding in found.findings.items()}
    open_impressions = rate * IMPRESSIONS * OPEN_S
    by_events = rate * values["end_to_end.batch_10000.worker_us"] / 1e6
    by_partitions = LANES_PER_WORKER * values["live.partition_ms"] / 1000
    memory_gib = open_impressions * values["memory.open_bytes"] / GIB
    redis_gib = open_impressions * values["redis.open_bytes"] / GIB
    redis_cores = rate * values["redis.server_us"] / 1e6
    workers = max(math.ceil(by_events / (BUSY - by_partitions)), math.ceil(memory_gib / WORKER_GIB))
    return Size(
        open_impressions,
        by_events + workers * by_partitions,
        memory_gib,
        redis_gib,
        redis_cores,
        workers,
        workers * LANES_PER_WORKER,
        max(math.ceil(redis_gib / SHARD_GIB), math.ceil(redis_cores / BUSY)),
    )


def table(found: Results) -> str:
    """The sizes as Markdown."""
    rows = [
        "| events/s | open impressions | busy cores | memory | Redis"
        " | workers | partitions | masters |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for rate in RATES:
        size = size_of(rate, found)
        cells = [
            f"{rate:,}",
            f"{formatted(size.open_impressions / 1e6)} M",
            formatted(size.cores),
            f"{formatted(size.memory_gib)} GiB",
            f"{formatted(size.redis_gib)} GiB",
            *map(str, (size.workers, size.partitions, size.shards)),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> None:
    found = results.read(results.RESULTS)
    assert found is not None
    print(table(found))
    for name in FITTED:
        line = fit(found.curves[name])
        print(f"{name}: {line.per_unit:+.2%} for one more, error {line.error:.0%}")


if __name__ == "__main__":
    main()
