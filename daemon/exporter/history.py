"""The hourly rows of all lanes together, as the exporter remembers them.

They are many and hardly change: they stay packed as they are stored, what is asked for is unpacked
and summed over the lanes once, and kept while the lanes hold the same pages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from relevanced.metrics.lists import Floats, Integers

from ..lane.paged_rows import PAGE_ROWS, PagedRows, Pages, Rows
from ..plan import COUNT_COLUMNS, Plan
from ..storage.head import whole_or_damaged
from ..storage.packing import unpack_page
from .lane_view import LaneView, Names
from .selection import Selection
from .snapshot import Segment

_Held: TypeAlias = tuple[Mapping[int, bytes] | None, ...]
"""The pages of an hour in each lane."""

WATCHED: tuple[int, ...] = tuple(
    COUNT_COLUMNS.index(name) for name in ("impressions", "impressions_with_feedback")
)
"""Columns of the whole by which an hour is judged."""


@dataclass
class _Hour:
    held: _Held
    watched: tuple[int, ...]
    rows: PagedRows | None = None
    """By this room's own segment numbers; None where nobody has asked."""


class History:
    """What the lanes hold of the past."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._names: list[Names] = []
        self._segments = Names()
        """The segments of the hours that were asked for: all lanes' together."""
        self._hours: dict[int, _Hour] = {}

    def take(self, views: Sequence[LaneView]) -> None:
        """Take in what the lanes hold now. Raises Damaged."""
        self._names = [lane.names for lane in views]
        starts = sorted({start for lane in views for start in lane.hours})
        hours: dict[int, _Hour] = {}
        for start in starts:
            held = tuple(lane.hours.get(start) for lane in views)
            known = self._hours.get(start)
            same = known is not None and _are_the_same(known.held, held)
            hours[start] = known if same and known is not None else _Hour(held, _watched(held))
        self._hours = hours

    @property
    def starts(self) -> tuple[int, ...]:
        """The hours that any lane holds, oldest first."""
        return tuple(self._hours)

    def watched(self) -> dict[int, tuple[int, ...]]:
        """Start of each hour → its `WATCHED` counts of the whole."""
        return {start: hour.watched for start, hour in self._hours.items()}

    def summed(self, weights: Mapping[int, float], shown: Selection) -> Floats:
        """(segments shown, columns): the rows of some hours, each times its weight. Raises
        Damaged."""
        width = self._plan.row_width
        total: dict[int, Floats] = {}
        for start, weight in weights.items():
            for page, rows in self._pages(start).items():
                into = total.setdefault(page, np.zeros((PAGE_ROWS, width)))
                into += weight * rows
        return shown.fold_pages(total, self._segments, width)

    def forget_but(self, starts: set[int]) -> None:
        """Keep only these hours unpacked."""
        for start, hour in self._hours.items():
            if start not in starts:
                hour.rows = None

    def _pages(self, start: int) -> Pages:
        hour = self._hours.get(start)
        if hour is None:
            return {}
        if hour.rows is None:
            hour.rows = PagedRows(self._plan.row_width)
            for names, pages in zip(self._names, hour.held, strict=True):
                for page, data in (pages or {}).items():
                    numbers = self._numbers(names.of_page(page))
                    hour.rows.add(numbers, _unpacked(data)[: len(numbers)])
        return hour.rows.pages

    def _numbers(self, names: Sequence[Segment]) -> Integers:
        known = self._segments.ids
        self._segments.append(name for name in names if name not in known)
        return np.array([known[name] for name in names], np.int64)


def _are_the_same(held: _Held, now: _Held) -> bool:
    return len(held) == len(now) and all(one is other for one, other in zip(held, now, strict=True))


def _watched(held: _Held) -> tuple[int, ...]:
    firsts = [_unpacked(pages[0])[0] for pages in held if pages and 0 in pages]
    return tuple(sum(int(row[column]) for row in firsts) for column in WATCHED)


def _unpacked(data: bytes) -> Rows:
    with whole_or_damaged("hourly rows"):
        return unpack_page(data)
