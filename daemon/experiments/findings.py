"""Findings: the arms of all lanes merged, compared and put into words, in all and by day. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Final

import msgspec
import numpy as np

from relevanced.metrics import (
    BUCKETS,
    Design,
    Metric,
    Sketch,
    UserBuckets,
    always_valid_p,
    averaged_log_evalue,
    crossover_count,
    preference,
    strata_sample_ratio_log_evalues,
    user_count,
    users_sample_ratio_log_evalue,
)

from .arms import Arm
from .by_day import compare_variant, planned_for_two
from .by_segment import Strata, compare_segments, metrics_of
from .exclusion import instant_text
from .share_periods import day_name, divided, share_periods
from .spec import (
    IMPRESSION,
    INTERLEAVED,
    MOST_STRATA,
    SILENT_MS,
    Spec,
    Tracking,
    few_impressions,
    few_users,
)
from .tallies import MergedTallies, Tallies, with_traffic
from .types import (
    BusyUnit,
    Finding,
    Findings,
    Interleaving,
    SampleRatio,
    Variant,
    finite_or_none,
    mismatched,
)
from .verdicts import Compared, metric_findings, withheld
from .warnings import Checks, CountingLanes, warnings_of

BUSY_SHARE: Final = 0.01
BUSY_TIMES: Final = 10.0
"""A unit is named that has more than this share of an arm, and so many times as much as others: of
a hundred users each may have 1 %."""


def findings(
    lanes: Sequence[Mapping[str, Tallies]],
    tracking: Tracking | None,
    metrics: Sequence[Metric],
    settled_ms: int | None,
    as_of: str | None,
    lost_before: Sequence[Mapping[str, int]] = (),
    dropped_ms: Sequence[int] = (),
) -> Findings:
    """The finding of each tracked experiment, by name. Takes long: meant for a thread.

    settled_ms: base panes that start before it have settled, in all lanes. lost_before: of each
    lane that may have lost some, name ("" for all undeclared experiments) → since when it counts,
    in ms. dropped_ms: when each lane last dropped silent experiments for a new one; 0: never.
    """
    if tracking is None:
        return Findings(as_of)
    names = {name for lane in lanes for name in lane} | tracking.declared.keys()
    found = []
    for name in sorted(names):
        spec = tracking.spec(name)
        if spec is not None:
            tallies = [lane[name] for lane in lanes if name in lane]
            counted_in = _with_lost(lanes_of(name, lanes, tracking), spec, tallies, lost_before)
            if not spec.declared:
                counted_in = _with_dropped(counted_in, name, lanes, dropped_ms)
            found.append(_finding(divided(spec, tallies), metrics, settled_ms, counted_in))
    return Findings(as_of, tuple(found))


def lanes_of(
    name: str, lanes: Sequence[Mapping[str, Tallies]], tracking: Tracking
) -> CountingLanes:
    """Which of the lanes count an experiment, and its segments. Each lane admits what it sees
    first, so with more than there is room for, lanes differ."""
    counted = [lane[name] for lane in lanes if name in lane]
    without_room, last_ms = 0, max((tallies.last_ms for tallies in counted), default=0)
    if name not in tracking.declared:
        without_room = sum(
            len(with_traffic(lane, tracking, last_ms)) >= tracking.most_discovered
            for lane in lanes
            if name not in lane
        )
    segments = [
        {segment for arm in tallies.arms.values() for segment in arm.strata} for tallies in counted
    ]
    # One more than there is room for is the rest.
    full = [of_lane for of_lane in segments if len(of_lane) > MOST_STRATA]
    partial = set[str]().union(*segments).difference(set.intersection(*full)) if full else ()
    spec = tracking.spec(name)
    without_arms = sum(
        spec is not None and tallies.digest == spec.digest and spec.is_full(tallies.arms)
        for tallies in counted
    )
    return CountingLanes(len(counted), without_room, sorted(partial), without_arms=without_arms)


def _with_lost(
    lanes: CountingLanes,
    spec: Spec,
    tallies: Sequence[Tallies],
    lost_before: Sequence[Mapping[str, int]],
) -> CountingLanes:
    """Note the lanes that may have lost what they had counted of an experiment. One that no lane
    saw for so long that it would have been dropped as silent began later."""
    entry = spec.name if spec.declared else ""
    lost_ms = [of_lane[entry] for of_lane in lost_before if entry in of_lane]
    first_ms = min((one.began_ms for one in tallies), default=0)
    first_ms = max(first_ms - SILENT_MS, spec.start_ms or 0)
    lost_ms = [at_ms for at_ms in lost_ms if first_ms < at_ms]
    return replace(lanes, begun_anew=len(lost_ms), lost_before_ms=max(lost_ms, default=0))


def _with_dropped(
    counted_in: CountingLanes,
    name: str,
    lanes: Sequence[Mapping[str, Tallies]],
    dropped_ms: Sequence[int],
) -> CountingLanes:
    """Note the lanes that may have dropped an undeclared experiment as silent, and others did not:
    what they had counted is of before the silence."""
    began_ms = [lane[name].began_ms for lane in lanes if name in lane and lane[name].began_ms]
    silent_ms = [
        at_ms - SILENT_MS
        for lane, at_ms in zip(lanes, dropped_ms)
        if name not in lane or lane[name].began_ms >= at_ms > 0
    ]
    silent_ms = [at_ms for at_ms in silent_ms if began_ms and min(began_ms) < at_ms]
    return replace(counted_in, dropped=len(silent_ms), dropped_before_ms=max(silent_ms, default=0))


class FindingsCache:
    """The last findings, computed again only when a lane's tallies were replaced or an experiment
    has ended."""

    def __init__(self, tracking: Tracking | None, metrics: Sequence[Metric]) -> None:
        self._tracking = tracking
        self._metrics = metrics
        self._lanes: list[Mapping[str, Tallies]] = []
        self._lost_before: Sequence[Mapping[str, int]] = ()
        self._dropped_ms: Sequence[int] = ()
        self._settled_ms = 0
        self._findings: Findings | None = None

    def of(
        self,
        lanes: list[Mapping[str, Tallies]],
        settled_ms: int | None,
        as_of: str | None,
        lost_before: Sequence[Mapping[str, int]] = (),
        dropped_ms: Sequence[int] = (),
    ) -> Findings:
        """The findings of these lanes, given at `as_of`; see `findings`.

        A snapshot is made every second or more often, but tallies change only when a base pane
        settles. A reader never changes the tallies of a lane, it replaces the mapping: so their
        identity shows whether they are the same.
        """
        same = len(lanes) == len(self._lanes) and all(map(is_, lanes, self._lanes))
        same = same and (lost_before, dropped_ms) == (self._lost_before, self._dropped_ms)
        if self._findings is None or not same or self._has_one_ended(settled_ms):
            self._findings = findings(
                lanes, self._tracking, self._metrics, settled_ms, as_of, lost_before, dropped_ms
            )
            self._lanes, self._settled_ms = lanes, settled_ms or 0
            self._lost_before, self._dropped_ms = lost_before, dropped_ms
        return msgspec.structs.replace(self._findings, as_of=as_of)

    def _has_one_ended(self, settled_ms: int | None) -> bool:
        """By time alone, without any change of tallies."""
        if settled_ms is None or self._tracking is None:
            return False
        ends = [spec.end_ms for spec in self._tracking.declared.values()]
        return any(end is not None and self._settled_ms < end <= settled_ms for end in ends)


def _finding(
    experiment: MergedTallies,
    metrics: Sequence[Metric],
    settled_ms: int | None,
    lanes: CountingLanes,
) -> Finding:
    spec, arms = experiment.spec, experiment.arms
    sketches = {variant: Sketch(arm.users) for variant, arm in arms.items()}
    crossover = 0.0 if spec.unit == IMPRESSION else crossover_count([*sketches.values()]).value
    weights = spec.weights_since(experiment.shares_since_ms)
    shares = shares_to_test(spec, arms, weights)
    srm = sample_ratio(spec, arms, shares)
    is_guessed = spec.declared and not weights
    untested = sorted(arms.keys() - {INTERLEAVED, *shares}) if is_guessed else []
    treated = experiment.compared
    compared = Compared(
        {variant: compare_variant(experiment, variant, metrics) for variant in treated},
        {variant: _compare_by_segment(experiment, variant, metrics) for variant in treated},
    )
    undefined = frozenset(
        comparison.all_lists.undefined
        for by_metric in compared.variants.values()
        for comparison in by_metric.values()
    )
    users = {variant: user_count(sketch).value for variant, sketch in sketches.items()}
    busiest = busiest_units(experiment, users)
    buckets = {int(one.unit, 16) % BUCKETS for one in busiest}
    without = experiment.without_buckets(buckets)
    compared.without_busiest.update(
        {variant: compare_variant(without, variant, metrics) for variant in treated if buckets}
    )
    variants = tuple(
        Variant(
            variant,
            arm.impressions,
            users[variant],
            metric_findings(experiment, variant, compared, metrics),
            share_periods(experiment, variant),
            tuple(map(day_name, experiment.mixed.get(variant, ()))),
        )
        for variant, arm in arms.items()
    )
    hang = any(
        metric.without_busiest is not None and metric.without_busiest.verdict != metric.verdict
        for variant in variants
        for metric in variant.metrics
        if metric.role != "secondary"
    )
    checks = Checks(srm, sum(users.values()), crossover, undefined, busiest, hang, lanes, untested)
    finding = Finding(
        experiment=spec.name,
        control=experiment.control,
        unit=spec.unit,
        status=_status(spec, experiment.impressions, settled_ms),
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
        busiest=busiest,
        beyond_cap=sum(arm.beyond_cap for arm in arms.values()),
        users_since=(
            instant_text(experiment.users_since_ms) if experiment.users_since_ms else None
        ),
    )
    return withheld(finding, None if mismatched(srm) else untested)


def busiest_units(experiment: MergedTallies, users: Mapping[str, float]) -> tuple[BusyUnit, ...]:
    """The units that have much of a variant, by variant, the busiest first."""
    found = []
    for variant, arm in experiment.arms.items():
        impressions = int(arm.tallies[:, 0].sum())
        least = max(BUSY_SHARE * impressions, BUSY_TIMES * impressions / max(users[variant], 1.0))
        of_arm = zip(arm.busiest.impressions.tolist(), arm.busiest.units.tolist(), strict=True)
        found += [
            BusyUnit(variant, f"{unit:016x}", count / impressions)
            for count, unit in sorted(of_arm, reverse=True)
            if count > least
        ]
    return tuple(found)


def _compare_by_segment(
    experiment: MergedTallies, variant: str, metrics: Sequence[Metric]
) -> dict[str, Strata]:
    spec = experiment.spec
    design = Design(planned_for_two(spec, experiment.control, variant))
    return compare_segments(experiment, variant, metrics_of(spec, metrics), design)


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


def _status(spec: Spec, impressions: int, settled_ms: int | None) -> str:
    if spec.end_ms is not None and settled_ms is not None and settled_ms >= spec.end_ms:
        return "ended"
    return "running" if impressions else "waiting"


def shares_to_test(
    spec: Spec, arms: Mapping[str, Arm], planned: Sequence[tuple[str, float]]
) -> dict[str, float]:
    """The shares that the users' variants are tested against: the planned ones; where there are
    none, equal ones of all variants but those with hardly any users, which may be misspelt names.
    The control is always tested, and no fewer than two variants are.

    The test stays valid at every look: users of the other variants are dealt equally whatever the
    share of this one is; one that is dealt as many as they are hardly ever looks negligible.
    """
    if planned:
        return dict(planned)
    own = {variant: arm for variant, arm in arms.items() if variant != INTERLEAVED}
    users = {variant: user_count(Sketch(arm.users)).value for variant, arm in own.items()}
    # A real variant whose users are lost still has its impressions.
    impressions = {variant: arm.impressions for variant, arm in own.items()}
    strays = few_users(users) & few_impressions(impressions)
    tested = [name for name in users if name not in strays or name == spec.control]
    return dict.fromkeys(tested if len(tested) > 1 else users, 1.0)


def sample_ratio(
    spec: Spec, arms: Mapping[str, Arm], weights: Mapping[str, float]
) -> SampleRatio | None:
    """Test the users' variants against the shares of `shares_to_test`, also within segments. None
    for undeclared experiments: their plan is not known."""
    if not spec.declared or len(weights) < 2:
        return None
    compared = [arms.get(variant) or Arm.empty(0) for variant in weights]
    sketches, shares = [Sketch(arm.users) for arm in compared], list(weights.values())
    log_evalue, highest = users_sample_ratio_log_evalue(sketches, shares), None
    segments = sorted({segment for arm in compared for segment in arm.homes})
    if segments:
        nobody = np.zeros(0, np.uint64)
        homes = [[arm.homes.get(segment, nobody) for arm in compared] for segment in segments]
        within = strata_sample_ratio_log_evalues(sketches, homes, shares)
        if max(within) > log_evalue:
            highest = segments[within.index(max(within))]
        log_evalue = averaged_log_evalue(log_evalue, within, max(MOST_STRATA + 1, len(segments)))
    return SampleRatio(log_evalue, always_valid_p(log_evalue), highest)
