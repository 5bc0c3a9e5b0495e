"""One variant against the control, metric by metric. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from relevanced.metrics.buckets import scored
from relevanced.metrics.defined import Defined, compare_defined, worst_value
from relevanced.metrics.inference import ArmComparison, compare_arms
from relevanced.metrics.metric import Metric
from relevanced.metrics.sequences import Design

from .specs import Spec
from .strata import all_lists_of, buckets_of
from .tallies import Arm


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


def compared_by_metric(
    arms: tuple[Arm, Arm], spec: Spec, metric: Metric, design: Design
) -> MetricComparison:
    """Control and variant compared by one metric."""
    control, treatment = (arm.tallies for arm in arms)
    counts = control[:, 0], treatment[:, 0]
    impressions = int(counts[0].sum()), int(counts[1].sum())
    some = buckets_of(control, spec, metric), buckets_of(treatment, spec, metric)
    compared = compare_arms(
        all_lists_of(control, spec, metric),
        all_lists_of(treatment, spec, metric),
        design,
        metric.direction,
        impressions=sum(impressions),
        lowest=metric.entry.range[0],
    )
    if worst_value(metric) is None and all(impressions):
        compared = replace(compared, undefined="no worst value")
    return MetricComparison(
        compared,
        compare_defined(*some, counts, design),
        (int(scored(some[0])), int(scored(some[1]))),
        impressions,
    )
