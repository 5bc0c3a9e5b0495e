"""What Grafana shows of a dashboard: its variables at their initial values, and its tiles in their
colours."""

import re
from collections.abc import Mapping
from typing import Final

from tests.deploy.dashboard_rules import Json, variable_query, variables
from tests.deploy.scraped import Prometheus

EMPTY: Final = ("cluster", "namespace", "runbook", "page")
"""Variables without a value here: Grafana then fills in an empty text."""
SPANS: Final = {"__rate_interval": "10s", "__range": "60s", "__interval": "2s"}


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with its variables replaced, as Grafana does."""
    return re.sub(r"\$(\w+)", lambda found: values[found[1]], text)


def choices(server: Prometheus, dashboard: Json) -> dict[str, str]:
    """The initial value of each variable: its preset, or its first value."""
    selected: dict[str, str] = dict(SPANS)
    for name, variable in variables(dashboard).items():
        if variable["type"] == "textbox":
            selected[name] = variable["query"]
        if variable["type"] != "query":
            continue
        selector, label = variable_query(variable)
        found = server.values(fill(selector, selected), label)
        preset = variable.get("current", {}).get("value")
        if preset == "$__all":
            selected[name] = variable["allValue"]
            continue
        assert found or name in EMPTY, f"variable {name}: has no values"
        assert preset in (None, *found), f"variable {name}: {preset} is not in {found}"
        selected[name] = preset or (found[0] if found else "")
    return selected


def colour(tile: Json, value: float) -> str:
    """The colour in which a tile shows this value."""
    defaults = tile["fieldConfig"]["defaults"]
    for mapping in defaults.get("mappings", ()):
        if (text := mapping["options"].get(f"{value:g}")) is not None:
            return str(text["color"])
    steps = defaults["thresholds"]["steps"]
    reached = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
    return str(reached[-1])
