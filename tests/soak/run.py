"""Hours of event time through a daemon in its own process, with a real Kafka and Redis, and
measurements of it meanwhile."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import Any, Final

from redis.asyncio import Redis

from tests.services import processes
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer
from tests.soak import task_counter
from tests.soak.traffic import START_MS, Producer, events
from tests.soak.trend import Trend, trend

CONFIG: Final = """
windows = ["1m", "5m"]
[kafka]
bootstrap_servers = ["{kafka}"]
topics = ["{topic}"]
start = "earliest"
commit_interval = "50ms"
max_batch_records = 300
[redis]
url = "{redis}"
[events]
dead_letter_topic = "{letters}"
[attribution]
window = "2m"
lateness = "10s"
[segments]
max_segments = 10
[http]
listen = "127.0.0.1:{port}"
"""
PARTITIONS: Final = 2
TOPIC_SETTINGS: Final = {"message.timestamp.after.max.ms": str(2**62), "retention.ms": "-1"}
WARM_HOURS: Final = 1.5
"""After this time the first hourly rows are stored, every code path has run, and the allocator has
reached its size: from then on nothing may grow."""
EVERY_S: Final = 0.05
PATIENCE_S: Final = 60.0
STAGED_AT_MOST_S: Final = 120
GONE, NO_EXPIRY = -2, -1
"""Answers of TTL for keys that do not exist, and for keys that do not expire."""
OLD_NAMESPACE: Final = "relevanced-00000000"
WEEKS_AGO_MS: Final = 15 * 86_400_000


BOUNDS: Final[Mapping[str, tuple[float, float]]] = {
    "memory of the daemon": (1.5e6, 1024.0),
    "memory of Redis": (0.1e6, 192.0),
    "keys": (5.0, 2 / 64),
    "tasks": (0.5, 0.0),
    "threads": (0.5, 0.0),
    "open files": (0.5, 0.0),
    "open sockets": (0.5, 0.0),
}
"""Allowed growth per hour of event time: a constant, and an amount per new segment. Names and
totals of segments are stored for the lifetime of a lane, in at most two pages of 64 segments at
a time; and each stored hour has, in both lanes, a page of earlier segments and one that it
shares."""


@dataclass(frozen=True)
class Soak:
    """Settings of a run. `rate` is events per second of event time."""

    hours: float
    seed: int = 1
    rate: float = 8.0
    new_value_every_s: int | None = None
    rebalance_every_hours: float = 1.0


@dataclass
class Samples:
    """Columns of measured quantities by hour of event time."""

    hours: list[float] = field(default_factory=list)
    columns: dict[str, list[float]] = field(default_factory=dict)

    def add(self, hours: float, values: dict[str, float]) -> None:
        self.hours.append(hours)
        for name, value in values.items():
            self.columns.setdefault(name, []).append(value)


@dataclass(frozen=True)
class SoakResult:
    """The result of a run."""

    trends: list[Trend]
    faults: list[str]
    hours: float
    seconds: float
    rebalances: int

    @property
    def passed(self) -> bool:
        return not self.faults and not any(trend.grows for trend in self.trends)

    def text(self) -> str:
        lines = [trend.text() for trend in self.trends] + self.faults
        state = "nothing grows, nothing leaks" if self.passed else "FAILED"
        lines.append(
            f"soak: {self.hours:.1f} hours of event time in {self.seconds:.0f} s, "
            f"{self.rebalances} rebalances: {state}"
        )
        return "\n".join(lines)


class Worker:
    """One daemon process."""

    def __init__(self, directory: Path, config: str, name: str, role: str) -> None:
        self.log, self.tasks_file = directory / f"{name}.log", directory / f"{name}.tasks"
        path = directory / f"{name}.toml"
        path.write_text(config.format(port=processes.free_port()))
        command = [sys.executable, str(Path(task_counter.__file__)), str(self.tasks_file)]
        options = ["run", "--config", str(path), "--role", role]
        self.process: Popen[bytes] = processes.spawn([*command, *options], log=self.log)

    def measured(self) -> dict[str, float]:
        proc = Path(f"/proc/{self.process.pid}")
        pages = int((proc / "statm").read_text().split()[1])
        links = [os.readlink(path) for path in _existing(proc / "fd")]
        return {
            "memory of the daemon": pages * os.sysconf("SC_PAGESIZE"),
            "tasks": float(self.tasks_file.read_text() or 0),
            "threads": len(list((proc / "task").iterdir())),
            "open files": len(links),
            "open sockets": sum(link.startswith("socket:") for link in links),
        }

    async def end(self) -> int:
        self.process.terminate()
        return await asyncio.to_thread(self.process.wait, PATIENCE_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_S)


def _existing(folder: Path) -> list[Path]:
    """The entries of a folder that still exist when they are checked."""
    return [path for path in folder.iterdir() if os.path.lexists(path)]


async def soak(soak: Soak, directory: Path, kafka: Broker, redis: RedisServer) -> SoakResult:
    """Run and measure. Raises AssertionError if the daemon makes no progress."""
    topic, letters = f"soak-{soak.seed}", f"soak-{soak.seed}-letters"
    await kafka.create_topic(topic, PARTITIONS, TOPIC_SETTINGS)
    await kafka.create_topic(letters, 1)
    config = CONFIG.format(
        kafka=kafka.bootstrap, topic=topic, redis=redis.url, letters=letters, port="{port}"
    )
    client: Any = Redis.from_url(redis.url)
    await _plant_old_namespace(client)
    began_s = time.monotonic()
    worker = Worker(directory, config, "first", "all")
    source = events(soak.seed, soak.rate, soak.new_value_every_s)
    producing = asyncio.create_task(Producer(kafka.bootstrap, topic, source).run(soak.hours))
    rebalancing = Rebalancing(directory, config, soak.rebalance_every_hours)
    try:
        samples = await _measure(soak, worker, client, producing, rebalancing)
        faults = await _faults(client)
        await rebalancing.end()
        if (code := await worker.end()) != 0:
            faults.append(f"the daemon ended with {code}: {processes.tail(worker.log.read_text())}")
    finally:
        producing.cancel()
        worker.close()
        rebalancing.close()
        await client.aclose()
        for name in (topic, letters):
            await kafka.delete_topic(name)
    seconds = time.monotonic() - began_s
    return SoakResult(_trends(samples), faults, samples.hours[-1], seconds, rebalancing.done)


class Rebalancing:
    """A second worker that joins and leaves again and again."""

    def __init__(self, directory: Path, config: str, every_hours: float) -> None:
        self._directory, self._config, self._every = directory, config, every_hours
        self._next_hours = every_hours / 2
        self._worker: Worker | None = None
        self.done = 0

    async def at(self, hours: float) -> None:
        if hours < self._next_hours:
            return
        self._next_hours = hours + self._every / 2
        if self._worker is not None:
            await self.end()
        else:
            name = f"guest-{self.done}"
            self._worker = Worker(self._directory, self._config, name, "worker")
        self.done += 1

    async def end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.end()

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()


async def _measure(
    soak: Soak,
    worker: Worker,
    client: Any,
    producing: "asyncio.Task[None]",
    rebalancing: Rebalancing,
) -> Samples:
    """Measure until the daemon has processed all records."""
    samples, progress_s, hours = Samples(), time.monotonic(), 0.0
    while hours < soak.hours - 0.02 or not producing.done():
        await asyncio.sleep(EVERY_S)
        assert worker.process.poll() is None, processes.tail(worker.log.read_text())
        if producing.done():
            producing.result()
        now_hours = await _hours_done(client)
        if now_hours == hours:
            assert time.monotonic() < progress_s + PATIENCE_S, f"no progress after {hours} hours"
            continue
        hours, progress_s = now_hours, time.monotonic()
        if hours > WARM_HOURS:
            samples.add(hours, worker.measured() | await _redis_measured(client))
        await rebalancing.at(hours)
    return samples


async def _hours_done(client: Any) -> float:
    """Hours of event time that the slowest lane has processed."""
    least_ms: int | None = None
    heads = [key async for key in client.scan_iter(match="*}:head", count=1000)]
    for key in heads:
        watermarks = json.loads(await client.hget(key, "watermarks") or b"{}").values()
        for watermark_ms in watermarks:
            least_ms = watermark_ms if least_ms is None else min(least_ms, watermark_ms or START_MS)
    if least_ms is None or len(heads) < PARTITIONS:
        return 0.0
    return (least_ms - START_MS) / 3_600_000


async def _redis_measured(client: Any) -> dict[str, float]:
    memory = await client.info("memory")
    keys = [key async for key in client.scan_iter(count=1000) if b":stage:" not in key]
    return {
        "memory of Redis": float(memory["used_memory_dataset"]),
        "keys": float(len(keys)),
        "segment names": float(await _names(client)),
    }


async def _names(client: Any) -> int:
    keys = [key async for key in client.scan_iter(match="*}:names", count=1000)]
    return sum([await client.hlen(key) for key in keys])


async def _plant_old_namespace(client: Any) -> None:
    """Create a namespace without a sign of life for longer than `redis.keep`."""
    old_ms = int(time.time() * 1000) - WEEKS_AGO_MS
    lives = {"relevanced-11111111": int(time.time() * 1000)}  # else none would be silent
    await client.zadd("relevanced:namespaces", {OLD_NAMESPACE: old_ms, **lives})
    await client.hset(f"{OLD_NAMESPACE}:meta", "lanes", "1")
    await client.hset(f"{{{OLD_NAMESPACE}:0}}:head", "token", "gone")


async def _faults(client: Any) -> list[str]:
    """Keys at the end that should not exist, or have a wrong expiry."""
    faults = []
    for key in [key async for key in client.scan_iter(count=1000)]:
        left_s = await client.ttl(key)
        if left_s == GONE:
            continue
        staged, is_lease = b":stage:" in key, key.endswith(b":exporter")
        if OLD_NAMESPACE.encode() in key:
            faults.append(f"{key!r} still exists: its namespace has expired")
        elif staged and not 0 <= left_s <= STAGED_AT_MOST_S:
            faults.append(f"{key!r} expires in {left_s} s: must be 0 to {STAGED_AT_MOST_S}")
        elif not staged and not is_lease and left_s != NO_EXPIRY:
            faults.append(f"{key!r} expires in {left_s} s: only staged keys may expire")
    return faults


def _trends(samples: Samples) -> list[Trend]:
    """The trends of all columns; their bounds include the growth allowed per new segment."""
    hours, columns = samples.hours, samples.columns
    names = trend("segment names", hours, columns["segment names"], float("inf"))
    new_segments = max(0.0, names.slope)
    bounds = {name: fixed + each * new_segments for name, (fixed, each) in BOUNDS.items()}
    return [names, *(trend(name, hours, columns[name], bounds[name]) for name in bounds)]
