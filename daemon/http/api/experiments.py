"""An experiment: the tallies that its statements are computed from, and its effect day by day and
up to the end of each day. Pure.
"""

from collections.abc import Iterator, Sequence

import msgspec

from relevanced.metrics import Direction, Metric, Sketch, user_count, worst_value

from ...events import timestamp_text
from ...experiments import (
    DAY_MS,
    DAYS_CAUTION,
    INTERLEAVED_DAYS,
    Arm,
    Excluded,
    MergedTallies,
    OverTime,
    Role,
    Spec,
    Stretch,
    Tallies,
    are_interleaved_alone,
    buckets_of,
    day_name,
    effects_by_day,
    excluded_of,
    first_known,
    joined_stretches,
    known_days,
    left_out_arms,
    merge_tallies,
    metrics_of,
    nothing_left,
    parse_stretch,
    planned_for_two,
)
from ...exporter import Reading
from ...lane import Rows
from .parameters import BadRequest, tracked


class TalliedMetric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One metric of an experiment."""

    metric: str
    role: Role
    direction: Direction
    """Which way is better."""
    unit: int
    """Steps of a value of 1: sums and squares are counted in steps."""
    worst: float | None
    """The value of a list for which the metric is undefined, in statements over all lists; null
    where there is none, and such a metric has no verdict."""


class TalliedVariant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One variant."""

    variant: str
    impressions: int
    """All settled impressions."""
    without_unit: int
    """Those that lack the unit; they are in no bucket."""
    planned_impressions: int
    """Of this variant and the control together."""
    users: float
    """Distinct units; exact up to 65,535, with a standard error of 0.4 % above."""


class Bucket(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One metric of the users of one bucket of a variant."""

    variant: str
    stratum: str
    """A segment of `stratify_by`; empty for the whole, of which the segments are parts."""
    bucket: int
    metric: str
    impressions: int
    scored: int
    """Impressions for which the metric is defined."""
    sum: int
    """Sum of the metric over these, in steps of 1 / unit."""
    squares: int
    """Sum of its squares, in steps of 1 / unit."""


class Buckets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tallies of one experiment, summed over all lanes. `relevanced.metrics.compare_arms` makes
    the statements of a report from them, where the shares of the variants did not change."""

    as_of: str | None
    experiment: str
    control: str
    unit: str
    """What is assigned to variants: users, impressions, or an attribute."""
    weights: dict[str, float]
    """The planned shares of the variants by which the users here were assigned; empty where none
    are planned."""
    metrics: tuple[TalliedMetric, ...]
    variants: tuple[TalliedVariant, ...]
    rows: tuple[Bucket, ...]


def buckets(reading: Reading, experiment: str) -> Buckets:
    """The tallies of an experiment. Raises BadRequest for one that is not tracked."""
    spec, lanes = tracked(reading, experiment)
    merged = merge_tallies(spec, [lane.experiments[experiment] for lane in lanes])
    as_of_ms = reading.snapshot.as_of_ms
    metrics = metrics_of(spec, reading.plan.metrics)
    return Buckets(
        as_of=None if as_of_ms is None else timestamp_text(as_of_ms),
        experiment=spec.name,
        control=merged.control,
        unit=spec.unit,
        weights=dict(spec.weights_since(merged.shares_since_ms)),
        metrics=tuple(
            TalliedMetric(
                metric.name,
                spec.role(metric.name),
                metric.direction,
                metric.unit,
                worst_value(metric),
            )
            for metric in metrics
        ),
        variants=tuple(_variant(name, arm, merged) for name, arm in merged.arms.items()),
        rows=tuple(
            row for name, arm in merged.arms.items() for row in _rows(name, arm, merged, metrics)
        ),
    )


def _variant(name: str, arm: Arm, merged: MergedTallies) -> TalliedVariant:
    return TalliedVariant(
        name,
        arm.impressions,
        arm.without_unit,
        planned_for_two(merged.spec, merged.control, name),
        user_count(Sketch(arm.users)).value,
    )


def _rows(
    variant: str, arm: Arm, merged: MergedTallies, metrics: Sequence[Metric]
) -> Iterator[Bucket]:
    for stratum, tallies in {"": arm.tallies, **dict(sorted(arm.strata.items()))}.items():
        yield from _of_stratum(variant, stratum, tallies, merged, metrics)


def _of_stratum(
    variant: str, stratum: str, tallies: Rows, merged: MergedTallies, metrics: Sequence[Metric]
) -> Iterator[Bucket]:
    impressions = tallies[:, 0].tolist()
    for metric in metrics:
        of = buckets_of(tallies, merged.spec, metric)
        columns = zip(
            impressions, of.counts.tolist(), of.sums.tolist(), of.squares.tolist(), strict=True
        )
        for index, counts in enumerate(columns):
            yield Bucket(variant, stratum, index, metric.name, *counts)


WHOLE_DAYS = (
    "must begin and end at midnight UTC: the daemon keeps whole days of an experiment. Recorded"
    " events can be left out to the millisecond: relevanced replay --experiment NAME --exclude"
)
USERS_UNKNOWN = (
    "whether the arms lost equal shares is not tested: users are not kept by day. Compare the"
    " impressions that each arm lost"
)


def over_time(reading: Reading, experiment: str, exclude: Sequence[str]) -> OverTime:
    """The effects of an experiment without the stretches `FROM/TO` of whole days. Raises
    BadRequest."""
    spec, lanes = tracked(reading, experiment)
    tallies = [lane.experiments[experiment] for lane in lanes]
    stretches = joined_stretches(_whole_days(text) for text in exclude)
    excluded = _excluded_days(spec, tallies, stretches)
    rows = effects_by_day(spec, tallies, reading.plan.metrics, excluded)
    known = first_known(spec, tallies)
    as_of_ms = reading.snapshot.as_of_ms
    finding = next(
        (one for one in reading.experiments.experiments if one.experiment == experiment), None
    )
    control = spec.control if finding is None else finding.control
    variants = {variant for of_lane in tallies for variant in of_lane.arms}
    return OverTime(
        as_of=None if as_of_ms is None else timestamp_text(as_of_ms),
        experiment=experiment,
        control=control,
        warnings=() if finding is None else finding.warnings,
        first_whole_day=None if known is None else day_name(known + DAY_MS),
        excluded=_left_out(spec, tallies, stretches, excluded) if stretches else None,
        caution=INTERLEAVED_DAYS if are_interleaved_alone(control, variants) else DAYS_CAUTION,
        days=rows,
    )


def _whole_days(text: str) -> Stretch:
    try:
        from_ms, to_ms = parse_stretch(text)
    except ValueError as error:
        raise BadRequest(400, f"exclude={error}") from error
    if from_ms % DAY_MS or to_ms % DAY_MS:
        raise BadRequest(400, f"exclude={text}: {WHOLE_DAYS}")
    return from_ms, to_ms


def _excluded_days(
    spec: Spec, tallies: Sequence[Tallies], stretches: Sequence[Stretch]
) -> list[int]:
    """The starts in ms of the days that are in the stretches. Raises BadRequest where what these
    added is not known, or nothing would be left."""
    days, known = known_days(spec, tallies), first_known(spec, tallies)
    excluded = [day for day in days if any(start <= day < end for start, end in stretches)]
    if known is not None and any(start <= known for start, _ in stretches):
        raise BadRequest(
            400,
            f"exclude: must begin on {day_name(known + DAY_MS)} or later: of earlier days only"
            " the sum is known",
        )
    if excluded and excluded == days:
        lost = left_out_arms(spec, tallies, excluded)
        impressions = sum(arm.impressions for arm in lost.values())
        raise BadRequest(400, nothing_left(spec.name, stretches, impressions))
    return excluded


def _left_out(
    spec: Spec, tallies: Sequence[Tallies], stretches: Sequence[Stretch], days: Sequence[int]
) -> Excluded:
    found = excluded_of(spec, stretches, left_out_arms(spec, tallies, days), None)
    return msgspec.structs.replace(found, warning=USERS_UNKNOWN if found.impressions else "")
