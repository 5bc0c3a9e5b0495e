"""A real Prometheus that scrapes fixed texts: each the page of an installation, under its own job.

The settings of the rules are those of a daemon with the defaults. Waits and ranges of the rules
are shortened as in `scene`.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import yaml

from relevanced.daemon.changes import ChangeSettings
from tests.deploy.chart import DEPLOY
from tests.deploy.scene import hurried
from tests.services.prometheus_server import Prometheus, answer

RULES: Final = ("settings.yml", "traffic.yml", "changes.yml")
"""Of scores only: a page without a process would fire the alerts on processes."""
SETTINGS: Final = "".join(
    f'relevanced_setting{{setting="{name}"}} {value!r}\n'
    for name, value in ChangeSettings().numbers.items()
) + "".join(
    f'relevanced_drift_ratio{{metric="{metric}"}} {ChangeSettings().drift_ratio!r}\n'
    for metric in ("Success@10", "RR@10", "P@5")
)


class Watched:
    """Prometheus with these targets."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._url = f"{prometheus.url}/api/v1"

    def values(self, query: str) -> dict[str, tuple[dict[str, str], float]]:
        """Job → (labels, value) of each result of an instant query, one for each job."""
        found = json.loads(answer(f"{self._url}/query?{urlencode({'query': query})}"))
        results = found["data"]["result"]
        assert len({one["metric"]["job"] for one in results}) == len(results), results
        return {one["metric"]["job"]: (one["metric"], float(one["value"][1])) for one in results}

    def firing(self) -> list[dict[str, Any]]:
        """The alerts that fire, with labels and annotations."""
        alerts = json.loads(answer(f"{self._url}/alerts"))["data"]["alerts"]
        return [alert for alert in alerts if alert["state"] == "firing"]


@contextmanager
def watched(directory: Path, pages: Mapping[str, str]) -> Iterator[Watched]:
    """A Prometheus that scrapes these pages, by job, and evaluates the rules of scores."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (pages[self.path.strip("/")] + SETTINGS).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rules = directory / "rules"
    rules.mkdir(parents=True)
    for name in RULES:
        text = (DEPLOY / "prometheus" / "rules" / name).read_text()
        (rules / name).write_text(hurried(text))
    targets = [{"targets": [f"127.0.0.1:{server.server_port}"]}]
    config = {
        "global": {"scrape_interval": "2s", "evaluation_interval": "2s"},
        "rule_files": [str(rules / "*.yml")],
        "scrape_configs": [
            {"job_name": job, "metrics_path": f"/{job}", "static_configs": targets} for job in pages
        ],
    }
    prometheus = Prometheus(directory, yaml.safe_dump(config))
    try:
        yield Watched(prometheus)
    finally:
        prometheus.close()
        server.shutdown()
        server.server_close()
