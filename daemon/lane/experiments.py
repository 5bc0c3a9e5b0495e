"""What base panes add to their experiments when they settle; what stands in an excluded stretch is
counted, not scored. Pure, and exact.

A function of the panes' impressions alone, whatever their order: so of two topics it does not
matter which was read first. Panes of a sparse recording are settled by the hour, with the same sums
as one after the other: what depends on their order is cut out, and settled pane by pane.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from relevanced.metrics import (
    BUCKETS,
    LARGEST_SUM,
    Booleans,
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
    Arm,
    Experiments,
    Spec,
    Tallies,
    Tracking,
    day_start,
    with_traffic,
    within_stretches,
)
from ..panes import HOUR_MS, pane_start
from ..plan import OTHER, Plan
from .columns.arrays import new_column
from .gain_states import lists_of, score_delays
from .impression_columns import NO_UNIT
from .lane import Lane


def leave_out(
    lane: Lane,
    start_ms: int,
    index: Integers,
    assignments: Integers,
    variants_of: Mapping[str, Mapping[int, str]],
) -> None:
    """Count the impressions and users of each variant that an excluded stretch left out.

    index, assignments (n,): place among the open impressions, and assignment id, of those of the
    base panes of which the first starts at `start_ms`. variants_of: experiment → assignment id →
    variant.
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


@dataclass(frozen=True)
class _Settled:
    """Impressions of settling panes that are in an experiment, (n,) of each, by pane."""

    panes: Integers
    """Start of the base pane of each, ascending."""
    index: Integers
    """Index of each in the columns of the open impressions, ascending within a pane."""
    assignments: Integers

    def __len__(self) -> int:
        return len(self.panes)

    @property
    def start_ms(self) -> int:
        """Start of the first pane."""
        return int(self.panes[0])

    def at(self, which: slice | Booleans) -> "_Settled":
        """Some of them."""
        return _Settled(self.panes[which], self.index[which], self.assignments[which])

    def each_pane(self) -> Iterator["_Settled"]:
        """Those of each pane."""
        borders = np.flatnonzero(np.diff(self.panes)) + 1
        for start, stop in pairwise((0, *borders.tolist(), len(self))):
            yield self.at(slice(start, stop))


@dataclass(frozen=True)
class _Share:
    """What one experiment sees of settling panes."""

    lane: Lane
    spec: Spec
    tallies: Tallies
    shown: _Settled
    states: Integers
    """(n,) gain state of each impression."""
    variants: list[str]
    """The admitted variants that occur in the panes, sorted."""
    arms: Integers
    """(n,) index in `variants` of each impression; -1: in none of them."""
    units: Integers
    """(n,) hash of the unit of each impression, or NO_UNIT."""

    def slots(self, which: Integers) -> Integers:
        """The slots of some of the impressions."""
        return self.lane.open.slots_at(self.shown.index[which])


def settle_experiments(lane: Lane, slots: Integers) -> None:
    """Add the open impressions of whole base panes to their experiments, before they are closed:
    their slots, (n,), ascending."""
    tracking, subjects = lane.plan.tracking, lane.open.subjects
    if tracking is None or subjects is None:
        return
    index = lane.open.index_of(slots)
    assignments = subjects.assignment_ids()[index].astype(np.int64)
    index, assignments = index[assignments > 0], assignments[assignments > 0]
    panes = pane_start(lane.open.times_ms.at(index), lane.plan.timing.base_ms)
    order = np.argsort(panes, kind="stable")
    for shown in _at_once(lane, tracking, _Settled(panes[order], index[order], assignments[order])):
        _settle(lane, tracking, shown)


def _at_once(lane: Lane, tracking: Tracking, shown: _Settled) -> Iterator[_Settled]:
    """The impressions in parts that add the same in any order of their panes: each within an hour
    of a day, between the instants from which others count, and without a name that is to be
    admitted, of which those of earlier panes come first."""
    specs = tracking.declared.values()
    instants = [at_ms for spec in specs for at_ms, _ in spec.ramp]
    bounds = [at_ms for spec in specs for at_ms in (spec.start_ms, spec.end_ms)]
    bounds += lane.experiments.since_ms.values()
    passed = lane.experiments.passed_over.values()
    bounds += [at_ms for stretches in passed for stretch in stretches for at_ms in stretch]
    instants += [at_ms for at_ms in bounds if at_ms]
    cuts = np.searchsorted(sorted(instants), shown.panes, side="right")
    spans = (cuts, shown.panes // HOUR_MS, day_start(shown.panes))
    changes = np.any([np.diff(span) != 0 for span in spans], axis=0)
    for start, stop in pairwise((0, *(np.flatnonzero(changes) + 1).tolist(), len(shown))):
        while start < stop:
            panes, ids = shown.panes[start:stop], shown.assignments[start:stop]
            is_new = [number for number in distinct(ids).tolist() if not _is_known(lane, number)]
            end, first_new = stop, np.flatnonzero(np.isin(ids, is_new))[:1]
            if len(first_new):
                pane = panes[first_new[0]]
                before = start + int(np.searchsorted(panes, pane))
                after = start + int(np.searchsorted(panes, pane, side="right"))
                end = after if before == start else before
            yield shown.at(slice(start, end))
            start = end


def _is_known(lane: Lane, assignment_id: int) -> bool:
    """Whether all variants of an assignment have an arm, or cannot get one any more."""
    return all(_is_known_variant(lane, *one) for one in lane.assignments[assignment_id])


def _is_known_variant(lane: Lane, name: str, variant: str) -> bool:
    tracking, tallies = lane.plan.tracking, lane.experiments.by_name.get(name)
    if tallies is None or variant in tallies.arms:
        return tallies is not None
    spec = None if tracking is None else tracking.spec(name)
    return spec is None or not spec.has_room(variant, tallies.arms)


def _settle(lane: Lane, tracking: Tracking, shown: _Settled) -> None:
    start_ms = shown.start_ms
    if tracking.excluded:
        excluded = within_stretches(lane.open.times_ms.at(shown.index), tracking.excluded)
        index, assignments = shown.index[excluded], shown.assignments[excluded]
        leave_out(lane, start_ms, index, assignments, _variants_of(lane, assignments))
        shown = shown.at(~excluded)
    variants_of = _variants_of(lane, shown.assignments)
    _admit(lane, tracking, start_ms, shown.assignments, variants_of)
    for name in sorted(variants_of.keys() & lane.experiments.by_name.keys()):
        spec = tracking.spec(name)
        if spec is None:
            continue
        if not lane.experiments.counts(spec, start_ms):
            lane.experiments.miss(spec, start_ms)
            continue
        of_experiment = shown.at(np.isin(shown.assignments, [*variants_of[name]]))
        # Caps and strata depend on what earlier panes had.
        is_ordered = spec.daily_cap is not None or spec.stratify_by is not None
        for part in of_experiment.each_pane() if is_ordered else (of_experiment,):
            _settle_experiment(lane, spec, part, variants_of[name])


def _variants_of(lane: Lane, assignments: Integers) -> dict[str, dict[int, str]]:
    """Experiment → assignment id → variant."""
    found: dict[str, dict[int, str]] = {}
    for assignment_id in distinct(assignments).tolist():
        for name, variant in lane.assignments[assignment_id]:
            found.setdefault(name, {})[assignment_id] = variant
    return found


def _admit(
    lane: Lane,
    tracking: Tracking,
    start_ms: int,
    assignments: Integers,
    variants_of: Mapping[str, Mapping[int, str]],
) -> None:
    """Admit experiments that are new, those with the most impressions first; count the impressions
    of those that are not admitted."""
    experiments, counts = lane.experiments, np.bincount(assignments)
    new = {name: by_id for name, by_id in variants_of.items() if name not in experiments.by_name}
    for name in tracking.declared.keys() & new.keys():
        experiments.begin(name, tracking.declared[name].digest)
        del new[name]
    impressions = {name: sum(int(counts[n]) for n in by_id) for name, by_id in new.items()}
    for name in sorted(new, key=lambda name: (-impressions[name], name)):
        if not _has_room(experiments, tracking, start_ms):
            lane.count(OVERFLOW, "experiment", impressions[name])
            continue
        experiments.begin(name, tracking.discovered.digest)


def _has_room(experiments: Experiments, tracking: Tracking, now_ms: int) -> bool:
    """Whether one more undeclared experiment may be admitted. Drops the silent ones if it must."""
    undeclared = [name for name in experiments.by_name if name not in tracking.declared]
    if len(undeclared) < tracking.most_discovered:
        return True
    kept = with_traffic(experiments.by_name, tracking, now_ms)
    for name in undeclared:
        if name not in kept:
            experiments.drop(name)
            experiments.dropped_ms = now_ms
    return len(kept) < tracking.most_discovered


def _settle_experiment(
    lane: Lane, spec: Spec, shown: _Settled, variants: Mapping[int, str]
) -> None:
    """Add impressions of the experiment: those of a part of `_at_once`, or of one of its panes."""
    tallies = lane.experiments.by_name[spec.name]
    for pane_ms in (shown.start_ms, int(shown.panes[-1])):
        lane.experiments.reach(spec, pane_ms)
    lane.experiments.changed.add(spec.name)
    share = _share_of(lane, spec, tallies, shown, variants)
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
    """Those of the selected impressions whose unit had not had its most of the day before their
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
        today.add_in_turn(units[of_arm], share.shown.panes[selected][of_arm])
    return selected[kept]


def _share_of(
    lane: Lane, spec: Spec, tallies: Tallies, shown: _Settled, variants: Mapping[int, str]
) -> _Share:
    admitted = _admitted_variants(lane, spec, tallies, shown.assignments, variants)
    arm_of = np.full(len(lane.assignments), -1)
    for assignment_id, variant in variants.items():
        arm_of[assignment_id] = admitted.index(variant) if variant in admitted else -1
    subjects, tracking = lane.open.subjects, lane.plan.tracking
    assert subjects is not None and tracking is not None
    units = subjects.units()[shown.index, tracking.units.index(spec.unit)]
    states = new_column(lane.open.states)[shown.index].astype(np.int64)
    arms = arm_of[shown.assignments]
    return _Share(lane, spec, tallies, shown, states, admitted, arms, units)


def _admitted_variants(
    lane: Lane, spec: Spec, tallies: Tallies, assignments: Integers, variants: Mapping[int, str]
) -> list[str]:
    """The variants of the impressions that are admitted, sorted; of new ones for which no room is
    kept those with the most impressions first."""
    counts, impressions = np.bincount(assignments, minlength=len(lane.assignments)), Counter[str]()
    for assignment_id, variant in variants.items():
        if counts[assignment_id]:
            impressions[variant] += int(counts[assignment_id])
    new = [variant for variant in impressions if variant not in tallies.arms]
    for variant in sorted(new, key=lambda variant: (-impressions[variant], variant)):
        if spec.has_room(variant, tallies.arms):
            tallies.arms[variant] = Arm.empty(len(spec.metrics))
        else:
            lane.count(OVERFLOW, "variant", impressions[variant])
    return sorted(impressions.keys() & tallies.arms.keys())


def _add_credits(share: _Share, selected: Integers) -> None:
    """Add which ranker won each of the selected lists that name the teams of both."""
    lane, teams_of = share.lane, share.lane.open.teams
    of_slot = zip(selected.tolist(), share.slots(selected).tolist()) if teams_of else ()
    sides_of = {n: share.spec.sides(teams_of[slot]) for n, slot in of_slot if slot in teams_of}
    shared = [n for n, sides in sides_of.items() if sides]
    if not shared:
        return
    gains = lists_of([lane.states[state_id] for state_id in share.states[shared].tolist()]).gains
    depth = gains.shape[1]
    teams = np.zeros((len(shared), depth), np.int8)
    for row, n in enumerate(shared):
        sides = sides_of[n][:depth]
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
    lane = share.lane
    buckets = bucket_indices(share.units[selected].view(np.uint64))
    cells = (share.arms[selected] * len(segments) + strata) * BUCKETS + buckets
    rows, columns = lane.states.rows(), [0, *columns_of(share.spec, lane.plan)]
    keys, counts = np.unique(cells * len(rows) + share.states[selected], return_counts=True)
    of_cell, states = np.divmod(keys, len(rows))
    shape = (len(share.variants), len(segments), BUCKETS, len(columns))
    sums = np.zeros(shape, np.int64).reshape(-1, len(columns))
    np.add.at(sums, of_cell, rows[states][:, columns] * counts[:, np.newaxis])
    delays = lane.open.delays_ms
    slots = share.slots(selected).tolist() if delays else []
    timed = [n for n, slot in enumerate(slots) if slot in delays]
    if timed:
        delays_ms = [delays[slots[n]] for n in timed]
        np.add.at(sums, cells[timed], score_delays(delays_ms, lane.plan)[:, columns])
    for variant, by_stratum in zip(share.variants, sums.reshape(shape), strict=True):
        _add_to_arm(share, variant, segments, by_stratum)


def _add_to_arm(share: _Share, variant: str, segments: list[str], by_stratum: Integers) -> None:
    arm = share.tallies.arms[variant]
    arm.tallies += by_stratum.sum(axis=0)
    arm.hours[share.shown.start_ms % DAY_MS // HOUR_MS] += by_stratum[..., 0].sum()
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
    combinations = new_column(lane.open.combinations)[share.shown.index[selected]]
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
