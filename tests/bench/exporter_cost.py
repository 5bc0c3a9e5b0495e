"""What one exporter needs for many series and for many lanes: the time of a look and of a scrape,
its memory, and how long requests take meanwhile.

A worker reads all of the traffic first, and ends. Many lanes are on a cluster of three masters.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Final

import aiohttp
import numpy as np

from tests.bench.effort import Effort
from tests.bench.findings import Finding, PartResult, number
from tests.bench.memory import MIB, resident
from tests.bench.stage import Job, Running, Stage
from tests.bench.traffic import Traffic
from tests.services.daemons import until
from tests.services.redis_cluster import RedisCluster

RECORDS: Final = 400_000
METRICS: Final = ("P@5", "P@10", "Success@10", "RR@10", "ERR@10", "nDCG@10", "AP@10", "P@1")
MASTERS: Final = 3
LOOKS: Final = 3
SCRAPES: Final = 10
REQUESTS_PER_S: Final = 200
REQUESTS_S: Final = 15.0
PATHS: Final = (
    "/api/v1/scores?metric=RR@10&window=1h&grouping=country",
    "/api/v1/changes?metric=RR@10&window=1h",
)
LOOK_GOAL_S: Final = 2.5
STALL_GOAL_MS: Final = 20.0
ANSWER_GOAL_MS: Final = 50.0
LOOK: Final = "relevanced_snapshot_duration_seconds"
LOOKED: Final = "relevanced_snapshot_timestamp_seconds"
STALL: Final = "relevanced_event_loop_stall_seconds"
LAG: Final = b"relevanced_lag_records{"


@dataclass(frozen=True)
class Site:
    """How many lanes and segments there are."""

    key: str
    lanes: int
    segments: int
    is_clustered: bool = False


SITES: Final = (
    Site("series_100000", 8, 475),
    Site("series_500000", 8, 2_450),
    Site("lanes_256", 256, 270, is_clustered=True),
)


async def measure(stage: Stage, effort: Effort) -> PartResult:
    """The findings of each site."""
    findings: list[Finding] = []
    for site in effort.first(SITES):
        async with _stage_of(stage, site) as own:
            findings += await _measured(own, site, effort)
    return PartResult(findings)


@asynccontextmanager
async def _stage_of(stage: Stage, site: Site) -> AsyncIterator[Stage]:
    """The stage with the store of a site."""
    if not site.is_clustered:
        yield stage
        return
    directory = stage.directory / "cluster"
    cluster = RedisCluster(stage.redis.binary, directory, MASTERS, replicas=False)
    try:
        await asyncio.to_thread(cluster.start)
        async with Stage(stage.broker, cluster, directory) as own:
            yield own
    finally:
        cluster.kill()


async def _measured(stage: Stage, site: Site, effort: Effort) -> list[Finding]:
    traffic = Traffic(
        effort.of(RECORDS), partitions=site.lanes, countries=effort.of(site.segments - 1)
    )
    job = Job(traffic, metrics=METRICS, groupings=(("country",),), max_segments=10_000)
    topic, name = await stage.topic(traffic), stage.name()
    stage.redis.flush()
    with stage.worker(job, topic, name) as worker:
        await until(lambda: _is_done(worker, site.lanes), worker.daemon)
        worker.daemon.terminate()
    with stage.worker(job, topic, name, role="exporter") as exporter:
        await until(lambda: exporter.daemon.series(LOOKED), exporter.daemon)
        looks = [await _next_look_s(exporter) for _ in range(LOOKS)]
        samples = sum(not line.startswith(b"#") for line in _page(exporter).splitlines())
        scrapes = [_scrape_ms(exporter) for _ in range(SCRAPES)]
        answers = await _answers_ms(exporter, effort)
        stall_ms = exporter.daemon.series(STALL) * 1000
        memory = resident(exporter) / MIB
    await stage.forget(traffic)
    at, key = f"{site.lanes} lanes, {samples:,} samples", f"exporter.{site.key}"
    return [
        number(f"{key}.look_s", f"a look, {at}", looks, "s", LOOK_GOAL_S),
        number(f"{key}.scrape_ms", f"a scrape, {at}", scrapes, "ms"),
        number(f"{key}.stall_ms", f"worst stall, {at}", [stall_ms], "ms", STALL_GOAL_MS),
        number(f"{key}.memory", f"memory, {at}", [memory], "MiB"),
        *(
            number(
                f"{key}{path.partition('?')[0].removeprefix('/api/v1').replace('/', '.')}_ms",
                f"99 % of {REQUESTS_PER_S} requests/s beside looks, {path}",
                [float(np.percentile(took_ms, 99))],
                "ms",
                ANSWER_GOAL_MS,
            )
            for path, took_ms in answers.items()
        ),
    ]


def _is_done(worker: Running, lanes: int) -> bool:
    """Whether a worker has read every partition to its end."""
    lags = [line for line in _page(worker).splitlines() if line.startswith(LAG)]
    return worker.owned() == lanes == len(lags) and not any(float(lag.split()[-1]) for lag in lags)


def _page(running: Running) -> bytes:
    return running.daemon.get("/metrics")


async def _next_look_s(exporter: Running) -> float:
    """The time that the next look takes."""
    before = exporter.daemon.series(LOOKED)
    await until(lambda: exporter.daemon.series(LOOKED) > before, exporter.daemon)
    return exporter.daemon.series(LOOK)


def _scrape_ms(exporter: Running) -> float:
    began_s = time.perf_counter()
    _page(exporter)
    return (time.perf_counter() - began_s) * 1000


async def _answers_ms(exporter: Running, effort: Effort) -> dict[str, list[float]]:
    """Path → how long each request took that was sent at a steady rate, whatever came of others."""
    took_ms: dict[str, list[float]] = {path: [] for path in PATHS}
    address = f"http://127.0.0.1:{exporter.daemon.port}"
    async with aiohttp.ClientSession(address) as session, asyncio.TaskGroup() as group:
        began_s = time.perf_counter()
        for nth, path in zip(range(effort.of(REQUESTS_PER_S * REQUESTS_S)), cycle(PATHS)):
            await asyncio.sleep(began_s + nth / REQUESTS_PER_S - time.perf_counter())
            group.create_task(_ask(session, path, took_ms[path]))
    return took_ms


async def _ask(session: aiohttp.ClientSession, path: str, took_ms: list[float]) -> None:
    began_s = time.perf_counter()
    async with session.get(path) as answer:
        await answer.read()
        answer.raise_for_status()
    took_ms.append((time.perf_counter() - began_s) * 1000)
