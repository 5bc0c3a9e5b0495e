"""What a reader sees of a lane: rows, totals and counts as they were at one commit.

Plain values between the store that reads them and the snapshot that sums them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relevanced.daemon.experiments.tallies import Tallies

Rows: TypeAlias = NDArray[np.int64]
"""(segments, columns): the rows of one pane, by segment number. Numbers beyond its end are rows of
zeros."""
PaneKey: TypeAlias = tuple[int, int]
"""(window number in `Timing.windows`, pane start in ms)."""
Counts: TypeAlias = Mapping[str, Mapping[str, int]]
"""Family → label → count. The families are those of `COUNT_FAMILIES`."""
HourPages: TypeAlias = Mapping[int, Mapping[int, bytes]]
"""Start of an hour → page → its rows, packed as they are stored."""

PAGE_ROWS: Final = 64
"""Segments in a page, the unit in which rows are stored."""

COUNT_FAMILIES: Final = (
    "events",  # impression, feedback
    "rejected",  # by reason
    "dropped_values",  # by reason: readers take them out of the rejected ones
    "impression_outcomes",
    "feedback_outcomes",
    "segment_overflow",  # by grouping
    "experiment_overflow",  # by what found no place: experiment, variant
    "gap_records",  # by topic: records that the log lost before they were read
)


def empty_rows(segments: int, width: int) -> Rows:
    """Rows of zeros: whole pages that hold this many segments, `width` columns."""
    pages = -(-max(segments, 1) // PAGE_ROWS)
    return np.zeros((pages * PAGE_ROWS, width), np.int64)


@dataclass(frozen=True)
class LaneView:
    """One lane at one commit.

    `names[n]` is the (grouping, segment) of segment number n; number 0 is ("all", "all").
    """

    lane: int
    token: str
    sequence: int
    names: tuple[tuple[str, str], ...]
    panes: Mapping[PaneKey, Rows]
    totals: Rows
    counts: Counts = field(default_factory=dict)
    watermark_ms: int | None = None
    idle_ms: int | None = None
    """When its owner last knew that it had read the log to its end."""
    offsets: Mapping[str, int] = field(default_factory=dict)
    experiments: Mapping[str, Tallies] = field(default_factory=dict)
    """Nobody changes them; others take their place."""
    settled_before: int | None = None
    """Base panes that start before this instant are in the totals, and in `hours`."""
    hours: HourPages = field(default_factory=dict)

    @property
    def held_an_event(self) -> bool:
        """False for a lane that has not seen anything yet: such a lane holds nothing back."""
        return any(self.counts.get("events", {}).values())

    @property
    def time_ms(self) -> int | None:
        """Event time up to which the lane is known: the greater of watermark and idle mark."""
        return max((t for t in (self.watermark_ms, self.idle_ms) if t is not None), default=None)
