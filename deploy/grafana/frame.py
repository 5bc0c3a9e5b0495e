"""The parts that all dashboards share: identity, variables, annotations and links."""

from collections.abc import Iterable
from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard

from deploy.grafana.parts import SOURCE, TAG, preset, variable
from deploy.grafana.promql import IN_GROUPING, OURS, RELEASES

ALERTS: Final = (
    'ALERTS{alertname=~"Relevanced.+",alertname!="RelevancedWatchdog",alertstate="firing",'
    'cluster=~"$cluster|",namespace=~"$namespace|",job=~"$job|"}'
)
"""Of the selected installation, or of none, as RelevancedSettingsMissing; without the watchdog,
which always fires."""
NEW_BUILD: Final = (
    f"max by (version) (relevanced_build_info{{{OURS}}})"
    f" unless max by (version) (relevanced_build_info{{{OURS}}} offset 5m)"
)
_RELEASED: Final = f'relevanced_impressions{{{OURS},view="live",grouping=~"$releases"}}'
RELEASE: Final = (
    f"max by (grouping, segment) ({_RELEASED}) > 0 unless"
    f" max by (grouping, segment) (last_over_time({_RELEASED.replace('}', '}[1d]')} offset 5m))"
)
"""Segments that were not there on the day before: for five minutes from their first impressions
on."""
ONSET: Final = (
    "1000 * max by (metric, grouping, segment, against)"
    f' (relevanced_change_onset_timestamp_seconds{{{OURS},bound="likely"}})'
)
"""The likeliest instant at which a score that is low now became low, in milliseconds: the value is
the time of the mark."""
MARKED: Final = (
    f"1000 * max by (kind, text, metric, scope) (relevanced_marker_timestamp_seconds{{{OURS}}})"
)
"""What people marked through the API, in milliseconds: the value is the time of the mark."""
ADDRESSES: Final = (("runbook", "Runbook"), ("page", "Page of relevanced"))
"""(label of relevanced_links_info, title) of the links that [links] of the configuration gives."""
INSTALLATION: Final = (
    ("cluster", "Cluster", "", "Cluster, where one data source has several; else empty."),
    (
        "namespace",
        "Namespace",
        '{cluster="$cluster"}',
        "Kubernetes namespace, if relevanced runs in Kubernetes; else empty.",
    ),
    (
        "job",
        "Job",
        '{cluster="$cluster",namespace="$namespace"}',
        "Prometheus job that scrapes the exporters and the workers of one installation.",
    ),
)
"""(name, label, series to choose from, hint) of the variables that select one installation: one
value each, so that no panel mixes two."""
REFRESH: Final = "30s"
SEGMENT_URL: Final = (
    "/d/relevanced-segment?${datasource:queryparam}"
    "&${cluster:queryparam}&${namespace:queryparam}&${job:queryparam}"
    "&${grouping:queryparam}&${metric:queryparam}&${__url_time_range}"
)


def framed(uid: str, title: str, question: str, since: str) -> builders.Dashboard:
    """A dashboard without panels; `question` is the question that it answers."""
    built = builders.Dashboard(title).uid(uid).description(question).tags([TAG]).readonly()
    built = built.time(since, "now").refresh(REFRESH).timezone("browser")
    built = built.tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
    built = built.with_variable(
        builders.DatasourceVariable("datasource").label("Data source").type("prometheus")
    )
    for name, label, within, hint in INSTALLATION:
        query = f"label_values(relevanced_build_info{within}, {name})"
        built = built.with_variable(variable(name, label, query, hint=hint))
    releases = builders.TextBoxVariable("releases").label("Releases").default_value(RELEASES)
    built = built.with_variable(
        releases.description(
            "Regular expression of the groupings whose new segments are marked as releases."
        )
    )
    for name, colour, title_format, query in (
        ("Alerts", "red", "{{alertname}}", ALERTS),
        ("Search release", "purple", "{{grouping}}: {{segment}}", RELEASE),
        ("New build", "blue", "relevanced {{version}}", NEW_BUILD),
    ):
        built = built.annotation(_annotation(name, colour, title_format, query))
    onset = _annotation("Change began", "orange", "{{metric}} fell, against {{against}}", ONSET)
    marked = _annotation("Marked", "green", "{{kind}}: {{text}}", MARKED)
    marked = marked.text_format("{{scope}} {{metric}}")
    for at_value in (onset, marked):
        built = built.annotation(at_value.use_value_for_time(True))
    for name, title in ADDRESSES:
        query = f"label_values(relevanced_links_info{{{OURS}}}, {name})"
        address = variable(name, title, query, hint=f"Address of the {title.lower()}, if set.")
        built = built.with_variable(address.hide(dashboard.VariableHide.HIDE_VARIABLE))
        link = builders.DashboardLink(title).type(dashboard.DashboardLinkType.LINK)
        built = built.link(link.url(f"${{{name}}}").target_blank(True))
    link = builders.DashboardLink("Other levels").type(dashboard.DashboardLinkType.DASHBOARDS)
    return built.link(link.tags([TAG]).keep_time(True).include_vars(True))


def rowed(
    built: builders.Dashboard, title: str, panels: Iterable[Builder[dashboard.Panel]]
) -> builders.Dashboard:
    """The dashboard with a row of panels under a title."""
    built = built.with_row(builders.Row(title))
    for panel in panels:
        built = built.with_panel(panel)
    return built


def _annotation(name: str, colour: str, title: str, query: str) -> builders.AnnotationQuery:
    built = builders.AnnotationQuery().name(name).datasource(SOURCE).enable(True)
    built = built.icon_color(colour).title_format(title).expr(query)
    return built.text_format("{{grouping}} {{segment}} {{metric}}").step("30s")


def grouping(series: str) -> builders.QueryVariable:
    """The variable that selects a grouping."""
    return variable(
        "grouping",
        "Grouping",
        f"label_values({series}{{{OURS}}}, grouping)",
        hint="The attributes that define the segments; all is the whole traffic.",
    )


def segment(series: str) -> builders.QueryVariable:
    """The variable that selects a segment of the grouping."""
    return variable(
        "segment",
        "Segment",
        f"label_values({series}{{{OURS},{IN_GROUPING}}}, segment)",
        hint="One value of the grouping.",
    )


def metric(series: str) -> builders.QueryVariable:
    """The variable that selects a metric."""
    built = variable(
        "metric",
        "Metric",
        f"label_values({series}{{{OURS}}}, metric)",
        hint="The search-quality metric. MRR is the mean of RR.",
    )
    return preset(built, "RR@10")


def window(series: str) -> builders.QueryVariable:
    """The variable that selects the length of the window."""
    built = variable(
        "window",
        "Window",
        f"label_values({series}{{{OURS}}}, window)",
        hint="Length of the sliding window of event time.",
    )
    return preset(built, "1h")
