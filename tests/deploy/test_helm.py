"""What Helm itself makes of the chart: objects that Kubernetes' API accepts, and the package."""

import base64
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import release
from tests.deploy import api_schemas
from tests.deploy.chart import BAD_VALUES, CASES, CHART, DEPLOY, RELEASE, rendered
from tests.deploy.go_tools import HELM

OLDEST = yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"][2:].rpartition(".")[0]
CUSTOM = {"PodMonitor", "PrometheusRule", "ScaledObject"}
"""Kinds of others, which kubernetes.schema.json describes."""
URL = "https://git.example.com/someone/relevanced"


def helm(*arguments: str | Path, folder: Path) -> str:
    """What Helm prints; `folder` has its settings."""
    homes = {f"HELM_{name}_HOME": str(folder / name) for name in ("CACHE", "CONFIG", "DATA")}
    return HELM.run(*arguments, variables=homes)


def templated(chart: Path, values: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """The objects that `helm template` prints."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    about = ["--namespace", RELEASE["Namespace"], "--kube-version", api_schemas.NEWEST]
    text = helm("template", RELEASE["Name"], chart, "--values", file, *about, folder=folder)
    return sorted((one for one in yaml.safe_load_all(text) if one), key=named)


def named(found: dict[str, Any]) -> tuple[str, str]:
    return found["kind"], found["metadata"]["name"]


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_helm_renders_what_the_substitute_renders(values: dict[str, Any], tmp_path: Path) -> None:
    """So that the tests of the chart that do without Helm hold for it."""
    assert templated(CHART, values, tmp_path) == sorted(rendered(values), key=named)


@pytest.mark.parametrize("version", [OLDEST, api_schemas.NEWEST])
@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_the_api_accepts_what_is_rendered(values: dict[str, Any], version: str) -> None:
    found = {named(one): api_schemas.faults(one, version) for one in api_objects(values)}
    assert not {name: faults for name, faults in found.items() if faults}


def test_the_api_refuses_a_misspelt_field_and_a_wrong_type() -> None:
    (service,) = (one for one in api_objects({}) if one["kind"] == "Service")
    service["spec"]["port"] = service["spec"].pop("ports")
    service["spec"]["type"] = 3
    faults = api_schemas.faults(service, OLDEST)
    assert {fault.partition(":")[0] for fault in faults} == {"$.spec", "$.spec.type"}


def api_objects(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in rendered(values) if one["kind"] not in CUSTOM]


@pytest.mark.parametrize("values", BAD_VALUES.values(), ids=BAD_VALUES)
def test_helm_refuses_values_that_the_schema_refuses(
    values: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(subprocess.CalledProcessError) as raised:
        templated(CHART, values, tmp_path)
    assert "values don't meet the specifications of the schema" in raised.value.stderr


def test_package_is_whole_without_the_checkout(tmp_path: Path) -> None:
    """Rules and dashboards are files in it, no links, and nothing of the checkout is missing."""
    assert "1 chart(s) linted, 0 chart(s) failed" in helm(
        "lint", "--strict", CHART, folder=tmp_path
    )
    helm("package", CHART, "--destination", tmp_path, folder=tmp_path)
    (package,) = tmp_path.glob("relevanced-*.tgz")
    assert package.name == f"relevanced-{release.version()}.tgz"
    with tarfile.open(package) as archive:
        members = archive.getmembers()
    assert all(member.isfile() for member in members)
    files = [path for path in CHART.rglob("*") if path.is_file()]
    linked = [path for folder in ("rules", "dashboards") for path in (CHART / folder).iterdir()]
    assert {member.name for member in members} == {
        f"relevanced/{path.relative_to(CHART)}" for path in (*files, *linked)
    }
    values = CASES["everything"]
    assert templated(package, values, tmp_path) == templated(CHART, values, tmp_path)


def test_a_release_says_where_its_chart_comes_from() -> None:
    about = yaml.safe_load(release.chart(URL))
    assert (about["home"], about["sources"]) == (URL, [URL])
    assert about["maintainers"] == [{"name": "someone", "url": URL.rpartition("/")[0]}]
    assert about["version"] == release.version() and about["keywords"]
    kind, _, text = about["icon"].partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(text) == (DEPLOY.parent / "daemon/http/page/icon.svg").read_bytes()
