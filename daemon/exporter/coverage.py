"""From when on the rows of all lanes have each column, grouping and window, and what hides what
they lack. Pure.

A lane that goes to another layout has new columns from an instant on. Each lane has its own, and a
sum must not contain some lanes only: so the latest counts. In a pane or an hour that begins earlier
the column has no values, and is undefined. A window shows it once all of it is covered.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np

from relevanced.metrics.lists import Floats, Integers

from ..lane.layouts import Instant, Since
from ..lane.paged_rows import Rows
from ..plan import ALL, METRIC_COLUMNS, WEIGHT_COLUMNS, Plan

Matrix = TypeVar("Matrix", Rows, Floats)

ALWAYS: Final = -(2**62)
NEVER: Final = 2**62


@dataclass(frozen=True)
class Coverage:
    """The first instants in event time, ms; ALWAYS, or NEVER where a lane has none of it yet."""

    plan: Plan
    metrics: tuple[int, ...]
    """By index of the metric."""
    groupings: Mapping[str, int]
    """By name, without the whole."""
    windows: tuple[int, ...]
    """By index of the window."""
    hours: int

    @staticmethod
    def of(found: Sequence[Since], plan: Plan) -> "Coverage":
        """That of lanes whose columns hold since then."""

        def latest(instants: Iterable[Mapping[Any, Instant]], name: str | int) -> int:
            return max((_first(of_lane, name) for of_lane in instants), default=ALWAYS)

        columns, groupings = [s.columns for s in found], [s.groupings for s in found]
        windows, hours = [s.windows for s in found], [{"": since.hours} for since in found]
        return Coverage(
            plan,
            tuple(latest(columns, id_) for id_ in plan.column_ids),
            {
                name: latest(groupings, id_)
                for name, id_ in zip(plan.grouping_names[1:], plan.grouping_ids[1:], strict=True)
            },
            tuple(latest(windows, window.length_ms) for window in plan.timing.windows),
            latest(hours, ""),
        )

    @cached_property
    def all(self) -> tuple[int, ...]:
        """All of them, in one order."""
        return (*self.metrics, *self.groupings.values(), *self.windows, self.hours)

    @cached_property
    def latest(self) -> int:
        """The latest of them."""
        return max(self.all)

    @property
    def is_whole(self) -> bool:
        """Whether everything always was there."""
        return self.latest == ALWAYS

    def since(self, metric: int, grouping: str, window: int) -> int | None:
        """From when on the rows of a window have a metric of a grouping; None: always, or not
        yet."""
        first = self.metrics[metric], self.groupings.get(grouping, ALWAYS), self.windows[window]
        return max(first) if ALWAYS < max(first) < NEVER else None

    def begins(self, metric: int, grouping: str) -> int | None:
        """From when on the lanes have a metric of a grouping; None: always, or not yet."""
        first = max(self.metrics[metric], self.groupings.get(grouping, ALWAYS))
        return first if ALWAYS < first < NEVER else None

    def hidden_columns(self, start_ms: int) -> Integers:
        """The columns that rows from then on lack."""
        hidden, weighted = list[int](), False
        for index, first in enumerate(self.metrics):
            if first > start_ms:
                column = self.plan.metric_column(index)
                hidden += range(column, column + len(METRIC_COLUMNS))
                weighted = weighted or self.plan.metrics[index].needs == "propensities"
        if weighted:
            first = self.plan.weight_column
            hidden += range(first, first + len(WEIGHT_COLUMNS))
        return np.array(hidden, np.int64)

    def hides(self, grouping: str, start_ms: int) -> bool:
        """Whether rows from then on lack the segments of a grouping."""
        return grouping != ALL and self.groupings.get(grouping, ALWAYS) > start_ms

    def without_hidden(
        self, rows: Matrix, segments: Sequence[tuple[str, str]], start_ms: int
    ) -> Matrix:
        """The rows, (segments or more, columns), from then on: 0 in what they lack."""
        if self.latest <= start_ms:
            return rows
        columns = self.hidden_columns(start_ms)
        lines = [n for n, (name, _) in enumerate(segments) if self.hides(name, start_ms)]
        if not len(columns) and not lines:
            return rows
        shown = rows.copy()
        shown[:, columns] = 0
        shown[lines] = 0
        return shown


def _first(instants: Mapping[Any, Instant], name: str | int) -> int:
    first = instants.get(name, NEVER)
    return ALWAYS if first is None else first
