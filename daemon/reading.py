"""What the lanes held at one instant, kept for questions that only a few ask: values that nobody
changes any more. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from relevanced.daemon.experiments.forms import NOTHING, Findings
from relevanced.daemon.plan import Plan
from relevanced.daemon.shown import Selection
from relevanced.daemon.snapshot import Floats, Segment, Snapshot
from relevanced.daemon.views import LaneView, Rows


@dataclass(frozen=True)
class Reading:
    """One snapshot, the lanes it was made of, and the segments that it shows."""

    plan: Plan
    views: Sequence[LaneView]
    snapshot: Snapshot
    shown: Selection
    experiments: Findings = NOTHING

    @cached_property
    def places(self) -> Mapping[Segment, int]:
        """Segment → the place among those shown where it counts: its own, or that of `other`."""
        names, shown = self.snapshot.segments, self.shown
        found = {names[number]: place for place, number in shown.alone}
        for place, numbers in shown.together:
            found.update((names[number], place) for number in numbers)
        return found

    @cached_property
    def lane_places(self) -> Sequence[NDArray[np.intp]]:
        """For each lane (segments of the lane,) the places where they count; behind the last one
        for those that nowhere do."""
        nowhere = len(self.shown.segments)
        return [
            np.array([self.places.get(name, nowhere) for name in lane.names], np.intp)
            for lane in self.views
        ]

    def panes(self, window: int, starts: Sequence[int], segment: Segment) -> Rows:
        """(starts, columns): a shown segment in each pane of the window."""
        place = self.shown.segments.index(segment)
        summed = np.zeros((len(starts), self.plan.row_width), np.int64)
        for lane, places in zip(self.views, self.lane_places, strict=True):
            numbers = np.flatnonzero(places == place)
            for number, start in enumerate(starts):
                rows = lane.panes.get((window, start))
                if rows is not None:
                    summed[number] += rows[numbers[numbers < len(rows)]].sum(axis=0)
        return summed

    def column(self, window: int, starts: Sequence[int], column: int) -> Floats:
        """(starts, segments shown): one column of them all in each pane of the window."""
        size = len(self.shown.segments) + 1
        summed = np.zeros((len(starts), size))
        for lane, places in zip(self.views, self.lane_places, strict=True):
            for number, start in enumerate(starts):
                rows = lane.panes.get((window, start))
                if rows is not None:
                    known = rows[: len(places), column]
                    summed[number] += np.bincount(places[: len(known)], known, size)
        return summed[:, :-1]
