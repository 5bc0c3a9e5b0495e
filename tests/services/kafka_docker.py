"""The same Kafka node in a container: for machines with a running Docker engine and no Java."""

import shutil
import subprocess
from typing import Final

from tests.services import kafka_jars, processes
from tests.services.kafka_server import PROPERTIES, START_PATIENCE_S, STARTED, Broker

IMAGE: Final = f"apache/kafka:{kafka_jars.VERSION}"
ENGINE_PATIENCE_S: Final = 10
CONTROLLER_PORT: Final = 9093


def engine_runs() -> bool:
    """True where a Docker engine answers; the client alone is not enough."""
    if shutil.which("docker") is None:
        return False
    try:
        done = subprocess.run(
            ["docker", "version", "--format", "{{.Server.Version}}"],
            capture_output=True,
            timeout=ENGINE_PATIENCE_S,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


class DockerKafka(Broker):
    """One node in a container that is made at the first start and removed by `close`."""

    def __init__(self) -> None:
        self.port = processes.free_port()
        self.name = f"relevanced-test-kafka-{self.port}"
        self._made = False
        super().__init__(f"127.0.0.1:{self.port}")

    def start(self) -> None:
        if not self._made:
            door = f"{self.bootstrap}:{self.port}"
            _docker("create", "--name", self.name, "-p", door, *self._settings(), IMAGE)
            self._made = True
        before = self._log().count(STARTED)
        _docker("start", self.name)
        processes.wait_until(
            lambda: self._log().count(STARTED) > before,
            alive=lambda: "true" in _docker("inspect", "-f", "{{.State.Running}}", self.name),
            log=self._log,
            name="Kafka",
            patience_s=START_PATIENCE_S,
        )

    def stop(self) -> None:
        _docker("stop", self.name)

    def kill(self) -> None:
        _docker("kill", self.name)

    def close(self) -> None:
        if self._made:
            _docker("rm", "--force", "--volumes", self.name)

    def _settings(self) -> list[str]:
        doors = {
            "listeners": f"PLAINTEXT://:{self.port},CONTROLLER://:{CONTROLLER_PORT}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.voters": f"1@localhost:{CONTROLLER_PORT}",
        }
        settings: list[str] = []
        for name, value in {**PROPERTIES, **doors}.items():
            settings += ["-e", f"KAFKA_{name.upper().replace('.', '_')}={value}"]
        return settings

    def _log(self) -> str:
        return _docker("logs", self.name)


def _docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise processes.StartError(f"docker {' '.join(arguments)}:\n{done.stderr}")
    return done.stdout + done.stderr
