"""What a scenario plays on."""

import re
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.services.fixtures import this_machines_broker
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer, one_binary
from tests.trial.installation import Installation
from tests.trial.monitoring import Monitoring, monitoring
from tests.trial.sighting import INSTALLATION, Labels, Log
from tests.trial.traffic import Fault, encoded_past, events

CLUSTER: Final = "east"


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
    began_s: float = 0.0
    broken_s: float = 0.0
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
    def identity(self) -> tuple[str, ...]:
        return tuple(self.labels.get(name, "") for name in INSTALLATION)

    def installation(self, labels: Labels | None = None) -> Installation:
        """The installation of this scenario; `labels` are those that differ from the usual."""
        self.began_s = time.time()
        usual = {"cluster": CLUSTER, "namespace": self.name, "job": "relevanced"}
        self.labels = {**usual, **(labels or {})}
        made = Installation(
            self.directory / self.name, self.kafka, self.redis, self.monitoring, self.labels
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
        now_ms = int(time.time() * 1000)
        if hours is None:
            made.search(events(now_ms, fault=fault), encoded_past(self.start_ms))
        else:
            made.search(events(now_ms, hours, fault))

    def broken(self) -> None:
        """From now on alerts are timed."""
        self.is_set_up()
        self.broken_s = time.time()

    def own_redis(self) -> RedisServer:
        """A server with an append-only file, as the documents advise."""
        directory = self.directory / f"{self.name}-redis"
        server = RedisServer(one_binary(), directory, {"appendonly": "yes"})
        server.start()
        self.ends.callback(server.kill)
        self.redis = server
        return server

    def own_kafka(self) -> Broker:
        server = this_machines_broker(self.directory / f"{self.name}-kafka")
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
