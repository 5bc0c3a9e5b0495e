"""The last hours by judgements, beside earlier hours that the same file graded. Pure.

The arithmetic is that of the alert rules.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
import numpy as np

from relevanced.metrics.lists import Floats

from ...exporter.baselines import Comparison
from ...exporter.judged import IMPRESSIONS, JudgedScores
from ...exporter.pane_reader import Reading
from ...exporter.scores import optional
from ...exporter.snapshot import Segment
from ...exporter.usual import sides_of
from ...judging import thresholds, weeks
from ...judging.weeks import MadeOf
from .compared import Estimate, Verdict, is_wanted, verdict
from .history import metric_index

BEYOND: Final = abs(thresholds.DROPPED_HOUR)
"""A change beyond so many standard errors is called."""
Query: TypeAlias = Mapping[str, Sequence[str]]
Unit: TypeAlias = Literal["week", "day", "hour"]
_UNITS: Final[Mapping[str, Unit]] = {
    "week": "week",
    "day": "day",
    "hour": "hour",
}


class JudgedChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One judged metric of one segment in the last hours, and in earlier ones that the same file
    graded."""

    judged_metric: str
    """Name of the metric that is scored by judgements."""
    grouping: str
    segment: str
    window: str
    now: Estimate
    before: Estimate
    difference: float | None
    """Now minus before; null where either is undefined."""
    noise: float | None
    """Standard error of the difference, drift included."""
    verdict: Verdict
    """As that of /api/v1/changes."""
    unit: Unit
    """What `before` is the mean of."""
    periods: int
    """How many weeks, days or hours."""


def requested(found: JudgedScores, wanted: Query) -> list[tuple[int, Segment]]:
    """(row, segment) of the segments that pass the filters."""
    return [pair for pair in enumerate(found.segments) if is_wanted(pair[1], wanted)]


def named_metrics(found: JudgedScores, wanted: Query) -> list[tuple[int, str]]:
    """(index, name) of the judged metrics that pass the filters."""
    names = wanted.get("judged_metric") or [metric.name for metric in found.plan.metrics]
    return [(metric_index(found.plan, name), name) for name in dict.fromkeys(names)]


def judged_changes(reading: Reading, found: JudgedScores, wanted: Query) -> Iterator[JudgedChange]:
    """The rows of the shown segments that pass the filters `wanted`."""
    for comparison in found.comparisons:
        if comparison.periods:
            yield from _of_comparison(reading, found, comparison, wanted)


def _of_comparison(
    reading: Reading, found: JudgedScores, comparison: Comparison, wanted: Query
) -> Iterator[JudgedChange]:
    plan, judging = found.plan, reading.usual.judging
    periods = [*comparison.periods.values()]
    sides = sides_of(comparison.recent, periods, plan)
    drifts = np.full(len(plan.metrics), judging.drift_ratio)
    made_of = MadeOf(len(periods), comparison.unit != "week")
    compared = weeks.compare(sides, made_of, judging, drifts)
    noises = compared.error_ratio * np.abs(sides.baseline)
    columns = sides.score, sides.stderr, sides.baseline, sides.baseline_stderr, noises
    usual = np.mean(periods, axis=0)
    for index, name in named_metrics(found, wanted):
        column, direction = plan.metric_column(index), plan.metrics[index].direction
        for row, (grouping, segment) in requested(found, wanted):
            mean, stderr, before, before_stderr, noise = optional(
                np.array([values[row, index] for values in columns])
            )
            now = _estimate(mean, stderr, comparison.recent[row], column)
            then = _estimate(before, before_stderr, usual[row], column)
            difference = None if mean is None or before is None else mean - before
            size = _size(difference, noise)
            yield JudgedChange(
                judged_metric=name,
                grouping=grouping,
                segment=segment,
                window=comparison.window,
                now=now,
                before=then,
                difference=difference,
                noise=noise,
                verdict=verdict(now, then, (size, size), direction),
                unit=_UNITS[comparison.unit],
                periods=len(periods),
            )


def _estimate(mean: float | None, stderr: float | None, row: Floats, column: int) -> Estimate:
    return Estimate(mean, stderr, round(float(row[column])), round(float(row[IMPRESSIONS])))


def _size(difference: float | None, noise: float | None) -> float:
    if difference is None or noise is None:
        return 0.0
    return difference / (BEYOND * max(noise, float(np.finfo(float).tiny)))
