"""A lane as a reader sees it: rows, totals and counts at one commit.

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
    """The (grouping, segment) of each segment id of a lane; id 0 is ("all", "all").

    It only grows, so views of several commits share one object: beside rows of an earlier commit
    it has segments that did not exist then, and their rows are zeros.
    """

    def __init__(self, segments: Iterable[tuple[str, str]] = ((ALL, ALL),)) -> None:
        self.segments = list(segments)
        """The segment of each id."""
        self.ids = {segment: id_ for id_, segment in enumerate(self.segments)}
        """Segment → its id."""

    def __len__(self) -> int:
        return len(self.segments)

    def append(self, segments: Iterable[tuple[str, str]]) -> None:
        """Give the next ids to these segments."""
        for segment in segments:
            self.ids[segment] = len(self.segments)
            self.segments.append(segment)

    def of_page(self, page: int) -> list[tuple[str, str]]:
        """The segments of a page, fewer than PAGE_ROWS in the last one."""
        return self.segments[page * PAGE_ROWS : (page + 1) * PAGE_ROWS]


@dataclass(frozen=True)
class LaneView:
    """One lane at one commit. Its rows are never changed: newer ones replace them."""

    lane: int
    token: str
    sequence: int
    names: Names
    panes: Mapping[PaneKey, Pages]
    totals: Pages
    counts: Counts = field(default_factory=dict)
    watermark_ms: int | None = None
    idle_ms: int | None = None
    """The clock when its owner last knew that it had read the log to its end."""
    offsets: Mapping[str, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """Of the logs that these are offsets of, in clusters that have topic ids."""
    experiments: Mapping[str, Tallies] = field(default_factory=dict)
    """By name, without days. Tallies are never changed: newer ones replace them."""
    experiment_days: Mapping[str, bytes] = field(default_factory=dict)
    """Key → an ended day of an experiment, packed as it is stored."""
    settled_before: int | None = None
    """Base panes that start before this instant are in the totals, and in `hours`."""
    hours: HourPages = field(default_factory=dict)
    lost_hours: frozenset[int] = frozenset()
    """Starts of hours of which the store lost rows."""
    raised: Mapping[str, Integers] = field(default_factory=dict)
    """Grouping → by how much the totals of all its segments together exceed those in the store,
    because counters must not go down after a roll-back."""

    def settled_in(self, grouping: str, width: int) -> Integers:
        """(columns,): the totals of all segments of a grouping together. Each impression counts in
        exactly one of them, so in the store they sum to the whole."""
        (whole,) = take(self.totals, np.zeros(1, np.intp), width)
        return np.asarray(whole - self.raised.get(ALL, 0) + self.raised.get(grouping, 0), np.int64)

    @property
    def has_events(self) -> bool:
        """Whether the lane has ever counted an event. No view waits for one that has not."""
        return any(self.counts.get("events", {}).values())

    @property
    def time_ms(self) -> int | None:
        """Event time up to which the lane is complete: the greater of watermark and idle mark."""
        return max((t for t in (self.watermark_ms, self.idle_ms) if t is not None), default=None)
