"""The effect of an experiment over time: day by day, and up to the end of each day. Pure.

What decisions read is the cumulative difference with its confidence sequence, which is valid at all
days together. The interval of a day is valid for this day alone: of many days, some leave out 0 by
chance.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta

import numpy as np

from relevanced.metrics.metric import Metric

from .by_metric import MetricComparison
from .findings import compare
from .merging import Merged, merge
from .specs import INTERLEAVED, Spec
from .tallies import DAY_MS, Arm, Tallies
from .types import DayEffect, finite_or_none


def by_day(
    spec: Spec, ends: Mapping[int, Sequence[Tallies]], metrics: Sequence[Metric]
) -> tuple[DayEffect, ...]:
    """Each day, variant and metric. ends: start of a UTC day in ms, ascending → the cumulative
    tallies of each lane at its end; the last ones say which variants there are, and what the
    control is."""
    if not ends:
        return ()
    last = merge(spec, [*ends.values()][-1])
    found: list[DayEffect] = []
    before = _known(merge(spec, ()), last)
    for day_ms, lanes in ends.items():
        until = _known(merge(spec, lanes), last)
        found.extend(_of_day(day_ms, before, until, metrics))
        before = until
    return tuple(found)


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


def _of_day(
    day_ms: int, before: Merged, until: Merged, metrics: Sequence[Metric]
) -> Iterator[DayEffect]:
    added = _added(before, until)
    day = (date(1970, 1, 1) + timedelta(days=day_ms // DAY_MS)).isoformat()
    for variant in until.arms:
        if variant not in (until.control, INTERLEAVED):
            of_day, so_far = compare(added, variant, metrics), compare(until, variant, metrics)
            for metric, comparison in so_far.items():
                yield _effect(day, variant, metric, of_day[metric], comparison)


def _effect(
    day: str, variant: str, metric: str, of_day: MetricComparison, so_far: MetricComparison
) -> DayEffect:
    one, all_days = of_day.all_lists.absolute, so_far.all_lists.absolute
    return DayEffect(
        day=day,
        variant=variant,
        metric=metric,
        day_control_impressions=of_day.impressions[0],
        day_impressions=of_day.impressions[1],
        day_difference=finite_or_none(one.estimate.value),
        day_lower=finite_or_none(one.interval.lower),
        day_upper=finite_or_none(one.interval.upper),
        control_impressions=so_far.impressions[0],
        impressions=so_far.impressions[1],
        difference=finite_or_none(all_days.estimate.value),
        lower=finite_or_none(all_days.interval.lower),
        upper=finite_or_none(all_days.interval.upper),
    )
