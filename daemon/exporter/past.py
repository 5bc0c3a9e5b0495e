"""The sources of hourly rows: the lanes, and beside them the hours that were filled from a log or
from files. Pure.

In each hour, a column of a grouping comes from one source alone: from the lanes where all of them
have it over the whole hour, else from the first filling that has it, else it is unknown. Never from
both: what the lanes lack they may lack in part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Protocol, TypeAlias

import numpy as np

from relevanced.metrics.lists import Booleans, Floats, Integers

from ..lane import row_set
from ..lane.paged_rows import Rows
from ..plan import COUNT_COLUMNS, METRIC_COLUMNS, WEIGHT_COLUMNS, Plan
from ..storage.head import whole_or_damaged
from ..storage.layouts import translated
from ..storage.packing import unpack_page
from ..storage.past import StoredPast
from .coverage import ALWAYS, NEVER, Coverage
from .lane_view import HourPages, LaneView, Names

Cells: TypeAlias = Booleans
"""(groupings, 2 + metrics): whether the counts, each metric and the weights are there."""
COUNTS_CELL: Final = 0


class HourSource(Protocol):
    """A lane, or a part of a filling."""

    @property
    def names(self) -> Names:
        """Of its segments."""

    @property
    def hours(self) -> HourPages:
        """Its pages."""

    def hour_rows(self, plan: Plan, start: int, page: int) -> Rows:
        """(PAGE_ROWS, columns) of a page that it has, without what another source has. Raises
        Damaged."""


@dataclass(frozen=True, eq=False)
class FilledPart:
    """A part of a filling, with the hours of which it says something."""

    past: StoredPast
    names: Names
    hours: HourPages
    taken: Mapping[int, Cells]
    """Start of an hour → what this filling says."""

    def hour_rows(self, plan: Plan, start: int, page: int) -> Rows:
        """See `HourSource`."""
        filling = self.past.filling
        with whole_or_damaged(f"filled hours {filling.id}"):
            rows = translated(unpack_page(self.hours[start][page]), filling.layout, plan)
        columns = self.taken[start][:, _cell_of_column(plan)]
        known = {name: line for line, name in enumerate(plan.grouping_names)}
        lines = [known.get(grouping) for grouping, _ in self.names.of_page(page)]
        shown = np.zeros_like(rows)
        for at, line in enumerate(lines):
            if line is not None:
                shown[at] = np.where(columns[line], rows[at], 0)
        return shown


def _cell_of_column(plan: Plan) -> Integers:
    """(columns,): the cell of each column of a row."""
    cells = [0] * len(COUNT_COLUMNS)
    for index in range(len(plan.metrics)):
        cells += [1 + index] * len(METRIC_COLUMNS)
    if plan.surfaces is not None:
        cells += [1 + len(plan.metrics)] * len(WEIGHT_COLUMNS)
    return np.array(cells)


def lane_cells(coverage: Coverage | None, plan: Plan, start: int) -> Cells:
    """What lanes that have an hour know of it."""
    shape = len(plan.grouping_names), 2 + len(plan.metrics)
    if coverage is None:
        return np.ones(shape, np.bool_)
    if start < coverage.hours:
        return np.zeros(shape, np.bool_)
    columns = np.ones(shape[1], np.bool_)
    columns[_columns_hidden(coverage, plan, start)] = False
    groupings = np.array([not coverage.hides(name, start) for name in plan.grouping_names])
    return np.array(np.logical_and.outer(groupings, columns))


def _columns_hidden(coverage: Coverage, plan: Plan, start: int) -> Integers:
    return np.unique(_cell_of_column(plan)[coverage.hidden_columns(start)])


def _filled_cells(past: StoredPast, plan: Plan, start: int) -> Cells:
    filling, layout = past.filling, past.filling.layout
    shape = len(plan.grouping_names), 2 + len(plan.metrics)
    if not filling.first_ms <= start < filling.until_ms or start in past.lost:
        return np.zeros(shape, np.bool_)
    columns = [id_ in layout.columns for id_ in plan.column_ids]
    same_surfaces = plan.surfaces is None or layout.surfaces == plan.surfaces_id
    groupings = np.array([id_ in filling.groupings for id_ in plan.grouping_ids])
    own = np.array([True, *columns, same_surfaces])
    return np.array(np.logical_and.outer(groupings, own))


@dataclass(frozen=True, eq=False)
class HourSources:
    """The sources of the hours that are kept, each with what it alone says."""

    plan: Plan
    coverage: Coverage | None
    """Of the lanes; None: they have everything."""
    born_ms: int
    """Start of the first hour that a lane has; NEVER while none has any. The lane may have begun
    within it."""
    kept_ms: int
    """Start of the first hour that is kept."""
    views: Sequence[LaneView] = ()
    parts: Sequence[FilledPart] = ()
    past: Sequence[StoredPast] = ()
    taken: Mapping[int, Cells] = field(default_factory=dict)
    """Start of an hour → what all fillings together say."""

    @staticmethod
    def of(
        views: Sequence[LaneView],
        past: Sequence[StoredPast],
        plan: Plan,
        before: "HourSources | None" = None,
    ) -> "HourSources":
        """The sources with these lanes. Parts of `before` are kept while they say the same."""
        coverage = next((view.coverage for view in views if view.coverage), None)
        begun = (min(view.hours, default=NEVER) for view in views)
        settled = [v.settled_before for v in views if v.has_events and v.settled_before is not None]
        born_ms = max(min(begun, default=NEVER), ALWAYS if coverage is None else coverage.hours)
        kept_ms = row_set.kept_from(min(settled), plan) if settled else ALWAYS
        found = HourSources(plan, coverage, born_ms, kept_ms, views, (), past)
        if before is not None and found._key == before._key:
            parts, taken = before.parts, before.taken
        else:
            parts, taken = found._filled()
        return replace(found, parts=parts, taken=taken)

    @property
    def _key(self) -> object:
        kept_ms = self.kept_ms if self.past else 0
        return self.coverage, self.born_ms, kept_ms, tuple(p.filling.id for p in self.past)

    def says_the_same(self, other: "HourSources | None") -> bool:
        """Whether each source says the same of each hour that it has, as far as that depends on
        the other sources."""
        return other is not None and (
            (self.coverage, self.parts) == (other.coverage, other.parts)
            and (not self.parts or self.born_ms == other.born_ms)
        )

    def _filled(self) -> tuple[Sequence[FilledPart], Mapping[int, Cells]]:
        """The parts of all fillings, and what these say."""
        parts, of_all = list[FilledPart](), dict[int, Cells]()
        for past in self.past:
            taken = dict[int, Cells]()
            first_ms = max(past.filling.first_ms, self.kept_ms)
            for start in range(first_ms, past.filling.until_ms, self.plan.hour_ms):
                earlier = of_all.get(start, False)
                cells = _filled_cells(past, self.plan, start) & ~(self._of_lanes(start) | earlier)
                if cells.any():
                    taken[start], of_all[start] = cells, cells | earlier
            for part in past.parts:
                its_hours = {start: part.hours[start] for start in taken if start in part.hours}
                parts.append(FilledPart(past, Names(part.names), its_hours, taken))
        return tuple(parts), of_all

    @cached_property
    def _none(self) -> Cells:
        return np.zeros((len(self.plan.grouping_names), 2 + len(self.plan.metrics)), np.bool_)

    def _of_lanes(self, start: int) -> Cells:
        if start < self.born_ms:
            return self._none
        return lane_cells(self.coverage, self.plan, start)

    def filled(self, start: int) -> Cells:
        """What of an hour does not come from the lanes."""
        return self.taken.get(start, self._none)

    def known(self, start: int) -> Cells:
        """What is known of an hour."""
        return self._of_lanes(start) | self.taken.get(start, self._none)

    @property
    def has_everything(self) -> bool:
        """Whether nothing of any hour is unknown, as far as the lanes have it."""
        return self.coverage is None and not self.parts

    def without(self, rows: Floats, segments: Sequence[tuple[str, str]], hidden: Cells) -> Floats:
        """The rows, (segments, columns), with 0 in the hidden cells."""
        line = {name: index for index, name in enumerate(self.plan.grouping_names)}
        columns = hidden[:, _cell_of_column(self.plan)]
        lines = np.array([line[grouping] for grouping, _ in segments], np.int64)
        return np.where(columns[lines], 0.0, rows)

    @cached_property
    def each(self) -> Sequence[HourSource]:
        """All of them, in the order of `pages`."""
        return [*self.views, *self.parts]

    @cached_property
    def starts(self) -> Sequence[int]:
        """The hours of which any source has rows, oldest first."""
        of_lanes = {start for view in self.views for start in view.hours if start >= self.born_ms}
        return sorted(of_lanes.union(*(part.hours for part in self.parts)))

    def pages(self, start: int) -> tuple[Mapping[int, bytes] | None, ...]:
        """The pages of an hour in each source; None where it has none."""
        has_lanes = start >= self.born_ms
        of_lanes = [view.hours.get(start) if has_lanes else None for view in self.views]
        return (*of_lanes, *(part.hours.get(start) for part in self.parts))

    @cached_property
    def lost(self) -> frozenset[int]:
        """Starts of hours of which a lane has lost rows; and beside filled hours those that no
        source has whole: in which the lanes began, and before."""
        lost = frozenset[int]().union(*(view.lost_hours for view in self.views))
        first = min(self.taken, default=NEVER)
        if first >= self.born_ms or self.born_ms == NEVER:
            return lost
        gap = range(first, self.born_ms, self.plan.hour_ms)
        unknown = (start for start in gap if not self.known(start)[0, COUNTS_CELL])
        return lost.union(unknown, {self.born_ms})
