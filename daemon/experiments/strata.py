"""Comparisons within each segment, and under a common mix of segments. Pure.

The mean of an arm can differ although no segment does, when the arms got different traffic: with
the segments weighted by the traffic of both arms together (post-stratification) that part of the
difference goes away.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from relevanced.metrics.buckets import Buckets
from relevanced.metrics.defined import over_all, worst_value
from relevanced.metrics.inference import ArmComparison, Statement, compare_rows
from relevanced.metrics.lists import Integers
from relevanced.metrics.metric import Metric
from relevanced.metrics.sequences import Design
from relevanced.metrics.stratification import post_stratified

from .specs import Spec
from .tallies import Arm


@dataclass(frozen=True)
class Strata:
    """One metric of a variant against the control."""

    together: Statement
    """The difference with the segments weighted by the traffic of both arms together."""
    covered: float
    """Share of the impressions in segments where both arms have enough buckets of users."""
    segments: Mapping[str, ArmComparison]


def buckets_of(tallies: Integers, spec: Spec, metric: Metric) -> Buckets:
    """The buckets of one metric, from tallies of shape (…, buckets, 1 + 3 × metrics)."""
    first = 1 + 3 * spec.metrics.index(metric.name)
    counts, sums, squares = np.moveaxis(tallies[..., first : first + 3], -1, 0)
    return Buckets(counts, sums, squares, metric.unit)


def all_lists_of(tallies: Integers, spec: Spec, metric: Metric) -> Buckets:
    """The same, with the lists for which the metric is undefined counted as its worst value."""
    worst = worst_value(metric)
    if worst is None:
        return Buckets.empty(*tallies.shape[:-1], unit=metric.unit)
    return over_all(buckets_of(tallies, spec, metric), tallies[..., 0], worst)


def compared_by_segment(
    control: Arm, treatment: Arm, spec: Spec, metrics: Sequence[Metric], design: Design
) -> dict[str, Strata]:
    """Metric → its strata; empty where the experiment is not stratified or has no traffic yet."""
    segments = sorted(control.strata.keys() | treatment.strata.keys())
    if not segments:
        return {}
    nothing = np.zeros_like(control.tallies)
    arms = [
        np.stack([arm.strata.get(segment, nothing) for segment in segments])
        for arm in (control, treatment)
    ]
    return {metric.name: _strata(arms, segments, spec, metric, design) for metric in metrics}


def _strata(
    arms: Sequence[Integers], segments: Sequence[str], spec: Spec, metric: Metric, design: Design
) -> Strata:
    impressions = np.sum([arm[:, :, 0].sum(axis=1) for arm in arms], axis=0).tolist()
    control, treatment = (all_lists_of(arm, spec, metric) for arm in arms)
    lowest = metric.entry.range[0]
    rows = compare_rows(
        control, treatment, design, metric.direction, impressions=impressions, lowest=lowest
    )
    common_mix = post_stratified(control, treatment)
    estimate = replace(common_mix.estimate, n=sum(impressions))
    together = Statement.of(estimate, design, metric.direction)
    return Strata(together, common_mix.covered, dict(zip(segments, rows, strict=True)))
