"""`make bench`: what it costs, as ratios inside one run.

    python -m tests.bench [--part NAME]… [--scale X] [--results FILE] [--markdown]

Real Kafka, real Redis, daemons in processes of their own. Every claim is a ratio of processor times
that the operating system counted in this run; the figures beside it are those of this machine. At
full scale the findings are kept in results.json, and the lines of growth in growth.svg.
"""

import argparse
import asyncio
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from tests.bench import (
    end_to_end,
    exposition_cost,
    freshness,
    growth,
    memory,
    open_impressions,
    peers_cost,
    profiling,
    recovery,
    redis_cost,
    results,
    two_workers,
)
from tests.bench.cpu import ONE_THREAD
from tests.bench.effort import Effort
from tests.bench.findings import Found, markdown, table
from tests.bench.plots import draw
from tests.bench.stage import Stage
from tests.services.fixtures import this_machines_broker
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer, binaries

Part: TypeAlias = Callable[[Stage, Effort], Awaitable[Found]]

PARTS: Final[Mapping[str, Part]] = {
    "end_to_end": end_to_end.measure,
    "redis": redis_cost.measure,
    "peers": peers_cost.measure,
    "growth": growth.measure,
    "open_impressions": open_impressions.measure,
    "two_workers": two_workers.measure,
    "freshness": freshness.measure,
    "recovery": recovery.measure,
    "exposition": exposition_cost.measure,
    "memory": memory.measure,
}
ON_DEMAND: Final[Mapping[str, Part]] = {"profile": profiling.measure}
IDLE_LOAD: Final = 0.3
"""Processes that want a core, per core, beyond which the machine is not quiet."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description="What it costs.")
    parser.add_argument("--part", action="append", choices=[*PARTS, *ON_DEMAND])
    parser.add_argument("--scale", type=float, default=1.0, help="of the amount of records")
    parser.add_argument("--results", type=Path, help="JSON file to renew; results.json at scale 1")
    parser.add_argument("--markdown", action="store_true", help="print the known ratios, no more")
    given = parser.parse_args()
    if given.markdown:
        known = results.read(given.results or results.RESULTS)
        print(markdown(known.findings.values() if known else ()))
        return
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # groups that are only just made
    tell_load()
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    broker = this_machines_broker(directory / "kafka")
    kept = given.results or (results.RESULTS if given.scale == 1.0 else None)
    try:
        broker.start()
        asyncio.run(run(broker, directory, given.part or list(PARTS), Effort(given.scale), kept))
    finally:
        broker.close()
        shutil.rmtree(directory)


async def run(
    broker: Broker, directory: Path, parts: Sequence[str], effort: Effort, kept: Path | None
) -> dict[str, Found]:
    """Measure these parts one after the other; print what each finds, and keep it in the file."""
    os.environ.update(ONE_THREAD)
    server = RedisServer(next(path for path in binaries().values() if path), directory / "redis")
    found = {}
    try:
        server.start()
        async with Stage(broker, server, directory) as stage:
            for part in parts:
                began_s = time.monotonic()
                found[part] = await {**PARTS, **ON_DEMAND}[part](stage, effort)
                tell(part, found[part], time.monotonic() - began_s)
                if kept is not None:
                    keep(kept, {part: found[part]})
    finally:
        server.kill()
    return found


def keep(path: Path, found: Mapping[str, Found]) -> None:
    """Renew a file of results, and the plot beside it."""
    known = results.merged(results.read(path), found)
    results.write(path, known)
    draw(list(known.curves.values()), path.with_name(results.PLOT.name))


def tell(part: str, found: Found, took_s: float) -> None:
    """Print one part."""
    print(f"\n{part} ({took_s:.0f} s)")
    print(table(found.findings), flush=True)
    for note in found.notes:
        print(f"  {note}", flush=True)


def tell_load() -> None:
    """Say so where others are at work."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    if load > IDLE_LOAD:
        print(f"load {load:.1f} per core: times will be longer, ratios less steady")


if __name__ == "__main__":
    main()
