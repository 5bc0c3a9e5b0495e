"""Weeks of searches at once: Kafka, Redis, the daemon, Prometheus with the rules, Alertmanager.

The daemon lives in event time, so a past of weeks is read in seconds. Prometheus lives by the
clock: for it the rules' waits and ranges are shortened, and nothing else of them.
"""

import asyncio
import json
import re
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import yaml

from relevanced.daemon.commands.simulate.traffic import (
    EVENTS_PER_IMPRESSION,
    SHARES,
    Regression,
    Traffic,
    generate_events,
)
from relevanced.daemon.kafka.client import KafkaSettings
from relevanced.daemon.kafka.producer import KafkaProducer
from tests.deploy.chart import DEPLOY
from tests.deploy.test_alertmanager import CONFIG, Webhooks, quick
from tests.deploy.watched import until
from tests.kafka_compression import Lz4Producer
from tests.services import processes
from tests.services.daemons import Daemon
from tests.services.kafka_server import Broker
from tests.services.prometheus_server import Alertmanager, answer as answer_of, program

SHORTER: Final = 90
"""So many times shorter than the rules say, where they wait (`for`, `keep_firing_for`) and where
they look back (`[15m]`). What they compare with an offset stays as far away as it is."""
HOUR_MS: Final = 3_600_000
WEEK_MS: Final = 7 * 24 * HOUR_MS
WEEKS: Final = 2
PAST_MS: Final = 7 * HOUR_MS
"""What is simulated of each week: up to this time of the week."""
SEARCHES_PER_HOUR: Final = 2600
LIVE_PER_SECOND: Final = 60
RESEND_S: Final = 10
"""Alertmanager forgets an alert four of these after it last heard of it. Where Prometheus is given
rules it knows of no Alertmanager for up to 5 s, and what it does not tell then must not be over."""
RULES: Final = DEPLOY / "prometheus" / "rules"
SHARES: Final = {**SHARES, "country": {"US": 0.60, "FR": 0.30, "BR": 0.10}}
TOML: Final = """
[kafka]
bootstrap_servers = ["{kafka}"]
topics = ["{topic}"]
start = "earliest"
session_timeout = "10s"
[redis]
url = "{redis}"
[attribution]
window = "5m"
[metrics]
names = ["Success@10", "RR@10", "nDCG@10"]
[segments]
groupings = [["country"]]
"""
SCRAPING: Final = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [rules/*.yml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["127.0.0.1:{alertmanager}"]}}]}}]}}
scrape_configs:
- job_name: relevanced
  static_configs: [{{targets: ["127.0.0.1:{daemon}"]}}]
"""
_WAIT: Final = re.compile(r"((?:^ *(?:keep_firing_)?for: |\[))(\d+)([mhd])\b", re.M)
_SECONDS: Final = {"m": 60, "h": 3600, "d": 86400}


def hurried(rules: str) -> str:
    """The rules with their waits and ranges `SHORTER`."""
    return _WAIT.sub(lambda m: f"{m[1]}{int(m[2]) * _SECONDS[m[3]] // SHORTER}s", rules)


def past(
    now_ms: int, break_ms: int | None, keeps: Callable[[dict[str, Any], int], bool]
) -> Iterator[tuple[int, str, bytes]]:
    """(time, key, record) of the same hours of each week; the events that `keeps` accepts.

    `break_ms` before now BR is ranked by chance.
    """
    for week in range(WEEKS, -1, -1):
        broken = week == 0 and break_ms is not None
        after_s = (PAST_MS - (break_ms or 0)) / 1000
        regression = Regression(after_s, {"country": "BR"}) if broken else None
        rate = SEARCHES_PER_HOUR / 3600 * EVENTS_PER_IMPRESSION
        traffic = Traffic(seed=7, rate=rate, regression=regression, shares=SHARES)
        end_ms = now_ms - week * WEEK_MS
        events = generate_events(traffic, end_ms - PAST_MS)
        for at_ms, event in takewhile(lambda one: one[0] < end_ms, events):  # noqa: B023
            named = {**event, "impression_id": f"{week}-{event['impression_id']}"}
            if keeps(named, at_ms):
                yield at_ms, named["impression_id"], json.dumps(named).encode()


class Searchers:
    """People who search now, until `close`; they click while `clicking`."""

    def __init__(self, kafka: str, topic: str) -> None:
        self._kafka, self._topic = kafka, topic
        self.clicking = True
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._search()))
        self._thread.start()

    async def _search(self) -> None:
        producer = KafkaProducer(KafkaSettings(self._kafka, (self._topic,), "none"))
        await producer.start()
        while not self._stop.is_set():
            for _ in range(LIVE_PER_SECOND // 5):
                for event in self._events():
                    key = event["impression_id"].encode()
                    at_ms = event["timestamp"]
                    await producer.send(
                        self._topic, json.dumps(event).encode(), key, timestamp_ms=at_ms
                    )
            await producer.flush()
            await asyncio.sleep(0.2)
        await producer.stop()

    def _events(self) -> Iterator[dict[str, Any]]:
        now_ms = int(time.time() * 1000)
        base = {"impression_id": uuid.uuid4().hex, "timestamp": now_ms}
        items = [f"d{number}" for number in range(10)]
        yield {**base, "type": "impression", "items": items, "attributes": {"country": "US"}}
        if self.clicking:
            yield {**base, "type": "feedback", "kind": "click", "item": "d1"}

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


class Scene:
    """`with scene(…) as it`: all of it."""

    def __init__(self, directory: Path, daemon: Daemon, searchers: Searchers) -> None:
        self.directory, self.daemon, self.searchers = directory, daemon, searchers
        self.webhooks = Webhooks()
        self._port = processes.free_port()
        alertmanager_port = processes.free_port()
        quickly = quick(yaml.safe_load(CONFIG.read_text()), self.webhooks.url)
        (directory / "alertmanager.yml").write_text(yaml.safe_dump(quickly))
        self._alertmanager = Alertmanager(
            directory / "alertmanager", directory / "alertmanager.yml", alertmanager_port
        )
        (directory / "rules").mkdir()
        config = directory / "prometheus.yml"
        config.write_text(SCRAPING.format(alertmanager=alertmanager_port, daemon=daemon.port))
        self._prometheus = processes.spawn(
            [
                program("prometheus"),
                f"--config.file={config}",
                f"--storage.tsdb.path={directory / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
                f"--rules.alert.resend-delay={RESEND_S}s",
            ],
            log=directory / "prometheus.log",
        )

    def give_rules(self, but: str | None = None) -> None:
        """All of them, or those of all files but one."""
        for path in sorted(RULES.glob("*.yml")):
            if path.name != but:
                (self.directory / "rules" / path.name).write_text(hurried(path.read_text()))
        self._prometheus.send_signal(signal.SIGHUP)

    def value(self, query: str) -> float | None:
        """The one number that answers; None where there is none yet."""
        url = f"http://127.0.0.1:{self._port}/api/v1/query?{urlencode({'query': query})}"
        try:
            found = json.loads(answer_of(url))["data"]["result"]
        except OSError:
            return None
        return float(found[0]["value"][1]) if found else None

    def alerts(self, state: str) -> list[dict[str, str]]:
        """The labels of the alerts that Prometheus has in this state; none while it starts."""
        try:
            found = json.loads(answer_of(f"http://127.0.0.1:{self._port}/api/v1/alerts"))
        except OSError:
            return []
        alerts = found["data"]["alerts"]
        return [alert["labels"] for alert in alerts if alert["state"] == state]

    def firing(self, name: str, **labels: str) -> bool:
        """Whether Prometheus fires such an alert."""
        wanted = {"alertname": name, **labels}.items()
        return any(wanted <= alert.items() for alert in self.alerts("firing"))

    def heard(self) -> dict[str, list[dict[str, str]]]:
        """What came to each receiver but the dead man's, once all that fires has gone through."""
        until(self._is_through, what=f"all alerts have gone through: {self.directory}")
        return {
            path: [dict(labels) for labels in alerts]
            for path, alerts in self.webhooks.heard.items()
            if path != "/dead-man"
        }

    def _is_through(self) -> bool:
        if self.alerts("pending") or not self.alerts("firing"):
            return False
        states = self._alertmanager.states()
        told = [labels for alerts in self.webhooks.heard.values() for labels in alerts]
        active = [one["labels"] for one in states if one["status"]["state"] == "active"]
        known = [one["labels"] for one in states]
        fired = all(labels in known for labels in self.alerts("firing"))
        return fired and all(labels in told for labels in active)

    def close(self) -> None:
        self._prometheus.kill()
        self._prometheus.wait()
        self._alertmanager.close()
        self.webhooks.close()


async def _produce(kafka: Broker, topic: str, records: Iterator[tuple[int, str, bytes]]) -> None:
    settings = {"retention.ms": "-1"}
    await kafka.create_topic(topic, 2, settings)
    producer = Lz4Producer(KafkaSettings(kafka.bootstrap, (topic,), "none"))
    await producer.start()
    for at_ms, key, value in records:
        await producer.send(topic, value, key.encode(), timestamp_ms=at_ms)
    await producer.flush()
    await producer.stop()


@contextmanager
def scene(
    kafka: Broker,
    redis: str,
    directory: Path,
    break_ms: int | None = None,
    keeps: Callable[[dict[str, Any], int], bool] = lambda event, at_ms: True,
    withheld: str | None = None,
) -> Iterator[Scene]:
    """The daemon has read the past and people search now when it begins. Prometheus does without
    the rules of the file `withheld` at first."""
    topic = f"scene-{uuid.uuid4().hex[:8]}"
    now_ms = int(time.time() * 1000)
    asyncio.run(_produce(kafka, topic, past(now_ms, break_ms, keeps)))
    config = TOML.format(kafka=kafka.bootstrap, topic=topic, redis=redis)
    daemon, searchers = Daemon(directory, config), Searchers(kafka.bootstrap, topic)
    played = None
    try:
        until(lambda: _has_caught_up(daemon), what=f"all is read: {daemon.log_path}")
        played = Scene(directory, daemon, searchers)
        # before its first scrape Prometheus would hold that nobody answers
        until(lambda: played.value("relevanced_build_info"), what=f"the first scrape: {directory}")
        played.give_rules(but=withheld)
        yield played
    finally:
        if played is not None:
            played.close()
        searchers.close()
        daemon.close()
        asyncio.run(kafka.delete_topic(topic))


def _has_caught_up(daemon: Daemon) -> bool:
    """As of now, with a baseline."""
    try:
        as_of_s = daemon.series("relevanced_as_of_timestamp_seconds")
        periods = daemon.series('relevanced_baseline_periods{window="6h",unit="week"}')
    except OSError:
        return False
    return time.time() - as_of_s < 10 and periods == WEEKS
