"""A lane as a reader sees it: rows, totals and counts at one commit.

Plain values between the store that reads them and the snapshot that sums them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import numpy as np

from relevanced.metrics.lists import Integers

from ..experiments.tallies import Tallies
from ..lane.layouts import BEFORE
from ..lane.paged_rows import PAGE_ROWS, Pages, Rows, take
from ..panes import PaneKey
from ..plan import ALL, Plan
from ..storage.head import whole_or_damaged
from ..storage.layouts import LaneLayouts, translated
from ..storage.packing import unpack_page
from ..storage.query_head import QueryHead
from .coverage import ALWAYS, Coverage
from .judged_files import LaneFiles

Counts: TypeAlias = Mapping[str, Mapping[str, int]]
"""Family → label → count. The families are those of `COUNT_FAMILIES`."""
HourPages: TypeAlias = Mapping[int, Mapping[int, bytes]]
"""Start of an hour → page → its rows, packed as they are stored."""


HIDDEN: Final = ""
"""The grouping of segments that are never shown: what was counted before a lane had a grouping,
whose name is the segment."""


def shown_as(grouping: str, segment: str) -> tuple[str, str]:
    """The (grouping, segment) under which a stored segment is known to readers."""
    return (HIDDEN, grouping) if segment == BEFORE else (grouping, segment)


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
class JudgedLane:
    """The judged rows of a lane, in its own segment ids."""

    files: LaneFiles
    panes: Mapping[PaneKey, Pages] = field(default_factory=dict)
    hours: HourPages = field(default_factory=dict)
    lost_hours: frozenset[int] = frozenset()
    """Starts of hours of which the store lost pages."""


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
    queries: QueryHead | None = None
    judged: JudgedLane | None = None
    """None where the lane has no judged columns, or others than its reader expects."""
    classes: Mapping[str, LaneFiles] = field(default_factory=dict)
    """Attribute that is derived by files of classes → these; without those that nothing was derived
    of so far."""
    layouts: LaneLayouts | None = None
    """Those of the lane; None: its rows always had the columns that its reader expects."""
    coverage: Coverage | None = None
    """What some of the lanes lack; None: nothing."""
    raised: Mapping[str, Integers] = field(default_factory=dict)
    """Grouping → by how much the totals of all its segments together exceed those in the store,
    because counters must not go down after a roll-back."""

    def settled_in(self, grouping: str, width: int) -> Integers:
        """(columns,): the totals of all segments of a grouping together. Each impression counts in
        exactly one of them, so in the store they sum to the whole, less what was counted before
        the lane had the grouping."""
        (whole,) = take(self.totals, np.zeros(1, np.intp), width)
        if (hidden := self.names.ids.get((HIDDEN, grouping))) is not None:
            whole = whole - take(self.totals, np.array([hidden], np.intp), width)[0]
        return np.asarray(whole - self.raised.get(ALL, 0) + self.raised.get(grouping, 0), np.int64)

    def hour_rows(self, plan: Plan, start: int, page: int) -> Rows:
        """(PAGE_ROWS, columns) of a page of an hour that the lane contains. Raises Damaged."""
        with whole_or_damaged(f"lane {self.lane}, hourly rows"):
            rows = unpack_page(self.hours[start][page])
            if self.layouts is not None:
                rows = translated(rows, self.layouts.of_hour(start), plan)
        if self.coverage is None:
            return rows
        return self.coverage.without_hidden(rows, self.names.of_page(page), start)

    @property
    def has_events(self) -> bool:
        """Whether the lane has ever counted an event. No view waits for one that has not."""
        return any(self.counts.get("events", {}).values())

    @property
    def time_ms(self) -> int | None:
        """Event time up to which the lane is complete: the greater of watermark and idle mark."""
        return max((t for t in (self.watermark_ms, self.idle_ms) if t is not None), default=None)


@dataclass(frozen=True)
class LaneStatus:
    """The event times that a lane has reached, and the generation of its layout; None where it
    knows none yet."""

    lane: int
    watermark_ms: int | None
    time_ms: int | None
    generation: int | None = None
    queries: QueryHead | None = None
    """What it stores of queries; None where it keeps none."""


def status_of(lane: LaneView) -> LaneStatus:
    """The status of a lane."""
    generation = None if lane.layouts is None else lane.layouts.last.generation
    return LaneStatus(lane.lane, lane.watermark_ms, lane.time_ms, generation, lane.queries)


def coverage_of(views: Iterable[LaneView], plan: Plan) -> Coverage:
    """What the lanes have. One that never counted an event hides nothing."""
    return Coverage.of([v.layouts.since for v in views if v.layouts and v.has_events], plan)


def covered(views: Sequence[LaneView], plan: Plan) -> Sequence[LaneView]:
    """The lanes without what some of them lack."""
    coverage = coverage_of(views, plan)
    return views if coverage.is_whole else [_covered(view, coverage) for view in views]


def _covered(view: LaneView, coverage: Coverage) -> LaneView:
    own, panes = coverage_of([view], coverage.plan), dict(view.panes)
    begins = min(
        first for first, latest in zip(own.all, coverage.all, strict=True) if latest > ALWAYS
    )
    for (window, start), pages in view.panes.items():
        ends = start + coverage.plan.timing.windows[window].pane_ms
        # Before the lane has any of it, its rows are 0 by themselves.
        if begins < ends and start < coverage.latest:
            panes[window, start] = {
                page: coverage.without_hidden(rows, view.names.of_page(page), start)
                for page, rows in pages.items()
            }
    return replace(view, panes=panes, coverage=coverage)


def classes_by_attribute(
    views: Iterable[LaneView], plan: Plan
) -> Mapping[str, Sequence[LaneFiles]]:
    """The lanes' files of classes of each attribute that is derived by files."""
    found: dict[str, list[LaneFiles]] = {
        one.attribute: [] for one in plan.derivations if one.by_files
    }
    for view in views:
        for attribute, files in view.classes.items():
            if attribute in found:
                found[attribute].append(files)
    return found
