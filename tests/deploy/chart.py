"""The rendered chart: the objects that `helm template` would print."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.deploy.go_templates import Chart

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
CHART: Final = DEPLOY / "kubernetes/relevanced"
RELEASE: Final = {"Name": "search", "Namespace": "quality", "Service": "Helm"}

FULL: Final[dict[str, Any]] = {
    "fullnameOverride": "quality-search",
    "commonLabels": {"owner": "search"},
    "podLabels": {"mesh": "none"},
    "image": {
        "registry": "registry.example.com:5000",
        "repository": "team/relevanced",
        "digest": f"sha256:{'0' * 64}",
    },
    "service": {"type": "NodePort", "annotations": {"team": "search"}},
    "ingress": {"enabled": True, "className": "nginx", "host": "a.example.com", "tlsSecret": "t"},
    "podMonitor": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "basicAuth": {
            "username": {"name": "scraper", "key": "user"},
            "password": {"name": "scraper", "key": "password"},
        },
        "tlsConfig": {"ca": {"secret": {"name": "ca", "key": "ca.crt"}}, "serverName": "search"},
        "relabelings": [{"targetLabel": "cluster", "replacement": "east"}],
        "metricRelabelings": [{"sourceLabels": ["view"], "regex": "live", "action": "drop"}],
    },
    "prometheusRule": {
        "enabled": True,
        "alertLabels": {"team": "search"},
        "runbookUrl": "https://example.com/runbook",
        "disabled": ["RelevancedSegmentSilent"],
    },
    "dashboards": {"enabled": True},
    "keda": {"enabled": True},
    "networkPolicy": {
        "enabled": True,
        "from": [{"namespaceSelector": {}}],
        "egress": [{"ports": [{"port": 9093}]}],
    },
    "secretFiles": [
        {"variable": "RELEVANCED_REDIS__PASSWORD_FILE", "secret": "redis", "key": "password"},
        {"variable": "RELEVANCED_KAFKA__SASL_PASSWORD_FILE", "secret": "kafka", "key": "password"},
    ],
    "secretVariables": [
        {"variable": "RELEVANCED_REDIS__URL", "secret": "redis", "key": "url"},
        {"variable": "RELEVANCED_REGISTRY__PASSWORD", "secret": "registry", "key": "password"},
    ],
    "worker": {
        "nodeSelector": {"disk": "fast"},
        "podAnnotations": {"team": "search"},
        "priorityClassName": "high",
    },
}
"""Values with every option turned on."""
CASES: Final[dict[str, dict[str, Any]]] = {
    "defaults": {},
    "everything": FULL,
    "guide": yaml.safe_load(
        (DEPLOY / "guide/install.md").read_text().partition("```yaml\n")[2].partition("```")[0]
    ),
    "own config": {"existingConfigMap": "mine", "serviceAccount": {"create": False}},
    "least": {"podDisruptionBudget": {"enabled": False}, "upgradeCheck": {"enabled": False}},
}
"""The files of values that are tried: what changes in those of the chart."""
BAD_VALUES: Final[dict[str, dict[str, Any]]] = {
    "unknown": {"workers": {"replicas": 2}},
    "variable": {"secretFiles": [{"variable": "PASSWORD", "secret": "a", "key": "b"}]},
    "port": {"http": {"port": 0}},
    "replicas": {"worker": {"replicas": "two"}},
    "setting": {"prometheusRule": {"settings": {"lag_records": "many"}}},
    "digest": {"image": {"digest": "latest"}},
}
"""Files of values that are refused."""


def merged(values: Any, changes: Any) -> Any:
    """Values with changes applied as Helm does: maps are merged, anything else is replaced."""
    if not (isinstance(values, Mapping) and isinstance(changes, Mapping)):
        return changes
    return {**values, **{key: merged(values.get(key), changes[key]) for key in changes}}


def default_values() -> dict[str, Any]:
    """The values of the chart itself."""
    return dict(yaml.safe_load((CHART / "values.yaml").read_text()))


def rendered(changes: Mapping[str, Any], release: str = "search") -> list[dict[str, Any]]:
    """All objects of the chart, rendered with these changes to its values."""
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    templates = {path.name: path.read_text() for path in (CHART / "templates").iterdir()}
    files = {
        f"{folder}/{path.name}": path.read_text()
        for folder in ("rules", "dashboards")
        for path in sorted((CHART / folder).glob("*"))
    }
    root = {
        "Values": merged(default_values(), changes),
        "Release": {**RELEASE, "Name": release},
        "Chart": {name[0].upper() + name[1:]: value for name, value in about.items()},
    }
    texts = Chart(templates, files).render(root)
    return [
        found
        for name, text in texts.items()
        if name.endswith(".yaml")
        for found in yaml.safe_load_all(text)
        if found is not None
    ]


def of_kind(kind: str, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The objects of one kind."""
    return [found for found in objects if found["kind"] == kind]
