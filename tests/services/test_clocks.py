"""Wall clocks that jump while worker and exporter run: numbers stay equal, and the views come back
with the clock."""

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from redis import Redis

from tests.chaos import clocked
from tests.services.daemons import Daemon, until
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer
from tests.services.test_daemon import TOML, samples, send

HOUR_S = 3_600.0
DAY_S = 24 * HOUR_S
BACK_WITHIN_S = 15.0
"""Touch, fetch and refresh, and a machine with other work."""
ACCEPTED = 'relevanced_impression_outcomes_total{outcome="accepted"}'

Start = Callable[[str], tuple[Daemon, Path]]


@pytest.fixture
async def start(
    kafka: Broker, topic: str, one_redis: RedisServer, tmp_path: Path
) -> AsyncIterator[Start]:
    """`start(role)`: a process of a role, and the file with the offset of its clock."""
    daemons: list[Daemon] = []
    values = {"bootstrap": kafka.bootstrap, "group": topic, "redis": one_redis.url}
    toml = TOML.format(topics=f'"{topic}"', more="[segments]\ngroupings = []", **values)

    def started(role: str) -> tuple[Daemon, Path]:
        file = tmp_path / f"clock-{len(daemons)}"
        clocked.step(file, 0.0)
        daemons.append(Daemon(tmp_path, toml, role, script=[clocked.__file__, str(file)]))
        return daemons[-1], file

    yield started
    for daemon in daemons:
        daemon.close()


async def show(kafka: Broker, topic: str, numbers: range) -> None:
    """Send impressions of now."""
    now_ms = time.time_ns() // 1_000_000
    event = {"type": "impression", "timestamp": now_ms, "items": ["a", "b"]}
    values = [json.dumps({**event, "impression_id": f"q{n}"}).encode() for n in numbers]
    await send(kafka, topic, *values, timestamp_ms=now_ms)


def as_of_s(exporter: Daemon) -> float:
    """How far the instant of the views is ahead of the clock of this machine; infinity while there
    is none, because the exporter's clock is before the first event."""
    end = "relevanced_window_end_timestamp_seconds{view=live,window=1m}"
    return samples(exporter).get(end, math.inf) - time.time()


async def end_well(*daemons: Daemon) -> None:
    await until(
        lambda: all(json.loads(d.readiness())["ready"] for d in daemons), patience_s=BACK_WITHIN_S
    )
    for daemon in daemons:
        assert await asyncio.to_thread(daemon.terminate) == 0
        assert "Traceback" not in daemon.log()


def is_marked_by(step_s: float, redis: RedisServer) -> bool:
    """Whether the idle mark of the lane is of a clock that is ahead, or behind, by so much."""
    with Redis.from_url(redis.url) as client:
        (head,) = client.scan_iter("{*:0}:head")
        ahead_s = int(client.hget(head, "idle") or 0) / 1000 - time.time()
    return abs(ahead_s - step_s) < 60


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S, DAY_S, -DAY_S])
async def test_the_clock_of_a_worker_jumps_and_comes_back(
    kafka: Broker, topic: str, one_redis: RedisServer, start: Start, step_s: float
) -> None:
    (worker, clock), (exporter, _) = start("worker"), start("exporter")
    await show(kafka, topic, range(10))
    await until(lambda: exporter.series(ACCEPTED) == 10, worker)
    clocked.step(clock, step_s)
    await show(kafka, topic, range(10, 20))
    await until(lambda: exporter.series(ACCEPTED) == 20)
    await until(lambda: is_marked_by(step_s, one_redis), patience_s=BACK_WITHIN_S)
    clocked.step(clock, 0.0)
    await until(lambda: abs(as_of_s(exporter)) < 10, patience_s=BACK_WITHIN_S)
    await show(kafka, topic, range(20, 30))
    live = "relevanced_impressions{grouping=all,segment=all,view=live,window=1m}"
    await until(lambda: exporter.series(ACCEPTED) == 30, patience_s=BACK_WITHIN_S)
    await until(lambda: samples(exporter)[live] >= 10, patience_s=BACK_WITHIN_S)
    await end_well(worker, exporter)


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S, DAY_S, -DAY_S])
async def test_the_clock_of_an_exporter_jumps_and_comes_back(
    kafka: Broker, topic: str, start: Start, step_s: float
) -> None:
    (worker, _), (exporter, clock) = start("worker"), start("exporter")
    await show(kafka, topic, range(10))
    await until(lambda: exporter.series(ACCEPTED) == 10, worker)
    clocked.step(clock, step_s)
    await show(kafka, topic, range(10, 20))
    await until(lambda: exporter.series(ACCEPTED) == 20, patience_s=BACK_WITHIN_S)
    clocked.step(clock, 0.0)
    await until(lambda: abs(as_of_s(exporter)) < 10, patience_s=BACK_WITHIN_S)
    await show(kafka, topic, range(20, 30))
    await until(lambda: exporter.series(ACCEPTED) == 30, patience_s=BACK_WITHIN_S)
    await end_well(worker, exporter)
