"""`make bench`: measures what the daemon costs, as ratios inside one run.

    python -m tests.bench [--part NAME]… [--scale X] [--runs N] [--results FILE] [--markdown]
    python -m tests.bench --combine FILE FILE… --results FILE

With a real Kafka, a real Redis and daemons in processes of their own. Every claim is a ratio of CPU
times that the operating system counted in this run; absolute figures are those of this machine. At
full scale the findings are stored in results.json and the curves of growth in growth.svg; of
several runs, one after the other, their medians.
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
    exporter_cost,
    exposition_cost,
    freshness,
    growth,
    judged_cost,
    live_cost,
    mapping_cost,
    memory,
    open_impressions,
    peers_cost,
    profiling,
    query_cost,
    recovery,
    redis_cost,
    replay_cost,
    results,
    stalls,
    two_workers,
)
from tests.bench.cpu import ONE_THREAD
from tests.bench.effort import Effort
from tests.bench.findings import PartResult, markdown, table, together
from tests.bench.plots import draw
from tests.bench.stage import Stage
from tests.services.fixtures import this_machines_broker
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer, binaries

Part: TypeAlias = Callable[[Stage, Effort], Awaitable[PartResult]]

PARTS: Final[Mapping[str, Part]] = {
    "end_to_end": end_to_end.measure,
    "redis": redis_cost.measure,
    "peers": peers_cost.measure,
    "growth": growth.measure,
    "open_impressions": open_impressions.measure,
    "two_workers": two_workers.measure,
    "freshness": freshness.measure,
    "live": live_cost.measure,
    "recovery": recovery.measure,
    "exposition": exposition_cost.measure,
    "exporter": exporter_cost.measure,
    "memory": memory.measure,
    "stalls": stalls.measure,
    "replay": replay_cost.measure,
    "mapping": mapping_cost.measure,
    "queries": query_cost.measure,
    "judged": judged_cost.measure,
}
ON_DEMAND: Final[Mapping[str, Part]] = {"profile": profiling.measure}
IDLE_LOAD: Final = 0.3
"""Load average per core above which the machine is not idle."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description="Measures what the daemon costs.")
    parser.add_argument("--part", action="append", choices=[*PARTS, *ON_DEMAND])
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the number of records")
    parser.add_argument("--runs", type=int, default=1, help="how often all of it is measured")
    parser.add_argument(
        "--results", type=Path, help="JSON file to update; default at scale 1: results.json"
    )
    parser.add_argument("--combine", type=Path, nargs="+", help="results of runs made apart")
    parser.add_argument("--markdown", action="store_true", help="only print the stored ratios")
    given = parser.parse_args()
    if given.markdown:
        stored = results.read(given.results or results.RESULTS)
        print(markdown(stored.findings.values() if stored else ()))
        return
    if given.combine:
        runs = [results.decode(path.read_bytes()) for path in given.combine]
        write(given.results or results.RESULTS, results.combined(runs))
        return
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it logs errors for new groups
    warn_about_load()
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    broker = this_machines_broker(directory / "kafka")
    path = given.results or (results.RESULTS if given.scale == 1.0 else None)
    parts, effort = given.part or list(PARTS), Effort(given.scale)
    try:
        broker.start()
        asyncio.run(run(broker, directory, parts * given.runs, effort, path))
    finally:
        broker.close()
        shutil.rmtree(directory)


async def run(
    broker: Broker, directory: Path, parts: Sequence[str], effort: Effort, path: Path | None
) -> None:
    """Measure these parts one after the other, again those that are named again; print the results
    of each, and store the medians in `path`."""
    os.environ.update(ONE_THREAD)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installation is compiled once, too
    server = RedisServer(next(path for path in binaries().values() if path), directory / "redis")
    runs: dict[str, list[PartResult]] = {}
    try:
        server.start()
        async with Stage(broker, server, directory) as stage:
            for part in parts:
                began_s = time.monotonic()
                found = await {**PARTS, **ON_DEMAND}[part](stage, effort)
                report(part, found, time.monotonic() - began_s)
                runs.setdefault(part, []).append(found)
                if path is not None:
                    store(path, {part: together(runs[part])})
    finally:
        server.kill()


def store(path: Path, found: Mapping[str, PartResult]) -> None:
    """Update a file of results."""
    write(path, results.merged(results.read(path), found))


def write(path: Path, stored: results.Results) -> None:
    """Write a file of results, and the plot next to it."""
    results.write(path, stored)
    draw(list(stored.curves.values()), path.with_name(results.PLOT.name))


def report(part: str, found: PartResult, took_s: float) -> None:
    """Print the results of one part."""
    print(f"\n{part} ({took_s:.0f} s)")
    print(table(found.findings), flush=True)
    for note in found.notes:
        print(f"  {note}", flush=True)


def warn_about_load() -> None:
    """Print a warning if other processes use the machine."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    if load > IDLE_LOAD:
        print(f"load average {load:.1f} per core: times will be longer, ratios less stable")


if __name__ == "__main__":
    main()
