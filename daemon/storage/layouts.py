"""The layouts of a lane, and hours that were filled from a log or from files. Pure.

A layout says which columns rows have, and since when. A lane that goes to another one writes
everything that it has in memory again, under the new one. Rows of past hours are in the store
alone, and stay as they are: whoever reads a page of an hour finds by the start of the hour under
which layout it was written.

Keys of the past of a namespace, after its prefix `{NAMESPACE:past}:`

    fillings              hash: number → a `Filling` that is published; numbers count from 1
    run                   token of the process that fills; expires unless renewed
    staged                set: the ids of fillings that are not published
    ID:keys               set: the other keys of a filling
    ID:names:PART         (grouping, segment) by the segment ids of one part
    ID:hours:PART:START:PAGE   page PAGE of the rows of the hour that begins at START (ms)

A filling is written by the page, by one process, and published at once. Then it never changes. It
has a part for each lane of the log: the segment ids of each are its own.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from ..errors import Damaged, Unavailable
from ..lane import Rows, Since, columns_of, has_same_queries, kept_columns, since_the_beginning
from ..plan import COUNT_COLUMNS, METRIC_COLUMNS, WEIGHT_COLUMNS, Plan
from ..timing import Timing
from .keys import PackingError, pack, unpack, unpack_page

LAYOUTS_KEY: Final = "layouts"
_MOST_VALUES: Final = re.compile(r"^max_values = (\d+)$", re.MULTILINE)


class StoredLayout(msgspec.Struct, array_like=True, frozen=True):
    """A layout under which rows of a lane are stored."""

    generation: int
    """Of the namespace: layouts that were in force later have greater ones."""
    digest: str
    text: str
    """The configuration that says it, as TOML."""
    columns: tuple[str, ...]
    """`Plan.column_ids`."""
    weights: str | None
    """`Plan.weights_id`; None: rows have no columns of weights."""
    hours_from: int | None = None
    """The first hour whose pages were written under it, in ms; None: the first of the lane."""
    history_hours: int = 0
    """As in `Plan`."""
    panes: Mapping[int, int] = {}
    """Length of each window → length of its panes, in ms: it follows from the shortest window."""

    @property
    def admission(self) -> tuple[int, int, str]:
        """By what a lane admits values, and notes when each was last seen: the longest window, the
        length of its panes, and how many values a grouping may have."""
        longest, most = max(self.panes, default=0), _MOST_VALUES.search(self.text)
        return longest, self.panes.get(longest, 0), "" if most is None else most[1]


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

    def since_in(self, timing: Timing) -> Since:
        """Since when what a reader with this timing sums holds: without the windows whose panes
        have another length, as the keys of panes say nothing of it."""
        panes = self.last.panes
        spans = (span for span in timing.windows if panes.get(span.length_ms) == span.pane_ms)
        windows = {span.length_ms: self.since.windows[span.length_ms] for span in spans}
        return msgspec.structs.replace(self.since, windows=windows)

    def of_measure(self, plan: Plan) -> "LaneLayouts":
        """Those of rows beside those of clicks, whose own plan this is. Groupings, windows and
        hours begin in them when they do in those of clicks; their columns all begin at once, where
        the head of the lane says, and their pages of hours have no others."""
        replace = msgspec.structs.replace
        ids = dict.fromkeys(plan.column_ids)
        last = replace(self.last, columns=plan.column_ids, weights=plan.weights_id, hours_from=None)
        return LaneLayouts(self.groupings, (last,), replace(self.since, columns=ids))

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
        plan = self.plan
        return StoredLayout(
            self.generation,
            self.digest,
            self.text,
            plan.column_ids,
            plan.weights_id,
            hours_from,
            plan.history_hours,
            {span.length_ms: span.pane_ms for span in plan.timing.windows},
        )


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
    memory, `kept_from` the first one that is stored: no earlier layout is needed any more, but for
    the last under which other values were admitted."""
    stored = in_force.stored(hours_from)
    # What was admitted otherwise once stays so, or is dropped otherwise: one layout tells that.
    others = [one for one in layouts.layouts if one.admission != stored.admission][-1:]
    earlier = [
        one
        for one, following in zip(layouts.layouts, (*layouts.layouts[1:], stored), strict=True)
        if one in others
        or following.hours_from != one.hours_from
        and (kept_from is None or (following.hours_from or 0) > kept_from)
    ]
    return LaneLayouts(tuple(groupings), (*earlier, stored), since)


def has_same_rows(one: Plan, other: Plan) -> bool:
    """Whether rows under both plans have the same columns, panes and segments, and are kept for as
    long."""
    return (
        (one.column_ids, one.weights_id) == (other.column_ids, other.weights_id)
        and one.timing == other.timing
        and one.grouping_ids == other.grouping_ids
        and one.history_hours == other.history_hours
        and has_same_queries(one, other)
        and one.optional == other.optional
        and one.missing == other.missing
    )


def renewed(layouts: LaneLayouts, in_force: InForce) -> LaneLayouts:
    """Those of a lane that goes to a layout with the same rows."""
    hours_from = layouts.last.hours_from
    return with_next(layouts, in_force, layouts.groupings, layouts.since, hours_from, None)


def packed(layouts: LaneLayouts) -> bytes:
    """The layouts as they are stored."""
    return pack(layouts)


def layouts_of(blobs: Mapping[str, Any]) -> LaneLayouts | None:
    """The layouts among stored values, if they are."""
    data = blobs.get(LAYOUTS_KEY)
    return None if data is None else unpack(data, LaneLayouts)


def translated(rows: Rows, stored: StoredLayout, plan: Plan) -> Rows:
    """(rows, columns) of a page under another plan: 0 in the columns that it does not have."""
    before, after = (stored.columns, stored.weights), columns_of(plan)
    if before == after:
        return rows
    from_, to = kept_columns(before, after)
    moved = np.zeros((len(rows), plan.row_width), np.int64)
    moved[:, to] = rows[:, from_]
    return moved


PAST: Final = "past"
"""In the place of a lane's number."""


class Filling(msgspec.Struct, array_like=True, frozen=True):
    """Whole hours that were counted from a log or from files."""

    id: str
    layout: StoredLayout
    """The layout that they were counted under."""
    groupings: tuple[str, ...]
    """`Plan.grouping_ids`, which are the names of its groupings, with that of the whole."""
    first_ms: int
    """Start of its first hour."""
    until_ms: int
    """End of its last hour."""
    source: str
    """Where the events came from, for people."""
    keys: int
    """How many values it has."""
    without: tuple[int, ...] = ()
    """Starts of hours in between of which it says nothing."""
    replaces: bool = False
    """Whether it takes the place of earlier fillings, where it has an hour."""


Names = tuple[tuple[str, str], ...]
"""(grouping, segment) by segment id."""


@dataclass(frozen=True)
class Part:
    """One part of a filling, as it is stored."""

    names: Names
    hours: Mapping[int, Mapping[int, bytes]]
    """Start of an hour → page → rows."""


@dataclass(frozen=True)
class StoredPast:
    """A filling with its rows."""

    filling: Filling
    parts: Sequence[Part]
    lost: frozenset[int]
    """Starts of hours of which the store has lost rows."""


def names_key(id_: str, part: int) -> str:
    """Return the key of the names of a part."""
    return f"{id_}:names:{part}"


def filling_hour_key(id_: str, part: int, start: int, page: int) -> str:
    """Return the key of a page of an hour of a part."""
    return f"{id_}:hours:{part}:{start}:{page}"


def packed_filling(value: Filling | Names) -> bytes:
    """Return a filling, or names, as it is stored."""
    return pack(value)


def unpacked(data: bytes) -> Filling:
    """Return the filling that was packed. Raises Damaged."""
    with _readable("the filled hours"):
        return unpack(data, Filling)


def past_of(filling: Filling, blobs: Mapping[str, bytes | None]) -> StoredPast:
    """Return a filling with its rows, from the values of its keys; None: the value is lost. Takes
    a while: pages are read once to know that they can be. Raises Damaged where names are lost, or
    which keys there were."""
    with _readable(f"the filled hours {filling.id}"):
        return _past_of(filling, blobs)


def _past_of(filling: Filling, blobs: Mapping[str, bytes | None]) -> StoredPast:
    if len(blobs) < filling.keys:
        raise ValueError(f"{len(blobs)} of {filling.keys} keys are left")
    layout = filling.layout
    width = len(COUNT_COLUMNS) + len(METRIC_COLUMNS) * len(layout.columns)
    width += 0 if layout.weights is None else len(WEIGHT_COLUMNS)
    names, hours, lost = dict[int, Names](), dict[int, dict[int, dict[int, bytes]]](), set[int]()
    for key, data in blobs.items():
        _, kind, *numbers = key.split(":")
        if kind == "names":
            if data is None:
                raise ValueError("the names of its segments are gone")
            names[int(numbers[0])] = unpack(data, Names)
            continue
        part, start, page = map(int, numbers)
        if data is None or not _is_page(data, width):
            lost.add(start)
        else:
            hours.setdefault(part, {}).setdefault(start, {})[page] = data
    parts = [Part(names[part], hours.get(part, {})) for part in sorted(names)]
    return StoredPast(filling, parts, frozenset(lost))


def _is_page(data: bytes, width: int) -> bool:
    try:
        return int(unpack_page(data).shape[1]) == width
    except (ValueError, PackingError):
        return False


@contextmanager
def _readable(what: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, PackingError) as error:
        raise Damaged(f"{what} cannot be read ({type(error).__name__}: {error})") from error
