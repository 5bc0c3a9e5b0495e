"""The servers of the benchmark: one broker, one Redis, and daemons as users run them."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec
import redis

from relevanced.daemon.config import ONE, REKEY, load
from relevanced.daemon.events import BY_ID
from relevanced.daemon.storage import lane_topics, namespace
from tests.bench.cpu import Sample, Usage, processor_s, usage_between
from tests.bench.topics import KEPT, fill
from tests.bench.traffic import EXPERIMENT, Traffic
from tests.services.daemons import Daemon
from tests.services.kafka_server import Broker
from tests.services.redis_cluster import RedisCluster
from tests.services.redis_server import RedisServer

ROOT: Final = Path(__file__).parent.parent.parent
POLL_OFTEN_S: Final = 0.02
POLL_SELDOM_S: Final = 0.25
"""Between the ends of a measurement: every poll costs Redis some time."""
GAUGES_AFTER_S: Final = 2.5
FEWEST_BATCHES: Final = 10
"""Minimum number of batches of small traffic, so that there are samples between its ends."""
PATIENCE_S: Final = 60.0
"""Longest wait without any progress."""
METRICS: Final = ("P@5", "P@10", "Success@10", "RR@10", "ERR@10", "nDCG@10")
WINDOWS: Final = ("5m", "1h", "24h")
GROUPINGS: Final = (("country",), ("device",), ("country", "device"), (f"experiment:{EXPERIMENT}",))


@dataclass(frozen=True)
class Job:
    """Traffic and configuration of a worker."""

    traffic: Traffic = Traffic()
    batch: int = 10_000
    windows: tuple[str, ...] = WINDOWS
    metrics: tuple[str, ...] = METRICS
    groupings: tuple[tuple[str, ...], ...] = GROUPINGS
    max_segments: int = 1000
    attribution: str = "2m"
    """Long enough for all feedback, and short enough for panes to settle within the traffic."""
    lateness: str = "10s"
    join: str = BY_ID
    session_timeout: str = "45s"
    kafka_lanes: str = "partition"
    more: str = ""
    """Further sections of the file."""

    @property
    def lanes(self) -> int:
        return 1 if self.kafka_lanes == ONE else self.traffic.partitions


_NUMBERS: Final = count()
"""Of all stages of a process: several may share a broker, and no two topics a name."""


@dataclass
class Stage:
    """The servers and a folder for logs, as an async context manager that deletes its topics."""

    broker: Broker
    redis: RedisServer | RedisCluster
    directory: Path
    _topics: dict[Traffic, str] = field(default_factory=dict)
    _ends: dict[str, list[int]] = field(default_factory=dict)

    async def __aenter__(self) -> "Stage":
        return self

    async def __aexit__(self, *_: object) -> None:
        """Delete the topics: the broker may be shared."""
        for traffic in list(self._topics):
            await self.forget(traffic)

    async def topic(self, traffic: Traffic) -> str:
        """The name of the topic with this traffic, which is created and filled on first use."""
        if traffic not in self._topics:
            name = self._topics[traffic] = await self.empty_topic(traffic.partitions)
            await self.fill(name, traffic)
        return self._topics[traffic]

    async def forget(self, traffic: Traffic) -> None:
        """Delete the topic to free disk space."""
        await self.broker.delete_topic(self._topics.pop(traffic))

    async def empty_topic(self, partitions: int) -> str:
        """The name of a new empty topic."""
        name = f"topic-{self.name()}"
        await self.broker.create_topic(name, partitions, KEPT)
        return name

    async def fill(self, topic: str, traffic: Traffic) -> None:
        """Write all of the traffic to an empty topic."""
        self._ends[topic] = await fill(self.broker, topic, traffic)

    @asynccontextmanager
    async def sent_topic(self, job: Job, topic: str, name: str) -> AsyncIterator[None]:
        """With the topic to which the stage of such a worker sends."""
        (sent,) = lane_topics(load(self.config(job, topic, name), {}, "bench"))
        await self.broker.create_topic(sent, job.lanes, KEPT)
        try:
            yield
        finally:
            await self.broker.delete_topic(sent)

    def ends(self, topic: str) -> list[int]:
        """The number of records of each partition."""
        return self._ends[topic]

    def name(self) -> str:
        """A new name, for a namespace and its consumer group."""
        return f"bench-{os.getpid()}-{next(_NUMBERS)}"

    def config(self, job: Job, topic: str, name: str, redis_url: str | None = None) -> str:
        """The text of the configuration file of a daemon with this job."""
        return f"""
windows = {json.dumps(job.windows)}
[kafka]
bootstrap_servers = ["{self.broker.bootstrap}"]
topics = ["{topic}"]
group_id = "{name}"
start = "earliest"
session_timeout = "{job.session_timeout}"
lanes = "{job.kafka_lanes}"
max_batch_records = {_fitting(job.batch, job.traffic.records)}
[redis]
url = "{redis_url or self.redis.url}"
namespace = "{name}"
[attribution]
window = "{job.attribution}"
lateness = "{job.lateness}"
join = "{job.join}"
[metrics]
names = {json.dumps(job.metrics)}
[segments]
groupings = {json.dumps(job.groupings)}
max_segments = {job.max_segments}
[rekey]
topic = "{name}-rekeyed"
partitions = {job.lanes}
{job.more}"""

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
        """A running daemon on the topic, killed at the end. `redis_url` is set where it connects to
        Redis through a proxy."""
        config = self.config(job, topic, name, redis_url)
        daemon = Daemon(self.directory, config, role, under=under)
        running = Running(self, daemon, job, config)
        try:
            yield running
        finally:
            daemon.close()
            running.redis.close()

    async def floor(self, topic: str, upto: int, batch: int) -> Usage:
        """The usage of the floor over `upto` records of a topic, in a process of its own."""
        arguments = [self.broker.bootstrap, topic, str(upto), str(_fitting(batch, upto))]
        printed = await run_python("-m", "tests.bench.floor", *arguments)
        return usage_between(msgspec.json.decode(printed, type=list[Sample]), upto)


class Running:
    """A running daemon, observed through its operating system process, Redis and /metrics."""

    def __init__(self, stage: Stage, daemon: Daemon, job: Job, config: str) -> None:
        self.daemon = daemon
        self.prefix = namespace(load(config, {}, "bench"))
        self._stage = stage
        self._lanes, self._is_rekeyed = job.lanes, job.kafka_lanes == REKEY
        self.redis = _client(stage.redis.url)

    @property
    def pid(self) -> int:
        return self.daemon.process.pid

    def offsets(self) -> dict[int, int]:
        """Lane → number of records that are committed; without lanes that were never claimed."""
        pipeline = self.redis.pipeline(transaction=False)
        for lane in range(self._lanes):
            pipeline.hget(f"{{{self.prefix}:{lane}}}:head", "offsets")
        found = enumerate(pipeline.execute())
        return {lane: sum(json.loads(topics).values()) for lane, topics in found if topics}

    def events(self) -> int:
        """The number of records of the topic that are committed."""
        if not self._is_rekeyed:
            return sum(self.offsets().values())
        heads = (f"{{{self.prefix}:{lane}}}:head" for lane in range(self._lanes))
        counts = (json.loads(self.redis.hget(head, "counts") or "{}") for head in heads)
        return sum(sum(of.get("events", {}).values()) for of in counts)

    async def owned_by(self, all_of: "Sequence[Running]") -> None:
        """Wait until each of these workers owns its share of the lanes."""
        async with asyncio.timeout(PATIENCE_S):
            while sorted(worker.owned() for worker in all_of) != _shares(self._lanes, len(all_of)):
                await asyncio.sleep(POLL_SELDOM_S)

    def owned(self) -> int:
        """The number of lanes that this worker reports as owned."""
        try:
            page = self.daemon.get("/metrics")
        except OSError:
            return 0
        lines = [line for line in page.splitlines() if line.startswith(b"relevanced_owned_lanes ")]
        return round(float(lines[0].split()[1])) if lines else 0

    async def lanes_owned(self) -> None:
        """Wait until every lane has been claimed."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.offsets()) < self._lanes:
                await asyncio.sleep(POLL_OFTEN_S)

    async def open_impressions(self) -> int:
        """The number of open impressions of the worker, after its gauge was updated again."""
        await asyncio.sleep(GAUGES_AFTER_S)
        lines = self.daemon.get("/metrics").decode().splitlines()
        gauges = [line for line in lines if line.startswith("relevanced_open_impressions{")]
        return round(sum(float(line.rpartition(" ")[2]) for line in gauges))

    def sample(self) -> Sample:
        """The usage and progress now. Raises RuntimeError if the worker has ended."""
        if self.daemon.process.poll() is not None:
            raise RuntimeError(f"the worker ended:\n{self.daemon.log()[-3000:]}")
        events = self.events()
        redis_s = sum(map(processor_s, self._stage.redis.pids))
        return Sample(events, processor_s(self.pid), redis_s, time.monotonic())

    async def follow(
        self, upto: int, seldom: bool = True, often_s: float = POLL_OFTEN_S
    ) -> list[Sample]:
        """Samples until `upto` events are done, `often_s` apart at the ends; with `seldom` further
        apart in between. Raises RuntimeError if there is no progress."""
        samples = [self.sample()]
        progressed_s = time.monotonic()
        while samples[-1].events < upto:
            if time.monotonic() - progressed_s > PATIENCE_S:
                raise RuntimeError(f"no progress since {samples[-1]}:\n{self.daemon.log()[-3000:]}")
            between = 0.15 < samples[-1].events / upto < 0.8
            await asyncio.sleep(POLL_SELDOM_S if seldom and between else often_s)
            samples.append(self.sample())
            if samples[-1].events != samples[-2].events:
                progressed_s = time.monotonic()
        return samples

    async def measured(self, upto: int, often_s: float = POLL_OFTEN_S) -> Usage:
        """The usage until `upto` events are done, without the warm-up."""
        return usage_between(await self.follow(upto, often_s=often_s), upto)


async def run_python(*arguments: str) -> bytes:
    """The output of a Python program in this environment. Raises RuntimeError if it fails."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)}: ended with {process.returncode}")
    return printed


def _client(url: str) -> Any:
    if (plain := url.replace("redis+cluster://", "redis://")) != url:
        return redis.RedisCluster.from_url(plain)
    return redis.Redis.from_url(url)


def _fitting(batch: int, records: int) -> int:
    """The batch size, reduced so that there are at least `FEWEST_BATCHES`."""
    return min(batch, max(1, records // FEWEST_BATCHES))


def _shares(lanes: int, workers: int) -> list[int]:
    """The number of lanes of each worker, in ascending order."""
    return sorted(lanes // workers + (index < lanes % workers) for index in range(workers))
