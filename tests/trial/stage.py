"""What a scenario plays on."""

import re
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from tests.services.fixtures import this_machines_broker
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer, one_binary
from tests.trial.installation import Installation
from tests.trial.monitoring import Monitoring, monitoring
from tests.trial.secured import SecuredKafka
from tests.trial.sighting import INSTALLATION, Labels, Log
from tests.trial.traffic import Fault, encoded_past, events

CLUSTER: Final = "east"
ALL_ROLES: Final = {
    "worker": "worker",
    "other": "worker",
    "exporter": "exporter",
    "standby": "exporter",
}
"""The processes of a small installation."""
Identity = tuple[str, ...]
B = TypeVar("B", bound=Broker)


@dataclass
class Stage:
    """What a scenario plays on; `broken` is the instant from which its alerts are timed."""

    name: str
    directory: Path
    kafka: Broker
    redis: RedisServer
    monitoring: Monitoring
    log: Log
    ends: ExitStack
    start_ms: int
    """The start of the trial, to which the weeks before lead."""
    turns: threading.Semaphore
    """Limits how many installations read their history at a time."""
    labels: Labels = field(default_factory=dict)
    beside: Labels = field(default_factory=dict)
    """The labels of a second installation, whose alerts belong to the scenario as well."""
    began_s: float = 0.0
    searched_s: float = 0.0
    """When live searches began."""
    broken_s: float = 0.0
    repaired_s: float = 0.0
    """0: it is not repaired."""
    _holds_turn: bool = False

    def takes_turn(self) -> None:
        """Wait until this installation may be set up."""
        self.turns.acquire()
        self._holds_turn = True
        self.ends.callback(self.is_set_up)

    def is_set_up(self) -> None:
        """Let the next one begin."""
        if self._holds_turn:
            self._holds_turn = False
            self.turns.release()

    @property
    def identities(self) -> set[Identity]:
        """What tells the installations of this scenario from all others."""
        return {
            tuple(labels.get(name, "") for name in INSTALLATION)
            for labels in (self.labels, self.beside)
            if labels
        }

    def installation(self, labels: Labels | None = None) -> Installation:
        """The installation of this scenario; `labels` are those that differ from the usual."""
        self.began_s = time.time()
        usual = {"cluster": CLUSTER, "namespace": self.name, "job": "relevanced"}
        self.labels = {**usual, **(labels or {})}
        return self._made(self.labels)

    def successor(self) -> Installation:
        """Another one that reads the same topic beside it, as another job."""
        self.beside = {**self.labels, "job": "successor"}
        return self._made(self.beside)

    def _made(self, labels: Labels) -> Installation:
        made = Installation(
            self.directory / self.name, self.kafka, self.redis, self.monitoring, labels
        )
        self.ends.callback(made.close)
        return made

    def searched(
        self,
        made: Installation,
        fault: Fault | None = None,
        hours: float | None = None,
    ) -> None:
        """Give an installation its topic, its history and its live searches; with `hours` no more
        history than these."""
        made.make_topic()
        self.searched_s = time.time()
        now_ms = int(self.searched_s * 1000)
        if hours is None:
            made.search(events(now_ms, fault=fault), encoded_past(self.start_ms))
        else:
            made.search(events(now_ms, hours, fault))

    def broken(self) -> None:
        """From now on alerts are timed."""
        self.is_set_up()
        self.broken_s = time.time()

    def repaired(self) -> None:
        """From now on the ends of alerts are timed."""
        self.repaired_s = time.time()

    def own_redis(self) -> RedisServer:
        """A server with an append-only file, as the documents advise."""
        directory = self.directory / f"{self.name}-redis"
        server = RedisServer(one_binary(), directory, {"appendonly": "yes"})
        server.start()
        self.ends.callback(server.kill)
        self.redis = server
        return server

    def own_kafka(self) -> Broker:
        return self._keeps(this_machines_broker(self.directory / f"{self.name}-kafka"))

    def secured_kafka(self) -> SecuredKafka:
        """A broker with an authorizer and a login; it needs Java."""
        return self._keeps(SecuredKafka(self.directory / f"{self.name}-kafka"))

    def _keeps(self, server: B) -> B:
        server.start()
        self.ends.callback(server.close)
        self.kafka = server
        return server

    def own_monitoring(self) -> Monitoring:
        """A Prometheus that may be stopped without blinding the other scenarios."""
        directory = self.directory / f"{self.name}-monitoring"
        self.monitoring = self.ends.enter_context(monitoring(directory, self.log))
        return self.monitoring

    def firing(self, pattern: str) -> bool:
        """Whether an alert of this installation fires."""
        wanted = self.labels.items()
        return any(
            re.fullmatch(pattern, labels["alertname"]) and wanted <= labels.items()
            for labels in self.log.firing()
        )


def whole(stage: Stage, fault: Fault | None = None, labels: Labels | None = None) -> Installation:
    """A worker and two exporters with weeks of history, caught up."""
    made = stage.installation(labels)
    stage.searched(made, fault)
    made.run(worker="worker", exporter="exporter", standby="exporter")
    made.catch_up()
    stage.is_set_up()
    return made


def single(stage: Stage, fault: Fault | None = None) -> Installation:
    """One process that does everything, with weeks of history, caught up."""
    made = stage.installation()
    stage.searched(made, fault)
    made.run(all="all")
    made.catch_up()
    stage.is_set_up()
    return made


def small(stage: Stage, labels: Labels | None = None) -> Installation:
    """Two workers and two exporters with an hour of history, scraped for a minute: what faults of
    servers and processes need."""
    made = stage.installation(labels)
    stage.searched(made, hours=1)
    made.run(**ALL_ROLES)
    made.catch_up()
    stage.is_set_up()
    time.sleep(60)
    return made


def wait_until(instant_s: float) -> None:
    time.sleep(max(0.0, instant_s - time.time()))
