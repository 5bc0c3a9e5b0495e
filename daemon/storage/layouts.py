"""The layouts of a lane: which columns its rows have, and since when each of them holds. Pure.

A lane that goes to another layout writes everything that it has in memory again, under the new
one. Rows of past hours are in the store alone, and stay as they are: whoever reads a page of an
hour finds by the start of the hour under which layout it was written.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from ..lane.layouts import Since, columns_of, kept_columns
from ..lane.paged_rows import Rows
from ..lane.queries import has_same_queries
from ..lane.relayout import since_the_beginning
from ..errors import Unavailable
from ..plan import Plan
from .packing import pack, unpack

LAYOUTS_KEY: Final = "layouts"


class StoredLayout(msgspec.Struct, array_like=True, frozen=True):
    """A layout under which rows of a lane are stored."""

    generation: int
    """Of the namespace: layouts that were in force later have greater ones."""
    digest: str
    text: str
    """The configuration that says it, as TOML."""
    columns: tuple[str, ...]
    """`Plan.column_ids`."""
    surfaces: str | None
    """`Plan.surfaces_id`; None: rows have no columns of weights."""
    hours_from: int | None = None
    """The first hour whose pages were written under it, in ms; None: the first of the lane."""


class LaneLayouts(msgspec.Struct, array_like=True, frozen=True):
    """The layouts of one lane."""

    groupings: tuple[tuple[str, ...], ...]
    """By grouping id less one: the attributes of all groupings that the lane ever had."""
    layouts: tuple[StoredLayout, ...]
    """The oldest first; the lane works under the last one."""
    since: Since
    """Since when the columns of the last one hold."""

    @property
    def last(self) -> StoredLayout:
        """The layout that the lane works under."""
        return self.layouts[-1]

    @property
    def grouping_names(self) -> list[str]:
        """By grouping id, of which 0 is that of the whole."""
        return ["all", *(",".join(attributes) for attributes in self.groupings)]

    def of_hour(self, start: int) -> StoredLayout:
        """The layout under which the pages of an hour are stored."""
        begun = (e for e in self.layouts if e.hours_from is None or e.hours_from <= start)
        return list(begun)[-1]


@dataclass(frozen=True)
class InForce:
    """The layout in force in a namespace."""

    plan: Plan
    generation: int = 0
    digest: str = ""
    text: str = ""

    def stored(self, hours_from: int | None = None) -> StoredLayout:
        """The layout as a lane stores it that goes to it, or begins under it."""
        surfaces = None if self.plan.surfaces is None else self.plan.surfaces_id
        columns = self.plan.column_ids
        return StoredLayout(self.generation, self.digest, self.text, columns, surfaces, hours_from)


PlanOf: TypeAlias = Callable[[StoredLayout], Plan]
"""The plan of a stored layout. Raises Unavailable where this program does not know all of it."""
Found: TypeAlias = Callable[[StoredLayout], Awaitable[None]]
"""Notes a layout that is in force and was not known to be. Raises Unavailable."""


class Layouts:
    """The layout in force, as far as this process knows, and the plans of others."""

    def __init__(
        self, in_force: InForce, plan_of: PlanOf | None = None, found: Found | None = None
    ) -> None:
        self.in_force = in_force
        self._plan_of = plan_of
        self._found = found

    def plan_of(self, stored: StoredLayout) -> Plan:
        """The plan of a stored layout. Raises Unavailable."""
        if stored.digest == self.in_force.digest or self._plan_of is None:
            return self.in_force.plan
        return self._plan_of(stored)

    async def follow(self, layouts: LaneLayouts | None) -> None:
        """Raise Unavailable where a lane is stored under a later layout than the one in force: this
        process has yet to hear of it, or Redis lost it and takes it from the lane."""
        if layouts is None or layouts.last.generation <= self.in_force.generation:
            return
        if self._found is not None:
            await self._found(layouts.last)
        raise Unavailable(
            f"the lane is under generation {layouts.last.generation} of the layout, this process"
            f" under {self.in_force.generation}: it follows"
        )


def first_layouts(in_force: InForce) -> LaneLayouts:
    """Those of a lane that begins."""
    plan = in_force.plan
    return LaneLayouts(plan.groupings, (in_force.stored(),), since_the_beginning(plan))


def with_next(
    layouts: LaneLayouts,
    in_force: InForce,
    groupings: Sequence[tuple[str, ...]],
    since: Since,
    hours_from: int | None,
    kept_from: int | None,
) -> LaneLayouts:
    """Those of a lane that goes to another layout. `hours_from` is the first hour that it has in
    memory, `kept_from` the first one that is stored: no earlier layout is needed any more."""
    stored = in_force.stored(hours_from)
    if hours_from is None:
        return LaneLayouts(tuple(groupings), (stored,), since)
    earlier = [
        one
        for one, following in zip(layouts.layouts, (*layouts.layouts[1:], stored), strict=True)
        if following.hours_from != one.hours_from
        and (kept_from is None or (following.hours_from or 0) > kept_from)
    ]
    return LaneLayouts(tuple(groupings), (*earlier, stored), since)


def has_same_rows(one: Plan, other: Plan) -> bool:
    """Whether rows under both plans have the same columns, panes and segments."""
    return (
        (one.column_ids, one.surfaces_id) == (other.column_ids, other.surfaces_id)
        and one.timing == other.timing
        and one.grouping_ids == other.grouping_ids
        and bool(one.history_hours) == bool(other.history_hours)
        and has_same_queries(one, other)
        and one.judged == other.judged
        and one.missing == other.missing
    )


def renewed(layouts: LaneLayouts, in_force: InForce) -> LaneLayouts:
    """Those of a lane that goes to a layout with the same rows."""
    last = in_force.stored(layouts.last.hours_from)
    return LaneLayouts(layouts.groupings, (*layouts.layouts[:-1], last), layouts.since)


def packed(layouts: LaneLayouts) -> bytes:
    """The layouts as they are stored."""
    return pack(layouts)


def layouts_of(blobs: Mapping[str, Any]) -> LaneLayouts | None:
    """The layouts among stored values, if they are."""
    data = blobs.get(LAYOUTS_KEY)
    return None if data is None else unpack(data, LaneLayouts)


def translated(rows: Rows, stored: StoredLayout, plan: Plan) -> Rows:
    """(rows, columns) of a page under another plan: 0 in the columns that it does not have."""
    before, after = (stored.columns, stored.surfaces), columns_of(plan)
    if before == after:
        return rows
    from_, to = kept_columns(before, after)
    moved = np.zeros((len(rows), plan.row_width), np.int64)
    moved[:, to] = rows[:, from_]
    return moved
