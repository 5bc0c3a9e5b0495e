"""What a reader sees of a lane: rows, totals and counts as they were at one commit.

Plain values between the store that reads them and the snapshot that sums them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from relevanced.metrics.lists import Integers

from ..experiments.tallies import Tallies
from ..lane.paged_rows import PAGE_ROWS, Pages, take
from ..panes import PaneKey
from ..plan import ALL

Counts: TypeAlias = Mapping[str, Mapping[str, int]]
"""Family → label → count. The families are those of `COUNT_FAMILIES`."""
HourPages: TypeAlias = Mapping[int, Mapping[int, bytes]]
"""Start of an hour → page → its rows, packed as they are stored."""


class Names:
    """The (grouping, segment) of each segment number of a lane; number 0 is ("all", "all").

    It only grows. Who holds it beside rows of an earlier commit finds names that were not there
    then: their rows are zeros.
    """

    def __init__(self, listed: Iterable[tuple[str, str]] = ((ALL, ALL),)) -> None:
        self.segments = list(listed)
        self.ids = {name: number for number, name in enumerate(self.segments)}
        """Segment → its number."""

    def __len__(self) -> int:
        return len(self.segments)

    def append(self, names: Iterable[tuple[str, str]]) -> None:
        """Number the segments that come next."""
        for name in names:
            self.ids[name] = len(self.segments)
            self.segments.append(name)

    def of_page(self, page: int) -> list[tuple[str, str]]:
        """The segments of a page, fewer than PAGE_ROWS in the last one."""
        return self.segments[page * PAGE_ROWS : (page + 1) * PAGE_ROWS]


@dataclass(frozen=True)
class LaneView:
    """One lane at one commit. Nobody changes its rows; others take their place."""

    lane: int
    token: str
    sequence: int
    names: Names
    panes: Mapping[PaneKey, Pages]
    totals: Pages
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
    raised: Mapping[str, Integers] = field(default_factory=dict)
    """Grouping → by how much the totals of its segments together stand above those in the store."""

    def settled_in(self, grouping: str, width: int) -> Integers:
        """(columns,): the totals of all segments of a grouping together. Each impression counts in
        one of them, so in the store they sum to the whole."""
        (whole,) = take(self.totals, np.zeros(1, np.intp), width)
        return np.asarray(whole - self.raised.get(ALL, 0) + self.raised.get(grouping, 0), np.int64)

    @property
    def has_events(self) -> bool:
        """False for a lane that has not seen anything yet: such a lane holds nothing back."""
        return any(self.counts.get("events", {}).values())

    @property
    def time_ms(self) -> int | None:
        """Event time up to which the lane is known: the greater of watermark and idle mark."""
        return max((t for t in (self.watermark_ms, self.idle_ms) if t is not None), default=None)
