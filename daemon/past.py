"""The hourly rows of all lanes together, as the exporter remembers them.

They are many and hardly change: they stay packed as they are stored, what is asked for is unpacked
and summed over the lanes once, and kept while the lanes hold the same pages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from relevanced.daemon.heads import whole_or_damaged
from relevanced.daemon.packing import unpack_page
from relevanced.daemon.plan import COUNT_COLUMNS, Plan
from relevanced.daemon.snapshot import WHOLE, Floats, Places, Segment
from relevanced.daemon.views import PAGE_ROWS, LaneView, Rows

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
    rows: Rows | None = None
    """By this room's own segment numbers; None where nobody has asked."""


class Past:
    """What the lanes hold of the past."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._numbers: dict[Segment, int] = {WHOLE: 0}
        self._places: list[Places] = []
        self._hours: dict[int, _Hour] = {}

    def take(self, views: Sequence[LaneView]) -> None:
        """Take in what the lanes hold now. Raises Damaged."""
        numbers = self._numbers
        self._places = [
            np.array([numbers.setdefault(name, len(numbers)) for name in lane.names], np.intp)
            for lane in views
        ]
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

    def summed(self, weights: Mapping[int, float], segments: Sequence[Segment]) -> Floats:
        """(segments, columns): the rows of some hours, each times its weight. Raises Damaged."""
        total = np.zeros((len(self._numbers), self._plan.row_width))
        for start, weight in weights.items():
            if start in self._hours:
                rows = self._rows(start)
                total[: len(rows)] += weight * rows
        return total.take([self._numbers[segment] for segment in segments], axis=0)

    def forget_but(self, starts: set[int]) -> None:
        """Keep only these hours unpacked."""
        for start, hour in self._hours.items():
            if start not in starts:
                hour.rows = None

    def _rows(self, start: int) -> Rows:
        hour = self._hours[start]
        if hour.rows is None:
            hour.rows = np.zeros((len(self._numbers), self._plan.row_width), np.int64)
            for places, pages in zip(self._places, hour.held, strict=True):
                for page, data in (pages or {}).items():
                    into = places[page * PAGE_ROWS : (page + 1) * PAGE_ROWS]
                    hour.rows[into] += _unpacked(data)[: len(into)]
        return hour.rows


def _are_the_same(held: _Held, now: _Held) -> bool:
    return len(held) == len(now) and all(one is other for one, other in zip(held, now, strict=True))


def _watched(held: _Held) -> tuple[int, ...]:
    firsts = [_unpacked(pages[0])[0] for pages in held if pages and 0 in pages]
    return tuple(sum(int(row[column]) for row in firsts) for column in WATCHED)


def _unpacked(data: bytes) -> Rows:
    with whole_or_damaged("hourly rows"):
        return unpack_page(data)
