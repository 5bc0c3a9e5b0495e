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

from deploy.kubernetes import readme
from relevanced.daemon.commands.cli import cli
from relevanced.daemon.config import SETTINGS, load
from tests.deploy.chart import (
    BAD_VALUES,
    CASES,
    CHART,
    DEPLOY,
    FULL,
    default_values,
    merged,
    of_kind,
    rendered,
)
from tests.deploy.commands import served_paths
from tests.deploy.expressions import selectors
from tests.deploy.go_templates import Chart, TemplateError
from tests.deploy.series_catalog import series_spec

DEFAULT_KINDS: list[str] = [
    "ConfigMap",
    "Deployment",
    "Job",
    "PodDisruptionBudget",
    "Service",
    "ServiceAccount",
]


@pytest.fixture(params=CASES)
def objects(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return rendered(CASES[request.param])


def schema(path: Path) -> Any:
    return json.loads(path.read_text())


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
    for deployment in (*of_kind("Deployment", objects), *of_kind("Job", objects)):
        pod = deployment["spec"]["template"]["spec"]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        mounted = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
        assert mounted == volumes.keys()
        assert volumes["config"]["configMap"]["name"] in {"mine", *maps}


def test_containers_use_existing_commands_options_and_variables(
    objects: list[dict[str, Any]],
) -> None:
    variables = {setting.variable: setting for setting in SETTINGS}
    for deployment in of_kind("Deployment", objects):
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        command, *arguments = container["args"]
        options = {name for parameter in cli.commands[command].params for name in parameter.opts}
        assert {word for word in arguments if word.startswith("--")} <= options
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        files = secret_files(pod)
        assert arguments[arguments.index("--config") + 1] in mounts
        for entry in container["env"]:
            assert entry["name"] in variables
            if entry["name"].endswith("_FILE"):
                assert (entry["value"] in files) == uses(arguments[-1], entry["name"])
        ready = "/startedz" if arguments[-1] == "worker" else "/readyz"
        probes = [
            container[f"{name}Probe"]["httpGet"]["path"] for name in ("liveness", "readiness")
        ]
        assert probes == ["/livez", ready] and {*probes} <= served_paths()


def secret_files(pod: dict[str, Any]) -> set[str]:
    """The files of Secrets in the container of a pod. A rotated Secret reaches only those that are
    mounted with their volume as a whole."""
    mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    return {
        f"{mounts[volume['name']]['mountPath']}/{item['path']}"
        for volume in pod["volumes"]
        if "subPath" not in mounts[volume["name"]]
        for source in volume.get("projected", {}).get("sources", ())
        for item in source["secret"]["items"]
    }


def uses(role: str, variable: str) -> bool:
    """Whether a role logs in where this secret is for."""
    return role == "worker" or not variable.startswith(("RELEVANCED_KAFKA", "RELEVANCED_REGISTRY"))


def test_a_rotated_secret_reaches_the_files_of_a_running_pod() -> None:
    """Kubernetes renews what is mounted, except by subPath. Here two files are of one Secret."""
    values = [
        {"variable": "RELEVANCED_REDIS__PASSWORD_FILE", "secret": "redis", "key": "password"},
        {"variable": "RELEVANCED_REDIS__SSL_KEY_PASSWORD_FILE", "secret": "redis", "key": "key"},
    ]
    for found in of_kind("Deployment", rendered({"secretFiles": values})):
        folder = "/etc/relevanced/secrets/redis"
        files = secret_files(found["spec"]["template"]["spec"])
        assert files == {f"{folder}/password", f"{folder}/key"}


def test_pods_have_only_the_secrets_that_they_use() -> None:
    objects = rendered(FULL)
    pods = {
        d["spec"]["template"]["spec"]["containers"][0]["args"][-1]: d
        for d in of_kind("Deployment", objects)
    }
    (pods["upgrade"],) = of_kind("Job", objects)
    used = {"worker": {"redis", "kafka", "registry"}, "exporter": {"redis"}, "upgrade": {"redis"}}
    for name, found in pods.items():
        spec = found["spec"]["template"]["spec"]
        secrets = {Path(path).parent.name for path in secret_files(spec)}
        values = [
            e["valueFrom"]["secretKeyRef"] for e in spec["containers"][0]["env"] if "valueFrom" in e
        ]
        assert secrets | {value["name"] for value in values} == used[name], name


def test_roles_are_those_of_the_program(objects: list[dict[str, Any]]) -> None:
    (role,) = (parameter for parameter in cli.commands["run"].params if parameter.name == "role")
    roles = {container["args"][-1] for container in containers(objects)}
    assert roles == {"worker", "exporter"} <= set(getattr(role.type, "choices", ()))


def test_default_configuration_is_valid() -> None:
    config = load(default_values()["config"], {}, "values.yaml")
    assert config.http.port == default_values()["http"]["port"]


def test_everything_but_the_selectors_has_the_common_labels() -> None:
    objects = rendered(FULL)
    pods = [d["spec"]["template"]["metadata"]["labels"] for d in of_kind("Deployment", objects)]
    named = [found["metadata"]["labels"] for found in objects]
    assert all(labels["owner"] == "search" for labels in [*named, *pods])
    assert all(labels["mesh"] == "none" for labels in pods)
    selected = [d["spec"]["selector"]["matchLabels"] for d in of_kind("Deployment", objects)]
    assert all("owner" not in labels for labels in selected)


def test_fullname_override_names_every_object() -> None:
    names = [found["metadata"]["name"] for found in rendered(FULL)]
    assert all(name.startswith("quality-search") for name in names)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, "relevanced:0.1.0"),
        ({"tag": "1"}, "relevanced:1"),
        ({"registry": "r:5000", "repository": "a/b"}, "r:5000/a/b:0.1.0"),
        ({"digest": "sha256:12", "tag": "1"}, "relevanced@sha256:12"),
    ],
)
def test_image_is_named_by_registry_and_tag_or_digest(image: dict[str, str], expected: str) -> None:
    assert {c["image"] for c in containers(rendered({"image": image}))} == {expected}


def test_pods_are_spread_over_nodes_by_default() -> None:
    for deployment in of_kind("Deployment", rendered({})):
        pod = deployment["spec"]["template"]
        (spread,) = pod["spec"]["topologySpreadConstraints"]
        assert spread["topologyKey"] == "kubernetes.io/hostname"
        assert spread["whenUnsatisfiable"] == "ScheduleAnyway"
        assert spread["labelSelector"] == deployment["spec"]["selector"]


def test_a_new_exporter_is_ready_before_an_old_one_stops() -> None:
    """So that the one of a fresh namespace replaces nobody before it has caught up."""
    deployments = of_kind("Deployment", rendered({}))
    (exporter,) = [d for d in deployments if d["metadata"]["name"].endswith("-exporter")]
    surging = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert exporter["spec"]["strategy"] == surging
    (container,) = exporter["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_an_existing_configuration_replaces_that_of_the_values() -> None:
    objects = rendered({"existingConfigMap": "mine"})
    assert not of_kind("ConfigMap", objects)
    for deployment in (*of_kind("Deployment", objects), *of_kind("Job", objects)):
        volumes = deployment["spec"]["template"]["spec"]["volumes"]
        assert {"name": "config", "configMap": {"name": "mine"}} in volumes


def test_before_an_upgrade_the_new_program_checks_the_configuration_that_is_to_come() -> None:
    """Of the release, there is the former ConfigMap then."""
    objects = rendered(FULL)
    (job,), containers_ = of_kind("Job", objects), [*containers(objects)]
    (exporter,) = (one for one in containers_ if one["args"][-1] == "exporter")
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    hooked = [
        found for found in objects if "helm.sh/hook" in found["metadata"].get("annotations", {})
    ]
    assert {found["metadata"]["annotations"]["helm.sh/hook"] for found in hooked} == {"pre-upgrade"}
    (own,) = (found for found in hooked if found["kind"] == "ConfigMap")
    assert own["data"] == {"relevanced.toml": merged(default_values(), FULL)["config"]}
    (config,) = (volume for volume in pod["volumes"] if volume["name"] == "config")
    assert config["configMap"]["name"] == own["metadata"]["name"]
    weights = [found["metadata"]["annotations"]["helm.sh/hook-weight"] for found in (own, job)]
    assert weights == sorted(weights, key=int), "it comes first"
    assert all(container[key] == exporter[key] for key in ("image", "env", "volumeMounts"))
    command, *arguments = container["args"]
    options = {
        name for parameter in cli.get_command(None, command).params for name in parameter.opts
    }
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"--in-place", "--role"} <= options and arguments[2] in mounts
    assert arguments[:2] == ["--in-place", "--role=exporter"] and len(arguments) == 3
    assert (job["spec"]["backoffLimit"], pod["restartPolicy"]) == (0, "Never")
    assert not of_kind("Job", rendered({"upgradeCheck": {"enabled": False}}))


def test_further_arguments_reach_the_program() -> None:
    arguments = [c["args"] for c in containers(rendered({"extraArgs": ["--help"]}))]
    assert all(args[:2] == ["run", "--help"] and "--role" in args for args in arguments)


def test_service_and_ingress_lead_to_the_exporters() -> None:
    objects = rendered(FULL)
    (service,), (ingress,) = of_kind("Service", objects), of_kind("Ingress", objects)
    assert service["spec"]["type"] == "NodePort"
    (rule,) = ingress["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert path["backend"]["service"] == {
        "name": service["metadata"]["name"],
        "port": {"name": service["spec"]["ports"][0]["name"]},
    }
    assert ingress["spec"]["tls"] == [{"hosts": [rule["host"]], "secretName": "t"}]


def test_egress_is_restricted_to_names_and_what_is_listed() -> None:
    (policy,) = of_kind("NetworkPolicy", rendered(FULL))
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    names, listed = policy["spec"]["egress"]
    assert {port["port"] for port in names["ports"]} == {53}
    assert listed == {"ports": [{"port": 9093}]}
    (open_,) = of_kind("NetworkPolicy", rendered({"networkPolicy": {"enabled": True}}))
    assert open_["spec"]["policyTypes"] == ["Ingress"]


def test_a_node_can_be_drained_while_no_pod_is_ready() -> None:
    budgets = of_kind("PodDisruptionBudget", rendered({}))
    assert [one["spec"]["unhealthyPodEvictionPolicy"] for one in budgets] == ["AlwaysAllow"] * 2


def test_scrapes_log_in_are_relabelled_and_limited() -> None:
    (monitor,) = of_kind("PodMonitor", rendered(FULL))
    assert monitor["spec"]["sampleLimit"] == default_values()["podMonitor"]["sampleLimit"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    for name in ("basicAuth", "tlsConfig", "relabelings", "metricRelabelings"):
        assert endpoint[name] == FULL["podMonitor"][name]


def test_readme_is_made_from_the_schema() -> None:
    assert (CHART / "README.md").read_text() == readme.rendered(), "run: make chart-readme"


def test_every_value_is_described() -> None:
    cells = re.findall(r"^\| (`.+?`) \| ", readme.rendered(), re.MULTILINE)
    described = {name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)}

    def names(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
        for name, value in values.items():
            below = any(found.startswith(f"{prefix}{name}.") for found in described)
            yield from names(value, f"{prefix}{name}.") if below else [f"{prefix}{name}"]

    assert described == set(names(default_values()))


def test_chart_contains_all_dashboards() -> None:
    data: dict[str, str] = {}
    for found in of_kind("ConfigMap", rendered(FULL)):
        data |= found["data"]
    del data["relevanced.toml"]
    (monitor,) = of_kind("PodMonitor", rendered(FULL))
    assert monitor["spec"]["jobLabel"] == "app.kubernetes.io/instance", "one job for a release"
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
    (selector,) = selectors(scaled["spec"]["triggers"][0]["metadata"]["query"])
    assert series_spec(selector.name) is not None
    assert (selector.value("namespace"), selector.value("job")) == ("quality", "search")
    assert scaled["spec"]["fallback"]["replicas"] >= scaled["spec"]["minReplicaCount"]


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
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
