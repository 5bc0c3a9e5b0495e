"""What the experiments of all lanes say: arms compared, and put into words. Pure."""

import math
from collections.abc import Mapping, Sequence
from operator import is_

import msgspec
import numpy as np

from relevanced.metrics.buckets import Buckets, mean
from relevanced.metrics.inference import ArmComparison, compare_arms
from relevanced.metrics.interleaving import preference
from relevanced.metrics.metric import Metric
from relevanced.metrics.sequences import Design, always_valid_p
from relevanced.metrics.users import (
    Sketch,
    crossover_count,
    user_count,
    users_sample_ratio_log_evalue,
)

from .compared import Compared, stratified
from .merging import Merged, merge
from .specs import IMPRESSION, INTERLEAVED, Role, Spec, Tracking
from .strata import Strata, buckets_of, compared_by_segment
from .tallies import Arm, Tallies
from .types import (
    Finding,
    Findings,
    Interleaving,
    MetricFinding,
    SampleRatio,
    Variant,
    finite_or_none,
)
from .wording import in_words, warnings_of


def findings(
    lanes: Sequence[Mapping[str, Tallies]],
    tracking: Tracking | None,
    metrics: Sequence[Metric],
    as_of_ms: int | None,
    as_of: str | None,
) -> Findings:
    """What the lanes' tallies of these metrics say. Takes long: meant for a thread."""
    if tracking is None:
        return Findings(as_of)
    names = {name for lane in lanes for name in lane} | tracking.declared.keys()
    found = []
    for name in sorted(names):
        spec = tracking.spec(name)
        if spec is not None:
            tallies = [lane[name] for lane in lanes if name in lane]
            found.append(_finding(merge(spec, tallies), metrics, as_of_ms))
    return Findings(as_of, tuple(found))


class FindingsCache:
    """The last findings, computed again only when a lane's tallies are others or an experiment
    ends."""

    def __init__(self, tracking: Tracking | None, metrics: Sequence[Metric]) -> None:
        self._tracking = tracking
        self._metrics = metrics
        self._lanes: list[Mapping[str, Tallies]] = []
        self._at_ms = 0
        self._findings: Findings | None = None

    def of(
        self, lanes: list[Mapping[str, Tallies]], as_of_ms: int | None, as_of: str | None
    ) -> Findings:
        """The findings of these lanes, given at `as_of`.

        Snapshots are taken once a second, but tallies change only when a base pane settles. A
        reader never changes the tallies of a lane, it replaces the mapping: so identity tells
        whether they are the same.
        """
        same = len(lanes) == len(self._lanes) and all(map(is_, lanes, self._lanes))
        if self._findings is None or not same or self._has_ended_one(as_of_ms):
            self._findings = findings(lanes, self._tracking, self._metrics, as_of_ms, as_of)
            self._lanes, self._at_ms = lanes, as_of_ms or 0
        return msgspec.structs.replace(self._findings, as_of=as_of)

    def _has_ended_one(self, as_of_ms: int | None) -> bool:
        """Whether an experiment has ended since: by time alone, without any change of tallies."""
        if as_of_ms is None or self._tracking is None:
            return False
        ends = [spec.end_ms for spec in self._tracking.declared.values()]
        return any(end is not None and self._at_ms < end <= as_of_ms for end in ends)


def _finding(one: Merged, metrics: Sequence[Metric], as_of_ms: int | None) -> Finding:
    spec, arms = one.spec, one.arms
    sketches = {variant: Sketch(arm.users) for variant, arm in arms.items()}
    crossover = 0.0 if spec.unit == IMPRESSION else crossover_count([*sketches.values()]).value
    srm = _sample_ratio(spec, sketches)
    told = _compared(one, metrics)
    variants = tuple(
        Variant(
            variant,
            arm.impressions,
            user_count(sketches[variant]).value,
            _metrics(one, variant, told, metrics),
        )
        for variant, arm in arms.items()
    )
    return Finding(
        experiment=spec.name,
        control=one.control,
        unit=spec.unit,
        status=_status(spec, one.impressions, as_of_ms),
        declared=spec.declared,
        planned_impressions=spec.planned_impressions,
        impressions=one.impressions,
        warnings=_warnings(one, variants, told, srm, crossover),
        srm=srm,
        crossover_users=crossover,
        without_control=one.without_control,
        variants=variants,
        interleaving=_interleaving(one),
        stratify_by=spec.stratify_by,
    )


def _compared(one: Merged, metrics: Sequence[Metric]) -> Compared:
    """Every variant but the control and shared lists, against the control."""
    treated = [variant for variant in one.arms if variant not in (one.control, INTERLEAVED)]
    return Compared(
        {variant: _compare(one, variant, metrics) for variant in treated},
        {variant: _by_segment(one, variant, metrics) for variant in treated},
    )


def _warnings(
    one: Merged,
    variants: Sequence[Variant],
    told: Compared,
    srm: SampleRatio | None,
    crossover: float,
) -> tuple[str, ...]:
    found = warnings_of(
        one.spec,
        control=one.control,
        without_control=one.without_control,
        impressions={variant: arm.impressions for variant, arm in one.arms.items()},
        without_unit=sum(arm.without_unit for arm in one.arms.values()),
        srm_log_evalue=None if srm is None else srm.log_evalue,
        users=sum(variant.users for variant in variants),
        crossover=crossover,
        undefined={found.undefined for of in told.variants.values() for found in of.values()},
    )
    return tuple(found)


def _by_segment(one: Merged, variant: str, metrics: Sequence[Metric]) -> dict[str, Strata]:
    control = one.arms.get(one.control) or Arm.empty(len(one.spec.metrics))
    design = Design(_planned_for_two(one.spec, one.control, variant))
    selected = _metrics_of(one.spec, metrics)
    return compared_by_segment(control, one.arms[variant], one.spec, selected, design)


def _interleaving(one: Merged) -> Interleaving | None:
    arm = one.arms.get(INTERLEAVED)
    if arm is None or not arm.credits.any():
        return None
    counts, sums, squares = arm.credits.T
    buckets = Buckets(counts, sums, squares, unit=1)
    told = preference(buckets, Design(one.spec.planned_impressions))
    credit = told.credit
    return Interleaving(
        wins=told.wins,
        ties=told.ties,
        losses=told.losses,
        delta=finite_or_none(told.delta),
        lower=finite_or_none(credit.interval.lower / 2),
        upper=finite_or_none(credit.interval.upper / 2),
        log_evalue=finite_or_none(credit.log_evalue),
        p_value=finite_or_none(credit.p_value),
        sign_test_p=told.sign_test_p,
        verdict=credit.verdict,
    )


def _status(spec: Spec, impressions: int, as_of_ms: int | None) -> str:
    if spec.end_ms is not None and as_of_ms is not None and as_of_ms >= spec.end_ms:
        return "ended"
    return "running" if impressions else "waiting"


def _sample_ratio(spec: Spec, sketches: Mapping[str, Sketch]) -> SampleRatio | None:
    """Against the planned shares: without any, evenly over the variants of one that is declared."""
    weights = dict(spec.weights) or dict.fromkeys(sketches.keys() - {INTERLEAVED}, 1.0)
    if not spec.declared or len(weights) < 2:
        return None
    nobody = Sketch(np.zeros(0, np.uint64))
    arms = [sketches.get(variant, nobody) for variant in weights]
    found = users_sample_ratio_log_evalue(arms, list(weights.values()))
    return SampleRatio(found, always_valid_p(found))


def _metrics_of(spec: Spec, metrics: Sequence[Metric]) -> list[Metric]:
    known = {metric.name: metric for metric in metrics}
    return [known[name] for name in spec.metrics]


def _compare(one: Merged, variant: str, metrics: Sequence[Metric]) -> dict[str, ArmComparison]:
    """By metric."""
    spec, treatment = one.spec, one.arms[variant]
    control = one.arms.get(one.control) or Arm.empty(len(spec.metrics))
    impressions = int(control.tallies[:, 0].sum() + treatment.tallies[:, 0].sum())
    design = Design(_planned_for_two(spec, one.control, variant))
    return {
        metric.name: compare_arms(
            buckets_of(control.tallies, spec, metric),
            buckets_of(treatment.tallies, spec, metric),
            design,
            metric.direction,
            impressions=impressions,
        )
        for metric in _metrics_of(spec, metrics)
    }


def _planned_for_two(spec: Spec, control: str, variant: str) -> int:
    """The part of the planned total that two variants get; all of it where shares are unknown."""
    weights = dict(spec.weights)
    if control not in weights or variant not in weights:
        return spec.planned_impressions
    share = (weights[control] + weights[variant]) / math.fsum(weights.values())
    return max(1, round(spec.planned_impressions * share))


def _metrics(
    one: Merged, variant: str, told: Compared, metrics: Sequence[Metric]
) -> tuple[MetricFinding, ...]:
    spec = one.spec
    if variant not in told.variants:
        return tuple(
            MetricFinding(
                metric.name,
                spec.role(metric.name),
                finite_or_none(float(mean(buckets_of(one.arms[variant].tallies, spec, metric)))),
                words="the control" if variant == one.control else "two rankers in one list",
            )
            for metric in _metrics_of(spec, metrics)
        )
    planned = spec.planned_impressions
    return tuple(
        msgspec.structs.replace(
            _metric(name, spec.role(name), found, planned),
            discovery=told.discovered[variant, name],
            stratified=stratified(told, variant, name),
        )
        for name, found in told.variants[variant].items()
    )


def _metric(name: str, role: Role, found: ArmComparison, planned: int) -> MetricFinding:
    absolute, relative = found.absolute, found.relative
    return MetricFinding(
        metric=name,
        role=role,
        mean=finite_or_none(found.treatment.value),
        control_mean=finite_or_none(found.control.value),
        difference=finite_or_none(absolute.estimate.value),
        lower=finite_or_none(absolute.interval.lower),
        upper=finite_or_none(absolute.interval.upper),
        relative_difference=finite_or_none(relative.estimate.value),
        relative_lower=finite_or_none(relative.interval.lower),
        relative_upper=finite_or_none(relative.interval.upper),
        log_evalue=finite_or_none(absolute.log_evalue),
        p_value=finite_or_none(absolute.p_value),
        guardrail_log_evalue=finite_or_none(absolute.guardrail_log_evalue),
        minimum_detectable_effect=finite_or_none(absolute.minimum_detectable_effect),
        design_effect=finite_or_none(found.design_effect),
        further_impressions=finite_or_none(absolute.further_impressions),
        verdict=absolute.verdict,
        words=in_words(found, planned),
    )
