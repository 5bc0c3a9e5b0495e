"""One variant against the control, metric by metric: as a whole, within each segment, and under a
common mix of segments. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from relevanced.metrics import (
    ArmComparison,
    Defined,
    Design,
    Integers,
    Metric,
    Statement,
    UserBuckets,
    balanced_impressions,
    compare_defined,
    compare_periods,
    compare_rows,
    over_all,
    post_stratified,
    scored,
    worst_value,
)

from .arms import Arm
from .spec import Spec
from .tallies import MergedTallies


@dataclass(frozen=True)
class Strata:
    """One metric of a variant against the control, by segment.

    The mean of an arm can differ although no segment does, when the arms got different traffic:
    with the segments weighted by the traffic of both arms together (post-stratification) that part
    of the difference goes away.
    """

    together: Statement
    """The difference with the segments weighted by the traffic of both arms together."""
    covered: float
    """Share of the impressions in segments where both arms have enough buckets of users."""
    segments: Mapping[str, ArmComparison]


def buckets_of(tallies: Integers, spec: Spec, metric: Metric) -> UserBuckets:
    """The buckets of one metric, from tallies of shape (…, buckets, 1 + 3 × metrics)."""
    first = 1 + 3 * spec.metrics.index(metric.name)
    counts, sums, squares = np.moveaxis(tallies[..., first : first + 3], -1, 0)
    return UserBuckets(counts, sums, squares, metric.unit)


def all_lists_buckets(tallies: Integers, spec: Spec, metric: Metric) -> UserBuckets:
    """The same, with the lists for which the metric is undefined counted as its worst value."""
    worst = worst_value(metric)
    if worst is None:
        return UserBuckets.empty(*tallies.shape[:-1], unit=metric.unit)
    return over_all(buckets_of(tallies, spec, metric), tallies[..., 0], worst)


def compare_segments(
    experiment: MergedTallies, variant: str, metrics: Sequence[Metric], design: Design
) -> dict[str, Strata]:
    """Metric → its strata; empty where the experiment is not stratified or has no traffic yet."""
    names = experiment.control, variant
    arms = [arm for name in names if (arm := experiment.arms.get(name)) is not None]
    segments = sorted({segment for arm in arms for segment in arm.strata})
    if not segments:
        return {}
    by_segment = [experiment.by_period(variant, segment) for segment in segments]
    sides = [np.stack(of_side) for of_side in zip(*by_segment, strict=True)]
    return {
        metric.name: _strata(sides, segments, experiment.spec, metric, design) for metric in metrics
    }


def _strata(
    sides: Sequence[Integers], segments: Sequence[str], spec: Spec, metric: Metric, design: Design
) -> Strata:
    """Of control and variant, (segments, periods, buckets, columns) each."""
    counts = [side[..., 0].sum(axis=-1) for side in sides]
    totals = [balanced_impressions(*of) for of in zip(*counts, strict=True)]
    control, treatment = (all_lists_buckets(side, spec, metric) for side in sides)
    lowest = metric.entry.range[0]
    rows = (
        compare_rows(
            control[:, 0],
            treatment[:, 0],
            design,
            metric.direction,
            impressions=totals,
            lowest=lowest,
        )
        if counts[0].shape[1] == 1
        else [
            compare_periods(
                control[n],
                treatment[n],
                design,
                metric.direction,
                impressions=total,
                lowest=lowest,
            )
            for n, total in enumerate(totals)
        ]
    )
    common_mix = post_stratified(control, treatment)
    both = [of.sum(axis=0) for of in counts]
    estimate = replace(common_mix.estimate, n=balanced_impressions(both[0], both[1]))
    together = Statement.of(estimate, design, metric.direction)
    return Strata(together, common_mix.covered, dict(zip(segments, rows, strict=True)))


@dataclass(frozen=True)
class MetricComparison:
    """One metric of a variant and of the control."""

    all_lists: ArmComparison
    """Over all impressions; undefined lists count as the worst value."""
    defined: Defined
    """Over the lists for which the metric is defined."""
    scored: tuple[int, int]
    """Impressions of control and variant for which the metric is defined."""
    impressions: tuple[int, int]
    """Impressions of control and variant that have a unit."""

    @property
    def log_evalue(self) -> float:
        """ln of the e-value against no difference over all impressions."""
        return self.all_lists.absolute.log_evalue


def metrics_of(spec: Spec, metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics of an experiment, the primary one first."""
    by_name = {metric.name: metric for metric in metrics}
    return [by_name[name] for name in spec.metrics]


def compare_metric(
    experiment: MergedTallies, variant: str, metric: Metric, design: Design
) -> MetricComparison:
    """Control and variant compared by one metric, within periods of constant shares."""
    spec = experiment.spec
    names = experiment.control, variant
    arms = [experiment.arms.get(name) or Arm.empty(len(spec.metrics)) for name in names]
    control, treatment = experiment.by_period(variant)
    counts = control[..., 0], treatment[..., 0]
    compared = compare_periods(
        all_lists_buckets(control, spec, metric),
        all_lists_buckets(treatment, spec, metric),
        design,
        metric.direction,
        impressions=balanced_impressions(*(of.sum(axis=-1) for of in counts)),
        lowest=metric.entry.range[0],
    )
    impressions = int(arms[0].tallies[:, 0].sum()), int(arms[1].tallies[:, 0].sum())
    if worst_value(metric) is None and all(impressions):
        compared = replace(compared, undefined="no worst value")
    elif all(impressions) and not (counts[0].sum(axis=-1) * counts[1].sum(axis=-1)).any():
        compared = replace(compared, undefined="no period of constant shares")
    some = [buckets_of(arm.tallies, spec, metric) for arm in arms]
    return MetricComparison(
        compared,
        compare_defined(
            buckets_of(control, spec, metric), buckets_of(treatment, spec, metric), counts, design
        ),
        (int(scored(some[0])), int(scored(some[1]))),
        impressions,
    )
