"""The whole system over weeks of searches: Kafka, Redis, daemon, Prometheus, rules, Alertmanager.

The daemon works in event time, so it reads a history of weeks in seconds. Prometheus works by the
clock: for it the waits and ranges in the rules are shortened, and nothing else is changed.
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

from relevanced.daemon.kafka import KafkaProducer, KafkaSettings
from relevanced.daemon.tools.traffic import (
    EVENTS_PER_IMPRESSION,
    SHARES,
    Regression,
    Traffic,
    generate_events,
)
from tests.deploy.chart import DEPLOY
from tests.deploy.scraped import until
from tests.deploy.test_alertmanager import CONFIG, Webhooks, quick
from tests.kafka_compression import Lz4Producer
from tests.services import processes
from tests.services.daemons import Daemon
from tests.services.kafka_server import Broker
from tests.services.prometheus_server import Alertmanager, answer as answer_of, program

SPEED_UP: Final = 90
"""Factor by which the waits (`for`, `keep_firing_for`) and the ranges (`[15m]`) of the rules are
shortened. Offsets keep their length."""
HOUR_MS: Final = 3_600_000
WEEK_MS: Final = 7 * 24 * HOUR_MS
WEEKS: Final = 2
HISTORY_MS: Final = 8 * HOUR_MS
"""The simulated traffic of each week begins so long before the current time of the week: six whole
hours of it have settled, and the first hour does not count, whatever the minute of the hour."""
BEYOND_MS: Final = HOUR_MS
"""That of earlier weeks goes on so long after it: their hours are whole, as in life."""
SEARCHES_PER_HOUR: Final = 2600
LIVE_PER_SECOND: Final = 60
RESEND_S: Final = 10
"""Alertmanager resolves an alert that Prometheus has not sent again for four of these. After a
reload of its rules Prometheus knows no Alertmanager for up to 5 s; no alert may resolve then."""
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
_WAIT: Final = re.compile(r"((?:^ *(?:keep_firing_)?for: |\[|offset ))(\d+)([mhd])\b", re.M)
_SECONDS: Final = {"m": 60, "h": 3600, "d": 86400}


def hurried(rules: str) -> str:
    """The rules with their waits and ranges divided by `SPEED_UP`."""
    return _WAIT.sub(lambda m: f"{m[1]}{int(m[2]) * _SECONDS[m[3]] // SPEED_UP}s", rules)


def history(
    now_ms: int, break_ms: int | None, keeps: Callable[[dict[str, Any], int], bool]
) -> Iterator[tuple[int, str, bytes]]:
    """(time, key, record) of the events that `keeps` accepts, in the same hours of every week.

    From `break_ms` before now on, the results of BR are ranked at random.
    """
    for week in range(WEEKS, -1, -1):
        broken = week == 0 and break_ms is not None
        after_s = (HISTORY_MS - (break_ms or 0)) / 1000
        regression = Regression(after_s, {"country": "BR"}) if broken else None
        rate = SEARCHES_PER_HOUR / 3600 * EVENTS_PER_IMPRESSION
        traffic = Traffic(seed=7, rate=rate, regression=regression, shares=SHARES)
        then_ms = now_ms - week * WEEK_MS
        end_ms = then_ms + (BEYOND_MS if week else 0)
        events = generate_events(traffic, then_ms - HISTORY_MS)
        for at_ms, event in takewhile(lambda timed: timed[0] < end_ms, events):  # noqa: B023
            named = {**event, "impression_id": f"{week}-{event['impression_id']}"}
            if keeps(named, at_ms):
                yield at_ms, named["impression_id"], json.dumps(named).encode()


class Searchers:
    """Produces live searches until `close`, with clicks or without."""

    def __init__(self, kafka: str, topic: str, clicking: bool) -> None:
        self._kafka, self._topic = kafka, topic
        self._clicking = clicking
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
        items = [f"d{index}" for index in range(10)]
        yield {**base, "type": "impression", "items": items, "attributes": {"country": "US"}}
        if self._clicking:
            yield {**base, "type": "feedback", "kind": "click", "item": "d1"}

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


class Scene:
    """The running system: `with scene(…) as played`."""

    def __init__(self, directory: Path, daemon: Daemon) -> None:
        self.directory, self.daemon = directory, daemon
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

    def give_rules(self) -> None:
        """Load the rules of all files."""
        for path in sorted(RULES.glob("*.yml")):
            (self.directory / "rules" / path.name).write_text(hurried(path.read_text()))
        self._prometheus.send_signal(signal.SIGHUP)

    def value(self, query: str) -> float | None:
        """The first value of an instant query; None where there is no result yet."""
        url = f"http://127.0.0.1:{self._port}/api/v1/query?{urlencode({'query': query})}"
        try:
            found = json.loads(answer_of(url))["data"]["result"]
        except OSError:
            return None
        return float(found[0]["value"][1]) if found else None

    def alerts(self, state: str) -> list[dict[str, str]]:
        """The labels of the alerts in this state in Prometheus; none while it starts."""
        try:
            found = json.loads(answer_of(f"http://127.0.0.1:{self._port}/api/v1/alerts"))
        except OSError:
            return []
        alerts = found["data"]["alerts"]
        return [alert["labels"] for alert in alerts if alert["state"] == state]

    def descriptions(self, name: str, **labels: str) -> list[str]:
        """What the alerts with this name and these labels say that are firing in Prometheus."""
        found = json.loads(answer_of(f"http://127.0.0.1:{self._port}/api/v1/alerts"))
        wanted = {"alertname": name, **labels}.items()
        return [
            alert["annotations"]["description"]
            for alert in found["data"]["alerts"]
            if alert["state"] == "firing" and wanted <= alert["labels"].items()
        ]

    def firing(self, name: str, **labels: str) -> bool:
        """Whether an alert with this name and these labels is firing in Prometheus."""
        wanted = {"alertname": name, **labels}.items()
        return any(wanted <= alert.items() for alert in self.alerts("firing"))

    def received(self) -> dict[str, list[dict[str, str]]]:
        """Labels of the alerts by path of the webhook, without the dead man's, once all firing
        alerts have been delivered."""
        until(self._all_delivered, what=f"all alerts are delivered: {self.directory}")
        return {
            path: [dict(labels) for labels in alerts]
            for path, alerts in self.webhooks.received.items()
            if path != "/dead-man"
        }

    def _all_delivered(self) -> bool:
        if self.alerts("pending") or not self.alerts("firing"):
            return False
        states = self._alertmanager.states()
        delivered = [labels for alerts in self.webhooks.received.values() for labels in alerts]
        active = [alert["labels"] for alert in states if alert["status"]["state"] == "active"]
        in_alertmanager = [alert["labels"] for alert in states]
        fired = all(labels in in_alertmanager for labels in self.alerts("firing"))
        return fired and all(labels in delivered for labels in active)

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
    clicking: bool = True,
) -> Iterator[Scene]:
    """The running system, once the daemon has read the history and live searches arrive."""
    topic = f"scene-{uuid.uuid4().hex[:8]}"
    now_ms = int(time.time() * 1000)
    asyncio.run(_produce(kafka, topic, history(now_ms, break_ms, keeps)))
    config = TOML.format(kafka=kafka.bootstrap, topic=topic, redis=redis)
    daemon, searchers = Daemon(directory, config), Searchers(kafka.bootstrap, topic, clicking)
    played = None
    try:
        until(lambda: _has_caught_up(daemon), what=f"the daemon has caught up: {daemon.log_path}")
        played = Scene(directory, daemon)
        # Before its first scrape Prometheus would fire RelevancedDown.
        until(lambda: played.value("relevanced_build_info"), what=f"the first scrape: {directory}")
        played.give_rules()
        yield played
    finally:
        if played is not None:
            played.close()
        searchers.close()
        daemon.close()
        asyncio.run(kafka.delete_topic(topic))


def _has_caught_up(daemon: Daemon) -> bool:
    """Whether the daemon is up to date and has a baseline."""
    try:
        as_of_s = daemon.series("relevanced_as_of_timestamp_seconds")
        periods = daemon.series('relevanced_baseline_periods{window="6h",unit="week"}')
    except OSError:
        return False
    return time.time() - as_of_s < 10 and periods == WEEKS
