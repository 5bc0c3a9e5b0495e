"""The effect of a variant by day. Pure."""

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from relevanced.metrics import Design, Metric

from .arms import Arm
from .by_segment import MetricComparison, compare_metric, metrics_of
from .share_periods import added_by_days, day_name, first_known, with_days, without_days
from .spec import INTERLEAVED, Spec
from .tallies import MergedTallies, Tallies, merge_tallies
from .types import DayEffect, finite_or_none


def compare_variant(
    experiment: MergedTallies, variant: str, metrics: Sequence[Metric]
) -> dict[str, MetricComparison]:
    """Metric → comparison of the variant with the control."""
    spec = experiment.spec
    design = Design(planned_for_two(spec, experiment.control, variant))
    return {
        metric.name: compare_metric(experiment, variant, metric, design)
        for metric in metrics_of(spec, metrics)
    }


def planned_for_two(spec: Spec, control: str, variant: str) -> int:
    """The part of the planned total that two variants get; all of it where a share is unknown."""
    weights = dict(spec.ramp[-1][1] if spec.ramp else spec.weights)
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

INTERLEAVED_DAYS: Final = "Interleaved lists are compared with no variant: no effect by day."


def are_interleaved_alone(control: str, variants: Collection[str]) -> bool:
    """Whether an experiment has interleaved lists, and no variant to compare with its control."""
    return INTERLEAVED in variants and not {*variants} - {control, INTERLEAVED}


def effects_by_day(
    spec: Spec,
    lanes: Sequence[Tallies],
    metrics: Sequence[Metric],
    excluded: Collection[int] = (),
) -> tuple[DayEffect, ...]:
    """Each day, variant and metric, over the tallies of all lanes, and without the days that start
    at `excluded`: they have no rows, and what is cumulative does not contain them."""
    first = first_known(spec, lanes)
    so_far = without_days(merge_tallies(spec, lanes))
    found: list[DayEffect] = []
    for days, added in added_by_days(spec, lanes):
        day_ms = days[-1]
        if day_ms in excluded:
            continue
        so_far = with_days(so_far, days, added)
        if first is None or day_ms >= first:
            of_day = None if day_ms == first else added
            found.extend(_effects_of_day(day_ms, of_day, so_far, metrics))
    return tuple(found)


def left_out_arms(
    spec: Spec, lanes: Sequence[Tallies], excluded: Collection[int]
) -> dict[str, Arm]:
    """What the excluded days added to each arm, without users. The day before each of them must be
    known, unless it is the first of all."""
    found = without_days(merge_tallies(spec, lanes))
    for days, added in added_by_days(spec, lanes):
        if days[-1] in excluded:
            found = with_days(found, days, added)
    return dict(found.arms)


def _effects_of_day(
    day_ms: int, added: MergedTallies | None, until: MergedTallies, metrics: Sequence[Metric]
) -> Iterator[DayEffect]:
    for variant in until.compared:
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
