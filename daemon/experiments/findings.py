"""Findings: the arms of all lanes merged, compared and put into words, in all and by day. Pure."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, timedelta
from operator import is_
from typing import Final

import msgspec
import numpy as np

from relevanced.metrics import (
    Design,
    Metric,
    Sketch,
    UserBuckets,
    always_valid_p,
    crossover_count,
    preference,
    user_count,
    users_sample_ratio_log_evalue,
)

from .metric_findings import Checks, Compared, metric_findings, warnings_of
from .strata import MetricComparison, Strata, compare_metric, compare_segments, metrics_of
from .tallies import (
    DAY_MS,
    IMPRESSION,
    INTERLEAVED,
    Arm,
    MergedTallies,
    Spec,
    Tallies,
    Tracking,
    merge_tallies,
)
from .types import (
    DayEffect,
    Finding,
    Findings,
    Interleaving,
    SampleRatio,
    Variant,
    finite_or_none,
    mismatched,
    withheld,
)


def findings(
    lanes: Sequence[Mapping[str, Tallies]],
    tracking: Tracking | None,
    metrics: Sequence[Metric],
    as_of_ms: int | None,
    as_of: str | None,
) -> Findings:
    """The finding of each tracked experiment, by name. Takes long: meant for a thread."""
    if tracking is None:
        return Findings(as_of)
    names = {name for lane in lanes for name in lane} | tracking.declared.keys()
    found = []
    for name in sorted(names):
        spec = tracking.spec(name)
        if spec is not None:
            tallies = [lane[name] for lane in lanes if name in lane]
            found.append(_finding(merge_tallies(spec, tallies), metrics, as_of_ms))
    return Findings(as_of, tuple(found))


class FindingsCache:
    """The last findings, computed again only when a lane's tallies were replaced or an experiment
    has ended."""

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

        A snapshot is made every second or more often, but tallies change only when a base pane
        settles. A reader never changes the tallies of a lane, it replaces the mapping: so their
        identity shows whether they are the same.
        """
        same = len(lanes) == len(self._lanes) and all(map(is_, lanes, self._lanes))
        if self._findings is None or not same or self._has_one_ended(as_of_ms):
            self._findings = findings(lanes, self._tracking, self._metrics, as_of_ms, as_of)
            self._lanes, self._at_ms = lanes, as_of_ms or 0
        return msgspec.structs.replace(self._findings, as_of=as_of)

    def _has_one_ended(self, as_of_ms: int | None) -> bool:
        """By time alone, without any change of tallies."""
        if as_of_ms is None or self._tracking is None:
            return False
        ends = [spec.end_ms for spec in self._tracking.declared.values()]
        return any(end is not None and self._at_ms < end <= as_of_ms for end in ends)


def _finding(experiment: MergedTallies, metrics: Sequence[Metric], as_of_ms: int | None) -> Finding:
    spec, arms = experiment.spec, experiment.arms
    sketches = {variant: Sketch(arm.users) for variant, arm in arms.items()}
    crossover = 0.0 if spec.unit == IMPRESSION else crossover_count([*sketches.values()]).value
    srm = sample_ratio(spec, sketches)
    # The control itself and interleaved lists are compared with nothing.
    treated = [v for v in experiment.arms if v not in (experiment.control, INTERLEAVED)]
    compared = Compared(
        {variant: compare_variant(experiment, variant, metrics) for variant in treated},
        {variant: _compare_by_segment(experiment, variant, metrics) for variant in treated},
    )
    undefined = frozenset(
        comparison.all_lists.undefined
        for by_metric in compared.variants.values()
        for comparison in by_metric.values()
    )
    variants = tuple(
        Variant(
            variant,
            arm.impressions,
            user_count(sketches[variant]).value,
            metric_findings(experiment, variant, compared, metrics),
        )
        for variant, arm in arms.items()
    )
    checks = Checks(srm, sum(v.users for v in variants), crossover, undefined)
    finding = Finding(
        experiment=spec.name,
        control=experiment.control,
        unit=spec.unit,
        status=_status(spec, experiment.impressions, as_of_ms),
        declared=spec.declared,
        planned_impressions=spec.planned_impressions,
        impressions=experiment.impressions,
        warnings=tuple(warnings_of(experiment, checks)),
        srm=srm,
        crossover_users=crossover,
        without_control=experiment.without_control,
        variants=variants,
        interleaving=_interleaving(experiment),
        stratify_by=spec.stratify_by,
    )
    return withheld(finding) if mismatched(srm) else finding


def _compare_by_segment(
    experiment: MergedTallies, variant: str, metrics: Sequence[Metric]
) -> dict[str, Strata]:
    spec = experiment.spec
    return compare_segments(
        _control_arm(experiment),
        experiment.arms[variant],
        spec,
        metrics_of(spec, metrics),
        Design(planned_for_two(spec, experiment.control, variant)),
    )


def _control_arm(experiment: MergedTallies) -> Arm:
    return experiment.arms.get(experiment.control) or Arm.empty(len(experiment.spec.metrics))


def _interleaving(experiment: MergedTallies) -> Interleaving | None:
    arm = experiment.arms.get(INTERLEAVED)
    if arm is None or not arm.credits.any():
        return None
    counts, sums, squares = arm.credits.T
    buckets = UserBuckets(counts, sums, squares, unit=1)
    preferred = preference(buckets, Design(experiment.spec.planned_impressions))
    credit = preferred.credit
    return Interleaving(
        wins=preferred.wins,
        ties=preferred.ties,
        losses=preferred.losses,
        delta=finite_or_none(preferred.delta),
        # A credit is -1, 0 or 1 per list; delta is half the mean credit.
        lower=finite_or_none(credit.interval.lower / 2),
        upper=finite_or_none(credit.interval.upper / 2),
        log_evalue=finite_or_none(credit.log_evalue),
        p_value=finite_or_none(credit.p_value),
        sign_test_p=preferred.sign_test_p,
        verdict=credit.verdict,
    )


def _status(spec: Spec, impressions: int, as_of_ms: int | None) -> str:
    if spec.end_ms is not None and as_of_ms is not None and as_of_ms >= spec.end_ms:
        return "ended"
    return "running" if impressions else "waiting"


def sample_ratio(spec: Spec, sketches: Mapping[str, Sketch]) -> SampleRatio | None:
    """Test the users' variants against the planned shares; where a declared experiment has none,
    against equal shares. None for undeclared experiments: their plan is not known."""
    weights = dict(spec.weights) or dict.fromkeys(sketches.keys() - {INTERLEAVED}, 1.0)
    if not spec.declared or len(weights) < 2:
        return None
    nobody = Sketch(np.zeros(0, np.uint64))
    arms = [sketches.get(variant, nobody) for variant in weights]
    log_evalue = users_sample_ratio_log_evalue(arms, list(weights.values()))
    return SampleRatio(log_evalue, always_valid_p(log_evalue))


def compare_variant(
    experiment: MergedTallies, variant: str, metrics: Sequence[Metric]
) -> dict[str, MetricComparison]:
    """Metric → comparison of the variant with the control."""
    spec = experiment.spec
    arms = _control_arm(experiment), experiment.arms[variant]
    design = Design(planned_for_two(spec, experiment.control, variant))
    return {
        metric.name: compare_metric(arms, spec, metric, design)
        for metric in metrics_of(spec, metrics)
    }


def planned_for_two(spec: Spec, control: str, variant: str) -> int:
    """The part of the planned total that two variants get; all of it where a share is unknown."""
    weights = dict(spec.weights)
    if control not in weights or variant not in weights:
        return spec.planned_impressions
    share = (weights[control] + weights[variant]) / math.fsum(weights.values())
    return max(1, round(spec.planned_impressions * share))


# Decisions read the cumulative difference with its confidence sequence, which is valid at all days
# together. The interval of a day is valid for this day alone.
DAYS_CAUTION: Final = (
    "Decide by what is so far: its intervals hold at all looks together. That of a day describes"
    " this day alone; among many days, some leave out 0 by chance."
)


def known_days(spec: Spec, lanes: Sequence[Tallies]) -> list[int]:
    """The starts in ms of the UTC days of which the end is known in all lanes, ascending: those
    with impressions, without the days before `first_known`."""
    days = {
        day for tallies in _under_spec(spec, lanes) for day in (*tallies.ends, tallies.open_day_ms)
    }
    first = first_known(spec, lanes)
    return sorted(day for day in days if first is None or day >= first)


def first_known(spec: Spec, lanes: Sequence[Tallies]) -> int | None:
    """The start of the first day of which all lanes know the end, but not what it added; None where
    all of them have all days."""
    firsts = (
        min(tallies.ends, default=tallies.open_day_ms)
        for tallies in _under_spec(spec, lanes)
        if not tallies.has_all_days
    )
    return max(firsts, default=None)


def effects_by_day(
    spec: Spec,
    lanes: Sequence[Tallies],
    metrics: Sequence[Metric],
    excluded: Collection[int] = (),
) -> tuple[DayEffect, ...]:
    """Each day, variant and metric, over the tallies of all lanes, and without the days that start
    at `excluded`: they have no rows, and what is cumulative does not contain them."""
    days, first = known_days(spec, lanes), first_known(spec, lanes)
    last = merge_tallies(spec, _under_spec(spec, lanes))
    found: list[DayEffect] = []
    before = left_out = _with_last_arms(merge_tallies(spec, ()), last)
    for day_ms in days:
        until = _at_end_of(day_ms, spec, lanes, last)
        added = _counted_between(before, until)
        if day_ms in excluded:
            left_out = _counted_between(_negative(added), left_out)
        else:
            so_far = _counted_between(left_out, until)
            found.extend(
                _effects_of_day(day_ms, None if day_ms == first else added, so_far, metrics)
            )
        before = until
    return tuple(found)


def left_out_arms(
    spec: Spec, lanes: Sequence[Tallies], excluded: Collection[int]
) -> dict[str, Arm]:
    """What the excluded days added to each arm, without users. The day before each of them must be
    known, unless it is the first of all."""
    last = merge_tallies(spec, _under_spec(spec, lanes))
    nothing = before = _with_last_arms(merge_tallies(spec, ()), last)
    found = nothing
    for day_ms in known_days(spec, lanes):
        until = _at_end_of(day_ms, spec, lanes, last)
        if day_ms in excluded:
            found = _counted_between(_negative(_counted_between(before, until)), found)
        before = until
    return dict(found.arms)


def day_name(day_ms: int) -> str:
    """The date of the UTC day that starts then.

    >>> day_name(1_795_132_800_000)
    '2026-11-20'
    """
    return (date(1970, 1, 1) + timedelta(days=day_ms // DAY_MS)).isoformat()


def _under_spec(spec: Spec, lanes: Sequence[Tallies]) -> list[Tallies]:
    """The tallies that were counted under this spec, of lanes with impressions."""
    return [tallies for tallies in lanes if tallies.digest == spec.digest and tallies.last_ms]


def _at_end_of(
    day_ms: int, spec: Spec, lanes: Sequence[Tallies], last: MergedTallies
) -> MergedTallies:
    ends = []
    for tallies in _under_spec(spec, lanes):
        # Days have neither users nor segments.
        arms = {
            name: Arm(arm.tallies, arm.without_unit, arm.credits)
            for name, arm in tallies.at_end_of(day_ms).items()
        }
        ends.append(Tallies(tallies.digest, arms))
    return _with_last_arms(merge_tallies(spec, ends), last)


def _with_last_arms(experiment: MergedTallies, last: MergedTallies) -> MergedTallies:
    """The experiment with the control and all the variants that it has at last."""
    arms = {
        variant: experiment.arms.get(variant) or Arm(np.zeros_like(arm.tallies))
        for variant, arm in last.arms.items()
    }
    return MergedTallies(experiment.spec, last.control, arms)


def _counted_between(before: MergedTallies, until: MergedTallies) -> MergedTallies:
    arms = {
        variant: Arm(
            arm.tallies - before.arms[variant].tallies,
            arm.without_unit - before.arms[variant].without_unit,
        )
        for variant, arm in until.arms.items()
    }
    return MergedTallies(until.spec, until.control, arms)


def _negative(experiment: MergedTallies) -> MergedTallies:
    arms = {name: Arm(-arm.tallies, -arm.without_unit) for name, arm in experiment.arms.items()}
    return MergedTallies(experiment.spec, experiment.control, arms)


def _effects_of_day(
    day_ms: int, added: MergedTallies | None, until: MergedTallies, metrics: Sequence[Metric]
) -> Iterator[DayEffect]:
    for variant in until.arms:
        if variant not in (until.control, INTERLEAVED):
            of_day = {} if added is None else compare_variant(added, variant, metrics)
            for metric, comparison in compare_variant(until, variant, metrics).items():
                yield _day_effect(day_name(day_ms), variant, metric, of_day.get(metric), comparison)


def _day_effect(
    day: str, variant: str, metric: str, of_day: MetricComparison | None, so_far: MetricComparison
) -> DayEffect:
    day_alone = None if of_day is None else of_day.all_lists.absolute
    all_days = so_far.all_lists.absolute
    return DayEffect(
        day=day,
        variant=variant,
        metric=metric,
        day_control_impressions=None if of_day is None else of_day.impressions[0],
        day_impressions=None if of_day is None else of_day.impressions[1],
        day_difference=None if day_alone is None else finite_or_none(day_alone.estimate.value),
        day_lower=None if day_alone is None else finite_or_none(day_alone.interval.lower),
        day_upper=None if day_alone is None else finite_or_none(day_alone.interval.upper),
        control_impressions=so_far.impressions[0],
        impressions=so_far.impressions[1],
        difference=finite_or_none(all_days.estimate.value),
        lower=finite_or_none(all_days.interval.lower),
        upper=finite_or_none(all_days.interval.upper),
    )
