"""The lanes as of one snapshot, kept for requests that need single panes: values that are never
changed again.

Pure. Few requests need panes, so nothing is summed for them before they ask.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from relevanced.metrics.lists import Floats

from ..experiments.types import NOTHING, Findings
from ..judging.markers import Marker
from ..lane.paged_rows import Rows
from ..plan import Plan
from .judged import JudgedScores
from .judgements import Judgement
from .lane_view import LaneView
from .past import HourSources
from .selection import Indices, Selection
from .snapshot import Segment, Snapshot
from .usual import Usual


@dataclass(frozen=True)
class Reading:
    """One snapshot, the lanes that it sums, and the segments with gauges."""

    plan: Plan
    views: Sequence[LaneView]
    snapshot: Snapshot
    selection: Selection
    experiments: Findings = NOTHING
    judged: Judgement = Judgement()
    """What fell and has not recovered, as of the last look."""
    by_judgements: JudgedScores | None = None
    """None where no metrics are judged."""
    judged_falls: Judgement = Judgement()
    """The same of judged scores."""
    usual: Usual = Usual()
    """The last hours, and the same hours before."""
    markers: tuple[Marker, ...] = ()
    """What people marked, by time."""
    of_hours: HourSources | None = None
    """None: the hours of the lanes alone."""
    outages: frozenset[int] = frozenset()
    """Starts of hours that say nothing about what is usual."""

    @cached_property
    def hour_sources(self) -> HourSources:
        """Where the rows of hours come from."""
        return self.of_hours or HourSources.of(self.views, (), self.plan)

    @cached_property
    def _selected_rows(self) -> Sequence[Mapping[int, Indices]]:
        """For each lane: page → the rows of the selection where its segments count."""
        return [
            {
                page: self.selection.rows_of(lane.names.of_page(page))
                for page in {page for pages in lane.panes.values() for page in pages}
            }
            for lane in self.views
        ]

    def _pages(self, window: int, start: int) -> Iterator[tuple[Indices, Rows]]:
        """((n,) rows of the selection, (n, columns) rows) of each page of a pane, lane by lane."""
        for lane, selected in zip(self.views, self._selected_rows, strict=True):
            for page, rows in lane.panes.get((window, start), {}).items():
                yield selected[page], rows[: len(selected[page])]

    def panes(self, window: int, starts: Sequence[int], segment: Segment) -> Rows:
        """(starts, columns): a selected segment in each of these panes of the window."""
        wanted = self.selection.segments.index(segment)
        summed = np.zeros((len(starts), self.plan.row_width), np.int64)
        for index, start in enumerate(starts):
            for selected, rows in self._pages(window, start):
                summed[index] += rows[selected == wanted].sum(axis=0)
        return summed

    def column(self, window: int, starts: Sequence[int], column: int) -> Floats:
        """(starts, selected segments): one column in each of these panes of the window."""
        size = len(self.selection.segments) + 1
        summed = np.zeros((len(starts), size))
        for index, start in enumerate(starts):
            for selected, rows in self._pages(window, start):
                summed[index] += np.bincount(selected, rows[:, column], size)
        return summed[:, :-1]
