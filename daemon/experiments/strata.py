"""What an experiment says of each segment, and as if both arms had the same mix of them. Pure.

A metric may move where it did not for anybody: when the arms' traffic differs. And among many
segments some differ by chance, so only those are called out that stand among all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from relevanced.metrics.buckets import Buckets
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
    """Of the difference with the segments weighted by the arms' traffic together."""
    covered: float
    """Share of the scored impressions in segments where both arms have some."""
    segments: Mapping[str, ArmComparison]


def buckets_of(tallies: Integers, spec: Spec, metric: Metric) -> Buckets:
    """The tallies of one metric, (…, buckets, columns) of all."""
    first = 1 + 3 * spec.metrics.index(metric.name)
    counts, sums, squares = np.moveaxis(tallies[..., first : first + 3], -1, 0)
    return Buckets(counts, sums, squares, metric.unit)


def compared_by_segment(
    control: Arm, treatment: Arm, spec: Spec, metrics: Sequence[Metric], design: Design
) -> dict[str, Strata]:
    """By metric; nothing where the experiment is not stratified, or has no traffic yet."""
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
    control, treatment = (buckets_of(arm, spec, metric) for arm in arms)
    rows = compare_rows(control, treatment, design, metric.direction, impressions=impressions)
    told = post_stratified(control, treatment)
    found = replace(told.estimate, n=sum(impressions))
    together = Statement.of(found, design, metric.direction)
    return Strata(together, told.covered, dict(zip(segments, rows, strict=True)))
