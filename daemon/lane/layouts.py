"""Since when each column of a lane's rows holds. Pure.

A lane goes from plan to plan, and its rows keep the columns that both have. A column that is new
begins at an instant, and a sum that reaches further back must not be shown.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec
import numpy as np

from relevanced.metrics.lists import Integers

from ..plan import COUNT_COLUMNS, METRIC_COLUMNS, WEIGHT_COLUMNS, Plan

Instant = int | None
"""An event time in ms; None: the beginning of the lane."""

BEFORE = "\\before"
"""The segment of a grouping that has what was counted before the lane had the grouping, so that its
segments sum to the whole. No value is escaped like this, and it is never shown."""


class Since(msgspec.Struct, frozen=True):
    """From which instants on, at borders of base panes, the rows of a lane are exact."""

    columns: Mapping[str, Instant] = {}
    """By `Plan.column_ids`."""
    groupings: Mapping[str, Instant] = {}
    """By `Plan.grouping_ids`, which are names such as `country,device`."""
    windows: Mapping[int, Instant] = {}
    """By length in ms."""
    hours: Instant = None

    def of(self, column: str, grouping: str, window_ms: int) -> Instant:
        """Since when a column of a grouping holds in the panes of a window. Raises KeyError where
        one of them is not there at all."""
        return latest((self.columns[column], self.groupings.get(grouping), self.windows[window_ms]))


def latest(instants: Iterable[Instant]) -> Instant:
    """The latest of some instants."""
    return max((each for each in instants if each is not None), default=None)


Columns: TypeAlias = tuple[tuple[str, ...], str | None]
"""`Plan.column_ids`, and `Plan.surfaces_id` where rows have columns of weights, else None."""


def columns_of(plan: Plan) -> Columns:
    """The columns of rows under a plan."""
    return plan.column_ids, None if plan.surfaces is None else plan.surfaces_id


def kept_columns(old: Columns, new: Columns) -> tuple[Integers, Integers]:
    """The columns, in the old rows and in the new ones, that both have."""
    (old_ids, old_surfaces), (new_ids, new_surfaces) = old, new
    each, counts = len(METRIC_COLUMNS), len(COUNT_COLUMNS)
    pairs = [(n, n) for n in range(counts)]
    at = {id_: index for index, id_ in enumerate(old_ids)}
    for index, id_ in enumerate(new_ids):
        if id_ in at:
            pairs += [(counts + each * at[id_] + n, counts + each * index + n) for n in range(each)]
    if old_surfaces is not None and old_surfaces == new_surfaces:
        first, into = counts + each * len(old_ids), counts + each * len(new_ids)
        pairs += [(first + n, into + n) for n in range(len(WEIGHT_COLUMNS))]
    from_, to = zip(*pairs, strict=True)
    return np.array(from_), np.array(to)
