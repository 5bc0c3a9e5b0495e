"""What the lanes held at one instant, kept for questions that only a few ask: values that nobody
changes any more. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics.lists import Floats

from ..experiments.types import NOTHING, Findings
from ..lane.paged_rows import Rows
from ..plan import Plan
from .lane_view import LaneView
from .selection import Selection
from .snapshot import Segment, Snapshot


@dataclass(frozen=True)
class Reading:
    """One snapshot, the lanes it was made of, and the segments that it shows."""

    plan: Plan
    views: Sequence[LaneView]
    snapshot: Snapshot
    selection: Selection
    experiments: Findings = NOTHING

    @cached_property
    def _places(self) -> Sequence[Mapping[int, NDArray[np.intp]]]:
        """For each lane, page by page of what lives in it, the places where its segments count."""
        return [
            {
                page: self.selection.places(lane.names.of_page(page))
                for page in {page for pages in lane.panes.values() for page in pages}
            }
            for lane in self.views
        ]

    def _pages(self, window: int, start: int) -> Iterator[tuple[NDArray[np.intp], Rows]]:
        """(n places, n rows) of each page of a pane, lane by lane."""
        for lane, places in zip(self.views, self._places, strict=True):
            for page, rows in lane.panes.get((window, start), {}).items():
                yield places[page], rows[: len(places[page])]

    def panes(self, window: int, starts: Sequence[int], segment: Segment) -> Rows:
        """(starts, columns): a shown segment in each pane of the window."""
        place = self.selection.segments.index(segment)
        summed = np.zeros((len(starts), self.plan.row_width), np.int64)
        for number, start in enumerate(starts):
            for places, rows in self._pages(window, start):
                summed[number] += rows[places == place].sum(axis=0)
        return summed

    def column(self, window: int, starts: Sequence[int], column: int) -> Floats:
        """(starts, segments shown): one column of them all in each pane of the window."""
        size = len(self.selection.segments) + 1
        summed = np.zeros((len(starts), size))
        for number, start in enumerate(starts):
            for places, rows in self._pages(window, start):
                summed[number] += np.bincount(places, rows[:, column], size)
        return summed[:, :-1]
