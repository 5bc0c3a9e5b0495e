"""A real Apache Kafka for tests: one KRaft node run by Java, or a broker that runs already.

    server = KafkaServer(directory)
    server.start()
    await server.create_topic("events", partitions=4)
    server.kill()
    server.start()    # the same ports and the same log directory
    server.stop()

`start`, `stop`, `kill` and `restart` block for seconds: where clients in the same event loop must
keep their heartbeats, call them by `asyncio.to_thread`.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from tests.services import kafka_jars, kafka_topics, processes

START_PATIENCE_S: Final = 90.0
STARTED: Final = "Kafka Server started"

PROPERTIES: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "num.partitions": "4",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "broker.session.timeout.ms": "4000",  # a killed broker comes back when its old session is over
    "broker.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # events of tests are of one fixed day: retention is stated, and never comes to delete them
    "log.initial.task.delay.ms": "86400000",
    "log.retention.check.interval.ms": "86400000",
}
JAVA_FLAGS: Final = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Little memory and a quick start rather than throughput."""

LOGGING: Final = """<Configuration status="warn">
  <Appenders>
    <Console name="out"><PatternLayout pattern="%d{HH:mm:ss.SSS} %-5p %c{1}: %m%n"/></Console>
  </Appenders>
  <Loggers><Root level="info"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


class Broker:
    """A broker that somebody else runs: topics only. The base of those that the tests run."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    async def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create it, and return when every partition has a leader."""
        await kafka_topics.create_topic(self.bootstrap, name, partitions, config)

    async def delete_topic(self, name: str) -> None:
        await kafka_topics.delete_topic(self.bootstrap, name)

    def start(self) -> None:
        """Start, and return when the broker takes requests."""

    def stop(self) -> None:
        """An orderly end. Nothing for a broker that is not ours."""

    def kill(self) -> None:
        """What a crash leaves."""
        raise RuntimeError(f"{self.bootstrap} is not run by the tests: they cannot kill it")

    def close(self) -> None:
        """End it for good; nothing is kept."""

    def restart(self) -> None:
        """Stop and start again, on the same port."""
        self.stop()
        self.start()


class KafkaServer(Broker):
    """One node run by Java. `listeners` adds doors (name → protocol), `properties` settings.

    With SASL, for instance: `listeners={"LOGIN": "SASL_PLAINTEXT"}` and `properties` of
    `sasl.enabled.mechanisms` and `listener.name.login.plain.sasl.jaas.config`; clients then use
    `address("LOGIN")`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        listeners: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **(listeners or {})}
        self.ports = {name: processes.free_port() for name in self.protocols}
        self.properties = {**PROPERTIES, **self._doors(), **(properties or {})}
        self.log_path = directory / "kafka.log"
        self._process: subprocess.Popen[bytes] | None = None
        super().__init__(self.address("PLAINTEXT"))

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker was never started"
        return self._process.pid

    def start(self) -> None:
        if self.running:
            return
        if not self.directory.joinpath("data").exists():
            self._prepare()
        before = self._log().count(STARTED)
        settings = str(self.directory / "server.properties")
        self._process = processes.spawn(self._java("kafka.Kafka", settings), log=self.log_path)
        processes.wait_until(
            lambda: self._log().count(STARTED) > before,
            alive=lambda: self.running,
            log=self._log,
            name="Kafka",
            patience_s=START_PATIENCE_S,
        )

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def close(self) -> None:
        self.kill()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing answers, until `thaw`."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _doors(self) -> dict[str, str]:
        doors = {name: f"{name}://{self.address(name)}" for name in self.protocols}
        public = [door for name, door in doors.items() if name != "CONTROLLER"]
        return {
            "controller.quorum.voters": f"1@{self.address('CONTROLLER')}",
            "listeners": ",".join(doors.values()),
            "advertised.listeners": ",".join(public),
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in self.protocols.items()
            ),
        }

    def _end(self, kind: signal.Signals) -> None:
        if self._process is not None:
            processes.end(self._process, kind, patience_s=20)

    def _log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def _java(self, main: str, *arguments: str) -> list[str]:
        binary = kafka_jars.java()
        if binary is None:
            raise kafka_jars.KafkaUnavailable(kafka_jars.ADVICE)
        options = [*JAVA_FLAGS, f"-Dlog4j2.configurationFile={self.directory / 'log4j2.xml'}"]
        return [binary, *options, "-cp", f"{kafka_jars.jars()}/*", main, *arguments]

    def _write_settings(self) -> Path:
        settings = self.directory / "server.properties"
        rows = {**self.properties, "log.dirs": str(self.directory / "data")}
        settings.write_text("".join(f"{name}={value}\n" for name, value in rows.items()))
        self.directory.joinpath("log4j2.xml").write_text(LOGGING)
        return settings

    def _prepare(self) -> None:
        shutil.copytree(Path(_formatted().name) / "data", self.directory / "data")
        self._write_settings()


@cache
def _formatted() -> tempfile.TemporaryDirectory[str]:
    """A folder whose `data` is formatted and holds no record, to be copied. Formatting takes half
    as long as a start, and nothing of it is of one broker."""
    folder = tempfile.TemporaryDirectory(prefix="kafka-")
    model = KafkaServer(Path(folder.name))
    settings = model._write_settings()
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    cluster = f"A{cluster[1:]}"  # one that begins with `-` would be taken for an option
    command = model._java("kafka.tools.StorageTool", "format", "-t", cluster)
    done = subprocess.run([*command, "-c", str(settings)], capture_output=True, text=True)
    if done.returncode != 0:
        raise processes.StartError(f"Kafka storage: {processes.tail(done.stdout + done.stderr)}")
    return folder
