"""The hourly rows of all sources together, summed for the hours that baselines need.

Weeks of hours are many rows that hardly change: they stay packed as they are stored. The hours
that are needed are unpacked and summed over the sources once, and kept while these contain the same
pages.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from relevanced.metrics.lists import Floats, Integers

from ..lane.paged_rows import PAGE_ROWS, PagedRows, Pages, Rows
from ..plan import COUNT_COLUMNS, Plan
from ..storage.past import StoredPast
from .lane_view import LaneView, Names
from .past import HourSource, HourSources
from .selection import Selection
from .snapshot import Segment

_Packed: TypeAlias = tuple[Mapping[int, bytes] | None, ...]
"""The pages of an hour in each source, None where it does not contain the hour."""

ENOUGH: Final = 0.5
"""The least share of a period whose hours must be there, and have a column."""
TRAFFIC_COLUMNS: tuple[int, ...] = tuple(
    COUNT_COLUMNS.index(name) for name in ("impressions", "impressions_with_feedback")
)
"""Columns of the whole that show whether an hour was an outage."""


@dataclass
class _Hour:
    packed: _Packed
    traffic: tuple[int, ...]
    rows: PagedRows | None = None
    """The sum of all sources, by the segment ids of `History`; None until the hour is needed."""


class History:
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

    def take(self, views: Sequence[LaneView], past: Sequence[StoredPast] = ()) -> None:
        """Take over the hours that lanes and fillings contain now. Raises Damaged."""
        sources = HourSources.of(views, past, self.plan, self.sources)
        if not sources.says_the_same(self.sources):
            self._hours = {}
        self.sources, self.lost = sources, sources.lost
        hours: dict[int, _Hour] = {}
        for start in sources.starts:
            packed = sources.pages(start)
            before = self._hours.get(start)
            if before is not None and _are_the_same(before.packed, packed):
                hours[start] = before
            else:
                hours[start] = _Hour(packed, _traffic(sources, start, self.plan))
        self._hours = hours

    @property
    def starts(self) -> tuple[int, ...]:
        """Starts of the hours that any source contains, oldest first; also lost ones."""
        return tuple(self._hours)

    def traffic(self) -> dict[int, tuple[float, ...]]:
        """Start of each hour → its `TRAFFIC_COLUMNS`, of the whole; NaN of those that are lost."""
        unknown = (math.nan,) * len(TRAFFIC_COLUMNS)
        return {start: hour.traffic for start, hour in self._hours.items()} | dict.fromkeys(
            self.lost, unknown
        )

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

    def without_thin(
        self, rows: Floats, weights: Mapping[int, float], selection: Selection
    ) -> Floats:
        """The rows without what fewer than `ENOUGH` of these hours have."""
        sources = self.sources
        if sources.has_everything or not weights:
            return rows
        have = [weight * sources.known(start) for start, weight in weights.items()]
        thin = np.sum(have, axis=0) < ENOUGH * sum(weights.values())
        return sources.without(rows, selection.segments, thin)

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
    return len(before) == len(now) and all(
        one is other for one, other in zip(before, now, strict=True)
    )


def _traffic(sources: HourSources, start: int, plan: Plan) -> tuple[int, ...]:
    pages = zip(sources.each, sources.pages(start), strict=True)
    wholes = [source.hour_rows(plan, start, 0)[0] for source, of in pages if of and 0 in of]
    return tuple(sum(int(row[column]) for row in wholes) for column in TRAFFIC_COLUMNS)
