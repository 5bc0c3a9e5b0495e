"""Routing and inhibition: the example configuration of Alertmanager, in amtool and running."""

import json
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.services.processes import wait_until
from tests.services.prometheus_server import Alertmanager, required, run

pytestmark = required("amtool", "prometheus-alertmanager")

CONFIG: Final = Path(__file__).parent.parent.parent / "deploy" / "prometheus" / "alertmanager.yml"
PATIENCE_S: Final = 30.0

Labels = Mapping[str, str]


def score(name: str, segment: str = "all", severity: str = "page", metric: str = "RR@10") -> Labels:
    grouping = "all" if segment == "all" else "country"
    return {
        "alertname": f"Relevanced{name}",
        "kind": "quality",
        "severity": severity,
        "metric": metric,
        "grouping": grouping,
        "segment": segment,
    }


def pipeline(name: str, severity: str = "page") -> Labels:
    return {"alertname": f"Relevanced{name}", "kind": "pipeline", "severity": severity}


WHOLE: Final = score("ScoreDropped")
SEGMENT: Final = score("ScoreDropped", "DE", "ticket")
OTHER_METRIC: Final = score("ScoreDropped", "DE", "ticket", "P@5")
EXPERIMENT: Final = {
    "alertname": "RelevancedExperimentGuardrailWorse",
    "kind": "experiment",
    "severity": "ticket",
}
STOPPED: Final = {
    "alertname": "RelevancedFeedbackStopped",
    "kind": "quality",
    "severity": "page",
}

INHIBITED: Final[Mapping[str, tuple[list[Labels], list[Labels]]]] = {
    # case: (alerts that notify, alerts that are inhibited)
    "pipeline inhibits quality": ([pipeline("PipelineLate")], [WHOLE, SEGMENT, EXPERIMENT]),
    "a ticket of the pipeline inhibits nothing": ([pipeline("Lagging", "ticket"), WHOLE], []),
    "the whole inhibits no segment": ([WHOLE, OTHER_METRIC, SEGMENT], []),
    "a segment alone notifies": ([SEGMENT, EXPERIMENT], []),
    "feedback stopped inhibits scores": ([STOPPED], [WHOLE, SEGMENT]),
    "feedback stopped inhibits no judged score": ([STOPPED, score("JudgedScoreDropped")], [WHOLE]),
    "a change that pages is no ticket any more": (
        [score("ScoreDropped", "DE"), score("ScoreDropped", "US", "ticket")],
        [SEGMENT, OTHER_METRIC],
    ),
    "an installation inhibits none beside it": (
        [pipeline("PipelineLate") | {"job": "search"}, WHOLE | {"job": "shop"}],
        [WHOLE | {"job": "search"}],
    ),
    "a cluster inhibits no other": (
        [pipeline("PipelineLate") | {"cluster": "east"}, WHOLE | {"cluster": "west"}],
        [WHOLE | {"cluster": "east"}],
    ),
    "an alert of somebody else is left alone": ([pipeline("PipelineLate")], []),
}
FOREIGN: Final = {"alertname": "NodeDown", "kind": "quality", "severity": "page"}
"""An alert of another system, with labels that ours use too."""

ROUTES: Final = (
    (WHOLE, "pages"),
    (SEGMENT, "tickets"),
    (EXPERIMENT, "experiments"),
    (pipeline("LaneStopped"), "pages"),
    (pipeline("Lagging", "ticket"), "tickets"),
    ({"alertname": "RelevancedWatchdog", "kind": "watchdog", "severity": "none"}, "dead-man"),
    ({"alertname": "Other", "severity": "warning"}, "others"),
    ({"alertname": "Other", "severity": "page", "kind": "pipeline"}, "others"),
)


class Webhooks:
    """Webhook receivers of Alertmanager: `received` has the labels of alerts by URL path."""

    def __init__(self) -> None:
        self.received: dict[str, list[Labels]] = defaultdict(list)
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                received[self.path].extend(alert["labels"] for alert in body["alerts"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def quick(config: dict[str, Any], webhooks: str) -> dict[str, Any]:
    """The configuration with only its waits and its receivers' addresses changed."""
    (ours,) = config["route"]["routes"]
    routes = [ours | {"group_wait": "1s"}]
    receivers = [
        {"name": receiver["name"], "webhook_configs": [{"url": f"{webhooks}/{receiver['name']}"}]}
        for receiver in config["receivers"]
    ]
    route = config["route"] | {"routes": routes, "group_wait": "1s"}
    return config | {"route": route, "receivers": receivers}


@pytest.fixture
def webhooks() -> Iterator[Webhooks]:
    server = Webhooks()
    yield server
    server.close()


@pytest.fixture
def alertmanager(tmp_path: Path, webhooks: Webhooks) -> Iterator[Alertmanager]:
    path = tmp_path / "alertmanager.yml"
    path.write_text(yaml.safe_dump(quick(yaml.safe_load(CONFIG.read_text()), webhooks.url)))
    server = Alertmanager(tmp_path / "alertmanager", path)
    yield server
    server.close()


def test_configuration_is_valid() -> None:
    assert "SUCCESS" in run("amtool", ["check-config", CONFIG])


@pytest.mark.parametrize(("labels", "receiver"), ROUTES, ids=lambda value: str(value)[:60])
def test_alert_is_routed_to(labels: Labels, receiver: str) -> None:
    named = [f"{name}={value}" for name, value in labels.items()]
    command = ["config", "routes", "test", f"--config.file={CONFIG}"]
    assert run("amtool", [*command, *named]).splitlines()[-1] == receiver


def test_only_the_cause_notifies(alertmanager: Alertmanager, webhooks: Webhooks) -> None:
    """All cases at once, each in a namespace of its own."""
    expected, inhibited = (
        [
            {**labels, "namespace": case}
            for case, parts in INHIBITED.items()
            for labels in parts[side]
        ]
        for side in (0, 1)
    )
    foreign = FOREIGN | {"namespace": "an alert of somebody else is left alone"}
    alertmanager.post([*expected, *inhibited, foreign])
    wait_until(
        lambda: sum(map(len, webhooks.received.values())) >= len(expected) + 1,
        alive=lambda: True,
        log=lambda: str(dict(webhooks.received)),
        name="the last webhook",
        patience_s=PATIENCE_S,
    )
    receiver = {"page": "/pages", "ticket": "/tickets"}
    for labels in expected:
        path = "/experiments" if labels["kind"] == "experiment" else receiver[labels["severity"]]
        assert labels in webhooks.received[path]
    assert webhooks.received["/others"] == [foreign]
    assert sum(map(len, webhooks.received.values())) == len(expected) + 1
    states = {
        tuple(sorted(alert["labels"].items())): alert["status"]["state"]
        for alert in alertmanager.states()
    }
    assert {states[tuple(sorted(labels.items()))] for labels in inhibited} == {"suppressed"}
