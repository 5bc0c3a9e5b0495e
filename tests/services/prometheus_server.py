"""Debian's Prometheus and Alertmanager as test servers, and the tools that come with them."""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from tests.services import processes

PACKAGES: Final = {
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "amtool": "prometheus-alertmanager",
    "prometheus-alertmanager": "prometheus-alertmanager",
}
PATIENCE_S: Final = 60.0
TOOL_PATIENCE_S: Final = 600.0
"""promtool evaluates hours of rules: for a minute on a busy machine."""


class Missing(Exception):
    """A program that the tests need is not on PATH; the message says what to install."""


def program(name: str) -> str:
    """Where a program is. Raises `Missing`."""
    found = shutil.which(name)
    if found is None:
        raise Missing(f"{name} is not on PATH (Debian: apt-get install {PACKAGES[name]})")
    return found


def run(name: str, arguments: Sequence[str | Path]) -> str:
    """What a tool says, both streams. Raises CalledProcessError where it fails."""
    done = subprocess.run(
        [program(name), *map(str, arguments)],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TOOL_PATIENCE_S,
    )
    done.check_returncode()
    return done.stdout


def answer(url: str, *, body: object = None) -> bytes:
    """The body of a GET, or of a POST of JSON."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json"})
    with urlopen(request, timeout=PATIENCE_S) as response:
        return bytes(response.read())


class Server:
    """A process that answers on a port of its own."""

    def __init__(self, directory: Path, name: str, arguments: Sequence[str], port: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.url = f"http://127.0.0.1:{port}"
        self._log = directory / "log"
        self._process = processes.spawn([program(name), *arguments], log=self._log)
        processes.wait_until(
            self._ready,
            alive=lambda: self._process.poll() is None,
            log=self._log.read_text,
            name=name,
            patience_s=PATIENCE_S,
        )

    def _ready(self) -> bool:
        try:
            answer(f"{self.url}/-/ready")
        except OSError:
            return False
        return True

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


class Prometheus(Server):
    """Serves the blocks in `directory`/data; scrapes nothing unless `config` says so."""

    def __init__(self, directory: Path, config: str = "{}", *more: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "prometheus.yml").write_text(config)
        port = processes.free_port()
        arguments = [
            f"--config.file={directory}/prometheus.yml",
            f"--storage.tsdb.path={directory}/data",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
            *more,
        ]
        super().__init__(directory, "prometheus", arguments, port)

    def range_answer(self, query: str, start_s: float, end_s: float, step_s: float) -> bytes:
        """The JSON that answers a range query."""
        asked = {"query": query, "start": start_s, "end": end_s, "step": step_s}
        return answer(f"{self.url}/api/v1/query_range?{urlencode(asked)}")


class Alertmanager(Server):
    """One Alertmanager without peers."""

    def __init__(self, directory: Path, config: Path, port: int | None = None) -> None:
        port = port or processes.free_port()
        arguments = [
            f"--config.file={config}",
            f"--storage.path={directory}/data",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        ]
        super().__init__(directory, "prometheus-alertmanager", arguments, port)

    def post(self, alerts: Sequence[Mapping[str, str]]) -> None:
        """Alerts that fire now, by their labels."""
        answer(f"{self.url}/api/v2/alerts", body=[{"labels": dict(labels)} for labels in alerts])

    def states(self) -> list[dict[str, Any]]:
        """Every alert with its status."""
        listed: list[dict[str, Any]] = json.loads(answer(f"{self.url}/api/v2/alerts"))
        return listed


def required(*names: str) -> pytest.MarkDecorator:
    """Skips where a program is missing, with what to install; CI has them all."""
    missing = [name for name in names if shutil.which(name) is None]
    packages = " ".join(sorted({PACKAGES[name] for name in missing}))
    reason = f"no {' and no '.join(missing)}: apt-get install {packages}"
    return pytest.mark.skipif(bool(missing), reason=reason)
