"""Comparisons by metric as findings: numbers that JSON can represent, and words. Pure."""

from collections.abc import Sequence

import msgspec

from relevanced.metrics.buckets import mean, scored
from relevanced.metrics.metric import Metric

from .by_metric import MetricComparison, metrics_of
from .compared import Compared, stratified
from .merging import Merged
from .specs import Role
from .strata import all_lists_of, buckets_of
from .types import DefinedLists, MetricFinding, finite_or_none
from .wording import Setting, in_words


def metric_findings(
    experiment: Merged, variant: str, compared: Compared, metrics: Sequence[Metric]
) -> tuple[MetricFinding, ...]:
    """The findings of one variant; of the control and of interleaved lists only the means."""
    spec = experiment.spec
    if variant not in compared.variants:
        return _means(experiment, variant, metrics)
    setting = Setting(
        spec.unit,
        spec.planned_impressions,
        experiment.without_unit(experiment.control),
        experiment.without_unit(variant),
    )
    return tuple(
        msgspec.structs.replace(
            _finding(name, spec.role(name), comparison, setting),
            discovery=compared.discovered[variant, name],
            stratified=stratified(compared, variant, name),
        )
        for name, comparison in compared.variants[variant].items()
    )


def _means(
    experiment: Merged, variant: str, metrics: Sequence[Metric]
) -> tuple[MetricFinding, ...]:
    spec, tallies = experiment.spec, experiment.arms[variant].tallies
    words = "the control" if variant == experiment.control else "two rankers in one list"
    return tuple(
        MetricFinding(
            metric.name,
            spec.role(metric.name),
            finite_or_none(float(mean(all_lists_of(tallies, spec, metric)))),
            scored=int(scored(buckets_of(tallies, spec, metric))),
            words=words,
        )
        for metric in metrics_of(spec, metrics)
    )


def _finding(
    name: str, role: Role, comparison: MetricComparison, setting: Setting
) -> MetricFinding:
    all_lists = comparison.all_lists
    absolute, relative = all_lists.absolute, all_lists.relative
    stated = finite_or_none(absolute.estimate.value) is not None
    return MetricFinding(
        metric=name,
        role=role,
        mean=finite_or_none(all_lists.treatment.value),
        scored=comparison.scored[1],
        control_mean=finite_or_none(all_lists.control.value),
        control_scored=comparison.scored[0],
        difference=finite_or_none(absolute.estimate.value),
        lower=finite_or_none(absolute.interval.lower),
        upper=finite_or_none(absolute.interval.upper),
        relative_difference=finite_or_none(relative.value),
        relative_lower=finite_or_none(relative.interval.lower),
        relative_upper=finite_or_none(relative.interval.upper),
        relative_words=(
            f"no relative statement: {relative.undefined}"
            if stated and relative.undefined is not None
            else ""
        ),
        log_evalue=finite_or_none(absolute.log_evalue),
        p_value=finite_or_none(absolute.p_value),
        guardrail_log_evalue=finite_or_none(absolute.guardrail_log_evalue),
        minimum_detectable_effect=finite_or_none(absolute.minimum_detectable_effect),
        design_effect=finite_or_none(all_lists.design_effect),
        further_impressions=finite_or_none(absolute.further_impressions),
        verdict=absolute.verdict,
        words=in_words(all_lists, setting),
        defined=_defined_lists(comparison),
    )


def _defined_lists(comparison: MetricComparison) -> DefinedLists | None:
    """The average over defined lists beside that over all; None where these are the same."""
    if comparison.scored == comparison.impressions:
        return None
    over, shares = comparison.defined.comparison, comparison.defined.shares
    return DefinedLists(
        mean=finite_or_none(over.treatment.value),
        control_mean=finite_or_none(over.control.value),
        share=finite_or_none(shares.treatment.value),
        control_share=finite_or_none(shares.control.value),
        difference=finite_or_none(over.absolute.estimate.value),
        lower=finite_or_none(over.absolute.interval.lower),
        upper=finite_or_none(over.absolute.interval.upper),
        shares_differ=comparison.defined.shares_differ,
    )
