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
    built = built.with_panel(_by_metric()).with_panel(_side_by_side()).with_panel(_over_defined())
    for panel in (_common_mix(), _preference(), _interleaved()):
        built = built.with_panel(panel)
    return built.with_panel(_by_segment())


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
        "Differences from the control over all impressions; an impression for which the metric is"
        " undefined counts as its worst value (scored: those with a value). Confidence intervals"
        " stay valid however often you check them; a relative one is absent where the control is"
        " too near 0. Discovery is 1 for the discoveries among all variants and metrics, with"
        " a false discovery rate of at most 5 %.",
        {
            "Difference": ("none", of("difference")),
            "Scored": ("short", of("scored_impressions")),
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


def _over_defined() -> table.Panel:
    def of(name: str) -> str:
        return top("variant, metric", f"experiment_defined_{name}", THE_EXPERIMENT)

    return rows(
        "Defined lists alone",
        "Means over the lists for which the metric is defined, and their difference from the"
        " control. Which lists are defined is itself a result of the treatment, so this is no"
        " verdict. Shares differ is 1 where the shares of defined lists are known to differ.",
        {
            "Score": ("none", of("score")),
            "Difference": ("none", of("difference")),
            "From": ("none", of("lower")),
            "To": ("none", of("upper")),
            "Shares differ": ("none", of("shares_differ")),
        },
        {"variant": "Variant", "metric": "Metric"},
        "Metric",
    )


def _common_mix() -> timeseries.Panel:
    treated = (THE_EXPERIMENT, THE_VARIANT, METRIC)
    panel = lines(
        "Difference under a common mix of segments",
        "The difference if all variants had the same mix of the segments of stratify_by, and the"
        " share of the impressions that are in segments with enough users in both variants. Empty"
        " without stratify_by.",
        "none",
        {
            "difference": top("variant", "experiment_stratified_difference", *treated),
            "upper": top("variant", "experiment_stratified_upper", *treated),
            "lower": top("variant", "experiment_stratified_lower", *treated),
            "covered": top("variant", "experiment_stratified_ratio", *treated),
        },
    )
    return with_band(in_colour(panel, "difference", "blue"), "lower", "upper", "blue")


def _preference() -> timeseries.Panel:
    by = "experiment"
    panel = lines(
        "Preference in interleaved lists",
        "Share of interleaved lists that the ranker wins which is not the control's, ties counted"
        " half, less a half. Once the interval excludes 0, the preference is established. Empty"
        " without interleaved lists.",
        "none",
        {
            "preference": top(by, "experiment_interleaving_preference", THE_EXPERIMENT),
            "upper": top(by, "experiment_interleaving_upper", THE_EXPERIMENT),
            "lower": top(by, "experiment_interleaving_lower", THE_EXPERIMENT),
        },
    )
    return with_band(in_colour(panel, "preference", "blue"), "lower", "upper", "blue")


def _interleaved() -> timeseries.Panel:
    return counts(
        "Interleaved lists",
        "Settled lists that two rankers shared, by what came of them: a win is one where the items"
        " of the ranker that is not the control's gathered more gain.",
        "short",
        {"{{outcome}}": top("outcome", "experiment_interleaving_impressions", THE_EXPERIMENT)},
    )


def _by_segment() -> table.Panel:
    def of(name: str) -> str:
        by = "variant, metric, segment"
        return top(by, f"experiment_segment_{name}", THE_EXPERIMENT, METRIC)

    return rows(
        "Differences by segment",
        "Differences from the control within each segment of stratify_by. Discovery is 1 for those"
        " that hold up among all segments, variants and metrics.",
        {
            "Difference": ("none", of("difference")),
            "From": ("none", of("lower")),
            "To": ("none", of("upper")),
            "Discovery": ("none", of("discovery")),
        },
        {"variant": "Variant", "metric": "Metric", "segment": "Segment"},
        "Segment",
    )
