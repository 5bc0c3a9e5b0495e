"""What a base pane adds to its experiments when it settles. Pure, and exact.

A function of the pane's impressions alone, whatever their order: so of two topics it does not
matter which was read first.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from relevanced.metrics.arithmetic import distinct
from relevanced.metrics.buckets import BUCKETS, LARGEST_SUM, Buckets
from relevanced.metrics.interleaving import credits
from relevanced.metrics.lists import Integers
from relevanced.metrics.users import bucket_indices

from ..experiments.specs import INTERLEAVED, MOST_STRATA, MOST_VARIANTS, Spec, Tracking
from ..experiments.tallies import Arm, Experiments, Tallies
from ..panes import HOUR_MS
from ..plan import OTHER, Plan
from .columns.column import column
from .gain_states import lists_of, score_delays
from .lane import Lane
from .subjects import NO_UNIT

OVERFLOW: Final = "experiment_overflow"
SILENT_MS: Final = 7 * 24 * HOUR_MS
"""An experiment that nobody declared gives its place back after so much event time without any."""


@dataclass(frozen=True)
class _Pane:
    """The impressions of a settling pane that are in an experiment, (n,) of each."""

    start_ms: int
    slots: Integers
    places: Integers
    """Among the columns of the open impressions."""
    assignments: Integers
    states: Integers


def settle_pane(lane: Lane, start_ms: int) -> None:
    """Add the open impressions of one base pane to their experiments. Before they are closed."""
    tracking, subjects = lane.plan.tracking, lane.open.subjects
    if tracking is None or subjects is None:
        return
    slots = np.fromiter(lane.open.slots_in([start_ms]), np.int64)
    places = lane.open.index_of(slots)
    assignments = subjects.assignment_ids()[places].astype(np.int64)
    chosen = assignments > 0
    if not chosen.any():
        return
    slots, places, assignments = slots[chosen], places[chosen], assignments[chosen]
    states = column(lane.open.states)[places].astype(np.int64)
    pane = _Pane(start_ms, slots, places, assignments, states)
    told = _told(lane, assignments)
    _give_places(lane, tracking, pane, told)
    for name in sorted(told.keys() & lane.experiments.by_name.keys()):
        spec = tracking.spec(name)
        since_ms = lane.experiments.since_ms.get(name if spec and spec.declared else "")
        if spec is not None and spec.covers(start_ms):
            if since_ms is None or start_ms >= since_ms:
                _settle_experiment(lane, spec, pane, told[name])


def _told(lane: Lane, assignments: Integers) -> dict[str, dict[int, str]]:
    """Experiment → number of an assignment → variant."""
    found: dict[str, dict[int, str]] = {}
    for number in distinct(assignments).tolist():
        for name, variant in lane.assignments[number]:
            found.setdefault(name, {})[number] = variant
    return found


def _give_places(
    lane: Lane, tracking: Tracking, pane: _Pane, told: Mapping[str, Mapping[int, str]]
) -> None:
    """Let in what is new, the busiest first; count the impressions of what finds no place."""
    experiments, counts = lane.experiments, np.bincount(pane.assignments)
    new = {name: variants for name, variants in told.items() if name not in experiments.by_name}
    for name in tracking.declared.keys() & new.keys():
        experiments.begin(name, tracking.declared[name].digest)
        del new[name]
    impressions = {
        name: sum(int(counts[number]) for number in numbers) for name, numbers in new.items()
    }
    for name in sorted(new, key=lambda name: (-impressions[name], name)):
        if not _room(experiments, tracking, pane.start_ms):
            lane.count(OVERFLOW, "experiment", impressions[name])
            continue
        experiments.begin(name, tracking.discovered.digest)


def _room(experiments: Experiments, tracking: Tracking, now_ms: int) -> bool:
    """Whether one more undeclared experiment has a place; those silent for long give theirs."""
    found = [name for name in experiments.by_name if name not in tracking.declared]
    if len(found) < tracking.most_discovered:
        return True
    silent = [name for name in found if experiments.by_name[name].last_ms < now_ms - SILENT_MS]
    for name in silent:
        experiments.drop(name)
    return len(found) - len(silent) < tracking.most_discovered


def _settle_experiment(lane: Lane, spec: Spec, pane: _Pane, variants: Mapping[int, str]) -> None:
    tallies = lane.experiments.by_name[spec.name]
    tallies.last_ms = max(tallies.last_ms, pane.start_ms)
    lane.experiments.changed.add(spec.name)
    variant_of = np.full(len(lane.assignments), -1)
    names = _admitted(lane, tallies, pane, variants, len(spec.metrics))
    for number, variant in variants.items():
        variant_of[number] = names.index(variant) if variant in names else -1
    arms = variant_of[pane.assignments]
    subjects, tracking = lane.open.subjects, lane.plan.tracking
    assert subjects is not None and tracking is not None
    units = subjects.units()[pane.places, tracking.units.index(spec.unit)]
    chosen = np.flatnonzero((arms >= 0) & (units != NO_UNIT))
    _add(lane, spec, tallies, names, pane, arms, units, chosen)
    if INTERLEAVED in names:
        inside = chosen[arms[chosen] == names.index(INTERLEAVED)]
        _add_credits(lane, spec, tallies.arms[INTERLEAVED], pane, units, inside)
    for place, name in enumerate(names):
        arm, inside = tallies.arms[name], arms == place
        arm.without_unit += int(np.count_nonzero(inside & (units == NO_UNIT)))
        users = distinct(units[inside & (units != NO_UNIT)].view(np.uint64))
        changed = arm.add_users(users)
        lane.experiments.user_pages.update((spec.name, page) for page in changed)


def _add_credits(
    lane: Lane, spec: Spec, arm: Arm, pane: _Pane, units: Integers, chosen: Integers
) -> None:
    """Add who won each of the chosen lists that two rankers share."""
    told = lane.open.teams
    shared = [n for n in chosen.tolist() if int(pane.slots[n]) in told]
    if not shared:
        return
    gains = lists_of([lane.states[number] for number in pane.states[shared].tolist()]).gains
    depth = gains.shape[1]
    teams = np.zeros((len(shared), depth), np.int8)
    for row, slot in enumerate(pane.slots[shared].tolist()):
        sides = [spec.team(name) for name in told[slot][:depth]]
        teams[row, : len(sides)] = sides
    found = credits(gains, teams, lane.plan.depth)
    buckets = Buckets.of(found, bucket_indices(units[shared].view(np.uint64)), unit=1)
    arm.credits += np.stack((buckets.counts, buckets.sums, buckets.squares), axis=1)


def _admitted(
    lane: Lane, tallies: Tallies, pane: _Pane, variants: Mapping[int, str], metrics: int
) -> list[str]:
    """The variants that have a place, the new ones among them the busiest."""
    counts, impressions = np.bincount(pane.assignments), Counter[str]()
    for number, variant in variants.items():
        impressions[variant] += int(counts[number])
    new = [variant for variant in impressions if variant not in tallies.arms]
    for variant in sorted(new, key=lambda variant: (-impressions[variant], variant)):
        if len(tallies.arms) < MOST_VARIANTS:
            tallies.arms[variant] = Arm.empty(metrics)
        else:
            lane.count(OVERFLOW, "variant", impressions[variant])
    return sorted(impressions.keys() & tallies.arms.keys())


def columns_of(spec: Spec, plan: Plan) -> list[int]:
    """Columns of a row that the experiment's tallies hold, behind the impressions."""
    numbers = {metric.name: number for number, metric in enumerate(plan.metrics)}
    firsts = [plan.metric_column(numbers[name]) for name in spec.metrics]
    return [first + offset for first in firsts for offset in range(3)]


def _add(
    lane: Lane,
    spec: Spec,
    tallies: Tallies,
    variants: Sequence[str],
    pane: _Pane,
    arms: Integers,
    units: Integers,
    chosen: Integers,
) -> None:
    """Add what the chosen impressions came to. Equal states are scored and added once."""
    if not len(chosen):
        return
    buckets = bucket_indices(units[chosen].view(np.uint64))
    segments, strata = _strata(lane, spec, tallies, pane, chosen)
    cells = (arms[chosen] * len(segments) + strata) * BUCKETS + buckets
    rows, columns = lane.states.rows(), [0, *columns_of(spec, lane.plan)]
    keys, counts = np.unique(cells * len(rows) + pane.states[chosen], return_counts=True)
    of_cell, states = np.divmod(keys, len(rows))
    shape = (len(variants), len(segments), BUCKETS, len(columns))
    sums = np.zeros(shape, np.int64).reshape(-1, len(columns))
    np.add.at(sums, of_cell, rows[states][:, columns] * counts[:, np.newaxis])
    delays = lane.open.delays_ms
    timed = [n for n, slot in enumerate(pane.slots[chosen].tolist()) if slot in delays]
    if timed:
        told = [delays[slot] for slot in pane.slots[chosen][timed].tolist()]
        np.add.at(sums, cells[timed], score_delays(told, lane.plan)[:, columns])
    for variant, parts in zip(variants, sums.reshape(shape), strict=True):
        arm = tallies.arms[variant]
        arm.tallies += parts.sum(axis=0)
        highest = int(np.abs(arm.tallies).max())
        if highest >= LARGEST_SUM:
            raise OverflowError(f"a bucket's tally of {highest}: must stay below {LARGEST_SUM}")
        if spec.stratify_by is not None:
            for segment, part in zip(segments, parts, strict=True):
                if part.any():
                    arm.strata[segment] = arm.strata.get(segment, 0) + part


def _strata(
    lane: Lane, spec: Spec, tallies: Tallies, pane: _Pane, chosen: Integers
) -> tuple[list[str], Integers]:
    """Segments, and which of them each of the chosen impressions counts in. The new ones get a
    place by how busy they are, the last is `other`. Without strata all is one."""
    if spec.stratify_by is None:
        return [""], np.zeros(len(chosen), np.int64)
    combinations = column(lane.open.combinations)[pane.places[chosen]]
    grouping = lane.plan.grouping_names.index(spec.stratify_by)
    numbers, which, counts = np.unique(
        lane.segments.combination_table()[combinations, grouping],
        return_inverse=True,
        return_counts=True,
    )
    told = [lane.segments.names[number][1] for number in numbers.tolist()]
    held = {segment for arm in tallies.arms.values() for segment in arm.strata} - {OTHER}
    busy = sorted(zip((-counts).tolist(), told, strict=True))
    new = [segment for _, segment in busy if segment not in held and segment != OTHER]
    held.update(new[: MOST_STRATA - len(held)])
    names = [*sorted(held.intersection(told)), OTHER]
    places = [names.index(segment if segment in held else OTHER) for segment in told]
    return names, np.array(places, np.int64)[which.reshape(-1)]
