"""Comparisons by metric as findings: numbers that JSON can represent, and words. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeVar

import msgspec
import numpy as np

from relevanced.metrics import (
    MINIMUM_BUCKETS,
    ArmComparison,
    Metric,
    Undefined,
    discoveries,
    mean,
    scored,
)

from .strata import MetricComparison, Strata, all_lists_buckets, buckets_of, metrics_of
from .tallies import (
    CONTROLS,
    INTERLEAVED,
    MergedTallies,
    Role,
    Spec,
    declare_ramp,
    section_of,
    units_of,
)
from .types import (
    BusyUnit,
    DefinedLists,
    MetricFinding,
    SampleRatio,
    SegmentFinding,
    Stratified,
    WithoutBusiest,
    finite_or_none,
    mismatched,
)

Key = TypeVar("Key", bound=tuple[str, ...])


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


OUT_OF_SIGHT: Final = 10
"""Beyond this many times the planned traffic an estimate of what is missing is of no use."""
MOST_NAMED: Final = 5
"""Units that warnings name."""
MUCH: Final = 0.05
"""Share of an arm from which on a unit is warned of even if all verdicts hold without it."""
CROSSOVER_SHARE: Final = 0.01
"""Share of users seen in two variants that is tolerated: more of them dilute the differences."""


@dataclass(frozen=True)
class ExperimentSetting:
    """What the words about one comparison depend on besides its numbers."""

    unit: str
    planned_impressions: int
    control_without_unit: int
    """Impressions of the control that lack the unit."""
    variant_without_unit: int


@dataclass(frozen=True)
class Checks:
    """What the warnings of an experiment depend on besides its arms."""

    srm: SampleRatio | None
    users: float
    """Estimated users of all variants."""
    crossover_users: float
    """Estimated users seen in two variants or more."""
    undefined: frozenset[Undefined | None]
    """Why comparisons have no result; None for those that have one."""
    busiest: Sequence[BusyUnit]
    verdicts_hang_on_them: bool
    """Whether one of the primary metric or a guardrail is another without them."""


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


def warnings_of(experiment: MergedTallies, checks: Checks) -> Iterator[str]:
    """Yield the reasons not to trust the numbers, the gravest first."""
    spec, impressions = experiment.spec, experiment.impressions
    units = units_of(spec.unit)
    if not impressions:
        yield "no impression has settled yet"
        return
    if experiment.without_control:
        yield _without_control(experiment)
    if checks.srm is not None and mismatched(checks.srm):
        within = f" within {spec.stratify_by}={checks.srm.segment}" if checks.srm.segment else ""
        yield (
            f"{units} are not assigned to the variants as planned{within}"
            f" (ln e = {checks.srm.log_evalue:.1f}): verdicts are withheld; do not trust any number"
            f" below until the cause is known; {declare_ramp(spec)}"
        )
    yield from _absent(experiment, checks)
    if checks.crossover_users > CROSSOVER_SHARE * checks.users:
        yield (
            f"{checks.crossover_users:,.0f} {units} were seen in two variants or more:"
            " differences are diluted"
        )
    yield from _busy(spec, checks)
    if "too few buckets" in checks.undefined:
        yield (
            f"fewer than {MINIMUM_BUCKETS:.0f} effective buckets of {units} in a variant:"
            f" too few {units}, or one with much of the traffic"
        )
    without_unit = sum(arm.without_unit for arm in experiment.arms.values())
    if without_unit:
        share = percent(without_unit, impressions)
        yield f"{share} of the impressions have no {spec.unit} and are left out"
    planned = {name for name, _ in spec.weights_since(experiment.shares_since_ms)}
    unplanned = sorted(experiment.arms.keys() - planned)
    if planned and unplanned:
        yield f"variants without a weight: {', '.join(unplanned)}"


def _absent(experiment: MergedTallies, checks: Checks) -> Iterator[str]:
    spec = experiment.spec
    planned = dict(spec.weights_since(experiment.shares_since_ms))
    for variant, weight in planned.items():
        if variant not in experiment.arms:
            expected = checks.users * weight / sum(planned.values())
            yield (
                f"{variant} has no traffic: of {checks.users:,.0f} {units_of(spec.unit)} it was to"
                f" get {expected:,.0f}"
            )


def _busy(spec: Spec, checks: Checks) -> Iterator[str]:
    units = [one for one in checks.busiest if checks.verdicts_hang_on_them or one.share > MUCH]
    for one in units[:MOST_NAMED]:
        yield (
            f"unit {one.unit} has {100 * one.share:.1f} % of the impressions of {one.variant}: see"
            f" the differences without it, or set daily_cap under [{section_of(spec)}]"
        )


def _without_control(experiment: MergedTallies) -> str:
    spec = experiment.spec
    others = sorted(set(experiment.arms) - {INTERLEAVED, experiment.control})
    section = f"[{section_of(spec)}]"
    if spec.declared:
        return (
            f"no traffic in the control ({experiment.control}): nothing to compare with; if one of"
            f" {', '.join(others)} is the control, name it as `control` under {section}"
        )
    return (
        f"no variant is called {', '.join(CONTROLS[:-1])} or {CONTROLS[-1]}: nothing to compare"
        f" with; if one of {', '.join(others)} is the control, name it as `control` under {section}"
    )


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
