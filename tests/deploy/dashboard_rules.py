"""The rules for dashboards: each function yields the faults of one dashboard, a sentence each."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from tests.deploy.expressions import Selector, aggregated_labels, selectors
from tests.deploy.series_catalog import series_spec

Json: TypeAlias = dict[str, Any]
Rule: TypeAlias = Callable[[Json], Iterator[str]]

DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
ON_TIME_RANGE_CHANGE: Final = 2
INSTALLATION: Final = ("cluster", "namespace", "job")
"""The labels of one installation, each selected by a variable of its own."""
GROWTH: Final = frozenset(("rate", "irate", "increase"))
RANGES: Final = frozenset(("$__rate_interval", "$__range"))
OF_A_DAY: Final = ("last_over_time", "1d")
"""Whether a series was there within a day."""
OF_THE_OBJECTIVE: Final = "relevanced:late"
"""The objective says over which stretches it is summed."""
NOT_OF_OUR_JOBS: Final = frozenset(("ALERTS",))
"""Series that do not come from a job of relevanced."""
COMPARED_WITH_ITSELF: Final = frozenset(("relevanced_gap_records_total",))
"""Counters that appear with what they count first: growth leaves that out, so a panel compares
their values."""
_SERIES_OF_VARIABLE: Final = re.compile(r"label_values\((.*), (\w+)\)\Z", re.DOTALL)


def faults(dashboard: Json) -> list[str]:
    """All faults of a dashboard."""
    return [f"{dashboard['uid']}: {fault}" for rule in RULES for fault in rule(dashboard)]


def panels(dashboard: Json) -> list[Json]:
    """All panels but rows."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def targets(dashboard: Json) -> Iterator[tuple[Json, Json]]:
    """(panel, one of its queries)."""
    for panel in panels(dashboard):
        for target in panel["targets"]:
            yield panel, target


def variables(dashboard: Json) -> dict[str, Json]:
    """Name → variable, in order."""
    return {variable["name"]: variable for variable in dashboard["templating"]["list"]}


def variable_query(variable: Json) -> tuple[str, str]:
    """(selector, label) of a query variable."""
    found = _SERIES_OF_VARIABLE.match(variable["query"])
    assert found, variable["query"]
    return found[1], found[2]


def expressions(dashboard: Json) -> Iterator[tuple[str, str]]:
    """(where, expression) of every query to Prometheus."""
    for panel, target in targets(dashboard):
        yield f"{panel['title']!r} {target['refId']}", target["expr"]
    for annotation in dashboard["annotations"]["list"]:
        yield f"annotation {annotation['name']!r}", annotation["expr"]
    for variable in variables(dashboard).values():
        if variable["type"] == "query":
            yield f"variable {variable['name']!r}", variable_query(variable)[0]


def template_datasource(dashboard: Json) -> Iterator[str]:
    first = dashboard["templating"]["list"][0]
    if (first["name"], first["type"], first["query"]) != (
        "datasource",
        "datasource",
        "prometheus",
    ):
        yield "the first variable must be `datasource`, of type prometheus"


def template_job(dashboard: Json) -> Iterator[str]:
    for name in INSTALLATION:
        variable = variables(dashboard).get(name)
        if variable is None or variable.get("multi") or variable.get("includeAll"):
            yield f"needs a variable `{name}` with one value: two installations must not be mixed"
    if "$instance" in "".join(expression for _, expression in expressions(dashboard)):
        variable = variables(dashboard).get("instance")
        if variable is None or not (variable["multi"] and variable["includeAll"]):
            yield "needs a variable `instance` with several values, all selected initially"


def template_renewed(dashboard: Json) -> Iterator[str]:
    for name, variable in variables(dashboard).items():
        if variable["type"] == "query" and variable["refresh"] != ON_TIME_RANGE_CHANGE:
            yield f"variable {name!r} must be renewed when the time range changes"


def variables_exist(dashboard: Json) -> Iterator[str]:
    for where, expression in expressions(dashboard):
        for name in re.findall(r"\$(\w+)", expression):
            if name not in variables(dashboard) and not name.startswith("__"):
                yield f"{where}: there is no variable ${name}"


def panel_datasource(dashboard: Json) -> Iterator[str]:
    for panel in panels(dashboard):
        if any(part.get("datasource") != DATASOURCE for part in (panel, *panel["targets"])):
            yield f"{panel['title']!r}: the data source must be ${{datasource}}, of every query too"


def panel_described(dashboard: Json) -> Iterator[str]:
    titles = [panel.get("title") for panel in panels(dashboard)]
    for panel in panels(dashboard):
        if not panel.get("title") or not panel.get("description", "").endswith("."):
            yield f"panel {panel.get('title')!r} needs a title, and a description in sentences"
        if titles.count(panel.get("title")) > 1:
            yield f"title {panel['title']!r} occurs more than once"


def panel_units(dashboard: Json) -> Iterator[str]:
    for panel in panels(dashboard):
        if not panel["fieldConfig"]["defaults"].get("unit"):
            yield f"{panel['title']!r} has no unit"


def panel_targets(dashboard: Json) -> Iterator[str]:
    for panel in panels(dashboard):
        ref_ids = [target["refId"] for target in panel.get("targets", ())]
        if not ref_ids or len(set(ref_ids)) < len(ref_ids):
            yield f"{panel['title']!r} needs queries, each with its own ref id"


def uneditable(dashboard: Json) -> Iterator[str]:
    if dashboard["editable"]:
        yield "must not be editable: change deploy/grafana/*.py instead"


def series_exist(dashboard: Json) -> Iterator[str]:
    for where, expression in expressions(dashboard):
        names: set[str] = set()
        for selector in selectors(expression):
            series = series_spec(selector.name)
            if series is None:
                yield f"{where}: no series {selector.name}"
                continue
            names |= series.labels
            for label in sorted(selector.labels - series.labels):
                yield f"{where}: {selector.name} has no label {label}"
        for label in sorted(aggregated_labels(expression) - names):
            yield f"{where}: no series in it has the label {label}"


def selector_rules(dashboard: Json) -> Iterator[str]:
    for where, expression in expressions(dashboard):
        if where.startswith("variable"):
            continue
        for selector in selectors(expression):
            for fault in selector_faults(selector, "instance" in variables(dashboard)):
                if not where.startswith("annotation") or "instance" not in fault:
                    yield f"{where}: {selector.name}: {fault}"


def selector_faults(selector: Selector, by_instance: bool) -> Iterator[str]:
    """The faults of the selector of one series."""
    series = series_spec(selector.name)
    if series is None or selector.name in NOT_OF_OUR_JOBS:
        return
    for label in INSTALLATION:
        if (label, "=", f"${label}") not in selector.matchers:
            yield f'must be selected by {label}="${label}"'
    if by_instance and series.of_process and selector.value("instance") != "$instance":
        yield 'must be selected by instance=~"$instance"'
    is_of_growth = (series.kind == "counter") == (selector.function in GROWTH)
    if not is_of_growth and selector.name not in COMPARED_WITH_ITSELF:
        yield f"a {series.kind} inside {selector.function or 'nothing'}"
    if (selector.function, selector.range) == OF_A_DAY or selector.name == OF_THE_OBJECTIVE:
        return
    if selector.range and selector.range not in RANGES:
        yield f"[{selector.range}]: must be one of {', '.join(sorted(RANGES))}"


RULES: Final[tuple[Rule, ...]] = (
    template_datasource,
    template_job,
    template_renewed,
    variables_exist,
    panel_datasource,
    panel_described,
    panel_units,
    panel_targets,
    uneditable,
    series_exist,
    selector_rules,
)
