"""The hourly rows of all sources together, summed for the hours that baselines need. Pure.

Weeks of hours are many rows that hardly change: they stay packed as they are stored. The hours that
are needed are unpacked and summed over the sources once, and kept while these contain the same
pages.

Sources are the lanes, and beside them the hours that were filled from a log or from files. In each
hour, a column of a grouping comes from one source alone: from the lanes where all of them have it
over the whole hour and none has lost rows of it, else from the first filling that has it, or the
last of those that replace others, else it is unknown. Never from both: what the lanes lack they may
lack in part.
"""

import math
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import cached_property
from operator import is_
from typing import Final, Protocol, TypeAlias

import numpy as np

from relevanced.metrics import Booleans, Floats, Integers

from ..lane import PAGE_ROWS, PagedRows, Pages, Rows, kept_rows
from ..plan import COUNT_COLUMNS, Plan
from ..storage import StoredPast, translated, unpack_page, whole_or_damaged
from .lane_view import ALWAYS, NEVER, Coverage, HourPages, LaneView, Names
from .selection import Selection
from .snapshot import Segment
from .usual_weights import ENOUGH, without_fallen

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
    cells = np.zeros(plan.row_width, np.int64)
    for index in range(len(plan.metrics)):
        cells[plan.columns_of(index)] = 1 + index
    if plan.surfaces is not None:
        cells[plan.weight_column :] = 1 + len(plan.metrics)
    return cells


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
    is_filled = filling.first_ms <= start < filling.until_ms and start not in filling.without
    if not is_filled or start in past.lost:
        return np.zeros(shape, np.bool_)
    columns = [id_ in layout.columns for id_ in plan.column_ids]
    same_weights = plan.weights_id is None or layout.weights == plan.weights_id
    groupings = np.array([id_ in filling.groupings for id_ in plan.grouping_ids])
    own = np.array([True, *columns, same_weights])
    return np.array(np.logical_and.outer(groupings, own))


@dataclass(frozen=True, eq=False)
class HourSources:
    """The sources of the hours that are kept, each with what it alone says."""

    plan: Plan
    coverage: Coverage | None
    """Of the lanes; None: they have everything."""
    born_ms: int
    """Start of the first hour that a lane has, and all lanes keep; NEVER while none has any. The
    lane may have begun within it."""
    kept_ms: int
    """Start of the first hour that is kept."""
    views: Sequence[LaneView] = ()
    parts: Sequence[FilledPart] = ()
    past: Sequence[StoredPast] = ()
    taken: Mapping[int, Cells] = field(default_factory=dict)
    """Start of an hour → what all fillings together say."""
    lost_of_lanes: frozenset[int] = frozenset()
    """Starts of hours of which a lane has lost rows: what the others have of them is no sum."""

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
        whole_ms = ALWAYS if coverage is None else coverage.hours
        dropped_ms = kept_ms = ALWAYS
        if settled:
            # A lane that is behind still has hours that the others have dropped.
            dropped_ms = kept_rows.kept_from(max(settled), plan)
            kept_ms = kept_rows.kept_from(min(settled), plan)
        born_ms = max(min(begun, default=NEVER), whole_ms, dropped_ms)
        lost = frozenset[int]().union(*(view.lost_hours for view in views))
        if dropped_ms < whole_ms:  # a lane began anew: the others still have what it lost
            lost |= {at for view in views for at in view.hours if dropped_ms <= at < whole_ms}
        found = HourSources(plan, coverage, born_ms, kept_ms, views, (), past, lost_of_lanes=lost)
        if before is not None and found._key == before._key:
            parts, taken = before.parts, before.taken
        else:
            parts, taken = found._filled()
        return replace(found, parts=parts, taken=taken)

    @property
    def _key(self) -> object:
        kept_ms = self.kept_ms if self.past else 0
        past = tuple(past.filling.id for past in self.past)
        return self.coverage, self.born_ms, kept_ms, past, self.lost_of_lanes

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
        replacing = [past for past in reversed(self.past) if past.filling.replaces]
        for past in [*replacing, *(past for past in self.past if not past.filling.replaces)]:
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

    def _have_lanes(self, start: int) -> bool:
        return start >= self.born_ms and start not in self.lost_of_lanes

    def _of_lanes(self, start: int) -> Cells:
        if not self._have_lanes(start):
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

    def shares_known(self, weights: Mapping[int, float]) -> Floats:
        """(groupings, 2 + metrics): of what share of some hours each is known."""
        have = [weight * self.known(start) for start, weight in weights.items()]
        return np.asarray(np.sum(have, axis=0) / sum(weights.values()))

    def by_row(self, cells: Floats | Cells, segments: Sequence[tuple[str, str]]) -> Floats:
        """(segments, columns): of each the value of its cell."""
        line = {name: index for index, name in enumerate(self.plan.grouping_names)}
        lines = np.array([line[grouping] for grouping, _ in segments], np.int64)
        return np.asarray(cells[:, _cell_of_column(self.plan)][lines], np.float64)

    @cached_property
    def each(self) -> Sequence[HourSource]:
        """All of them, in the order of `pages`."""
        return [*self.views, *self.parts]

    @cached_property
    def starts(self) -> Sequence[int]:
        """The hours of which any source has rows, oldest first; also those that a lane has lost."""
        of_lanes = {start for view in self.views for start in view.hours if start >= self.born_ms}
        return sorted(of_lanes.union(*(part.hours for part in self.parts)))

    def pages(self, start: int) -> tuple[Mapping[int, bytes] | None, ...]:
        """The pages of an hour in each source; None where it has none."""
        has_lanes = self._have_lanes(start)
        of_lanes = [view.hours.get(start) if has_lanes else None for view in self.views]
        return (*of_lanes, *(part.hours.get(start) for part in self.parts))

    @cached_property
    def not_filled(self) -> frozenset[int]:
        """Starts of hours of which a lane has lost rows, and no filling has them."""
        return frozenset(s for s in self.lost_of_lanes if not self.known(s)[0, COUNTS_CELL])

    @cached_property
    def lost(self) -> frozenset[int]:
        """The same; and beside filled hours those that no source has whole: in which the lanes
        began, and before."""
        lost = self.not_filled
        first = min(self.taken, default=NEVER)
        if first >= self.born_ms or self.born_ms == NEVER:
            return lost
        gap = range(first, self.born_ms, self.plan.hour_ms)
        unknown = (start for start in gap if not self.known(start)[0, COUNTS_CELL])
        return lost.union(unknown, {self.born_ms})


_Packed: TypeAlias = tuple[Mapping[int, bytes] | None, ...]
"""The pages of an hour in each source, None where it does not contain the hour."""

TRAFFIC_COLUMNS: tuple[int, ...] = tuple(
    COUNT_COLUMNS.index(name) for name in ("impressions", "impressions_with_feedback")
)
"""Columns of the whole that show whether an hour was an outage: of judged rows those of impressions
and of places."""


@dataclass
class _Hour:
    packed: _Packed
    whole: Sequence[int]
    rows: PagedRows | None = None
    """The sum of all sources, by the segment ids of `History`; None until it is needed."""


class HourHistory:
    """The hours that the lanes contain."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.sources = HourSources.of((), (), plan)
        self._names = Names()
        """The segments of the hours that were needed so far, of all sources: each has ids of its
        own, and their sum needs common ones."""
        self._hours: dict[int, _Hour] = {}
        self.lost: frozenset[int] = frozenset()
        """Starts of hours whose sums would be too small."""
        self.doubtful: frozenset[int] = frozenset()
        """Starts of hours whose scores say nothing: lost from the next `take` on."""
        self.fallen: Mapping[tuple[Segment, int], Set[int]] = {}
        """(segment, index of the metric) → starts of the hours in which the score had fallen: they
        do not say what is usual of it."""

    def take(self, views: Sequence[LaneView], past: Sequence[StoredPast] = ()) -> None:
        """Take over the hours that lanes and fillings contain now. Raises Damaged."""
        sources = HourSources.of(views, past, self.plan, self.sources)
        if not sources.says_the_same(self.sources):
            self._hours = {}
        self.sources, self.lost = sources, sources.lost | self.doubtful
        hours: dict[int, _Hour] = {}
        for start in sources.starts:
            packed = sources.pages(start)
            before = self._hours.get(start)
            if before is not None and _are_the_same(before.packed, packed):
                hours[start] = before
            else:
                hours[start] = _Hour(packed, _whole(sources, start, self.plan))
        self._hours = hours

    @property
    def starts(self) -> tuple[int, ...]:
        """Starts of the hours that any source contains, oldest first; also lost ones."""
        return tuple(self._hours)

    def traffic(self) -> dict[int, tuple[float, ...]]:
        """Start of each hour → its `TRAFFIC_COLUMNS`, of the whole; NaN of those that are lost."""
        unknown = (math.nan,) * len(TRAFFIC_COLUMNS)
        known = {s: tuple(of.whole[c] for c in TRAFFIC_COLUMNS) for s, of in self._hours.items()}
        return known | dict.fromkeys(self.lost, unknown)

    def whole(self, start: int) -> Sequence[int]:
        """(columns,): the row of the whole in one hour; none where no source contains it."""
        return self._hours[start].whole if start in self._hours else ()

    def summed(self, weights: Mapping[int, float], selection: Selection) -> Floats:
        """(selected segments, columns): the rows of some hours, each times its weight. Raises
        Damaged."""
        width = self.plan.row_width
        total: dict[int, Floats] = {}
        for start, weight in weights.items():
            for page, rows in self._pages(start).items():
                into = total.setdefault(page, np.zeros((PAGE_ROWS, width)))
                into += weight * rows
        folded = selection.fold_pages(total, self._names, width)
        return self.without_thin(folded, weights, selection)

    def usual(
        self,
        weights: Mapping[int, float],
        selection: Selection,
        telling: Collection[int],
        zone: tzinfo,
    ) -> Floats:
        """The same, as far as it is usual: without the scores of hours in which they had fallen,
        for which some of those that tell stand, as `without_fallen` says."""
        rows, at = self.summed(weights, selection), {s: n for n, s in enumerate(selection.segments)}
        changes: dict[int, list[tuple[int, int, float]]] = {}
        factors: list[tuple[int, int, float]] = []
        for (segment, metric), fell in self.fallen.items():
            if segment not in at or weights.keys().isdisjoint(fell):
                continue
            row = at[segment]
            moved, factor = without_fallen(weights, fell, telling, zone, self.plan.hour_ms)
            factors.append((row, metric, factor))
            for start, change in moved.items():
                changes.setdefault(start, []).append((row, metric, change))
        for start, of_hour in sorted(changes.items()):
            own = self.rows_of(start, [selection.segments[row] for row, _, _ in of_hour])
            for (row, metric, change), values in zip(of_hour, own, strict=True):
                columns = self.plan.columns_of(metric)
                rows[row, columns] += change * values[columns]
        for row, metric, factor in factors:
            rows[row, self.plan.columns_of(metric)] *= factor
        return rows

    def without_thin(
        self, rows: Floats, weights: Mapping[int, float], selection: Selection
    ) -> Floats:
        """The rows without what fewer than `ENOUGH` of these hours have."""
        if self.sources.has_everything or not weights:
            return rows
        is_known = self.sources.shares_known(weights) >= ENOUGH
        return rows * self.sources.by_row(is_known, selection.segments)

    def rows_of(self, start: int, segments: Sequence[Segment]) -> Rows:
        """(segments, columns): the rows of some segments in one hour, of which only the pages that
        they stand in are unpacked, and not kept. Raises Damaged."""
        total = np.zeros((len(segments), self.plan.row_width), np.int64)
        packed = self._hours[start].packed if start in self._hours else ()
        for source, pages in zip(self._each, packed, strict=False):
            ids = np.array([source.names.ids.get(segment, -1) for segment in segments], np.int64)
            for page in np.unique(ids[ids >= 0] // PAGE_ROWS).tolist():
                if pages and page in pages:
                    here, rows = ids // PAGE_ROWS == page, source.hour_rows(self.plan, start, page)
                    total[here] += rows[ids[here] % PAGE_ROWS]
        return total

    def version_of(self, start: int) -> object:
        """An object that is another one once the rows of the hour have changed."""
        return self._hours[start].packed if start in self._hours else None

    def folded(self, start: int, selection: Selection) -> Floats:
        """(selected segments, columns): the rows of one hour, which stays packed if it was. Raises
        Damaged."""
        hour = self._hours[start]
        was_packed = hour.rows is None
        rows = self.summed({start: 1.0}, selection)
        if was_packed:
            hour.rows = None
        return rows

    def pack_all_but(self, starts: set[int]) -> None:
        """Keep only these hours unpacked."""
        for start, hour in self._hours.items():
            if start not in starts:
                hour.rows = None

    def _pages(self, start: int) -> Pages:
        hour = self._hours.get(start)
        if hour is None:
            return {}
        if hour.rows is None:
            hour.rows = PagedRows(self.plan.row_width)
            for source, pages in zip(self._each, hour.packed, strict=True):
                for page in pages or {}:
                    ids = self._ids(source.names.of_page(page))
                    hour.rows.add(ids, source.hour_rows(self.plan, start, page)[: len(ids)])
        return hour.rows.pages

    @property
    def _each(self) -> Sequence[HourSource]:
        return self.sources.each

    def _ids(self, segments: Sequence[Segment]) -> Integers:
        ids = self._names.ids
        self._names.append(segment for segment in segments if segment not in ids)
        return np.array([ids[segment] for segment in segments], np.int64)


def _are_the_same(before: _Packed, now: _Packed) -> bool:
    """Whether both are the same objects: a mirror replaces the pages of an hour that changed."""
    return len(before) == len(now) and all(map(is_, before, now))


def _whole(sources: HourSources, start: int, plan: Plan) -> list[int]:
    pages = zip(sources.each, sources.pages(start), strict=True)
    rows = [source.hour_rows(plan, start, 0)[0] for source, of in pages if of and 0 in of]
    return sum(rows, np.zeros(plan.row_width, np.int64)).tolist()
