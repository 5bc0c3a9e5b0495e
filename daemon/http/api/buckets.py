"""The tallies of an experiment: what its statements are computed from. Pure."""

from collections.abc import Iterator, Sequence

import msgspec

from relevanced.metrics.defined import worst_value
from relevanced.metrics.metric import Direction, Metric
from relevanced.metrics.users import Sketch, user_count

from ...events.timestamps import timestamp_text
from ...experiments.by_metric import metrics_of
from ...experiments.findings import planned_for_two
from ...experiments.merging import Merged, merge
from ...experiments.specs import Role
from ...experiments.strata import buckets_of
from ...experiments.tallies import Arm
from ...exporter.pane_reader import Reading
from ...lane.paged_rows import Rows
from .tracked import tracked


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
    the statements of a report from them."""

    as_of: str | None
    experiment: str
    control: str
    unit: str
    """What is assigned to variants: users, impressions, or an attribute."""
    weights: dict[str, float]
    """The planned shares of the variants; empty where none are planned."""
    metrics: tuple[TalliedMetric, ...]
    variants: tuple[TalliedVariant, ...]
    rows: tuple[Bucket, ...]


def buckets(reading: Reading, experiment: str) -> Buckets:
    """The tallies of an experiment. Raises BadRequest for one that is not tracked."""
    spec, lanes = tracked(reading, experiment)
    merged = merge(spec, [lane.experiments[experiment] for lane in lanes])
    as_of_ms = reading.snapshot.as_of_ms
    metrics = metrics_of(spec, reading.plan.metrics)
    return Buckets(
        as_of=None if as_of_ms is None else timestamp_text(as_of_ms),
        experiment=spec.name,
        control=merged.control,
        unit=spec.unit,
        weights=dict(spec.weights),
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


def _variant(name: str, arm: Arm, merged: Merged) -> TalliedVariant:
    return TalliedVariant(
        name,
        arm.impressions,
        arm.without_unit,
        planned_for_two(merged.spec, merged.control, name),
        user_count(Sketch(arm.users)).value,
    )


def _rows(variant: str, arm: Arm, merged: Merged, metrics: Sequence[Metric]) -> Iterator[Bucket]:
    for stratum, tallies in {"": arm.tallies, **dict(sorted(arm.strata.items()))}.items():
        yield from _of_stratum(variant, stratum, tallies, merged, metrics)


def _of_stratum(
    variant: str, stratum: str, tallies: Rows, merged: Merged, metrics: Sequence[Metric]
) -> Iterator[Bucket]:
    impressions = tallies[:, 0].tolist()
    for metric in metrics:
        of = buckets_of(tallies, merged.spec, metric)
        columns = zip(
            impressions, of.counts.tolist(), of.sums.tolist(), of.squares.tolist(), strict=True
        )
        for index, counts in enumerate(columns):
            yield Bucket(variant, stratum, index, metric.name, *counts)
