"""Comparisons by metric as findings: numbers that JSON can represent, and words. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeVar

import msgspec
import numpy as np

from relevanced.metrics import ArmComparison, Metric, Undefined, discoveries, mean, scored

from .by_segment import MetricComparison, Strata, all_lists_buckets, buckets_of, metrics_of
from .spec import Role
from .tallies import MergedTallies
from .types import (
    DefinedLists,
    Finding,
    MetricFinding,
    SegmentFinding,
    Stratified,
    WithoutBusiest,
    finite_or_none,
)

Key = TypeVar("Key", bound=tuple[str, ...])
WITHHELD: Final = "withheld: the units are not assigned to the variants as planned"
UNTESTED: Final = "withheld: whether units are assigned to it as planned is not tested"
OUT_OF_SIGHT: Final = 10
"""Beyond this many times the planned traffic an estimate of what is missing is of no use."""


@dataclass(frozen=True)
class Compared:
    """Every variant against the control: variant → metric → comparison.

    Among many comparisons some differ by chance. A verdict answers one question as if it were the
    only one; a discovery holds up among all of them (e-BH, which needs no independence between
    them).
    """

    variants: Mapping[str, Mapping[str, MetricComparison]]
    by_segment: Mapping[str, Mapping[str, Strata]]
    """Empty for a variant without strata."""
    without_busiest: dict[str, Mapping[str, MetricComparison]] = field(default_factory=dict)
    """As `variants`, without the buckets of the busiest units; empty where there are none."""

    @cached_property
    def discovered(self) -> Mapping[tuple[str, str], bool]:
        """(variant, metric) → whether it is a discovery among all of them."""
        return discovered_among(
            {
                (variant, metric): comparison.log_evalue
                for variant, by_metric in self.variants.items()
                for metric, comparison in by_metric.items()
            }
        )

    @cached_property
    def discovered_segments(self) -> Mapping[tuple[str, str, str], bool]:
        """(variant, metric, segment) → whether it is a discovery among all of them."""
        return discovered_among(
            {
                (variant, metric, segment): comparison.absolute.log_evalue
                for variant, by_metric in self.by_segment.items()
                for metric, strata in by_metric.items()
                for segment, comparison in strata.segments.items()
            }
        )


def stratified_finding(compared: Compared, variant: str, metric: str) -> Stratified | None:
    """The comparison by segments; None where the experiment has no strata."""
    strata = compared.by_segment[variant].get(metric)
    if strata is None:
        return None
    together = strata.together
    return Stratified(
        difference=finite_or_none(together.estimate.value),
        lower=finite_or_none(together.interval.lower),
        upper=finite_or_none(together.interval.upper),
        covered=finite_or_none(strata.covered),
        segments=tuple(
            SegmentFinding(
                segment=segment,
                difference=finite_or_none(comparison.absolute.estimate.value),
                lower=finite_or_none(comparison.absolute.interval.lower),
                upper=finite_or_none(comparison.absolute.interval.upper),
                log_evalue=finite_or_none(comparison.absolute.log_evalue),
                discovery=compared.discovered_segments[variant, metric, segment],
                verdict=comparison.absolute.verdict,
            )
            for segment, comparison in strata.segments.items()
        ),
    )


def discovered_among(log_evalues: Mapping[Key, float]) -> dict[Key, bool]:
    """Key → whether its evidence is a discovery among all of these."""
    found = discoveries(np.array([*log_evalues.values()])).tolist()
    return dict(zip(log_evalues, found, strict=True))


@dataclass(frozen=True)
class ExperimentSetting:
    """What the words about one comparison depend on besides its numbers."""

    unit: str
    planned_impressions: int
    control_without_unit: int
    """Impressions of the control that lack the unit."""
    variant_without_unit: int


def verdict_words(comparison: ArmComparison, setting: ExperimentSetting) -> str:
    """The verdict, and how much traffic is missing for one."""
    if comparison.undefined is not None:
        return f"no statement: {_reason(comparison.undefined, setting)}"
    absolute = comparison.absolute
    if absolute.verdict != "undecided":
        return absolute.verdict
    if absolute.interval.lower > 0.0 or absolute.interval.upper < 0.0:
        return "different; for this metric neither direction is better"
    more = absolute.further_impressions
    if more > OUT_OF_SIGHT * setting.planned_impressions:
        return (
            "not distinguishable yet, and at this difference"
            " not with ten times the planned impressions either"
        )
    return (
        f"not distinguishable yet: at this difference about {rounded_count(more)} more impressions"
    )


def _reason(undefined: Undefined, setting: ExperimentSetting) -> str:
    """Why there is no statement; an arm whose impressions all lack the unit has traffic."""
    lacking = {
        "no control traffic": ("control", setting.control_without_unit),
        "no treatment traffic": ("variant", setting.variant_without_unit),
    }
    arm, without_unit = lacking.get(undefined, ("", 0))
    if without_unit:
        return f"none of the {without_unit:,} impressions of the {arm} has a {setting.unit}"
    if undefined == "no worst value":
        return "a list for which it is undefined has no value; see the defined lists"
    return undefined


def rounded_count(count: float) -> str:
    """A number of impressions to two digits, which is as precise as the estimate is."""
    digits = max(0, len(str(int(count))) - 2)
    return f"{round(int(count), -digits):,}"


def percent(part: int, whole: int) -> str:
    """A share to two digits; 0 % and 100 % only where it is exactly that.

    >>> [percent(part, 100_000) for part in (0, 4, 4_321, 99_990, 100_000)]
    ['0 %', 'less than 0.1 %', '4.3 %', 'more than 99.9 %', '100 %']
    """
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "less than 0.1 %"
    if 99.9 < share < 100:
        return "more than 99.9 %"
    return f"{share:.1f} %" if 0 < share < 10 or 99 < share < 100 else f"{share:.0f} %"


def metric_findings(
    experiment: MergedTallies, variant: str, compared: Compared, metrics: Sequence[Metric]
) -> tuple[MetricFinding, ...]:
    """The findings of one variant; of the control and of interleaved lists only the means."""
    spec = experiment.spec
    if variant not in compared.variants:
        return _means(experiment, variant, metrics)
    setting = ExperimentSetting(
        spec.unit,
        spec.planned_impressions,
        experiment.without_unit(experiment.control),
        experiment.without_unit(variant),
    )
    return tuple(
        _of_another_mix(
            msgspec.structs.replace(
                _finding(name, spec.role(name), comparison, setting),
                discovery=compared.discovered[variant, name],
                stratified=stratified_finding(compared, variant, name),
                without_busiest=_without_busiest(compared, variant, name),
            ),
            spec.stratify_by,
        )
        for name, comparison in compared.variants[variant].items()
    )


def _without_busiest(compared: Compared, variant: str, metric: str) -> WithoutBusiest | None:
    by_metric = compared.without_busiest.get(variant)
    if by_metric is None:
        return None
    absolute = by_metric[metric].all_lists.absolute
    return WithoutBusiest(
        finite_or_none(absolute.estimate.value),
        finite_or_none(absolute.interval.lower),
        finite_or_none(absolute.interval.upper),
        absolute.verdict,
    )


def _of_another_mix(metric: MetricFinding, stratify_by: str | None) -> MetricFinding:
    """The finding without a verdict where the interval under a common mix of segments excludes the
    difference: that is of the segments that the arms got."""
    common, change = metric.stratified, metric.difference
    if metric.verdict == "undecided" or common is None or change is None:
        return metric
    if common.lower is None or common.upper is None or common.lower <= change <= common.upper:
        return metric
    words = (
        f"withheld: the variants got other mixes of {stratify_by}; with the same mix the"
        f" difference is within [{common.lower:+.4f}, {common.upper:+.4f}]"
    )
    return msgspec.structs.replace(metric, verdict="undecided", discovery=False, words=words)


def _means(
    experiment: MergedTallies, variant: str, metrics: Sequence[Metric]
) -> tuple[MetricFinding, ...]:
    spec, tallies = experiment.spec, experiment.arms[variant].tallies
    words = "the control" if variant == experiment.control else "two rankers in one list"
    return tuple(
        MetricFinding(
            metric.name,
            spec.role(metric.name),
            finite_or_none(float(mean(all_lists_buckets(tallies, spec, metric)))),
            scored=int(scored(buckets_of(tallies, spec, metric))),
            words=words,
        )
        for metric in metrics_of(spec, metrics)
    )


def _finding(
    name: str, role: Role, comparison: MetricComparison, setting: ExperimentSetting
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
        words=verdict_words(all_lists, setting),
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


def withheld(finding: Finding, names: Collection[str] | None = None) -> Finding:
    """The same finding without any verdict or discovery, or only without those of some variants:
    with users assigned otherwise than planned, no difference counts. Numbers stay: they help to
    find the cause."""
    lists, words = finding.interleaving, WITHHELD if names is None else UNTESTED
    if lists is not None and names is None:
        lists = msgspec.structs.replace(lists, verdict="undecided")
    variants = (
        (
            msgspec.structs.replace(
                variant, metrics=tuple(_withheld_metric(one, words) for one in variant.metrics)
            )
            if names is None or variant.variant in names
            else variant
        )
        for variant in finding.variants
    )
    return msgspec.structs.replace(finding, variants=tuple(variants), interleaving=lists)


def _withheld_metric(metric: MetricFinding, words: str) -> MetricFinding:
    if metric.difference is None:
        return metric
    common = metric.stratified
    if common is not None:
        segments = (
            msgspec.structs.replace(segment, verdict="undecided", discovery=False)
            for segment in common.segments
        )
        common = msgspec.structs.replace(common, segments=tuple(segments))
    without = metric.without_busiest
    if without is not None:
        without = msgspec.structs.replace(without, verdict="undecided")
    return msgspec.structs.replace(
        metric,
        verdict="undecided",
        discovery=None,
        words=words,
        stratified=common,
        without_busiest=without,
    )
