"""Functions that build the parts of dashboards: queries, panels and variables."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from grafana_foundation_sdk.builders import (
    common as common_builders,
    dashboard as builders,
    prometheus,
    stat as stat_builders,
    statetimeline,
    table as table_builders,
    timeseries,
)
from grafana_foundation_sdk.models import common, dashboard, prometheus as prometheus_models

from deploy.grafana.states import Texts

TAG: Final = "relevanced"
SOURCE: Final = common.DataSourceRef(type_val="prometheus", uid="${datasource}")
REF_IDS: Final = "ABCDEFGHIJ"

Queries: TypeAlias = Mapping[str, str]
"""Legend → expression."""
Steps: TypeAlias = Sequence[tuple[float | None, str]]
"""(threshold from which the colour applies, colour); the first threshold is None."""

PLAIN: Final[Steps] = ((None, "text"),)
GOOD_AT_ZERO: Final[Steps] = ((None, "green"), (1, "red"))


def target(expression: str, legend: str = "", ref_id: str = "A") -> prometheus.Dataquery:
    """A query over the time range of the dashboard."""
    query = prometheus.Dataquery().datasource(SOURCE).expr(expression).ref_id(ref_id).range()
    return query.legend_format(legend)


def latest(expression: str, ref_id: str = "A") -> prometheus.Dataquery:
    """An instant query: the newest values only."""
    return prometheus.Dataquery().datasource(SOURCE).expr(expression).ref_id(ref_id).instant()


def targets(queries: Queries) -> list[prometheus.Dataquery]:
    """Range queries, each with its own ref id."""
    return [
        target(expression, legend, ref_id)
        for ref_id, (legend, expression) in zip(REF_IDS, queries.items(), strict=False)
    ]


def mapped(texts: Texts) -> list[dashboard.ValueMapping]:
    """Mappings of values to texts."""
    options = {
        f"{value:g}": dashboard.ValueMappingResult(text=text, color=colour, index=index)
        for index, (value, (text, colour)) in enumerate(texts.items())
    }
    return [dashboard.ValueMap(options=options)] if options else []


def coloured(steps: Steps) -> builders.ThresholdsConfig:
    """Thresholds that colour values."""
    config = builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE)
    return config.steps([dashboard.Threshold(value=start, color=name) for start, name in steps])


def properties(**values: object) -> list[dashboard.DynamicConfigValue]:
    """The properties that an override sets; `custom_x` becomes `custom.x`."""
    return [
        dashboard.DynamicConfigValue(id_val=name.replace("custom_", "custom."), value=value)
        for name, value in values.items()
    ]


def lines(title: str, description: str, unit: str, queries: Queries) -> timeseries.Panel:
    """A panel of curves over time. Undefined values leave a gap: no line is drawn across it."""
    legend = common_builders.VizLegendOptions().show_legend(True)
    tooltip = common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI)
    panel = timeseries.Panel().title(title).description(description).unit(unit)
    panel = panel.datasource(SOURCE).targets(list(targets(queries))).span(12).height(8)
    panel = panel.span_nulls(False).show_points(common.VisibilityMode.AUTO).line_width(2)
    return panel.legend(legend.display_mode(common.LegendDisplayMode.LIST)).tooltip(
        tooltip.sort(common.SortOrder.DESCENDING)
    )


def counts(title: str, description: str, unit: str, queries: Queries) -> timeseries.Panel:
    """A panel of curves of values that cannot be below 0."""
    return lines(title, description, unit, queries).min(0).fill_opacity(10)


def with_band(panel: timeseries.Panel, lower: str, upper: str, colour: str) -> timeseries.Panel:
    """Fill the area between two curves of the panel, named by their legends."""
    plain = {"custom_lineWidth": 0, "color": {"mode": "fixed", "fixedColor": colour}}
    quiet = {"custom_hideFrom": {"legend": True, "tooltip": False, "viz": False}}
    panel = panel.override_by_name(lower, properties(**plain, **quiet))
    filled = {"custom_fillBelowTo": lower, "custom_fillOpacity": 20}
    return panel.override_by_name(upper, properties(**plain, **quiet, **filled))


def in_colour(panel: timeseries.Panel, legend: str, colour: str) -> timeseries.Panel:
    """Give one curve of the panel a fixed colour."""
    fixed = {"mode": "fixed", "fixedColor": colour}
    return panel.override_by_name(legend, properties(color=fixed))


def threshold(panel: timeseries.Panel, legend: str) -> timeseries.Panel:
    """Draw one curve of the panel as a threshold: dashed and red."""
    style = {"custom_lineStyle": {"fill": "dash", "dash": [10, 10]}, "custom_fillOpacity": 0}
    fixed = {"mode": "fixed", "fixedColor": "red"}
    return panel.override_by_name(legend, properties(color=fixed, custom_lineWidth=1, **style))


def number(
    title: str,
    description: str,
    unit: str,
    expression: str,
    *,
    steps: Steps = PLAIN,
    texts: Texts | None = None,
) -> stat_builders.Panel:
    """A panel that shows the newest value large, and as text where it encodes a state."""
    panel = stat_builders.Panel().title(title).description(description).unit(unit)
    panel = panel.datasource(SOURCE).targets([latest(expression)]).span(4).height(4)
    panel = panel.no_value("no data").mappings(mapped(texts or {})).thresholds(coloured(steps))
    last_value = common_builders.ReduceDataOptions().calcs(["lastNotNull"])
    return panel.graph_mode(common.BigValueGraphMode.NONE).reduce_options(last_value)


def states(title: str, description: str, queries: Queries, texts: Texts) -> statetimeline.Panel:
    """A panel of states over time."""
    panel = statetimeline.Panel().title(title).description(description).unit("none")
    panel = panel.datasource(SOURCE).targets(list(targets(queries))).span(24).height(4)
    panel = panel.mappings(mapped(texts)).thresholds(coloured(((None, "green"),)))
    return panel.merge_values(True).show_value(common.VisibilityMode.AUTO).no_value("no data")


def rows(
    title: str,
    description: str,
    columns: Mapping[str, tuple[str, str]],
    named: Mapping[str, str],
    sort_by: str,
) -> table_builders.Panel:
    """A table. `columns`: heading → (unit, expression); `named`: label → heading of its column."""
    headings = dict(zip(REF_IDS, columns, strict=False))
    panel = table_builders.Panel().title(title).description(description).unit("none")
    as_table = prometheus_models.PromQueryFormat.TABLE
    queries = [
        latest(columns[name][1], ref_id).format(as_table) for ref_id, name in headings.items()
    ]
    panel = panel.datasource(SOURCE).targets(list(queries)).span(24).height(9)
    is_single = len(columns) == 1  # then Grafana names the column without the ref id
    values = {
        "Value" if is_single else f"Value #{letter}": name for letter, name in headings.items()
    }
    renamed = {**values, **named}
    arranged = {"excludeByName": {"Time": True}, "renameByName": renamed}
    panel = panel.with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
    panel = panel.with_transformation(
        dashboard.DataTransformerConfig(id_val="organize", options=arranged)
    )
    for name, (unit, _) in columns.items():
        panel = panel.override_by_name(name, properties(unit=unit))
    return panel.sort_by(
        [common_builders.TableSortByFieldState().display_name(sort_by).desc(False)]
    )


def variable(name: str, label: str, query: str, *, hint: str) -> builders.QueryVariable:
    """A variable with values from Prometheus, refreshed when the time range changes."""
    built = builders.QueryVariable(name).label(label).description(hint).datasource(SOURCE)
    built = built.query(query).definition(query).sort(dashboard.VariableSort.NATURAL_ASC)
    # A link may pass a value that only another dashboard has: Grafana then selects a valid one.
    built = built.allow_custom_value(False)
    return built.refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)


def preset(variable_: builders.QueryVariable, value: str) -> builders.QueryVariable:
    """Set the value that is selected initially."""
    return variable_.current(dashboard.VariableOption(text=value, value=value))


def several(variable_: builders.QueryVariable, all_value: str) -> builders.QueryVariable:
    """Allow several values; all are selected initially."""
    everything = dashboard.VariableOption(text="All", value="$__all")
    return variable_.multi(True).include_all(True).all_value(all_value).current(everything)
