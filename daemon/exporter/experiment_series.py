"""Findings as samples of the series of `families`. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from ..experiments.types import Finding, Findings, Interleaving
from .labels import escape

Sample: TypeAlias = tuple[str, str, float]
"""(family, labels, value)"""

OF_METRIC: Final = {
    "relevanced_experiment_difference": "difference",
    "relevanced_experiment_lower": "lower",
    "relevanced_experiment_upper": "upper",
    "relevanced_experiment_relative_difference": "relative_difference",
    "relevanced_experiment_relative_lower": "relative_lower",
    "relevanced_experiment_relative_upper": "relative_upper",
    "relevanced_experiment_log_evalue": "log_evalue",
    "relevanced_experiment_p_value": "p_value",
    "relevanced_experiment_guardrail_log_evalue": "guardrail_log_evalue",
    "relevanced_experiment_minimum_detectable_effect": "minimum_detectable_effect",
    "relevanced_experiment_design_effect": "design_effect",
    "relevanced_experiment_score": "mean",
    "relevanced_experiment_discovery": "discovery",
}
"""Family → field of a metric's finding."""


OF_STRATIFIED: Final = {
    "relevanced_experiment_stratified_difference": "difference",
    "relevanced_experiment_stratified_lower": "lower",
    "relevanced_experiment_stratified_upper": "upper",
    "relevanced_experiment_stratified_share": "covered",
}
"""Family → field of what is told as if both arms had the same mix of segments."""
OF_SEGMENT: Final = {
    "relevanced_experiment_segment_difference": "difference",
    "relevanced_experiment_segment_lower": "lower",
    "relevanced_experiment_segment_upper": "upper",
    "relevanced_experiment_segment_discovery": "discovery",
}
"""Family → field of a segment's finding."""
OF_INTERLEAVING: Final = {
    "relevanced_experiment_interleaving_preference": "delta",
    "relevanced_experiment_interleaving_lower": "lower",
    "relevanced_experiment_interleaving_upper": "upper",
    "relevanced_experiment_interleaving_log_evalue": "log_evalue",
}
"""Family → field of what interleaved lists say."""


def samples(found: Findings) -> Iterator[Sample]:
    """All samples; what is undefined has none."""
    for one in found.experiments:
        yield from _of_experiment(one)
        yield from _of_variants(one)
        if one.interleaving is not None:
            yield from _of_interleaving(one.experiment, one.interleaving)


def _of_experiment(one: Finding) -> Iterator[Sample]:
    labels = f'experiment="{escape(one.experiment)}"'
    info = f'{labels},control="{escape(one.control)}",unit="{escape(one.unit)}"'
    yield "relevanced_experiment_info", info, 1
    planned = float(one.planned_impressions)
    yield "relevanced_experiment_planned_impressions", labels, planned
    yield "relevanced_experiment_crossover_users", labels, one.crossover_users
    yield "relevanced_experiment_without_control", labels, float(one.without_control)
    if one.srm is not None:
        yield "relevanced_experiment_srm_log_evalue", labels, one.srm.log_evalue
    for metric in one.variants[0].metrics if one.variants else ():
        told = f'{labels},metric="{escape(metric.metric)}",role="{metric.role}"'
        yield "relevanced_experiment_metric_info", told, 1


def _of_variants(one: Finding) -> Iterator[Sample]:
    for variant in one.variants:
        labels = f'experiment="{escape(one.experiment)}",variant="{escape(variant.variant)}"'
        yield "relevanced_experiment_impressions", labels, variant.impressions
        yield "relevanced_experiment_users", labels, variant.users
        for metric in variant.metrics:
            told = f'{labels},metric="{escape(metric.metric)}"'
            yield from _fields(OF_METRIC, metric, told)
            if metric.stratified is not None:
                yield from _fields(OF_STRATIFIED, metric.stratified, told)
                for segment in metric.stratified.segments:
                    grouping = f'grouping="{escape(one.stratify_by or "")}"'
                    here = f'{told},{grouping},segment="{escape(segment.segment)}"'
                    yield from _fields(OF_SEGMENT, segment, here)


def _of_interleaving(experiment: str, told: Interleaving) -> Iterator[Sample]:
    labels = f'experiment="{escape(experiment)}"'
    for outcome, lists in (("win", told.wins), ("tie", told.ties), ("loss", told.losses)):
        of_outcome = f'{labels},outcome="{outcome}"'
        yield "relevanced_experiment_interleaving_impressions", of_outcome, lists
    yield from _fields(OF_INTERLEAVING, told, labels)


def _fields(families: Mapping[str, str], of: object, labels: str) -> Iterator[Sample]:
    for family, field in families.items():
        value = getattr(of, field)
        if value is not None:
            yield family, labels, float(value)
