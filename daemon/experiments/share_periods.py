"""The days of an experiment, and its periods of constant shares. Pure.

A UTC day is the least span of time that is known by itself. Days in which the arms kept their
shares of the traffic make a period; where these changed within a day, as its hours tell, the day is
in no period: arms that lived through different hours cannot be compared.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Final

import numpy as np

from relevanced.metrics import Floats, Integers, share_deviate

from .arms import Arm
from .spec import INTERLEAVED, Spec
from .tallies import DAY_MS, MergedTallies, SteadyDays, Tallies, merge_tallies
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
    """The start of the first day of which all lanes know the end, but not what it added; None where
    all of them have all days."""
    firsts = (
        min(tallies.ends, default=tallies.open_day_ms)
        for tallies in _under_spec(spec, lanes)
        if not tallies.has_all_days
    )
    return max(firsts, default=None)


def divided(spec: Spec, lanes: Sequence[Tallies]) -> MergedTallies:
    """The sum of the lanes, divided into periods where days are known."""
    whole = merge_tallies(spec, lanes)
    so_far = without_days(whole)
    for day_ms, added in added_by_day(spec, lanes):
        so_far = with_day(so_far, day_ms, added)
    if not so_far.periods and not so_far.mixed:
        return whole
    return replace(whole, periods=so_far.periods, mixed=so_far.mixed)


def added_by_day(spec: Spec, lanes: Sequence[Tallies]) -> Iterator[tuple[int, MergedTallies]]:
    """Each known day, and what it added; the first one with all that was before it."""
    last = merge_tallies(spec, _under_spec(spec, lanes))
    first, before = first_known(spec, lanes), without_days(last)
    counted = _under_spec(spec, lanes)
    began_ms = min((of.began_ms for of in counted), default=0)
    last_ms = max((of.last_ms for of in counted), default=0)
    changes = [at_ms for at_ms, _ in spec.ramp if began_ms < at_ms <= last_ms]
    for day_ms in known_days(spec, lanes):
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
        is_mixed = day_ms != first and (
            _is_mixed(arms, last.control) or any(day_ms < at < day_ms + DAY_MS for at in changes)
        )
        yield day_ms, replace(last, arms=arms, periods=() if is_mixed else None)
        before = until


def share_periods(experiment: MergedTallies) -> tuple[SharePeriod, ...]:
    """The periods for people; none where the shares did not change."""
    if not experiment.in_periods:
        return ()
    found = []
    for period in experiment.periods or ():
        counts = {v: int(t[""][:, 0].sum()) for v, t in period.arms.items() if v != INTERLEAVED}
        total = max(1, sum(counts.values()))
        shares = {variant: count / total for variant, count in counts.items()}
        found.append(SharePeriod(day_name(period.first_ms), day_name(period.last_ms), shares))
    return tuple(found)


def _is_mixed(arms: Mapping[str, Arm], control: str) -> bool:
    """Whether the shares of the arms changed within a day."""
    hours = {variant: arm.hours.astype(np.float64) for variant, arm in arms.items()}
    of_control = hours.get(control)
    return of_control is not None and any(
        _lie_apart(of_control, of_variant) for of_variant in hours.values()
    )


def _lie_apart(control: Floats, variant: Floats) -> bool:
    totals = control.sum(), variant.sum()
    if not all(totals):
        return False
    apart = 0.5 * np.abs(control / totals[0] - variant / totals[1]).sum()
    both = (control + variant) / (totals[0] + totals[1])
    chance = 0.5 * np.sqrt(CLUSTERED * both * (1.0 / totals[0] + 1.0 / totals[1])).sum()
    return bool(apart > APART + chance)


def with_day(so_far: MergedTallies, day_ms: int, added: MergedTallies) -> MergedTallies:
    """The days so far and one more."""
    arms = {
        variant: Arm(
            arm.tallies + added.arms[variant].tallies,
            arm.without_unit + added.arms[variant].without_unit,
        )
        for variant, arm in so_far.arms.items()
    }
    if added.periods is not None:
        return replace(so_far, arms=arms, mixed=(*so_far.mixed, day_ms))
    *earlier, last = *(so_far.periods or ()), SteadyDays(
        day_ms, day_ms, {name: {"": arm.tallies, **arm.strata} for name, arm in added.arms.items()}
    )
    is_declared = any(at_ms == day_ms for at_ms, _ in so_far.spec.ramp)
    if earlier and not is_declared and not _moved(earlier[-1], last):
        before = earlier.pop()
        both = {name: _added(before.arms[name], last.arms[name]) for name in last.arms}
        last = SteadyDays(before.first_ms, day_ms, both)
    return replace(so_far, arms=arms, periods=(*earlier, last))


def _added(one: Mapping[str, Integers], other: Mapping[str, Integers]) -> dict[str, Integers]:
    """The sum of both, by segment."""
    return {s: np.asarray(one.get(s, 0) + other.get(s, 0)) for s in one.keys() | other.keys()}


def _moved(before: SteadyDays, day: SteadyDays) -> bool:
    """Whether the arms have other shares of the impressions than before. The control is the first
    of them; interleaved lists are compared with none."""
    variants = [variant for variant in day.arms if variant != INTERLEAVED]
    counts = [
        np.stack([of.arms[variant][""][:, 0] for variant in variants]) for of in (before, day)
    ]
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
    return replace(experiment, arms=arms, periods=(), mixed=())
