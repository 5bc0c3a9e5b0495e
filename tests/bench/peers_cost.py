"""The CPU time of other stream processors on the same topic: those in Python do less than the
worker, those of `joining_peers` the same.

Each in Python runs in a virtual environment of its own in the cache folder, created on first use:
some need packages that the project itself does not install. They decode the records and average one
number per segment and minute; they join nothing, and do not store their results together with their
offsets.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench import joining_peers
from tests.bench.cpu import Sample, Usage, usage_between
from tests.bench.effort import Effort
from tests.bench.findings import Finding, PartResult, number, ratio
from tests.bench.stage import Job, Stage
from tests.bench.traffic import Traffic
from tests.services import processes

HERE: Final = Path(__file__).parent / "peers"
ROUNDS: Final = 3
RECORDS: Final = 500_000
INSTALL_PATIENCE_S: Final = 600
RUN_PATIENCE_S: Final = 120
POLL_EVERY_S: Final = 0.2
PROGRESS: Final = "progress "
"""Prefix of the lines in which a peer prints its progress."""


@dataclass(frozen=True)
class Peer:
    """One stream processor. `share` of the records is what it reads: less if it is slow."""

    name: str
    packages: tuple[str, ...]
    command: tuple[str, ...]
    share: float
    goal: float


PEERS: Final = (
    Peer(
        "faust-streaming",
        ("faust-streaming[fast,uvloop]==0.15.3", "orjson==3.13.0"),
        (str(HERE / "faust_app.py"), "--loop", "uvloop", "worker", "--loglevel=error"),
        0.2,
        20.0,
    ),
    Peer(
        "quixstreams",
        ("quixstreams==3.28.1", "orjson==3.13.0"),
        (str(HERE / "quix_app.py"),),
        0.3,
        10.0,
    ),
)


async def measure(stage: Stage, effort: Effort) -> PartResult:
    """CPU time per event of each peer ÷ the worker's."""
    traffic = Traffic(records=effort.of(RECORDS), keyed_by_segment=True)
    findings: list[Finding] = []
    notes: list[str] = []
    for peer in PEERS:
        try:
            python = environment(peer)
            pairs = [
                await _pair(stage, traffic, peer, python) for _ in range(effort.rounds(ROUNDS))
            ]
        except PeerFailed as error:
            notes.append(f"{peer.name}: not measured: {error}")
            continue
        words = f"{peer.name} (smaller job) ÷ worker"
        costs = [theirs for theirs, _ in pairs]
        findings += [
            ratio(f"peers.{peer.name}", words, pairs, peer.goal, higher_is_better=True),
            number(f"peers.{peer.name}_us", peer.name, costs, "µs/event"),
        ]
    joining = await joining_peers.measure(stage, effort)
    return PartResult([*findings, *joining.findings], notes=[*notes, *joining.notes])


class PeerFailed(Exception):
    """The peer could not be installed or did not run."""


def environment(peer: Peer) -> Path:
    """The interpreter of the peer's environment, which is created if it does not exist."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "relevanced"
    version = peer.packages[0].partition("==")[2]
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    folder = cache / "peers" / f"{peer.name}-{version}-python{here}"
    python, complete = folder / "bin" / "python", folder / ".complete"
    if not complete.exists():
        shutil.rmtree(folder, ignore_errors=True)
        install = [str(python), "-m", "pip", "install", "--quiet", *peer.packages]
        for command in ([sys.executable, "-m", "venv", str(folder)], install):
            try:
                subprocess.run(
                    command, check=True, capture_output=True, text=True, timeout=INSTALL_PATIENCE_S
                )
            except subprocess.SubprocessError as error:
                message = str(getattr(error, "stderr", "") or error)
                raise PeerFailed(message.strip().splitlines()[-1]) from error
        complete.touch()
    return python


async def _pair(stage: Stage, traffic: Traffic, peer: Peer, python: Path) -> tuple[float, float]:
    """(peer, worker) µs per event."""
    topic = await stage.topic(traffic)
    theirs = await _run(stage, traffic, peer, python)
    stage.redis.flush()
    with stage.worker(Job(traffic), topic, stage.name()) as worker:
        return theirs.cpu_us, (await worker.measured(traffic.records)).cpu_us


async def _run(stage: Stage, traffic: Traffic, peer: Peer, python: Path) -> Usage:
    name = stage.name()
    log = stage.directory / f"{peer.name}-{name}.log"
    variables = {
        "BENCH_BROKER": stage.broker.bootstrap,
        "BENCH_TOPIC": await stage.topic(traffic),
        "BENCH_GROUP": name,
        "BENCH_PARTITIONS": str(traffic.partitions),
        "BENCH_FOLDER": str(stage.directory / f"{peer.name}-{name}"),
        "PYTHONPATH": str(HERE),
        "PYTHONUNBUFFERED": "1",
    }
    guarded = ["env", *(f"{key}={value}" for key, value in variables.items())]
    process = processes.spawn([*guarded, str(python), *peer.command], log=log)
    try:
        samples = await _samples(process, log, round(traffic.records * peer.share))
    finally:
        processes.end(process, signal.SIGKILL, patience_s=10)
    return usage_between(samples, samples[-1].events)


async def _samples(process: subprocess.Popen[bytes], log: Path, upto: int) -> list[Sample]:
    """Samples of the peer's progress, until it has read `upto` records."""
    samples: list[Sample] = []
    deadline_s = time.monotonic() + RUN_PATIENCE_S
    while not samples or samples[-1].events < upto:
        lines = log.read_text(errors="replace").splitlines()
        if process.poll() is not None or time.monotonic() > deadline_s:
            output = " ".join(line for line in lines[-5:] if not line.startswith(PROGRESS))
            raise PeerFailed(f"{len(samples) * 1000:,} records, then: {output}")
        complete = (line for line in lines if line.startswith(PROGRESS) and line.endswith("."))
        progress = [line.split()[1:] for line in complete]
        samples = [Sample(int(seen), float(cpu_s.rstrip("."))) for seen, cpu_s in progress]
        await asyncio.sleep(POLL_EVERY_S)
    return samples
