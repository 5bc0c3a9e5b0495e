"""A real Prometheus that scrapes a real daemon fed by `relevanced simulate`."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from tests.services import processes
from tests.services.daemons import Daemon

PATIENCE_S: Final = 300.0
INVALID_QUERY: Final = (400, 422)
"""HTTP statuses with which Prometheus rejects an invalid query."""
SCRAPE_EVERY: Final = "1s"
RULES: Final = Path(__file__).parents[2] / "deploy/prometheus/rules"
_OWN_INTERVAL: Final = re.compile(r"^    interval: \w+\n", re.MULTILINE)
SETTINGS: Final = """
[kafka]
bootstrap_servers = ["{kafka}"]
topics = ["{topic}"]
start = "earliest"
session_timeout = "10s"
[redis]
url = "{redis}"
[events]
dead_letter_topic = "{letters}"
[segments]
groupings = [["country"], ["device"], ["country", "device"], ["experiment:ranker-v2"]]
[experiments.ranker-v2]
planned_impressions = 100_000
primary = "RR@10"
stratify_by = "country"
"""
SCRAPING: Final = """
global: {{scrape_interval: {every}, evaluation_interval: {every}}}
rule_files: [more.yml, rules/*.yml]
scrape_configs:
- job_name: relevanced
  static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""
ALWAYS_FIRING: Final = """
groups:
- name: always
  rules:
  - {alert: RelevancedAlways, expr: vector(1), labels: {severity: ticket}}
"""


class Prometheus:
    """A Prometheus server that scrapes one port. `close` kills it."""

    def __init__(
        self, binary: str, directory: Path, port_to_scrape: int, more_rules: str = ALWAYS_FIRING
    ) -> None:
        self.port = processes.free_port()
        (directory / "more.yml").write_text(more_rules)
        _copy_rules(directory / "rules")
        config = directory / "prometheus.yml"
        config.write_text(SCRAPING.format(every=SCRAPE_EVERY, port=port_to_scrape))
        self.process = processes.spawn(
            [
                binary,
                f"--config.file={config}",
                f"--storage.tsdb.path={directory / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            log=directory / "prometheus.log",
        )

    def get(self, path: str, **arguments: str) -> Any:
        """The data of an API response. Raises ValueError for an invalid query, OSError while the
        server does not answer yet."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urlencode(arguments)}"
        try:
            with urlopen(url, timeout=10) as answer:
                return json.loads(answer.read())["data"]
        except HTTPError as error:
            if error.code not in INVALID_QUERY:
                raise
            raise ValueError(json.loads(error.read())["error"]) from error

    def now(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """(labels, value) of every result of an instant query now."""
        found = self.get("query", query=expression)["result"]
        return [(series["metric"], float(series["value"][1])) for series in found]

    def lately(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """(labels, last value) of every result of a range query over the last 10 s."""
        end = time.time()
        span = {"start": f"{end - 10:.3f}", "end": f"{end:.3f}", "step": "2"}
        found = self.get("query_range", query=expression, **span)["result"]
        return [(series["metric"], float(series["values"][-1][1])) for series in found]

    def values(self, selector: str, label: str) -> list[str]:
        """The values of a label over the series that match a selector."""
        arguments = {"match[]": selector}
        return list(self.get(f"label/{label}/values", **arguments))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def _copy_rules(folder: Path) -> None:
    """Copy the shipped rules, to be evaluated as often as all is scraped."""
    folder.mkdir()
    for path in RULES.glob("*.yml"):
        (folder / path.name).write_text(_OWN_INTERVAL.sub("", path.read_text()))


def until(ready: Callable[[], Any], *, what: str) -> Any:
    """Wait for the first true result of `ready` and return it; fail after `PATIENCE_S`."""
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := ready()):
        assert time.monotonic() < deadline, f"{what}: not after {PATIENCE_S} s"
        time.sleep(0.2)
    return answer


def simulate(kafka: str, topic: str, *arguments: str) -> list[str]:
    """The command line of `relevanced simulate`."""
    command = [sys.executable, "-m", "relevanced.daemon", "simulate", "--kafka", kafka]
    return [*command, "--topic", topic, "--partitions", "2", "--faults", "0.05", *arguments]


@contextmanager
def scraped_daemon(
    names: Mapping[str, str],
    prometheus: str,
    directory: Path,
    produce: Callable[[], None],
    before: Callable[[], None] = lambda: None,
) -> Iterator[Prometheus]:
    """A Prometheus over a daemon with a day of history and live traffic, once both are up to date.

    `names` fill the placeholders of `SETTINGS`; `before` and `produce` send further records to the
    topic, before and after the history.
    """
    kafka, topic = names["kafka"], names["topic"]
    before()
    history = simulate(kafka, topic, "--backfill", "27h", "--duration", "0s", "--rate", "0.2")
    subprocess.run(history, check=True, capture_output=True, timeout=PATIENCE_S)
    produce()
    present = simulate(kafka, topic, "--rate", "20", "--seed", "2")
    traffic = processes.spawn(present, log=directory / "simulate.log")
    daemon = Daemon(directory, SETTINGS.format(**names))
    server = Prometheus(prometheus, directory, daemon.port)
    try:
        until(lambda: _caught_up(server), what=f"the daemon has caught up: {daemon.log_path}")
        _mark_release(daemon.port)
        yield server
    finally:
        server.close()
        daemon.close()
        traffic.kill()
        traffic.wait()


def _mark_release(port: int) -> None:
    """Mark a release now, as somebody on the machine of the daemon does."""
    body = json.dumps({"kind": "release", "text": "ranker v8"}).encode()
    url, headers = f"http://127.0.0.1:{port}/api/v1/markers", {"Content-Type": "application/json"}
    with urlopen(Request(url, body, headers), timeout=10) as answer:
        assert answer.status == 201


def _caught_up(server: Prometheus) -> bool:
    try:
        behind = server.now("time() - relevanced_window_end_timestamp_seconds{view='live'} < 30")
        scraped = server.now("count_over_time(up[20s]) > 4")
    except OSError:
        return False
    return bool(behind and scraped)
