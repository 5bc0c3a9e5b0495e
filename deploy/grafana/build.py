"""The dashboards as the text of the JSON files that Grafana provisions."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from deploy.grafana.experiment import experiment
from deploy.grafana.overview import overview
from deploy.grafana.pipeline import pipeline
from deploy.grafana.segment import segment

FOLDER: Final = Path(__file__).parent / "dashboards"
DASHBOARDS: Final[Mapping[str, Callable[[], builders.Dashboard]]] = {
    "overview": overview,
    "segment": segment,
    "experiment": experiment,
    "pipeline": pipeline,
}
"""File name without suffix → function that builds the dashboard."""


def rendered() -> dict[str, str]:
    """File name → JSON text of every dashboard."""
    return {f"{name}.json": _text(build()) for name, build in DASHBOARDS.items()}


def _text(builder: builders.Dashboard) -> str:
    dashboard = json.loads(json.dumps(builder.build(), cls=JSONEncoder))
    for link in dashboard["links"]:
        del link["placement"]  # the builder's default would hide the links in a menu
    for number, panel in enumerate(dashboard["panels"], start=1):
        panel["id"] = number  # without ids Grafana assigns new ones at every start, and links break
    return json.dumps(dashboard, indent=1, sort_keys=True) + "\n"
