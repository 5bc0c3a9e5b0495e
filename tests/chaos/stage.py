"""The servers of the rounds: one broker, and for each worker proxies of its own to Kafka and Redis.

The broker has a listener for each worker, whose advertised address is that of the worker's proxy,
so that clients that follow the metadata still connect through it.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.chaos import clocked
from tests.chaos.proxy import NetworkFaults, Proxy, kafka_request, redis_request
from tests.chaos.schedule import SLOTS
from tests.services import processes
from tests.services.kafka_server import KafkaServer

END_PATIENCE_S: Final = 40.0
SERVING: Final = "serving"
"""Logged by a worker once it handles signals."""
CLOCKED: Final = Path(clocked.__file__)


class Slot:
    """Everything of one worker: its proxies, its clock and its current process."""

    def __init__(self, number: int, rng: random.Random) -> None:
        self.number = number
        self.kafka = Proxy(kafka_request, rng)
        self.redis = Proxy(redis_request, rng)
        self.logs: list[Path] = []
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0
        """Port of the worker's HTTP server."""
        self.frozen = False
        self._killed = False
        self._clock: Path | None = None

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self, directory: Path, config: str, role: str) -> None:
        """Start a worker in this slot, unless one is running. One that was killed may take until a
        directory answers again to be gone: the kernel lets nobody leave who waits for the name that
        another process looks up."""
        if self.running and not self._killed:
            return
        self._killed = False
        self.port = processes.free_port()
        name = f"worker-{self.number}-{len(self.logs)}"
        path, self._clock = directory / f"{name}.toml", directory / f"clock-{self.number}"
        listen = f'\n[http]\nlisten = "127.0.0.1:{self.port}"\n'
        path.write_text(config + listen)
        clocked.step(self._clock, 0.0)
        self.logs.append(directory / f"{name}.log")
        command = [sys.executable, str(CLOCKED), str(self._clock), "run", "--config", str(path)]
        self.process = processes.spawn([*command, "--role", role], log=self.logs[-1])

    def spawn_stray(self, directory: Path, config: str) -> subprocess.Popen[bytes]:
        """Start another worker through the same proxies, which belongs to no slot."""
        port = processes.free_port()
        path = directory / f"stray-{port}.toml"
        path.write_text(f'{config}\n[http]\nlisten = "127.0.0.1:{port}"\n')
        command = [sys.executable, "-m", "relevanced.daemon", "run", "--config", str(path)]
        return processes.spawn([*command, "--role", "worker"], log=path.with_suffix(".log"))

    def kill(self) -> None:
        """Send SIGKILL, without waiting."""
        if self.running and self.process is not None:
            self._killed = True
            os.kill(self.process.pid, signal.SIGKILL)

    def freeze(self) -> None:
        if self.running and self.process is not None:
            self.frozen = True
            os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        if self.running and self.process is not None:
            os.kill(self.process.pid, signal.SIGCONT)
        self.frozen = False

    def step_clock(self, seconds: float) -> None:
        if self._clock is not None:
            clocked.step(self._clock, seconds)

    async def leave(self) -> None:
        """Send SIGTERM; a process that does not end in time is killed, which `exit_problem`
        reports."""
        if self.running and self.process is not None:
            await asyncio.to_thread(
                processes.end, self.process, signal.SIGTERM, patience_s=END_PATIENCE_S
            )

    def exit_problem(self) -> str | None:
        """What is wrong with the exit of the last worker; None if nothing is, or it is running."""
        code = None if self.process is None else self.process.poll()
        if code is None or code == 0 or self._killed:
            return None
        if code == -signal.SIGTERM and SERVING not in self.logs[-1].read_text():
            return None  # SIGTERM came before it handled signals
        return f"worker {self.number} ended with {code}, must be 0 ({self.logs[-1].name})"

    async def end(self) -> None:
        self.kill()
        if self.process is not None:
            await asyncio.to_thread(self.process.wait, END_PATIENCE_S)
        self.process = self._clock = None

    async def heal(self) -> None:
        """Repair the network and the clock, and resume the process."""
        self.thaw()
        self.step_clock(0.0)
        for proxy in (self.kafka, self.redis):
            proxy.trap = None
            await proxy.clear()


class Stage:
    """Broker and slots for any number of rounds, as an async context manager."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.rng = random.Random()
        self.slots = [Slot(number, self.rng) for number in range(SLOTS)]
        listeners = {f"WORKER{slot.number}": "PLAINTEXT" for slot in self.slots}
        self.broker = KafkaServer(directory / "kafka", listeners=listeners)
        self.broker_lock = asyncio.Lock()
        """Locked while a fault affects the broker."""

    async def __aenter__(self) -> "Stage":
        advertised = [f"PLAINTEXT://{self.broker.bootstrap}"]
        for slot in self.slots:
            await slot.kafka.start()
            await slot.redis.start()
            slot.kafka.target_port = self.broker.ports[f"WORKER{slot.number}"]
            advertised.append(f"WORKER{slot.number}://127.0.0.1:{slot.kafka.port}")
        self.broker.properties["advertised.listeners"] = ",".join(advertised)
        await asyncio.to_thread(self.broker.start)
        return self

    async def __aexit__(self, *_: object) -> None:
        for slot in self.slots:
            await slot.end()
            await slot.kafka.close()
            await slot.redis.close()
        await asyncio.to_thread(self.broker.close)

    def set_network_faults(self, server: str, faults: NetworkFaults) -> None:
        """Set the faults of the network between all workers and a server."""
        for slot in self.slots:
            (slot.kafka if server == "kafka" else slot.redis).network = faults
