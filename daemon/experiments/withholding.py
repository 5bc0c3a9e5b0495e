"""Verdicts withheld: with users assigned otherwise than planned, no difference counts. Pure."""

from typing import Final

import msgspec

from relevanced.metrics.sample_ratio import ALARM_LOG_EVALUE

from .types import Finding, Interleaving, MetricFinding, SampleRatio, Stratified, Variant

WITHHELD: Final = "withheld: the units are not assigned to the variants as planned"


def mismatched(srm: SampleRatio | None) -> bool:
    """Whether the evidence of a sample-ratio mismatch has reached the level of an alarm."""
    return srm is not None and srm.log_evalue >= ALARM_LOG_EVALUE


def withheld(finding: Finding) -> Finding:
    """The same finding without any verdict or discovery. Numbers stay: they help to find the
    cause."""
    lists = finding.interleaving
    return msgspec.structs.replace(
        finding,
        variants=tuple(map(_variant, finding.variants)),
        interleaving=None if lists is None else _interleaving(lists),
    )


def _variant(variant: Variant) -> Variant:
    return msgspec.structs.replace(variant, metrics=tuple(map(_metric, variant.metrics)))


def _metric(metric: MetricFinding) -> MetricFinding:
    if metric.difference is None:
        return metric
    return msgspec.structs.replace(
        metric,
        verdict="undecided",
        discovery=None,
        words=WITHHELD,
        stratified=None if metric.stratified is None else _stratified(metric.stratified),
    )


def _stratified(common: Stratified) -> Stratified:
    segments = (
        msgspec.structs.replace(segment, verdict="undecided", discovery=False)
        for segment in common.segments
    )
    return msgspec.structs.replace(common, segments=tuple(segments))


def _interleaving(lists: Interleaving) -> Interleaving:
    return msgspec.structs.replace(lists, verdict="undecided")
