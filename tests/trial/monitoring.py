"""Prometheus and Alertmanager with the shipped configuration and rules, and who watches them."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import yaml

from tests.services import processes
from tests.services.prometheus_server import Alertmanager, Server, answer
from tests.trial.sighting import Identity, Labels, Log, Step

DEPLOY: Final = Path(__file__).parent.parent.parent / "deploy" / "prometheus"
EVALUATE_EVERY: Final = "15s"
"""The shipped file says 1m. It is the only setting of Prometheus that a trial changes."""
LOOK_EVERY_S: Final = 2.0


class Receiver:
    """The webhooks of Alertmanager: what is notified, to whom."""

    def __init__(self, log: Log) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                for alert in body["alerts"]:
                    is_on = alert["status"] == "firing"
                    step = Step.NOTIFIED if is_on else Step.WITHDRAWN
                    log.add(step, alert["labels"], where=self.path.strip("/"))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Monitoring:
    """A Prometheus, an Alertmanager and a log of all their alerts; `close` ends them."""

    def __init__(self, directory: Path, log: Log) -> None:
        self.directory, self.log = directory, log
        self._targets: dict[str, tuple[Labels, list[int]]] = {}
        self._lock = threading.Lock()
        self._firing: dict[Identity, Labels] = {}
        self._prometheus: Server | None = None
        directory.mkdir(parents=True)
        self._receiver = Receiver(log)
        self._alertmanager_port = processes.free_port()
        self._alertmanager = Alertmanager(
            directory / "alertmanager", self._routing(), self._alertmanager_port
        )
        self._port = processes.free_port()
        self._config = self._scraping()
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _routing(self) -> Path:
        """The shipped routes and inhibitions; only the addresses of receivers differ."""
        config = yaml.safe_load((DEPLOY / "alertmanager.yml").read_text())
        for receiver in config["receivers"]:
            receiver["webhook_configs"] = [{"url": f"{self._receiver.url}/{receiver['name']}"}]
        path = self.directory / "alertmanager.yml"
        path.write_text(yaml.safe_dump(config))
        return path

    def _scraping(self) -> Path:
        """The shipped configuration, with targets that come and go."""
        config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
        config["global"]["evaluation_interval"] = EVALUATE_EVERY
        config["rule_files"] = [str(DEPLOY / "rules" / "*.yml")]
        managers = [{"targets": [f"127.0.0.1:{self._alertmanager_port}"]}]
        config["alerting"] = {"alertmanagers": [{"static_configs": managers}]}
        (scrape,) = config["scrape_configs"]
        del scrape["static_configs"]
        scrape["file_sd_configs"] = [{"files": [str(self.directory / "targets" / "*.json")]}]
        path = self.directory / "prometheus.yml"
        path.write_text(yaml.safe_dump(config))
        return path

    def start(self) -> None:
        """Start Prometheus, again on the same port and data."""
        arguments = [
            f"--config.file={self._config}",
            f"--storage.tsdb.path={self.directory / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--log.level=warn",
        ]
        self._prometheus = Server(
            self.directory / "prometheus", "prometheus", arguments, self._port
        )

    def stop(self) -> None:
        """Kill Prometheus; what it has stored stays."""
        assert self._prometheus is not None, "nothing has been scraped"
        self._prometheus.close()

    def scrape(self, name: str, labels: Labels, ports: list[int]) -> None:
        """Scrape these processes as one installation; no ports: none any more. Prometheus starts
        with the first ones, as it would complain of having none."""
        with self._lock:
            self._targets[name] = (labels, ports)
            self._write_targets()
            if self._prometheus is None:
                self.start()

    def _write_targets(self) -> None:
        groups = [
            {"targets": [f"127.0.0.1:{port}" for port in ports], "labels": dict(labels)}
            for labels, ports in self._targets.values()
            if ports
        ]
        folder = self.directory / "targets"
        folder.mkdir(exist_ok=True)
        (self.directory / "next.json").write_text(json.dumps(groups))
        (self.directory / "next.json").rename(folder / "all.json")

    def get(self, path: str, **arguments: str) -> Any:
        """The data of an answer of Prometheus; None while it does not answer."""
        url = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urlencode(arguments)}"
        try:
            return json.loads(answer(url))["data"]
        except (OSError, ValueError):
            return None

    def values(self, query: str) -> list[tuple[Labels, float]]:
        """The results of an instant query."""
        found = self.get("query", query=query) or {"result": []}
        return [(each["metric"], float(each["value"][1])) for each in found["result"]]

    def failed_rules(self) -> list[str]:
        """The rules whose evaluation failed, with the reason."""
        found = self.get("rules") or {"groups": []}
        return [
            f"{rule['name']}: {rule.get('lastError', '')}"
            for group in found["groups"]
            for rule in group["rules"]
            if rule["health"] == "err"
        ]

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            self._look()

    def _look(self) -> None:
        found = self.get("alerts")
        if found is None:
            return
        firing = {}
        for alert in found["alerts"]:
            labels, step = alert["labels"], Step(alert["state"])
            if step is Step.FIRING:
                firing[tuple(sorted(labels.items()))] = labels
            self.log.add(step, labels, _text(alert["annotations"]))
        for identity in self._firing.keys() - firing.keys():
            self.log.add(Step.RESOLVED, self._firing[identity])
        self._firing = firing
        self._look_at_inhibitions()

    def _look_at_inhibitions(self) -> None:
        try:
            states = self._alertmanager.states()
        except OSError:
            return
        for alert in states:
            if alert["status"]["state"] == "suppressed":
                self.log.add(Step.HELD_BACK, alert["labels"])

    def close(self) -> None:
        self._stop.set()
        self._watcher.join()
        if self._prometheus is not None:
            self._prometheus.close()
        self._alertmanager.close()
        self._receiver.close()


def _text(annotations: Mapping[str, str]) -> str:
    parts = (annotations.get("summary", ""), annotations.get("description", ""))
    return " | ".join(" ".join(part.split()) for part in parts if part)


@contextmanager
def monitoring(directory: Path, log: Log) -> Iterator[Monitoring]:
    """The servers, ended at the end."""
    began = Monitoring(directory, log)
    try:
        yield began
    finally:
        began.close()
