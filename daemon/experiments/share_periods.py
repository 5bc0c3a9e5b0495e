"""The days of an experiment, and its periods of constant shares. Pure.

A UTC day is the least span of time that is known by itself. Days in which the arms kept their
shares of the traffic make a period; where these changed within a day, as its hours tell, the day is
in no period: arms that lived through different hours cannot be compared. All this is of two arms, a
variant and the control: it does not depend on what the others do.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Final

import numpy as np

from relevanced.metrics import Floats, Integers, share_deviate

from .arms import Arm
from .spec import Spec
from .tallies import DAY_MS, MergedTallies, SteadyDays, Tallies, day_start, merge_tallies
from .types import SharePeriod

MOVED: Final = 3.0
"""Standard errors from which on the shares of a day are others than those of the period before it.
Too many periods cost little, and a change that is missed is small against the errors of means."""


APART: Final = 0.1
"""Share of the impressions of an arm that may lie in other hours of a day than those of another
arm, beyond what clustered impressions do by chance."""


CLUSTERED: Final = 9.0
"""Design effect of the impressions of an hour up to which chance is allowed for."""


def known_days(spec: Spec, lanes: Sequence[Tallies]) -> list[int]:
    """The starts in ms of the UTC days of which the end is known in all lanes, ascending: those
    with impressions, without the days before `first_known`."""
    days = {
        day for tallies in _under_spec(spec, lanes) for day in (*tallies.ends, tallies.open_day_ms)
    }
    first = first_known(spec, lanes)
    return sorted(day for day in days if first is None or day >= first)


def first_known(spec: Spec, lanes: Sequence[Tallies]) -> int | None:
    """The start of the first day from which on all lanes know the ends of all days, but not what it
    added; None where all of them have all days."""
    firsts = (
        tallies.first_end_ms for tallies in _under_spec(spec, lanes) if not tallies.has_all_days
    )
    return max(firsts, default=None)


def divided(spec: Spec, lanes: Sequence[Tallies]) -> MergedTallies:
    """The sum of the lanes, divided into periods where days are known."""
    whole = merge_tallies(spec, lanes)
    so_far = without_days(whole)
    for days, added in added_by_days(spec, lanes):
        so_far = with_days(so_far, days, added)
    summed_until_ms = first_known(spec, lanes) or 0
    return replace(
        whole, periods=so_far.periods, mixed=so_far.mixed, summed_until_ms=summed_until_ms
    )


def added_by_days(
    spec: Spec, lanes: Sequence[Tallies]
) -> Iterator[tuple[tuple[int, int], MergedTallies]]:
    """The starts of the first and the last of some days, and what they added: of each known day,
    and before them of the days up to the first one, between the ends that are known."""
    last = merge_tallies(spec, _under_spec(spec, lanes))
    first, before = first_known(spec, lanes), without_days(last)
    counted = _under_spec(spec, lanes)
    began_ms = min((of.began_ms for of in counted), default=0)
    last_ms = max((of.last_ms for of in counted), default=0)
    changes = {
        variant: [
            at_ms
            for at_ms in planned_changes(spec, last.control, variant)
            if began_ms < at_ms <= last_ms
        ]
        for variant in last.compared
    }
    for first_ms, day_ms in _spans(spec, lanes):
        until = _at_end_of(day_ms, spec, lanes, last)
        arms = {
            variant: Arm(
                arm.tallies - before.arms[variant].tallies,
                arm.without_unit - before.arms[variant].without_unit,
                strata={
                    segment: part - before.arms[variant].strata.get(segment, 0)
                    for segment, part in arm.strata.items()
                },
                hours=arm.hours,
            )
            for variant, arm in until.arms.items()
        }
        # The hours are those of the last day.
        is_one_day = first_ms == day_ms != first
        mixed = [
            variant
            for variant in last.compared
            if (is_one_day and _is_mixed(arms, last.control, variant))
            or any(first_ms < at_ms < day_ms + DAY_MS for at_ms in changes[variant])
        ]
        yield (first_ms, day_ms), replace(
            last,
            arms=arms,
            periods={variant: () for variant in mixed},
            mixed={variant: tuple(range(first_ms, day_ms + 1, DAY_MS)) for variant in mixed},
        )
        before = until


def _spans(spec: Spec, lanes: Sequence[Tallies]) -> Iterator[tuple[int, int]]:
    """The first and the last day between ends that all lanes know."""
    counted, first = _under_spec(spec, lanes), first_known(spec, lanes)
    if first is not None:
        kept = {day for of in counted for day in of.ends if day < first}
        began_ms = min(of.began_ms for of in counted)
        start_ms = day_start(began_ms) if began_ms else min([first, *kept])
        for day in sorted(kept):
            if all(of.knows_end_of(day) for of in counted):
                yield start_ms, day
                start_ms = day + DAY_MS
        yield start_ms, first
    yield from ((day, day) for day in known_days(spec, lanes) if day != first)


def planned_changes(spec: Spec, control: str, variant: str) -> list[int]:
    """The instants in ms from which other shares of a variant and the control, of what they have
    together, are planned. A ramp that only brings in a third one is none."""
    found, before = [], _planned_ratio(spec, 0, control, variant)
    for at_ms, _ in spec.ramp:
        ratio = _planned_ratio(spec, at_ms, control, variant)
        if not math.isclose(ratio, before):
            found.append(at_ms)
        before = ratio
    return found


def _planned_ratio(spec: Spec, since_ms: int, control: str, variant: str) -> float:
    """How many times the share of the control the variant is to have since then."""
    weights = dict(spec.weights_since(since_ms))
    if not weights:
        return 1.0
    return weights.get(variant, 0.0) / weights[control] if control in weights else math.inf


def share_periods(experiment: MergedTallies, variant: str) -> tuple[SharePeriod, ...]:
    """The periods of a variant for people; none where its share did not change."""
    if not experiment.in_periods(variant):
        return ()
    found = []
    for period in experiment.periods[variant]:
        counts = {name: int(of[""][:, 0].sum()) for name, of in period.arms.items()}
        total = max(1, sum(counts.values()))
        shares = {name: count / total for name, count in counts.items()}
        found.append(SharePeriod(day_name(period.first_ms), day_name(period.last_ms), shares))
    return tuple(found)


def _is_mixed(arms: Mapping[str, Arm], control: str, variant: str) -> bool:
    """Whether the shares of the variant and the control changed within a day."""
    return control in arms and _lie_apart(
        arms[control].hours.astype(np.float64), arms[variant].hours.astype(np.float64)
    )


def _lie_apart(control: Floats, variant: Floats) -> bool:
    totals = control.sum(), variant.sum()
    if not all(totals):
        return False
    apart = 0.5 * np.abs(control / totals[0] - variant / totals[1]).sum()
    both = (control + variant) / (totals[0] + totals[1])
    chance = 0.5 * np.sqrt(CLUSTERED * both * (1.0 / totals[0] + 1.0 / totals[1])).sum()
    return bool(apart > APART + chance)


def with_days(so_far: MergedTallies, days: tuple[int, int], added: MergedTallies) -> MergedTallies:
    """The days so far and what some more, from the first to the last, added."""
    arms = {
        variant: Arm(
            arm.tallies + added.arms[variant].tallies,
            arm.without_unit + added.arms[variant].without_unit,
        )
        for variant, arm in so_far.arms.items()
    }
    periods, mixed = dict(so_far.periods), dict(so_far.mixed)
    for variant in so_far.compared:
        earlier = periods.get(variant, ())
        is_mixed = variant in added.mixed
        periods[variant] = earlier if is_mixed else _with_days(earlier, days, added, variant)
        mixed[variant] = (*mixed.get(variant, ()), *added.mixed.get(variant, ()))
    return replace(so_far, arms=arms, periods=periods, mixed=mixed)


def _with_days(
    periods: Sequence[SteadyDays], days: tuple[int, int], added: MergedTallies, variant: str
) -> tuple[SteadyDays, ...]:
    """The periods of a variant and some more days, of constant shares."""
    arms = {name: arm for name, arm in added.arms.items() if name in (added.control, variant)}
    *earlier, last = *periods, SteadyDays(
        *days, {name: {"": arm.tallies, **arm.strata} for name, arm in arms.items()}
    )
    if earlier and not _changed(earlier[-1], last, added, variant):
        before = earlier.pop()
        both = {name: _added(before.arms[name], last.arms[name]) for name in last.arms}
        last = SteadyDays(before.first_ms, last.last_ms, both)
    return (*earlier, last)


def _changed(before: SteadyDays, days: SteadyDays, experiment: MergedTallies, variant: str) -> bool:
    """Whether the shares changed between them, as planned or as they show."""
    return is_planned(before, days, experiment, variant) or _moved(before, days)


def is_planned(
    before: SteadyDays, days: SteadyDays, experiment: MergedTallies, variant: str
) -> bool:
    """Whether a change of the shares between them is planned."""
    planned = planned_changes(experiment.spec, experiment.control, variant)
    return any(before.last_ms < at_ms <= days.first_ms for at_ms in planned)


def _added(one: Mapping[str, Integers], other: Mapping[str, Integers]) -> dict[str, Integers]:
    """The sum of both, by segment."""
    return {s: np.asarray(one.get(s, 0) + other.get(s, 0)) for s in one.keys() | other.keys()}


def _moved(before: SteadyDays, day: SteadyDays) -> bool:
    """Whether the arms, the control first, have other shares of the impressions than before; not
    where there is no control."""
    if len(day.arms) < 2:
        return False
    counts = [np.stack([of[""][:, 0] for of in one.arms.values()]) for one in (before, day)]
    return share_deviate(*counts) >= MOVED


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
    """All arms that there are at last, as of the end of a day, with the hours of this day."""
    ends = []
    for tallies in _under_spec(spec, lanes):
        has_day = day_ms in tallies.ends or day_ms == tallies.open_day_ms
        # Days have no users.
        arms = {
            name: Arm(arm.tallies, arm.without_unit, strata=arm.strata, hours=arm.hours * has_day)
            for name, arm in tallies.at_end_of(day_ms).items()
        }
        ends.append(Tallies(tallies.digest, arms))
    return replace(last, arms={**without_days(last).arms, **merge_tallies(spec, ends).arms})


def without_days(experiment: MergedTallies) -> MergedTallies:
    """The experiment before its first day, with the arms that it has at last."""
    arms = {name: Arm(np.zeros_like(arm.tallies)) for name, arm in experiment.arms.items()}
    return replace(experiment, arms=arms, periods={}, mixed={})
