"""Findings as samples of the families of experiments. Pure."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from ..experiments.types import Finding, Findings, Interleaving
from ..telemetry import experiment_families as families
from ..telemetry.family import Family
from .labels import escape

Sample: TypeAlias = tuple[Family, str, float]
"""(family, labels, value)."""


def samples(findings: Findings) -> Iterator[Sample]:
    """Yield all samples of all experiments. An undefined value has none."""
    for finding in findings.experiments:
        yield from _of_experiment(finding)
        yield from _of_variants(finding)
        if finding.interleaving is not None:
            yield from _of_interleaving(finding.experiment, finding.interleaving)


def _of_experiment(finding: Finding) -> Iterator[Sample]:
    labels = f'experiment="{escape(finding.experiment)}"'
    info = f'{labels},control="{escape(finding.control)}",unit="{escape(finding.unit)}"'
    yield families.INFO, info, 1
    yield families.PLANNED_IMPRESSIONS, labels, float(finding.planned_impressions)
    yield families.CROSSOVER_USERS, labels, finding.crossover_users
    yield families.WITHOUT_CONTROL, labels, float(finding.without_control)
    if finding.srm is not None:
        yield families.SRM_LOG_EVALUE, labels, finding.srm.log_evalue
    for metric in finding.variants[0].metrics if finding.variants else ():
        with_role = f'{labels},metric="{escape(metric.metric)}",role="{metric.role}"'
        yield families.METRIC_INFO, with_role, 1


def _of_variants(finding: Finding) -> Iterator[Sample]:
    grouping = f'grouping="{escape(finding.stratify_by or "")}"'
    for variant in finding.variants:
        arm = f'experiment="{escape(finding.experiment)}",variant="{escape(variant.variant)}"'
        yield families.IMPRESSIONS, arm, variant.impressions
        yield families.USERS, arm, variant.users
        for metric in variant.metrics:
            labels = f'{arm},metric="{escape(metric.metric)}"'
            yield families.SCORED_IMPRESSIONS, labels, metric.scored
            yield from _fields(families.BY_METRIC_FIELD, metric, labels)
            if metric.defined is not None:
                yield from _fields(families.BY_DEFINED_FIELD, metric.defined, labels)
            if metric.stratified is not None:
                yield from _fields(families.BY_STRATIFIED_FIELD, metric.stratified, labels)
                for segment in metric.stratified.segments:
                    within = f'{labels},{grouping},segment="{escape(segment.segment)}"'
                    yield from _fields(families.BY_SEGMENT_FIELD, segment, within)


def _of_interleaving(experiment: str, lists: Interleaving) -> Iterator[Sample]:
    labels = f'experiment="{escape(experiment)}"'
    for outcome, count in (("win", lists.wins), ("tie", lists.ties), ("loss", lists.losses)):
        yield families.INTERLEAVING_IMPRESSIONS, f'{labels},outcome="{outcome}"', count
    yield from _fields(families.BY_INTERLEAVING_FIELD, lists, labels)


def _fields(by_field: Mapping[str, Family], finding: object, labels: str) -> Iterator[Sample]:
    for field, family in by_field.items():
        value = getattr(finding, field)
        if value is not None:
            yield family, labels, float(value)
