"""Experiment: do the variants differ, by how much, and can the comparison be trusted?"""

from math import log
from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders, stat, table, timeseries

from deploy.grafana import frame
from deploy.grafana.frame import framed
from deploy.grafana.parts import (
    GOOD_AT_ZERO,
    counts,
    in_colour,
    lines,
    number,
    rows,
    variable,
    with_band,
)
from deploy.grafana.promql import METRIC, OURS, THE_EXPERIMENT, top

THE_VARIANT: Final = 'variant="$variant"'
LOG_EVALUE: Final = round(log(20), 1)
"""Natural logarithm of the e-value that corresponds to an error rate of 1 in 20."""
MISMATCH_LOG_EVALUE: Final = round(log(1000), 1)


def experiment() -> builders.Dashboard:
    """The dashboard."""
    built = framed(
        "relevanced-experiment",
        "relevanced: experiment",
        "Do the variants differ, by how much, and can the comparison be trusted?",
        "now-7d",
    )
    for name, query, hint in (
        ("experiment", _values("experiment", "experiment_info", ""), "A running experiment."),
        (
            "variant",
            _values("variant", "experiment_difference", f",{THE_EXPERIMENT}"),
            "A variant, compared with the control.",
        ),
    ):
        built = built.with_variable(variable(name, name.capitalize(), query, hint=hint))
    built = built.with_variable(frame.metric("relevanced_experiment_difference"))
    for panel in (*_trust(), *_reach(), _difference(), _scores(), _evidence(), _exposure()):
        built = built.with_panel(panel)
    return built.with_panel(_by_metric()).with_panel(_side_by_side())


def _values(label: str, series: str, matchers: str) -> str:
    return f"label_values(relevanced_{series}{{{OURS}{matchers}}}, {label})"


def _trust() -> list[stat.Panel]:
    by = "experiment"
    return [
        number(
            "Shares of users",
            "Evidence (natural logarithm of the e-value) that users are not split as planned. From"
            f" {MISMATCH_LOG_EVALUE} on, do not trust the comparison: find out which users are"
            " missing.",
            "none",
            top(by, "experiment_srm_log_evalue", THE_EXPERIMENT),
            steps=((None, "green"), (MISMATCH_LOG_EVALUE, "red")),
        ),
        number(
            "Users in two variants",
            "Users seen in more than one variant. They are left out. Many of them mean that the"
            " assignment of users to variants is not stable.",
            "short",
            top(by, "experiment_crossover_users", THE_EXPERIMENT),
        ),
        number(
            "Control",
            "Without traffic in the control there is no comparison.",
            "none",
            top(by, "experiment_without_control", THE_EXPERIMENT),
            steps=GOOD_AT_ZERO,
            texts={0: ("present", "green"), 1: ("missing", "red")},
        ),
    ]


def _reach() -> list[stat.Panel]:
    by = "experiment"
    impressions = (
        f"sum by ({by}) ({top('experiment, variant', 'experiment_impressions', THE_EXPERIMENT)})"
    )
    planned = top(by, "experiment_planned_impressions", THE_EXPERIMENT)
    treated = (THE_EXPERIMENT, THE_VARIANT, METRIC)
    return [
        number(
            "Progress",
            "Impressions of all variants, as a share of the planned ones.",
            "percentunit",
            f"{impressions} / {planned}",
        ),
        number(
            "Smallest detectable effect",
            "The smallest difference that the data so far would probably have shown.",
            "none",
            top(by, "experiment_minimum_detectable_effect", *treated),
        ),
        number(
            "Design effect",
            "Variance as a multiple of the variance for independent impressions.",
            "none",
            top(by, "experiment_design_effect", *treated),
        ),
    ]


def _difference() -> timeseries.Panel:
    treated = (THE_EXPERIMENT, THE_VARIANT, METRIC)
    panel = lines(
        "Difference from the control",
        "With a confidence interval that stays valid however often you check it. Once it excludes"
        " 0, the difference is established.",
        "none",
        {
            "difference": top("variant", "experiment_difference", *treated),
            "upper": top("variant", "experiment_upper", *treated),
            "lower": top("variant", "experiment_lower", *treated),
        },
    )
    return with_band(in_colour(panel, "difference", "blue"), "lower", "upper", "blue")


def _scores() -> timeseries.Panel:
    return lines(
        "Score of each variant",
        "Mean of each variant since the start of the experiment, including the control.",
        "none",
        {"{{variant}}": top("variant", "experiment_score", THE_EXPERIMENT, METRIC)},
    )


def _evidence() -> timeseries.Panel:
    by, here = "variant", (THE_EXPERIMENT, METRIC)
    return lines(
        "Evidence",
        "Natural logarithm of the e-value: evidence that there is a difference, and that the"
        f" variant is worse. A value of {LOG_EVALUE} corresponds to an error rate of 1 in 20.",
        "none",
        {
            "{{variant}} differs": top(by, "experiment_log_evalue", *here),
            "{{variant}} is worse": top(by, "experiment_guardrail_log_evalue", *here),
        },
    )


def _exposure() -> timeseries.Panel:
    return counts(
        "Exposure",
        "Impressions and users of each variant since the start of the experiment.",
        "short",
        {
            "{{variant}}, impressions": top("variant", "experiment_impressions", THE_EXPERIMENT),
            "{{variant}}, users": top("variant", "experiment_users", THE_EXPERIMENT),
        },
    )


def _by_metric() -> table.Panel:
    def of(name: str) -> str:
        return top("variant, metric", f"experiment_{name}", THE_EXPERIMENT)

    return rows(
        "Differences by metric",
        "Differences from the control, with confidence intervals that stay valid however often you"
        " check them. Discovery is 1 for the discoveries among all variants and metrics, with"
        " a false discovery rate of at most 5 %.",
        {
            "Difference": ("none", of("difference")),
            "Relative": ("percentunit", of("relative_difference")),
            "From": ("percentunit", of("relative_lower")),
            "To": ("percentunit", of("relative_upper")),
            "p": ("none", of("p_value")),
            "Evidence": ("none", of("log_evalue")),
            "Discovery": ("none", of("discovery")),
        },
        {"variant": "Variant", "metric": "Metric"},
        "p",
    )


def _side_by_side() -> table.Panel:
    score = top("variant, metric", "experiment_score", THE_EXPERIMENT)
    role = top("metric, role", "experiment_metric_info", THE_EXPERIMENT)
    return rows(
        "Variants side by side",
        "Means since the start of the experiment, and the role of each metric.",
        {"Score": ("none", f"{score} * on (metric) group_left (role) {role}")},
        {"variant": "Variant", "metric": "Metric", "role": "Role"},
        "Metric",
    )
