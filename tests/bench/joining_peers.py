"""What teams write today for the worker's job, in Java: Kafka Streams and Flink SQL, on the same
topic as a worker with the same job. What an event costs them, how much memory they take, and
whether their sums are those of the definition, undisturbed and after a kill.

Both store their state and results exactly once. Their programs are compiled on first use, with
libraries from Maven Central in the cache folder; that needs a JDK and Maven.
"""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupCoordinatorNotAvailableError

from tests.bench.cpu import Sample, processor_s, usage_between
from tests.bench.effort import Effort
from tests.bench.findings import Finding, PartResult, number, ratio
from tests.bench.join_job import ByMinute, Sums, expected, plus
from tests.bench.replay_cost import peak_bytes
from tests.bench.stage import Job, Stage
from tests.bench.traffic import Traffic
from tests.services import processes
from tests.services.kafka_jars import Artifact, KafkaUnavailable, fetched
from tests.services.kept import kept

HERE: Final = Path(__file__).parent / "peers"
ROUNDS: Final = 3
SPAN_S: Final = 10_000
TRAFFIC: Final = Traffic(
    records=500_000,
    partitions=4,
    feedback_after_ms=(1_000, 2_400_000),
)
"""Clicks come up to 40 minutes after the list: a quarter of them later than 30."""
PATIENCE_S: Final = 120.0
"""Longest wait without any progress."""
POLL_EVERY_S: Final = 0.1
UNCHANGED_S: Final = 60.0
"""Results that are wrong for so long after the last record stay so."""
HEAP: Final = ("-Xmx1g", "-XX:+UseSerialGC")
OPENED: Final = tuple(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "util"))

Emitted: TypeAlias = Sequence[tuple[bytes | None, bytes | None]]
"""Keys and values of a topic of results, in the order of each partition."""


def last_of_each_key(emitted: Emitted) -> ByMinute:
    """Kafka Streams writes a sum anew whenever it changes."""
    found: ByMinute = {}
    for key, value in emitted:
        assert key is not None and value is not None
        country, _, minute = key.decode().partition("@")
        impressions, ranks, ndcgs = map(int, value.split(b","))
        found[country, int(minute)] = (impressions, ranks, ndcgs)
    return found


def sum_of_all(emitted: Emitted) -> ByMinute:
    """Flink writes a sum once: if it does so twice, it counts twice."""
    found: ByMinute = {}
    for _, value in emitted:
        row = msgspec.json.decode(value or b"")
        key = (row["country"], row["minute"])
        sums: Sums = (row["impressions"], row["reciprocal_ranks"], row["ndcgs"])
        found[key] = plus(found.get(key, (0, 0, 0)), sums)
    return found


@dataclass(frozen=True)
class Peer:
    """A program in Java and how its results are read."""

    name: str
    program: str
    artifacts: Sequence[Artifact]
    results: Callable[[Emitted], ByMinute]


FLINK: Final = "2.2.1"
PEERS: Final = (
    Peer(
        "Kafka Streams",
        "StreamsPeer",
        (
            ("org.apache.kafka", "kafka-streams", "4.3.1"),
            ("com.fasterxml.jackson.core", "jackson-databind", "2.18.2"),
            ("org.slf4j", "slf4j-nop", "1.7.36"),
        ),
        last_of_each_key,
    ),
    Peer(
        "Flink SQL",
        "FlinkPeer",
        (
            *(
                ("org.apache.flink", f"flink-{name}", FLINK)
                for name in (
                    "clients",
                    "connector-base",
                    "json",
                    "table-api-java-bridge",
                    "table-planner-loader",
                    "table-runtime",
                )
            ),
            ("org.apache.flink", "flink-connector-kafka", "5.0.0-2.2"),
            ("org.slf4j", "slf4j-nop", "1.7.36"),
        ),
        sum_of_all,
    ),
)


class PeerFailed(Exception):
    """The peer could not be built, or did not run."""


@dataclass(frozen=True)
class _Run:
    """An undisturbed run."""

    cpu: tuple[float, float]
    """µs per event of the peer and of the worker."""
    peaks: tuple[int, int]
    """The most memory of the peer's process and of the worker's, in bytes."""
    wrong: int
    """Sums that differ from the definition's."""


async def measure(stage: Stage, effort: Effort) -> PartResult:
    """CPU time per event ÷ the worker's with the same job, memory, and sums that differ."""
    records = effort.of(TRAFFIC.records)
    traffic = replace(TRAFFIC, records=records, events_per_second=records / SPAN_S)
    topic = await stage.topic(traffic)
    right = expected([value or b"" for _, value in await _all_of(stage, topic, traffic.partitions)])
    findings, notes = list[Finding](), list[str]()
    for peer in PEERS:
        name = f"peers.{peer.name.lower().replace(' ', '_')}"
        try:
            rounds = range(effort.rounds(ROUNDS))
            runs = [await _run(stage, peer, traffic, right) for _ in rounds]
            killed = [await _wrong_after_a_kill(stage, peer, topic, right) for _ in rounds]
        except (PeerFailed, KafkaUnavailable, OSError, subprocess.SubprocessError) as error:
            notes.append(f"{peer.name}: not measured: {error}")
            continue
        # The most, where the median would hide one.
        wrong, of_all = max(run.wrong for run in runs), f"{peer.name}, wrong of {len(right)} sums"
        peaks = [run.peaks for run in runs]
        findings += [
            ratio(name, f"{peer.name}, same job ÷ worker", [run.cpu for run in runs]),
            number(f"{name}_us", peer.name, [run.cpu[0] for run in runs], "µs/event"),
            ratio(f"{name}_peak", f"{peer.name}, peak memory ÷ worker's", peaks),
            number(f"{name}_wrong", of_all, [wrong], "", compared=True),
            number(f"{name}_killed", f"{of_all}, killed", [max(killed)], "", compared=True),
        ]
    return PartResult(findings, notes=notes)


async def _run(stage: Stage, peer: Peer, traffic: Traffic, right: ByMinute) -> _Run:
    """The peer undisturbed, and a worker after it."""
    topic = await stage.topic(traffic)
    running = await _Running.of(stage, peer, topic)
    with running.process() as process:
        samples = await running.follow(process, traffic.records)
        theirs = usage_between(samples, traffic.records)
        wrong = await running.wrong(right)
        peak = peak_bytes(process.pid)
    stage.redis.flush()
    job = Job(
        traffic,
        windows=("1h",),
        metrics=("RR@10", "nDCG@10"),
        groupings=(("country",),),
        attribution="30m",
    )
    with stage.worker(job, topic, stage.name()) as worker:
        ours = await worker.measured(traffic.records)
        return _Run((theirs.cpu_us, ours.cpu_us), (peak, peak_bytes(worker.pid)), wrong)


async def _wrong_after_a_kill(stage: Stage, peer: Peer, topic: str, right: ByMinute) -> int:
    """Sums that differ where the process is killed half-way and another one goes on."""
    running, records = await _Running.of(stage, peer, topic), sum(stage.ends(topic))
    with running.process() as process:
        await running.follow(process, records // 2)
    with running.process() as process:
        await running.follow(process, records)
        return await running.wrong(right)


@dataclass(frozen=True)
class _Running:
    """A peer on a topic, with a folder, a group and a topic of results of its own."""

    stage: Stage
    peer: Peer
    topic: str
    name: str
    output: str

    @classmethod
    async def of(cls, stage: Stage, peer: Peer, topic: str) -> "_Running":
        return cls(stage, peer, topic, stage.name(), await stage.empty_topic(1))

    @property
    def log(self) -> Path:
        return self.stage.directory / f"{self.name}.log"

    @contextmanager
    def process(self) -> Iterator["subprocess.Popen[bytes]"]:
        """A process that is killed at the end."""
        variables = {
            "BENCH_BROKER": self.stage.broker.bootstrap,
            "BENCH_TOPIC": self.topic,
            "BENCH_OUTPUT": self.output,
            "BENCH_GROUP": self.name,
            "BENCH_FOLDER": str(self.stage.directory / self.name),
        }
        set_in = ["env", *(f"{key}={value}" for key, value in variables.items())]
        classes = os.pathsep.join(str(path) for path in _built(self.peer))
        java = ["java", *HEAP, *OPENED, "-cp", classes, self.peer.program]
        process = processes.spawn([*set_in, *java], log=self.log)
        try:
            yield process
        finally:
            processes.end(process, signal.SIGKILL, patience_s=10)

    async def follow(self, process: "subprocess.Popen[bytes]", upto: int) -> list[Sample]:
        """Samples of CPU time and of committed offsets, until `upto` records are done."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.stage.broker.bootstrap)
        await admin.start()
        samples = [Sample(0, 0.0)]
        progressed_s = time.monotonic()
        try:
            while samples[-1].events < upto:
                if process.poll() is not None or time.monotonic() - progressed_s > PATIENCE_S:
                    raise PeerFailed(f"{samples[-1].events:,} records, then: {self._said()}")
                await asyncio.sleep(POLL_EVERY_S)
                done = await self._committed(admin)
                if done != samples[-1].events:
                    progressed_s = time.monotonic()
                    samples.append(Sample(done, processor_s(process.pid)))
        finally:
            await admin.close()
        return samples

    async def _committed(self, admin: AIOKafkaAdminClient) -> int:
        try:
            offsets = await admin.list_consumer_group_offsets(self.name)
        except GroupCoordinatorNotAvailableError:  # of the first group of a broker
            return 0
        return sum(at.offset for place, at in offsets.items() if place.topic == self.topic)

    def _said(self) -> str:
        return " ".join(self.log.read_text(errors="replace").splitlines()[-5:])[-500:]

    async def wrong(self, right: ByMinute) -> int:
        """Sums that differ, once there are none, or as many for a while."""
        seen, since_s = -1, time.monotonic()
        while seen and time.monotonic() - since_s < UNCHANGED_S:
            found = self.peer.results(await _all_of(self.stage, self.output, 1))
            keys = found.keys() | right.keys()
            differing = sum(found.get(key) != right.get(key) for key in keys)
            if differing != seen:
                seen, since_s = differing, time.monotonic()
            await asyncio.sleep(1)
        return seen


async def _all_of(stage: Stage, topic: str, partitions: int) -> Emitted:
    """All committed records of a topic."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=stage.broker.bootstrap, isolation_level="read_committed"
    )
    await consumer.start()
    try:
        places = [TopicPartition(topic, n) for n in range(partitions)]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        ends, found = await consumer.end_offsets(places), list[tuple[bytes | None, bytes | None]]()
        while any([await consumer.position(place) < end for place, end in ends.items()]):
            for records in (await consumer.getmany(timeout_ms=500)).values():
                found += [(record.key, record.value) for record in records]
        return found
    finally:
        await consumer.stop()


def _built(peer: Peer) -> tuple[Path, Path]:
    """(folder of classes, all jars) of a program."""
    source = HERE / f"{peer.program}.java"
    versions = "".join(version for *_, version in peer.artifacts)
    digest = sha256(source.read_bytes() + versions.encode()).hexdigest()[:12]
    jars = kept(f"peers-{peer.program}-libs-{versions}", partial(fetched, peer.artifacts)) / "*"

    def compiled(workspace: Path) -> Path:
        command = ["javac", "-cp", str(jars), "-d", str(workspace / "classes"), str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise PeerFailed(f"javac: {done.stderr[-1000:]}")
        return workspace / "classes"

    return kept(f"peers-{peer.program}-{digest}", compiled), jars
