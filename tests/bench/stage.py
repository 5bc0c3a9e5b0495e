"""Where it is measured: one broker, one Redis, and daemons as their users run them."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec
import redis

from relevanced.daemon.config.loading import load
from relevanced.daemon.storage.schema import namespace
from tests.bench.cpu import Sample, Stretch, processor_s, stretch
from tests.bench.topics import KEPT, fill
from tests.bench.traffic import EXPERIMENT, Traffic
from tests.services.daemons import Daemon
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer

ROOT: Final = Path(__file__).parent.parent.parent
LOOK_OFTEN_S: Final = 0.02
LOOK_SELDOM_S: Final = 0.25
"""Where nothing is decided: each look costs Redis a little."""
GAUGES_AFTER_S: Final = 2.5
FEWEST_BATCHES: Final = 10
"""Of little traffic, that something can be seen between the first and the last."""
PATIENCE_S: Final = 60.0
"""Without any progress."""
METRICS: Final = ("P@5", "P@10", "Success@10", "RR@10", "ERR@10", "nDCG@10")
WINDOWS: Final = ("5m", "1h", "24h")
GROUPINGS: Final = (("country",), ("device",), ("country", "device"), (f"experiment:{EXPERIMENT}",))


@dataclass(frozen=True)
class Job:
    """What a worker is configured to do."""

    traffic: Traffic = Traffic()
    batch: int = 10_000
    windows: tuple[str, ...] = WINDOWS
    metrics: tuple[str, ...] = METRICS
    groupings: tuple[tuple[str, ...], ...] = GROUPINGS
    max_segments: int = 1000
    attribution: str = "2m"
    """Long enough for all feedback, and short enough for panes to settle within the traffic."""
    lateness: str = "10s"
    session_timeout: str = "45s"


@dataclass
class Stage:
    """`async with`: servers, and a folder for logs. Topics that it filled go at its end."""

    broker: Broker
    redis: RedisServer
    directory: Path
    _topics: dict[Traffic, str] = field(default_factory=dict)
    _ends: dict[str, list[int]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    async def __aenter__(self) -> "Stage":
        return self

    async def __aexit__(self, *_: object) -> None:
        """The topics go: the broker may serve others."""
        for traffic in list(self._topics):
            await self.forget(traffic)

    async def topic(self, traffic: Traffic) -> str:
        """The name of the topic that holds this traffic; filled when first asked for."""
        if traffic not in self._topics:
            name = self._topics[traffic] = await self.empty_topic(traffic.partitions)
            await self.fill(name, traffic)
        return self._topics[traffic]

    async def forget(self, traffic: Traffic) -> None:
        """Remove the topic: disks are not endless."""
        await self.broker.delete_topic(self._topics.pop(traffic))

    async def empty_topic(self, partitions: int) -> str:
        """The name of a new one."""
        name = f"topic-{self.name()}"
        await self.broker.create_topic(name, partitions, KEPT)
        return name

    async def fill(self, topic: str, traffic: Traffic) -> None:
        """Write all of the traffic to an empty topic."""
        self._ends[topic] = await fill(self.broker, topic, traffic)

    def ends(self, topic: str) -> list[int]:
        """How many records each partition has."""
        return self._ends[topic]

    def name(self) -> str:
        """One that was not used before: for a namespace and its group."""
        return f"bench-{os.getpid()}-{next(self._numbers)}"

    def config(self, job: Job, topic: str, name: str, redis_url: str | None = None) -> str:
        """The configuration file of a daemon with this job."""
        return f"""
windows = {json.dumps(job.windows)}
[kafka]
bootstrap_servers = ["{self.broker.bootstrap}"]
topics = ["{topic}"]
group_id = "{name}"
start = "earliest"
session_timeout = "{job.session_timeout}"
max_batch_records = {_fitting(job.batch, job.traffic.records)}
[redis]
url = "{redis_url or self.redis.url}"
namespace = "{name}"
[attribution]
window = "{job.attribution}"
lateness = "{job.lateness}"
[metrics]
names = {json.dumps(job.metrics)}
[segments]
groupings = {json.dumps(job.groupings)}
max_segments = {job.max_segments}
"""

    @contextmanager
    def worker(
        self,
        job: Job,
        topic: str,
        name: str,
        role: str = "worker",
        under: Sequence[str] = (),
        redis_url: str | None = None,
    ) -> Iterator["Running"]:
        """A running daemon over the topic. It is killed at the end. `redis_url`: the way to Redis
        that it takes, where that is not the straight one."""
        config = self.config(job, topic, name, redis_url)
        daemon = Daemon(self.directory, config, role, under=under)
        running = Running(self, daemon, job, config)
        try:
            yield running
        finally:
            daemon.close()
            running.redis.close()

    async def floor(self, topic: str, upto: int, batch: int) -> Stretch:
        """The floor over so many records of a topic, in a process of its own."""
        arguments = [self.broker.bootstrap, topic, str(upto), str(_fitting(batch, upto))]
        printed = await run_python("-m", "tests.bench.floor", *arguments)
        return stretch(msgspec.json.decode(printed, type=list[Sample]), upto)


class Running:
    """A daemon that is being watched from outside."""

    def __init__(self, stage: Stage, daemon: Daemon, job: Job, config: str) -> None:
        self.daemon = daemon
        self.prefix = namespace(load(config, {}, "bench"))
        self._stage = stage
        self._lanes = job.traffic.partitions
        self.redis: Any = redis.Redis.from_url(stage.redis.url)

    @property
    def pid(self) -> int:
        return self.daemon.process.pid

    def offsets(self) -> dict[int, int]:
        """How many records of each lane are durably done; nothing of a lane that was never
        claimed."""
        pipeline = self.redis.pipeline(transaction=False)
        for lane in range(self._lanes):
            pipeline.hget(f"{{{self.prefix}:{lane}}}:head", "offsets")
        found = enumerate(pipeline.execute())
        return {lane: sum(json.loads(topics).values()) for lane, topics in found if topics}

    def events(self) -> int:
        """How many records of the topic are durably done."""
        return sum(self.offsets().values())

    async def owned_by(self, all_of: "Sequence[Running]") -> None:
        """Returns when each of these workers owns its share of the lanes."""
        async with asyncio.timeout(PATIENCE_S):
            while sorted(one.owned() for one in all_of) != _shares(self._lanes, len(all_of)):
                await asyncio.sleep(LOOK_SELDOM_S)

    def owned(self) -> int:
        """How many lanes this worker says that it has."""
        try:
            page = self.daemon.get("/metrics")
        except OSError:
            return 0
        told = [line for line in page.splitlines() if line.startswith(b"relevanced_owned_lanes ")]
        return round(float(told[0].split()[1])) if told else 0

    async def lanes_owned(self) -> None:
        """Returns when every lane has been claimed."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.offsets()) < self._lanes:
                await asyncio.sleep(LOOK_OFTEN_S)

    async def open_impressions(self) -> int:
        """How many the worker holds. It tells once a second, so the last word comes after that."""
        await asyncio.sleep(GAUGES_AFTER_S)
        lines = self.daemon.get("/metrics").decode().splitlines()
        held = [line for line in lines if line.startswith("relevanced_open_impressions{")]
        return round(sum(float(line.rpartition(" ")[2]) for line in held))

    def sample(self) -> Sample:
        """Now."""
        if self.daemon.process.poll() is not None:
            raise RuntimeError(f"the worker ended:\n{self.daemon.log()[-3000:]}")
        events = self.events()
        redis_s = processor_s(self._stage.redis.pid)
        return Sample(events, processor_s(self.pid), redis_s, time.monotonic())

    async def follow(
        self, upto: int, seldom: bool = True, often_s: float = LOOK_OFTEN_S
    ) -> list[Sample]:
        """Samples until so many events are done; `seldom`: fewer of them between the ends.
        `often_s`: the time from one to the next at the ends."""
        samples = [self.sample()]
        progressed_s = time.monotonic()
        while samples[-1].events < upto:
            if time.monotonic() - progressed_s > PATIENCE_S:
                raise RuntimeError(f"stands still at {samples[-1]}:\n{self.daemon.log()[-3000:]}")
            between = 0.15 < samples[-1].events / upto < 0.8
            await asyncio.sleep(LOOK_SELDOM_S if seldom and between else often_s)
            samples.append(self.sample())
            if samples[-1].events != samples[-2].events:
                progressed_s = time.monotonic()
        return samples

    async def measured(self, upto: int, often_s: float = LOOK_OFTEN_S) -> Stretch:
        """The cost of so many events from where the worker stands."""
        return stretch(await self.follow(upto, often_s=often_s), upto)


async def run_python(*arguments: str) -> bytes:
    """What a program in this environment prints; raises with its errors where it fails."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)}: ended with {process.returncode}")
    return printed


def _fitting(batch: int, records: int) -> int:
    """The size of batches, less where there are few records."""
    return min(batch, max(1, records // FEWEST_BATCHES))


def _shares(lanes: int, workers: int) -> list[int]:
    """How many lanes each of so many workers gets, the least first."""
    return sorted(lanes // workers + (number < lanes % workers) for number in range(workers))
