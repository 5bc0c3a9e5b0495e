"""What a configuration means to the arithmetic: one frozen value that the pure rooms are given.

A row is a vector of int64 counters; this page fixes its columns, for the writer and for every
reader.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from relevanced.metrics.lists import Booleans, Floats
from relevanced.metrics.metric import Metric
from relevanced.metrics.propensities import CLIP, Propensities

from .experiments.specs import Tracking
from .panes import HOUR_MS, Timing

NO_SURFACE: Final = 0
"""Number of no surface: propensities of its ranks are not known."""


@dataclass(frozen=True)
class Surfaces:
    """The tables, and what tells them apart. Surfaces are numbered from 1, in their order."""

    attribute: str
    tables: tuple[Propensities, ...]
    default: str | None = None
    """The surface of impressions that tell none, or one without a table; None: they have none."""
    clip: float = CLIP
    """Largest weight of a reaction."""

    @cached_property
    def _numbers(self) -> Mapping[str | None, int]:
        return {table.surface: number for number, table in enumerate(self.tables, 1)}

    def told_by(self, attributes: Mapping[str, str | None]) -> str | None:
        """The surface that an impression with these attributes counts for."""
        told = attributes.get(self.attribute)
        return told if told in self._numbers else self.default

    def id_of(self, surface: str | None) -> int:
        """The number of a surface."""
        return self._numbers.get(surface, NO_SURFACE)

    def weights(self, depth: int) -> Floats:
        """(surfaces, depth) what a reaction at each rank counts, by number; NaN for no surface."""
        known = [table.weights(depth, self.clip) for table in self.tables]
        return np.array([np.full(depth, np.nan), *known])

    def clipped(self, depth: int) -> Booleans:
        """(surfaces, depth) where the weight is less than 1 / propensity, being cut."""
        known = [table.inverse(depth) > self.clip for table in self.tables]
        return np.array([np.zeros(depth, np.bool_), *known])


ALL: Final = "all"
"""Name of the grouping without attributes, and of its one segment: the whole."""
OTHER: Final = "other"
"""Segment of the values that found no place."""
NONE: Final = "(none)"
"""Value of an attribute that an impression does not carry."""
EXPERIMENT_PREFIX: Final = "experiment:"
"""A grouping's name with this prefix reads the variant of an experiment instead of an attribute."""

Values: TypeAlias = tuple[str | None, ...]
"""Values of attributes and experiments, in the plan's order; None where one is missing. The
surface stands behind them where propensities are configured."""

COUNT_COLUMNS: Final = (
    "impressions",
    "impressions_with_feedback",
    "zero_result_impressions",
    "items_with_feedback",
)
"""The first columns of a row. Behind them stand (scored, sum, squares) of each metric."""
METRIC_COLUMNS: Final = ("scored", "sum", "squares")
WEIGHT_COLUMNS: Final = ("weighted_items", "clipped_items", "weights", "squared_weights")
"""The last columns where propensities are configured: items with a gain at ranks that a weighed
metric counts, those of them whose weight was cut, and sums of their weights in steps of 1 /
WEIGHT_UNIT."""
WEIGHT_UNIT: Final = 10_000

LARGEST_EXACT: Final = 2.0**52
"""From here on a float64 holds no fractions, so a scaled value could not be rounded exactly."""


@dataclass(frozen=True)
class Plan:
    """Everything that shapes rows."""

    timing: Timing
    metrics: tuple[Metric, ...]
    groupings: tuple[tuple[str, ...], ...]
    """Without the whole, which is always there as number 0 of `grouping_names`."""
    grades: Mapping[str, float]
    max_segments: int = 100
    depth: int = 100
    tracking: Tracking | None = None
    """The experiments to keep tallies of; None: nobody asks for any."""
    history_hours: int = 0
    """How many whole hours of settled rows are kept; 0 keeps none."""
    hour_ms: int = HOUR_MS
    """What an hour is: tests live faster."""
    surfaces: Surfaces | None = None
    """Propensities by surface; None: no metric asks for any."""

    @cached_property
    def grouping_names(self) -> tuple[str, ...]:
        """`all`, then the configured groupings as `country,device`."""
        return (ALL, *(",".join(names) for names in self.groupings))

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """Every attribute that a grouping names."""
        names = {name for grouping in self.groupings for name in grouping}
        return tuple(sorted(name for name in names if not name.startswith(EXPERIMENT_PREFIX)))

    @cached_property
    def experiments(self) -> tuple[str, ...]:
        """Every experiment that a grouping names."""
        names = {name for grouping in self.groupings for name in grouping}
        found = (name for name in names if name.startswith(EXPERIMENT_PREFIX))
        return tuple(sorted(name.removeprefix(EXPERIMENT_PREFIX) for name in found))

    def values_of(
        self, attributes: Mapping[str, str | None], experiments: Mapping[str, str]
    ) -> Values:
        """Everything of an impression that its segments and its surface depend on."""
        values = tuple(map(attributes.get, self.attributes))
        if self.experiments:
            values = (*values, *map(experiments.get, self.experiments))
        return values if self.surfaces is None else (*values, self.surfaces.told_by(attributes))

    def surface_of(self, values: Values) -> int:
        """The number of the surface in what `values_of` returned."""
        return NO_SURFACE if self.surfaces is None else self.surfaces.id_of(values[-1])

    @cached_property
    def value_indices(self) -> tuple[tuple[int, ...], ...]:
        """For each grouping where its values stand in what `values_of` returns."""
        names = (*self.attributes, *(EXPERIMENT_PREFIX + name for name in self.experiments))
        return tuple(tuple(map(names.index, grouping)) for grouping in self.groupings)

    @cached_property
    def row_width(self) -> int:
        """Columns of a row."""
        return self.weight_column + (0 if self.surfaces is None else len(WEIGHT_COLUMNS))

    @cached_property
    def weight_column(self) -> int:
        """Column behind those of all metrics: the first of `WEIGHT_COLUMNS`, if there are any."""
        return self.metric_column(len(self.metrics))

    def metric_column(self, number: int) -> int:
        """Column of `scored` of a metric; `sum` and `squares` follow it."""
        return len(COUNT_COLUMNS) + len(METRIC_COLUMNS) * number

    @cached_property
    def timed(self) -> tuple[int, ...]:
        """Positions of the metrics that look at when feedback came, not at which item it chose."""
        return tuple(n for n, metric in enumerate(self.metrics) if metric.needs == "timing")

    @cached_property
    def weighted_depth(self) -> int:
        """Ranks that any weighed metric counts."""
        cuts = [m.k or self.depth for m in self.metrics if m.needs == "propensities"]
        return min(max(cuts, default=0), self.depth)

    @cached_property
    def rank_weights(self) -> Floats:
        """(surfaces, depth) as `Surfaces.weights`."""
        assert self.surfaces is not None
        return self.surfaces.weights(self.depth)

    @cached_property
    def clipped_ranks(self) -> Booleans:
        """(surfaces, depth) as `Surfaces.clipped`."""
        assert self.surfaces is not None
        return self.surfaces.clipped(self.depth)

    @property
    def admitted_values(self) -> int:
        """Values of a grouping that one topic-partition admits."""
        return 10 * self.max_segments
