"""The compose file is valid, its services fit together, and its commands exist."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from relevanced.daemon.config.loading import load
from tests.deploy.chart import DEPLOY
from tests.deploy.commands import parsed
from tests.services.kafka_jars import VERSION as KAFKA_VERSION

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
    assert config.redis.url.reveal().startswith("redis://redis:6379")
    assert service["ports"] == [f"127.0.0.1:{config.http.port}:{config.http.port}"]
    simulator = parsed(OURS["simulator"]["command"]).params
    assert [simulator["topic"]] == list(config.kafka.topics)
    assert simulator["kafka"] == config.kafka.bootstrap_servers[0]
    assert simulator["backfill"] > config.timing.longest.length_ms, "or there is no baseline"


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
