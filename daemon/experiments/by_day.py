"""The effect of an experiment over time: day by day, and up to the end of each day. Pure.

What decisions read is the cumulative difference with its confidence sequence, which is valid at all
days together. The interval of a day is valid for this day alone: of many days, some leave out 0 by
chance.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import date, timedelta
from typing import Final

import numpy as np

from relevanced.metrics.metric import Metric

from .by_metric import MetricComparison
from .findings import compare
from .merging import Merged, merge
from .specs import INTERLEAVED, Spec
from .tallies import DAY_MS, Arm, Tallies
from .types import DayEffect, finite_or_none

CAUTION: Final = (
    "Decide by what is so far: its intervals hold at all looks together. That of a day describes"
    " this day alone; among many days, some leave out 0 by chance."
)


def days_of(spec: Spec, lanes: Sequence[Tallies]) -> list[int]:
    """The starts in ms of the UTC days of which the end is known in all lanes, ascending: those
    with impressions, without the days before `first_known`."""
    counted = _counted(spec, lanes)
    days = {day for one in counted for day in (*one.ends, one.open_day_ms)}
    first = first_known(spec, lanes)
    return sorted(day for day in days if first is None or day >= first)


def first_known(spec: Spec, lanes: Sequence[Tallies]) -> int | None:
    """The start of the first day of which all lanes know the end, but not what it added; None where
    all of them have all days."""
    firsts = (
        min(one.ends, default=one.open_day_ms)
        for one in _counted(spec, lanes)
        if not one.has_all_days
    )
    return max(firsts, default=None)


def by_day(
    spec: Spec,
    lanes: Sequence[Tallies],
    metrics: Sequence[Metric],
    excluded: Collection[int] = (),
) -> tuple[DayEffect, ...]:
    """Each day, variant and metric, over the tallies of all lanes, and without the days that start
    at `excluded`: they have no rows, and what is cumulative does not contain them."""
    days, first = days_of(spec, lanes), first_known(spec, lanes)
    last = merge(spec, _counted(spec, lanes))
    found: list[DayEffect] = []
    before = left_out = _known(merge(spec, ()), last)
    for day_ms in days:
        until = _at_end_of(day_ms, spec, lanes, last)
        added = _added(before, until)
        if day_ms in excluded:
            left_out = _added(_negative(added), left_out)
        else:
            so_far = _added(left_out, until)
            found.extend(_of_day(day_ms, None if day_ms == first else added, so_far, metrics))
        before = until
    return tuple(found)


def left_out_arms(
    spec: Spec, lanes: Sequence[Tallies], excluded: Collection[int]
) -> dict[str, Arm]:
    """What the excluded days added to each arm, without users. The day before each of them must be
    known, unless it is the first of all."""
    last = merge(spec, _counted(spec, lanes))
    nothing = before = _known(merge(spec, ()), last)
    found = nothing
    for day_ms in days_of(spec, lanes):
        until = _at_end_of(day_ms, spec, lanes, last)
        if day_ms in excluded:
            found = _added(_negative(_added(before, until)), found)
        before = until
    return dict(found.arms)


def day_name(day_ms: int) -> str:
    """The date of the UTC day that starts then.

    >>> day_name(1_795_132_800_000)
    '2026-11-20'
    """
    return (date(1970, 1, 1) + timedelta(days=day_ms // DAY_MS)).isoformat()


def _counted(spec: Spec, lanes: Sequence[Tallies]) -> list[Tallies]:
    return [one for one in lanes if one.digest == spec.digest and one.last_ms]


def _at_end_of(day_ms: int, spec: Spec, lanes: Sequence[Tallies], last: Merged) -> Merged:
    ends = [
        Tallies(one.digest, {name: _counts(arm) for name, arm in one.at_end_of(day_ms).items()})
        for one in _counted(spec, lanes)
    ]
    return _known(merge(spec, ends), last)


def _counts(arm: Arm) -> Arm:
    """The arm without users and segments, which days do not have."""
    return Arm(arm.tallies, arm.without_unit, arm.credits)


def _known(experiment: Merged, last: Merged) -> Merged:
    """The experiment with the control and all the variants that it has at last."""
    arms = {
        variant: experiment.arms.get(variant) or Arm(np.zeros_like(arm.tallies))
        for variant, arm in last.arms.items()
    }
    return Merged(experiment.spec, last.control, arms)


def _added(before: Merged, until: Merged) -> Merged:
    """What was counted in between."""
    arms = {
        variant: Arm(
            arm.tallies - before.arms[variant].tallies,
            arm.without_unit - before.arms[variant].without_unit,
        )
        for variant, arm in until.arms.items()
    }
    return Merged(until.spec, until.control, arms)


def _negative(experiment: Merged) -> Merged:
    arms = {name: Arm(-arm.tallies, -arm.without_unit) for name, arm in experiment.arms.items()}
    return Merged(experiment.spec, experiment.control, arms)


def _of_day(
    day_ms: int, added: Merged | None, until: Merged, metrics: Sequence[Metric]
) -> Iterator[DayEffect]:
    for variant in until.arms:
        if variant not in (until.control, INTERLEAVED):
            of_day = {} if added is None else compare(added, variant, metrics)
            for metric, comparison in compare(until, variant, metrics).items():
                yield _effect(day_name(day_ms), variant, metric, of_day.get(metric), comparison)


def _effect(
    day: str, variant: str, metric: str, of_day: MetricComparison | None, so_far: MetricComparison
) -> DayEffect:
    one = None if of_day is None else of_day.all_lists.absolute
    all_days = so_far.all_lists.absolute
    return DayEffect(
        day=day,
        variant=variant,
        metric=metric,
        day_control_impressions=None if of_day is None else of_day.impressions[0],
        day_impressions=None if of_day is None else of_day.impressions[1],
        day_difference=None if one is None else finite_or_none(one.estimate.value),
        day_lower=None if one is None else finite_or_none(one.interval.lower),
        day_upper=None if one is None else finite_or_none(one.interval.upper),
        control_impressions=so_far.impressions[0],
        impressions=so_far.impressions[1],
        difference=finite_or_none(all_days.estimate.value),
        lower=finite_or_none(all_days.interval.lower),
        upper=finite_or_none(all_days.interval.upper),
    )
