"""The compose file is valid, its services fit together, and its commands exist."""

import json
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import jsonschema
import pytest
import yaml

from deploy import alert_sink
from relevanced.daemon.config import load
from relevanced.daemon.exporter import WINDOWS, earlier
from relevanced.daemon.panes import pane_start
from tests.deploy.chart import DEPLOY
from tests.deploy.commands import parsed
from tests.services import processes
from tests.services.kafka_jars import VERSION as KAFKA_VERSION
from tests.services.prometheus_server import Alertmanager, required

COMPOSE = yaml.safe_load((DEPLOY / "compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
EXAMPLE = DEPLOY / "relevanced.toml"
PROMETHEUS = DEPLOY / "prometheus"


def mounts(service: dict[str, Any]) -> dict[str, Path]:
    """Path in the container → path here."""
    pairs = [entry.split(":") for entry in service.get("volumes", ())]
    return {inside: DEPLOY / outside for outside, inside, _ in pairs}


def schema() -> Any:
    return json.loads((Path(__file__).parent / "compose.schema.json").read_text())


def test_compose_file_matches_the_schema_of_the_specification() -> None:
    jsonschema.validate(COMPOSE, schema())


def test_schema_rejects_a_misspelt_key() -> None:
    service = {"image": "a:1", "depend_on": ["b"]}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"services": {"a": service}}, schema())


def test_services_wait_for_services_with_a_health_check() -> None:
    for service in SERVICES.values():
        waited_for = service.get("depends_on", {})
        assert set(waited_for) <= set(SERVICES)
        for name in waited_for if isinstance(waited_for, dict) else ():
            assert waited_for[name] == {"condition": "service_healthy"}
            assert "test" in SERVICES[name]["healthcheck"]


def test_images_of_other_projects_are_pinned() -> None:
    for name, service in SERVICES.items():
        _, _, tag = service["image"].partition(":")
        assert (tag == "") if name in OURS else tag not in ("", "latest")
    assert (
        SERVICES["kafka"]["image"] == f"apache/kafka:{KAFKA_VERSION}"
    ), "the version that the tests run"


def test_mounted_files_exist() -> None:
    for service in SERVICES.values():
        for path in mounts(service).values():
            assert path.exists() or (path.is_relative_to(PROMETHEUS) and not PROMETHEUS.exists())


def test_program_accepts_the_commands() -> None:
    """The daemon runs the command of the image with the file that the environment names."""
    assert parsed(OURS["simulator"]["command"]).params
    service = OURS["relevanced"]
    assert "command" not in service
    assert mounts(service)[service["environment"]["RELEVANCED_CONFIG"]].samefile(EXAMPLE)


def test_configuration_matches_the_services() -> None:
    service = OURS["relevanced"]
    config = load(EXAMPLE.read_text(), service["environment"], "relevanced.toml")
    assert config.kafka.bootstrap_servers == ("kafka:9092",)
    assert config.redis.url.reveal().startswith("redis://valkey:6379")
    assert service["ports"] == [f"127.0.0.1:{config.http.port}:{config.http.port}"]
    simulator = parsed(OURS["simulator"]["command"]).params
    assert [simulator["topic"]] == list(config.kafka.topics)
    assert simulator["kafka"] == config.kafka.bootstrap_servers[0]


def test_history_gives_every_baseline_two_days() -> None:
    """Whatever the minute at which the stack starts; with one day an outage could not be seen."""
    config = load(EXAMPLE.read_text(), {}, "relevanced.toml")
    backfill_ms = parsed(OURS["simulator"]["command"]).params["backfill"]
    hour_ms = config.plan.hour_ms
    for minute in range(60):
        now_ms = 1_000 * 24 * hour_ms + minute * 60_000
        end_ms = now_ms - config.timing.settle_ms
        first_ms = pane_start(now_ms - backfill_ms, hour_ms) + hour_ms  # a partial hour is left out
        covered = range(first_ms, pane_start(end_ms, hour_ms), hour_ms)
        for name, hours in WINDOWS:
            unit, periods = earlier(end_ms - hours * hour_ms, end_ms, covered, frozenset())
            assert (unit, len(periods) >= 2) == ("day", True), (minute, name)


def test_alertmanager_finds_its_receivers() -> None:
    receivers = yaml.safe_load((PROMETHEUS / "alertmanager.yml").read_text())["receivers"]
    hosts = {
        urlsplit(hook["url"]).hostname for r in receivers for hook in r.get("webhook_configs", ())
    }
    assert hosts == set(SERVICES["alerts"]["networks"]["default"]["aliases"])
    ports = {urlsplit(hook["url"]).port for r in receivers for hook in r.get("webhook_configs", ())}
    assert ports == {alert_sink.PORT}
    assert SERVICES["alerts"]["ports"] == [f"127.0.0.1:{alert_sink.PORT}:{alert_sink.PORT}"]


@required("prometheus-alertmanager")
def test_the_sink_shows_what_alertmanager_sends(tmp_path: Path) -> None:
    port = processes.free_port()
    command = [sys.executable, str(DEPLOY / "alert_sink.py"), str(port)]
    sink = processes.spawn(command, log=tmp_path / "sink.log")
    config = yaml.safe_load((PROMETHEUS / "alertmanager.yml").read_text())
    for receiver in config["receivers"]:
        for hook in receiver.get("webhook_configs", ()):
            hook["url"] = f"http://127.0.0.1:{port}/"
    config["route"]["routes"][0]["group_wait"] = "0s"
    path = tmp_path / "alertmanager.yml"
    path.write_text(yaml.safe_dump(config))
    alertmanager = Alertmanager(tmp_path / "alertmanager", path)
    try:
        labels = {"kind": "pipeline", "severity": "page", "job": "<search>"}
        alertmanager.post([{"alertname": "RelevancedDown", **labels}])
        watchdog = {"kind": "watchdog", "severity": "none"}
        alertmanager.post([{"alertname": "RelevancedWatchdog", **watchdog}])
        deadline = time.monotonic() + 30
        while "firing: RelevancedDown" not in (tmp_path / "sink.log").read_text():
            assert time.monotonic() < deadline, (tmp_path / "sink.log").read_text()
            time.sleep(0.1)
        page = urlopen(f"http://127.0.0.1:{port}/").read().decode()
        assert '<h2 class="firing">RelevancedDown: </h2>' in page and "last heard of at" in page
        assert "Watchdog" not in page
    finally:
        alertmanager.close()
        sink.kill()
        sink.wait()


def test_texts_of_alerts_are_escaped() -> None:
    alert = {
        "status": "firing",
        "labels": {"alertname": "A"},
        "annotations": {"summary": "<b>", "description": "x & y"},
    }
    alerts = alert_sink.Alerts()
    assert list(alerts.take({"alerts": [alert]}, "pager", "12:00:00")) == [
        "12:00:00 pager firing: A: <b>"
    ]
    assert "A: &lt;b&gt;" in alerts.page() and "x &amp; y" in alerts.page()


def test_our_containers_have_no_privileges() -> None:
    for service in OURS.values():
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_grafana_provisions_the_mounted_files() -> None:
    grafana = SERVICES["grafana"]
    provisioning = DEPLOY / "grafana/provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    assert source["type"] == "prometheus" and source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((provisioning / "dashboards/relevanced.yml").read_text())[
        "providers"
    ]
    folder = mounts(grafana)[provider["options"]["path"]]
    assert not provider["allowUiUpdates"] and list(folder.glob("*.json"))
    home = Path(grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (mounts(grafana)[str(home.parent)] / home.name).exists()
