"""What a configuration means to the arithmetic: one frozen value that every pure room takes.
Pure.

A row is a vector of int64 counters. Its columns are defined here, for the writer and for every
reader.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Protocol, TypeAlias

import numpy as np

from relevanced.metrics import CLIP, Booleans, Floats, Metric, Propensities

from .experiments import Tracking
from .judgements import JudgedPlan
from .panes import HOUR_MS
from .queries import KEYS_ALONE, Derivation, QueryPlan
from .timing import Timing

NO_SURFACE: Final = 0
"""Id of no surface: the propensities of its ranks are unknown."""


@dataclass(frozen=True)
class Surfaces:
    """The propensity tables, and the attribute that selects one of them. Surface ids count from 1,
    in the order of the tables."""

    attribute: str
    tables: tuple[Propensities, ...]
    default: str | None = None
    """The surface of impressions that name none, or one without a table; None: no surface."""
    clip: float = CLIP
    """Largest weight of a reaction."""
    meaning: str = ""
    """Of the attribute, where it is derived; "": it is what records say."""

    @cached_property
    def digest(self) -> str:
        """Hash of everything that weights depend on."""
        tables = [(table.surface, table.version, table.values) for table in self.tables]
        shape = self.meaning or self.attribute, self.default, self.clip, tables
        return hashlib.sha256(repr(shape).encode()).hexdigest()[:8]

    @cached_property
    def _ids(self) -> Mapping[str | None, int]:
        return {table.surface: surface_id for surface_id, table in enumerate(self.tables, 1)}

    @cached_property
    def _default_id(self) -> int:
        return self._ids.get(self.default, NO_SURFACE)

    def id_of(self, attributes: Mapping[str, str | None]) -> int:
        """The id of the surface of an impression with these attributes; NO_SURFACE where it has
        none."""
        return self._ids.get(attributes.get(self.attribute), self._default_id)

    def weights(self, depth: int) -> Floats:
        """(surfaces, depth) weight of a reaction at each rank, by surface id; NaN for no
        surface."""
        by_table = [table.weights(depth, self.clip) for table in self.tables]
        return np.array([np.full(depth, np.nan), *by_table])

    def clipped(self, depth: int) -> Booleans:
        """(surfaces, depth) True where the weight was clipped: where 1 / propensity is larger."""
        by_table = [table.inverse(depth) > self.clip for table in self.tables]
        return np.array([np.zeros(depth, np.bool_), *by_table])


def meaning_of(metric: Metric, surfaces: Surfaces | None) -> str:
    """What a metric means wherever it is read: its full name, and for weighted ones the
    propensities too."""
    if metric.needs != "propensities" or surfaces is None:
        return metric.full_name
    return f"{metric.full_name}~{surfaces.digest}"


ALL: Final = "all"
"""Name of the grouping without attributes, and of its one segment: the whole."""
OTHER: Final = "other"
"""Segment of the values that were not admitted."""
NONE: Final = "(none)"
"""Value of an attribute that an impression does not have."""
EXPERIMENT_PREFIX: Final = "experiment:"
"""A name in a grouping with this prefix means the variant of an experiment, not an attribute."""

Values: TypeAlias = tuple[str | None, ...]
"""Values of the attributes and experiments that groupings name, in the plan's order; None where one
is missing."""

COUNT_COLUMNS: Final = (
    "impressions",
    "impressions_with_feedback",
    "zero_result_impressions",
    "items_with_feedback",
    "items_listed",
    "squared_items_listed",
)
"""The first columns of a row; (scored, sum, squares) of each metric follow them. The last two are
the sums of the lengths of the lists (up to `Plan.depth`) and of their squares."""
BY_FEEDBACK: Final = "feedback"
BY_JUDGEMENTS: Final = "judgements"
"""Names of measures: each has rows of its own, from the lane to the page."""
METRIC_COLUMNS: Final = ("scored", "sum", "squares")
WEIGHT_COLUMNS: Final = ("weighted_items", "clipped_items", "weights", "squared_weights")
"""The last columns where propensities are configured: items with a gain at ranks that a weighted
metric counts, those of them whose weight was clipped, and the sums of their weights and squared
weights in steps of 1 / WEIGHT_UNIT."""
WEIGHT_UNIT: Final = 10_000

LARGEST_EXACT: Final = 2.0**52
"""From here on a float64 has no fractions, so a scaled value could not be rounded exactly."""


MOST_TOUCHED: Final = 100
"""Of one visitor last touch looks at so many impressions, the latest: a kiosk has thousands."""


class OptionalPlan(Protocol):
    """What shapes the rows of a measure that a plan may leave out."""

    @property
    def column_ids(self) -> tuple[str, ...]:
        """The ids of its columns: rows with the same ones can be summed."""


@dataclass(frozen=True)
class Plan:
    """Everything that shapes rows."""

    timing: Timing
    metrics: tuple[Metric, ...]
    groupings: tuple[tuple[str, ...], ...]
    """Without the whole, which is always the first of `grouping_names`."""
    grades: Mapping[str, float]
    max_segments: int = 100
    depth: int = 100
    tracking: Tracking | None = None
    """The experiments to keep tallies of; None: none are tracked."""
    history_hours: int = 0
    """How many whole hours of settled rows are kept; 0 keeps none."""
    hour_ms: int = HOUR_MS
    """Length of an hour; tests use shorter ones."""
    max_values: int | None = None
    """Values of a grouping that are admitted; None: ten times `max_segments`."""
    surfaces: Surfaces | None = None
    """Propensities by surface; None: no metric needs any."""
    queries: QueryPlan | None = None
    """The tables of queries; None: there are none."""
    derivations: tuple[Derivation, ...] = ()
    """The attributes that are derived from the query."""
    judged: JudgedPlan | None = None
    """The metrics that are scored by judgements; None: there are none."""
    missing: bool = False
    """Whether items that are shown for judged queries and not judged have a table. Needs `queries`
    and `judged`."""
    touch_ms: int | None = None
    """How long after feedback without an id impressions are awaited, of which last touch then
    chooses; None: all feedback joins by id."""
    most_touched: int = MOST_TOUCHED
    rekeyed: bool = False
    """Whether lanes read what a stage divides among them, by visitor or by id."""
    count_columns: tuple[str, ...] = COUNT_COLUMNS
    """The first columns of a row. Those of judged rows are others (`lane/judged.py`)."""
    columns_behind: int = 0
    """How many columns of other metrics follow those of `metrics`."""

    @property
    def touch_reach_ms(self) -> int:
        """How far before feedback the impressions lie that decide which one it joins; 0 where its
        id does."""
        return 0 if self.touch_ms is None else self.timing.attribution_ms

    @property
    def searches(self) -> QueryPlan | None:
        """How the queries of open impressions are kept; None: they are not."""
        return KEYS_ALONE if self.queries is None and self.judged is not None else self.queries

    @property
    def optional(self) -> Mapping[str, OptionalPlan]:
        """Measure → what shapes its rows; of the measures that a plan may leave out."""
        return {} if self.judged is None else {BY_JUDGEMENTS: self.judged}

    @property
    def missing_depth(self) -> int:
        """The first so many places of lists in which items without a judgement are counted."""
        return self.depth if self.judged is None else self.judged.depth or self.depth

    @property
    def without_judgements(self) -> "Plan":
        """The plan where nothing grades."""
        return replace(self, judged=None, missing=False)

    @cached_property
    def grouping_names(self) -> tuple[str, ...]:
        """`all`, then the configured groupings as `country,device`."""
        return (ALL, *(",".join(names) for names in self.groupings))

    @cached_property
    def grouping_ids(self) -> tuple[str, ...]:
        """What the groupings mean, whatever plan they stand in: their names, and for attributes
        that are derived the derivation too."""
        meanings = {derivation.attribute: derivation.meaning for derivation in self.derivations}
        named = (",".join(meanings.get(name, name) for name in names) for names in self.groupings)
        return (ALL, *named)

    def grouping_id(self, name: str | None) -> str | None:
        """That of the grouping of this name; None for none."""
        return None if name is None else self.grouping_ids[self.grouping_names.index(name)]

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """Every attribute that a grouping names."""
        names = {name for grouping in self.groupings for name in grouping}
        return tuple(sorted(name for name in names if not name.startswith(EXPERIMENT_PREFIX)))

    @cached_property
    def experiments(self) -> tuple[str, ...]:
        """Every experiment that a grouping names."""
        names = {name for grouping in self.groupings for name in grouping}
        prefixed = (name for name in names if name.startswith(EXPERIMENT_PREFIX))
        return tuple(sorted(name.removeprefix(EXPERIMENT_PREFIX) for name in prefixed))

    def values_of(
        self, attributes: Mapping[str, str | None], experiments: Mapping[str, str]
    ) -> Values:
        """The values that decide in which segments an impression counts."""
        values = tuple(map(attributes.get, self.attributes))
        return (*values, *map(experiments.get, self.experiments)) if self.experiments else values

    def surface_id_of(self, attributes: Mapping[str, str | None]) -> int:
        """The id of the surface of an impression with these attributes; NO_SURFACE where it has
        none or no propensities are configured."""
        return NO_SURFACE if self.surfaces is None else self.surfaces.id_of(attributes)

    @cached_property
    def value_indices(self) -> tuple[tuple[int, ...], ...]:
        """For each grouping the indices of its values in what `values_of` returns."""
        names = (*self.attributes, *(EXPERIMENT_PREFIX + name for name in self.experiments))
        return tuple(tuple(map(names.index, grouping)) for grouping in self.groupings)

    @cached_property
    def row_width(self) -> int:
        """Number of columns of a row."""
        weights = 0 if self.surfaces is None else len(WEIGHT_COLUMNS)
        return self.weight_column + weights + self.columns_behind

    @cached_property
    def weight_column(self) -> int:
        """The column after those of all metrics: the first of `WEIGHT_COLUMNS`, if there are
        any."""
        return self.metric_column(len(self.metrics))

    def metric_column(self, metric_index: int) -> int:
        """Column of `scored` of a metric; `sum` and `squares` follow it."""
        return len(self.count_columns) + len(METRIC_COLUMNS) * metric_index

    def columns_of(self, metric_index: int) -> list[int]:
        """The columns of a metric, and of its best case where there is one."""
        first = self.metric_column(metric_index)
        return [
            first + behind + part
            for behind in sorted({0, self.columns_behind})
            for part in range(len(METRIC_COLUMNS))
        ]

    @cached_property
    def column_ids(self) -> tuple[str, ...]:
        """What the columns of each metric mean, whatever plan they stand in: the full name, and for
        weighted metrics the propensities too."""
        return tuple(meaning_of(metric, self.surfaces) for metric in self.metrics)

    @cached_property
    def surfaces_id(self) -> str:
        """A digest of the propensities; "" without any."""
        return "" if self.surfaces is None else self.surfaces.digest

    @cached_property
    def weights_id(self) -> str | None:
        """What the columns of weights mean: the propensities, and the ranks that count; None where
        rows have none."""
        return None if self.surfaces is None else f"{self.surfaces.digest}@{self.weighted_depth}"

    @cached_property
    def timed(self) -> tuple[int, ...]:
        """Indices of the metrics that depend on when feedback came, not on which item it was
        for."""
        return tuple(n for n, metric in enumerate(self.metrics) if metric.needs == "timing")

    @cached_property
    def weighted_depth(self) -> int:
        """The deepest rank that any weighted metric counts."""
        cuts = [m.k or self.depth for m in self.metrics if m.needs == "propensities"]
        return min(max(cuts, default=0), self.depth)

    @cached_property
    def rank_weights(self) -> Floats:
        """(surfaces, depth), as `Surfaces.weights` returns them."""
        assert self.surfaces is not None
        return self.surfaces.weights(self.depth)

    @cached_property
    def clipped_ranks(self) -> Booleans:
        """(surfaces, depth), as `Surfaces.clipped` returns them."""
        assert self.surfaces is not None
        return self.surfaces.clipped(self.depth)

    @property
    def admitted_values(self) -> int:
        """How many values of a grouping one topic-partition admits."""
        return 10 * self.max_segments if self.max_values is None else self.max_values
