"""The rendered chart: the objects that `helm template` would print."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.deploy.go_templates import Chart

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
CHART: Final = DEPLOY / "kubernetes/relevanced"
RELEASE: Final = {"Name": "search", "Namespace": "quality", "Service": "Helm"}


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
