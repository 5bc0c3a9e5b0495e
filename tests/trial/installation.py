"""One installation of relevanced: its topic, its Redis, its processes, and who searches."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from relevanced.daemon.config import load
from relevanced.daemon.storage import namespace
from tests.services.daemons import Daemon
from tests.services.kafka_server import Broker
from tests.services.processes import free_port
from tests.services.redis_server import RedisServer
from tests.trial.monitoring import Monitoring
from tests.trial.registered import Registered
from tests.trial.sighting import INSTALLATION, Labels
from tests.trial.traffic import Encoded, Searchers, Timed

PATIENCE_S: Final = 600.0
PARTITIONS: Final = 2
TOML: Final = """
[kafka]
bootstrap_servers = ["{kafka}"]
{login}
{topics}
start = "earliest"
session_timeout = "10s"
[redis]
url = "{redis}"
namespace = "{name}"
[attribution]
window = "{attribution}"
[metrics]
names = ["Success@10", "RR@10", "nDCG@10"]
[segments]
groupings = [{groupings}]
{sections}
"""


def until(ready: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {patience_s:.0f} s")
        time.sleep(1)


class Installation:
    """Processes that Prometheus scrapes under the same cluster, namespace and job."""

    def __init__(
        self,
        directory: Path,
        kafka: Broker,
        redis: RedisServer,
        monitoring: Monitoring,
        labels: Labels,
    ) -> None:
        self.directory, self.kafka, self.redis = directory, kafka, redis
        self.monitoring, self.labels = monitoring, labels
        self.name = directory.name
        self.topic = f"{self.name}-events"
        self.attribution = "2m"
        self.kafka_address, self.login = kafka.bootstrap, ""
        """Where the processes reach Kafka, and as whom."""
        self.groupings = '["country"], ["device"]'
        self.registered: Registered | None = None
        """What writes the records, where they are not native JSON."""
        self.daemons: dict[str, Daemon] = {}
        self.doors: dict[str, int] = {}
        """Process → the port at which it is scraped, where that is another one than its own."""
        self._searchers: list[Searchers] = []
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def identity(self) -> tuple[str, ...]:
        return tuple(self.labels.get(name, "") for name in INSTALLATION)

    def make_topic(self) -> None:
        settings = {"retention.ms": "-1"}
        asyncio.run(self.kafka.create_topic(self.topic, PARTITIONS, settings))

    def delete_topic(self) -> None:
        asyncio.run(self.kafka.delete_topic(self.topic))

    def search(self, stream: Iterator[Timed], before: Sequence[Encoded] = ()) -> None:
        """Begin to search; returns when the history is in the topic."""
        encode = msgspec.json.encode if self.registered is None else self.registered.encode
        searchers = Searchers(self.kafka.bootstrap, self.topic, stream, before, encode)
        self._searchers.append(searchers)
        self._searchers[-1].wait()

    def stop_searching(self) -> None:
        while self._searchers:
            self._searchers.pop().close()

    def run(self, **roles: str) -> None:
        """Start processes: name=role. They are scraped from now on."""
        for name, role in roles.items():
            self.daemons[name] = Daemon(self.directory, self.config(), role, free_port())
        self.scraped()

    def stray(self, redis: str) -> None:
        """Start a worker with the same configuration and another Redis, which is scraped, too."""
        self.daemons["stray"] = Daemon(self.directory, self.config(redis), "worker", free_port())
        self.scraped()

    def config(self, redis: str = "") -> str:
        """The configuration as it is now, at its own Redis or at another one."""
        topics, sections = f'topics = ["{self.topic}"]', ""
        if self.registered is not None:
            topics, sections = "", self.registered.sections(self.topic)
        return TOML.format(
            kafka=self.kafka_address,
            login=self.login,
            topics=topics,
            sections=sections,
            redis=redis or self.redis.url,
            name=self.name,
            attribution=self.attribution,
            groupings=self.groupings,
        )

    def scraped(self) -> None:
        """Tell Prometheus about the processes that there are, alive or not."""
        ports = [self.doors.get(name, one.port) for name, one in self.daemons.items()]
        self.monitoring.scrape(self._scraped_as, self.labels, ports)

    def key_of_lane(self, lane: int, name: str) -> str:
        """A key in Redis."""
        return f"{{{namespace(load(self.config(), {}, 'trial'))}:{lane}}}:{name}"

    def retire(self) -> None:
        """As an operator does before removing it for good."""
        path = self.directory / "retired.toml"
        path.write_text(self.config())
        command = [sys.executable, "-m", "relevanced.daemon", "retire", "--config", str(path)]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)

    def kill(self, name: str) -> None:
        """SIGKILL: what a crash leaves. Prometheus keeps its target."""
        self.daemons[name].close()

    def remove(self, name: str) -> None:
        """An orderly end, as of an old pod: its target is gone too."""
        self.daemons[name].terminate()
        del self.daemons[name]
        self.scraped()

    def restart(self, name: str, role: str, *, end: signal.Signals = signal.SIGTERM) -> None:
        """End a process and start it again at once, under the same address."""
        self.daemons[name].terminate(end)
        port = self.daemons[name].port
        self.daemons[name] = Daemon(self.directory, self.config(), role, port)

    def ready(self, name: str) -> bool:
        return '"ready":true' in self.daemons[name].readiness()

    def restarted(self, name: str, role: str) -> None:
        """`restart`, and wait until it is ready."""
        self.restart(name, role)
        until(lambda: self.ready(name), f"{name} is ready again")

    def roll(self, **roles: str) -> None:
        """Restart these one after the other, each once the one before is ready: name=role."""
        for name, role in roles.items():
            self.restarted(name, role)

    def as_of_s(self, name: str) -> float:
        """Event time up to which a process serves scores; 0 where it serves none."""
        try:
            return self.daemons[name].series("relevanced_as_of_timestamp_seconds")
        except OSError:
            return 0.0

    def leader(self) -> str | None:
        """The process that serves the scores."""
        serving = [name for name in self.daemons if self.as_of_s(name)]
        return serving[0] if serving else None

    def catch_up(self) -> None:
        """Return when some process serves scores of the present."""

        def caught_up() -> bool:
            return any(time.time() - self.as_of_s(name) < 20 for name in self.daemons)

        until(caught_up, f"{self.name} has caught up ({self.directory})")

    def close(self) -> None:
        self.stop_searching()
        for daemon in self.daemons.values():
            daemon.close()
        self.monitoring.scrape(self._scraped_as, self.labels, [])

    @property
    def _scraped_as(self) -> str:
        return f"{self.directory} {self.labels['job']}"
