"""The chart renders to valid Kubernetes objects that use only what the program offers."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.config.loading import load
from relevanced.daemon.config.settings import SETTINGS
from tests.deploy.chart import CHART, DEPLOY, default_values, merged, rendered
from tests.deploy.commands import served_paths
from tests.deploy.expressions import selectors
from tests.deploy.go_templates import Chart, TemplateError
from tests.deploy.series_catalog import series_spec

FULL: dict[str, Any] = {
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True},
    "dashboards": {"enabled": True},
    "keda": {"enabled": True},
    "networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {}}]},
    "secretFiles": [
        {"variable": "RELEVANCED_REDIS__PASSWORD_FILE", "secret": "redis", "key": "password"}
    ],
    "secretVariables": [{"variable": "RELEVANCED_REDIS__URL", "secret": "redis", "key": "url"}],
    "worker": {"nodeSelector": {"disk": "fast"}, "podAnnotations": {"team": "search"}},
}
CHANGES: dict[str, dict[str, Any]] = {"defaults": {}, "everything": FULL}
DEFAULT_KINDS: list[str] = [
    "ConfigMap",
    "Deployment",
    "PodDisruptionBudget",
    "Service",
    "ServiceAccount",
]
BAD_VALUES: dict[str, dict[str, Any]] = {
    "unknown": {"workers": {"replicas": 2}},
    "variable": {"secretFiles": [{"variable": "PASSWORD", "secret": "a", "key": "b"}]},
    "port": {"http": {"port": 0}},
    "replicas": {"worker": {"replicas": "two"}},
}


@pytest.fixture(params=CHANGES)
def objects(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return rendered(CHANGES[request.param])


def schema(path: Path) -> Any:
    return json.loads(path.read_text())


def of_kind(kind: str, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [found for found in objects if found["kind"] == kind]


def containers(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for deployment in of_kind("Deployment", objects):
        yield from deployment["spec"]["template"]["spec"]["containers"]


def test_objects_match_the_schema_of_the_api(objects: list[dict[str, Any]]) -> None:
    shape = schema(Path(__file__).parent / "kubernetes.schema.json")
    for found in objects:
        part = {**shape["definitions"][found["kind"]], "definitions": shape["definitions"]}
        jsonschema.validate(found, part)  # first, because its errors are easier to read
        jsonschema.validate(found, shape)
    names = [(found["kind"], found["metadata"]["name"]) for found in objects]
    assert len(names) == len(set(names))


def test_defaults_need_no_custom_resource() -> None:
    assert sorted({found["kind"] for found in rendered({})}) == DEFAULT_KINDS


def test_selectors_find_the_pods(objects: list[dict[str, Any]]) -> None:
    pods = [d["spec"]["template"]["metadata"]["labels"] for d in of_kind("Deployment", objects)]
    for found in objects:
        spec = found.get("spec", {})
        selector = spec.get("selector") or spec.get("podSelector")
        if selector:
            labels = selector.get("matchLabels", selector)
            assert any(labels.items() <= pod.items() for pod in pods), found["metadata"]["name"]


def test_every_volume_is_mounted_and_every_mount_has_a_volume(
    objects: list[dict[str, Any]],
) -> None:
    maps = {found["metadata"]["name"] for found in of_kind("ConfigMap", objects)}
    for deployment in of_kind("Deployment", objects):
        pod = deployment["spec"]["template"]["spec"]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        mounted = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
        assert mounted == volumes.keys()
        assert volumes["config"]["configMap"]["name"] in maps


def test_containers_use_existing_commands_options_and_variables(
    objects: list[dict[str, Any]],
) -> None:
    variables = {setting.variable: setting for setting in SETTINGS}
    for container in containers(objects):
        command, *arguments = container["args"]
        options = {name for parameter in cli.commands[command].params for name in parameter.opts}
        assert {word for word in arguments if word.startswith("--")} <= options
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert arguments[arguments.index("--config") + 1] in mounts
        for entry in container["env"]:
            assert entry["name"] in variables
            if entry["name"].endswith("_FILE"):
                assert entry["value"] in mounts
        assert (
            {container[f"{name}Probe"]["httpGet"]["path"] for name in ("liveness", "readiness")}
            == {
                "/livez",
                "/readyz",
            }
            <= served_paths()
        )


def test_roles_are_those_of_the_program(objects: list[dict[str, Any]]) -> None:
    (role,) = (parameter for parameter in cli.commands["run"].params if parameter.name == "role")
    roles = {container["args"][-1] for container in containers(objects)}
    assert roles == {"worker", "exporter"} <= set(getattr(role.type, "choices", ()))


def test_default_configuration_is_valid() -> None:
    config = load(default_values()["config"], {}, "values.yaml")
    assert config.http.port == default_values()["http"]["port"]


def test_chart_contains_all_rules() -> None:
    (rule,) = of_kind("PrometheusRule", rendered(FULL))
    files = sorted((DEPLOY / "prometheus/rules").glob("*.yml"))
    expected = [group for path in files for group in yaml.safe_load(path.read_text())["groups"]]
    assert (rule["spec"]["groups"] or []) == expected
    assert len({group["name"] for group in expected}) == len(expected)


def test_chart_contains_all_dashboards() -> None:
    data: dict[str, str] = {}
    for found in of_kind("ConfigMap", rendered(FULL)):
        data |= found["data"]
    del data["relevanced.toml"]
    folder = DEPLOY / "grafana/dashboards"
    assert data == {path.name: path.read_text() for path in folder.glob("*.json")}


def test_workers_are_scaled_by_a_series_that_exists() -> None:
    objects = rendered(FULL)
    (scaled,) = of_kind("ScaledObject", objects)
    (worker,) = (
        d for d in of_kind("Deployment", objects) if d["metadata"]["name"].endswith("worker")
    )
    assert scaled["spec"]["scaleTargetRef"]["name"] == worker["metadata"]["name"]
    assert "replicas" not in worker["spec"], "KEDA and the chart would both set them"
    query = scaled["spec"]["triggers"][0]["metadata"]["query"]
    assert [series_spec(found.name) is not None for found in selectors(query)] == [True]


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_values_fit_their_schema(changes: dict[str, Any]) -> None:
    jsonschema.validate(merged(default_values(), changes), schema(CHART / "values.schema.json"))


@pytest.mark.parametrize("changes", BAD_VALUES.values(), ids=BAD_VALUES)
def test_invalid_values_are_rejected(changes: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(merged(default_values(), changes), schema(CHART / "values.schema.json"))


def test_schema_rejects_a_misspelt_key() -> None:
    (service,) = of_kind("Service", copy.deepcopy(rendered({})))
    service["spec"]["port"] = service["spec"].pop("ports")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(service, schema(Path(__file__).parent / "kubernetes.schema.json"))


def test_version_is_the_program_s() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    printed = CliRunner().invoke(cli, ["--version"]).stdout
    assert re.findall(r"[\d.]+\d", printed) == [about["appVersion"]] == [about["version"]]


@pytest.mark.parametrize(
    "text",
    ["{{ .Values.missing }}", "{{ env }}", "{{ if .Values.a }}", "{{ end }}", "{{ $nobody }}"],
)
def test_renderer_rejects_what_it_does_not_support(text: str) -> None:
    with pytest.raises(TemplateError):
        Chart({"a.yaml": text}, {}).render({"Values": {"a": 1}})


def test_renderer_renders_as_helm_does() -> None:
    text = (
        '{{- define "x" -}} [{{ .a }}] {{- end -}}\n'
        'a: {{ include "x" .Values | quote }}\n'
        "{{- range $i, $w := .Values.list }}\n{{ $i }}: {{ $w }}{{ end }}\n"
        "{{- if not .Values.a }}no{{ else if .Values.b }}maybe{{ else }}\n"
        "yes: {{ $.Values.a }}{{ end }}\n"
        "{{- with .Values.b }}{{ . }}{{ end }}{{- /* nothing */}}"
    )
    values = {"a": 1, "b": 0, "list": ["p", "q"]}
    found = Chart({"a.yaml": text}, {}).render({"Values": values})["a.yaml"]
    assert found == 'a: "[1]"\n0: p\n1: q\nyes: 1'
