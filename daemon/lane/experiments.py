"""What a base pane adds to its experiments when it settles; what stands in an excluded stretch is
counted, not scored. Pure, and exact.

A function of the pane's impressions alone, whatever their order: so of two topics it does not
matter which was read first.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from relevanced.metrics import (
    BUCKETS,
    LARGEST_SUM,
    Integers,
    UserBuckets,
    bucket_indices,
    credits,
    distinct,
)

from ..experiments import (
    DAY_MS,
    IMPRESSION,
    INTERLEAVED,
    MOST_STRATA,
    MOST_VARIANTS,
    Arm,
    Busiest,
    Experiments,
    Spec,
    Tallies,
    Tracking,
    within_stretches,
)
from ..panes import HOUR_MS
from ..plan import OTHER, Plan
from .columns.arrays import new_column
from .gain_states import lists_of, score_delays
from .lane import Lane
from .new_impressions import NO_UNIT


def leave_out(
    lane: Lane,
    start_ms: int,
    index: Integers,
    assignments: Integers,
    variants_of: Mapping[str, Mapping[int, str]],
) -> None:
    """Count the impressions and users of each variant that an excluded stretch left out.

    index, assignments (n,): place among the open impressions, and assignment id, of those of the
    base pane that starts at `start_ms`. variants_of: experiment → assignment id → variant.
    """
    tracking, subjects = lane.plan.tracking, lane.open.subjects
    assert tracking is not None and subjects is not None
    for name, by_id in variants_of.items():
        spec = tracking.spec(name)
        if spec is None or not spec.covers(start_ms):
            continue
        units = subjects.units()[index, tracking.units.index(spec.unit)]
        arms = lane.experiments.left_out.setdefault(name, {})
        for assignment_id, variant in by_id.items():
            _add(arms.setdefault(variant, Arm.empty(0)), units[assignments == assignment_id])


def _add(arm: Arm, units: Integers) -> None:
    known = units[units != NO_UNIT].view(np.uint64)
    arm.without_unit += len(units) - len(known)
    arm.tallies[:, 0] += np.bincount(bucket_indices(known), minlength=BUCKETS)
    arm.add_users(distinct(known))


OVERFLOW: Final = "experiment_overflow"
SILENT_MS: Final = 7 * 24 * HOUR_MS
"""An undeclared experiment without impressions for so much event time is dropped for a new one."""


@dataclass(frozen=True)
class _Pane:
    """The impressions of a settling pane that are in an experiment, (n,) of each."""

    start_ms: int
    slots: Integers
    index: Integers
    """Index of each in the columns of the open impressions."""
    assignments: Integers
    states: Integers


@dataclass(frozen=True)
class _Share:
    """What one experiment sees of a settling pane."""

    lane: Lane
    spec: Spec
    tallies: Tallies
    pane: _Pane
    variants: list[str]
    """The admitted variants that occur in the pane, sorted."""
    arms: Integers
    """(n,) index in `variants` of each of the pane's impressions; -1: in none of them."""
    units: Integers
    """(n,) hash of the unit of each of the pane's impressions, or NO_UNIT."""


def settle_pane(lane: Lane, start_ms: int) -> None:
    """Add the open impressions of one base pane to their experiments, before they are closed."""
    tracking, subjects = lane.plan.tracking, lane.open.subjects
    if tracking is None or subjects is None:
        return
    slots = np.fromiter(lane.open.slots_in([start_ms]), np.int64)
    index = lane.open.index_of(slots)
    assignments = subjects.assignment_ids()[index].astype(np.int64)
    in_experiment = assignments > 0
    if not in_experiment.any():
        return
    if tracking.excluded:
        excluded = within_stretches(lane.open.times_ms.at(index), tracking.excluded)
        left_out = index[in_experiment & excluded], assignments[in_experiment & excluded]
        leave_out(lane, start_ms, *left_out, _variants_of(lane, left_out[1]))
        in_experiment &= ~excluded
    slots, index, assignments = (
        slots[in_experiment],
        index[in_experiment],
        assignments[in_experiment],
    )
    states = new_column(lane.open.states)[index].astype(np.int64)
    pane = _Pane(start_ms, slots, index, assignments, states)
    variants_of = _variants_of(lane, assignments)
    _admit(lane, tracking, pane, variants_of)
    for name in sorted(variants_of.keys() & lane.experiments.by_name.keys()):
        spec = tracking.spec(name)
        since_ms = lane.experiments.since_ms.get(name if spec and spec.declared else "")
        if spec is not None and spec.covers(start_ms):
            if since_ms is None or start_ms >= since_ms:
                _settle_experiment(lane, spec, pane, variants_of[name])


def _variants_of(lane: Lane, assignments: Integers) -> dict[str, dict[int, str]]:
    """Experiment → assignment id → variant."""
    found: dict[str, dict[int, str]] = {}
    for assignment_id in distinct(assignments).tolist():
        for name, variant in lane.assignments[assignment_id]:
            found.setdefault(name, {})[assignment_id] = variant
    return found


def _admit(
    lane: Lane, tracking: Tracking, pane: _Pane, variants_of: Mapping[str, Mapping[int, str]]
) -> None:
    """Admit experiments that are new, those with the most impressions first; count the impressions
    of those that are not admitted."""
    experiments, counts = lane.experiments, np.bincount(pane.assignments)
    new = {name: by_id for name, by_id in variants_of.items() if name not in experiments.by_name}
    for name in tracking.declared.keys() & new.keys():
        experiments.begin(name, tracking.declared[name].digest)
        del new[name]
    impressions = {name: sum(int(counts[n]) for n in by_id) for name, by_id in new.items()}
    for name in sorted(new, key=lambda name: (-impressions[name], name)):
        if not _has_room(experiments, tracking, pane.start_ms):
            lane.count(OVERFLOW, "experiment", impressions[name])
            continue
        experiments.begin(name, tracking.discovered.digest)


def _has_room(experiments: Experiments, tracking: Tracking, now_ms: int) -> bool:
    """Whether one more undeclared experiment may be admitted. Drops the silent ones if it must."""
    undeclared = [name for name in experiments.by_name if name not in tracking.declared]
    if len(undeclared) < tracking.most_discovered:
        return True
    since_ms = now_ms - SILENT_MS
    silent = [name for name in undeclared if experiments.by_name[name].last_ms < since_ms]
    for name in silent:
        experiments.drop(name)
    return len(undeclared) - len(silent) < tracking.most_discovered


def _settle_experiment(lane: Lane, spec: Spec, pane: _Pane, variants: Mapping[int, str]) -> None:
    tallies = lane.experiments.by_name[spec.name]
    since_ms = spec.shares_since(pane.start_ms)
    lane.experiments.reach(spec.name, pane.start_ms, since_ms, spec.daily_cap)
    lane.experiments.changed.add(spec.name)
    share = _share_of(lane, spec, tallies, pane, variants)
    selected = np.flatnonzero((share.arms >= 0) & (share.units != NO_UNIT))
    selected = _below_cap(share, selected)
    segments, strata = _strata(share, selected)
    _add_metrics(share, selected, segments, strata)
    if INTERLEAVED in share.variants:
        _add_credits(share, selected[share.arms[selected] == share.variants.index(INTERLEAVED)])
    for index, variant in enumerate(share.variants):
        arm, inside = tallies.arms[variant], share.arms == index
        arm.without_unit += int(np.count_nonzero(inside & (share.units == NO_UNIT)))
        of_arm = share.arms[selected] == index
        units, strata_of = share.units[selected][of_arm].view(np.uint64), strata[of_arm]
        # Of the segments of a user in this pane the first by name, whatever the order of events.
        order = np.lexsort((strata_of, units))
        users, firsts = np.unique(units[order], return_index=True)
        homes = [segments[n] for n in strata_of[order][firsts].tolist()]
        changed = arm.add_users(users, homes if spec.stratify_by else ())
        lane.experiments.user_pages.update((spec.name, page) for page in changed)


def _below_cap(share: _Share, selected: Integers) -> Integers:
    """Those of the selected impressions whose unit had not had its most of the day before this
    pane. The others are counted."""
    if share.spec.unit == IMPRESSION:
        return selected
    kept = np.ones(len(selected), np.bool_)
    for index, variant in enumerate(share.variants):
        arm, of_arm = share.tallies.arms[variant], share.arms[selected] == index
        units, today = share.units[selected].view(np.uint64), arm.busiest_today
        if share.spec.daily_cap is not None:
            most = today.units[today.impressions >= share.spec.daily_cap]
            beyond = of_arm & np.isin(units, most)
            arm.beyond_cap += int(np.count_nonzero(beyond))
            kept &= ~beyond
        today.add(Busiest.of(units[of_arm]))
    return selected[kept]


def _share_of(
    lane: Lane, spec: Spec, tallies: Tallies, pane: _Pane, variants: Mapping[int, str]
) -> _Share:
    admitted = _admitted_variants(lane, spec, tallies, pane, variants)
    arm_of = np.full(len(lane.assignments), -1)
    for assignment_id, variant in variants.items():
        arm_of[assignment_id] = admitted.index(variant) if variant in admitted else -1
    subjects, tracking = lane.open.subjects, lane.plan.tracking
    assert subjects is not None and tracking is not None
    units = subjects.units()[pane.index, tracking.units.index(spec.unit)]
    return _Share(lane, spec, tallies, pane, admitted, arm_of[pane.assignments], units)


def _admitted_variants(
    lane: Lane, spec: Spec, tallies: Tallies, pane: _Pane, variants: Mapping[int, str]
) -> list[str]:
    """The variants of the pane that are admitted, sorted; of new ones those with the most
    impressions first."""
    counts, impressions = np.bincount(pane.assignments), Counter[str]()
    for assignment_id, variant in variants.items():
        impressions[variant] += int(counts[assignment_id])
    new = [variant for variant in impressions if variant not in tallies.arms]
    for variant in sorted(new, key=lambda variant: (-impressions[variant], variant)):
        if len(tallies.arms) < MOST_VARIANTS:
            tallies.arms[variant] = Arm.empty(len(spec.metrics))
        else:
            lane.count(OVERFLOW, "variant", impressions[variant])
    return sorted(impressions.keys() & tallies.arms.keys())


def _add_credits(share: _Share, selected: Integers) -> None:
    """Add which ranker won each of the selected lists that two rankers share."""
    lane, pane, teams_of = share.lane, share.pane, share.lane.open.teams
    shared = [n for n in selected.tolist() if int(pane.slots[n]) in teams_of]
    if not shared:
        return
    gains = lists_of([lane.states[state_id] for state_id in pane.states[shared].tolist()]).gains
    depth = gains.shape[1]
    teams = np.zeros((len(shared), depth), np.int8)
    for row, slot in enumerate(pane.slots[shared].tolist()):
        sides = [share.spec.team(name) for name in teams_of[slot][:depth]]
        teams[row, : len(sides)] = sides
    won = credits(gains, teams, lane.plan.depth)
    buckets = UserBuckets.of(won, bucket_indices(share.units[shared].view(np.uint64)), unit=1)
    added = np.stack((buckets.counts, buckets.sums, buckets.squares), axis=1)
    share.tallies.arms[INTERLEAVED].credits += added


def columns_of(spec: Spec, plan: Plan) -> list[int]:
    """The columns of a row that the experiment's tallies have, after the impressions."""
    indices = {metric.name: index for index, metric in enumerate(plan.metrics)}
    firsts = [plan.metric_column(indices[name]) for name in spec.metrics]
    return [first + offset for first in firsts for offset in range(3)]


def _add_metrics(share: _Share, selected: Integers, segments: list[str], strata: Integers) -> None:
    """Add the metrics of the selected impressions to their arms. Equal states are scored and added
    once."""
    if not len(selected):
        return
    lane, pane = share.lane, share.pane
    buckets = bucket_indices(share.units[selected].view(np.uint64))
    cells = (share.arms[selected] * len(segments) + strata) * BUCKETS + buckets
    rows, columns = lane.states.rows(), [0, *columns_of(share.spec, lane.plan)]
    keys, counts = np.unique(cells * len(rows) + pane.states[selected], return_counts=True)
    of_cell, states = np.divmod(keys, len(rows))
    shape = (len(share.variants), len(segments), BUCKETS, len(columns))
    sums = np.zeros(shape, np.int64).reshape(-1, len(columns))
    np.add.at(sums, of_cell, rows[states][:, columns] * counts[:, np.newaxis])
    delays = lane.open.delays_ms
    timed = [n for n, slot in enumerate(pane.slots[selected].tolist()) if slot in delays]
    if timed:
        delays_ms = [delays[slot] for slot in pane.slots[selected][timed].tolist()]
        np.add.at(sums, cells[timed], score_delays(delays_ms, lane.plan)[:, columns])
    for variant, by_stratum in zip(share.variants, sums.reshape(shape), strict=True):
        _add_to_arm(share, variant, segments, by_stratum)


def _add_to_arm(share: _Share, variant: str, segments: list[str], by_stratum: Integers) -> None:
    arm = share.tallies.arms[variant]
    arm.tallies += by_stratum.sum(axis=0)
    arm.hours[share.pane.start_ms % DAY_MS // HOUR_MS] += by_stratum[..., 0].sum()
    highest = int(np.abs(arm.tallies).max())
    if highest >= LARGEST_SUM:
        raise OverflowError(f"a bucket's tally of {highest}: must stay below {LARGEST_SUM}")
    if share.spec.stratify_by is not None:
        for segment, tallies in zip(segments, by_stratum, strict=True):
            if tallies.any():
                arm.strata[segment] = arm.strata.get(segment, 0) + tallies


def _strata(share: _Share, selected: Integers) -> tuple[list[str], Integers]:
    """The segments of the strata, and the index among them of each selected impression. New
    segments are admitted by their number of impressions; the last segment is `other`. An experiment
    that is not stratified has one stratum."""
    if share.spec.stratify_by is None:
        return [""], np.zeros(len(selected), np.int64)
    lane = share.lane
    combinations = new_column(lane.open.combinations)[share.pane.index[selected]]
    grouping = lane.plan.grouping_names.index(share.spec.stratify_by)
    segment_ids, which, counts = np.unique(
        lane.segments.combination_table()[combinations, grouping],
        return_inverse=True,
        return_counts=True,
    )
    names = [lane.segments.names[segment_id][1] for segment_id in segment_ids.tolist()]
    arms = share.tallies.arms.values()
    admitted = {segment for arm in arms for segment in arm.strata} - {OTHER}
    busiest = sorted(zip((-counts).tolist(), names, strict=True))
    new = [name for _, name in busiest if name not in admitted and name != OTHER]
    admitted.update(new[: MOST_STRATA - len(admitted)])
    strata = [*sorted(admitted.intersection(names)), OTHER]
    indices = [strata.index(name if name in admitted else OTHER) for name in names]
    return strata, np.array(indices, np.int64)[which.reshape(-1)]
