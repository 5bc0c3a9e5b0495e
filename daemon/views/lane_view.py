"""A lane as a reader sees it at one commit: rows, totals and counts, since when they are complete,
and which files graded them. Plain values between the store and the snapshot that sums them. Pure.

A lane that goes to another layout has new columns from an instant on. Each lane has its own, and a
sum must not contain some lanes only: so the latest counts. In a pane or an hour that begins earlier
the column has no values, and is undefined. A window shows it once all of it is covered.

A new file of judgements is a new grading: what two files grade must not be compared. So a reader
needs to know, of each instant, the file of every lane, and since when it is these.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
import numpy as np

from relevanced.metrics import Floats, Integers

from ..experiments import Tallies
from ..judgements import (
    Timeline,
)
from ..lane import (
    BEFORE,
    PAGE_ROWS,
    Instant,
    Pages,
    Rows,
    Since,
    kept_rows,
    since_the_beginning,
    take,
)
from ..panes import PaneKey
from ..plan import ALL, METRIC_COLUMNS, WEIGHT_COLUMNS, Plan
from ..storage import LaneLayouts, QueryHead, translated, unpack_page, whole_or_damaged
from .grading_files import LaneFiles

Matrix = TypeVar("Matrix", Rows, Floats)

ALWAYS: Final = -(2**62)
NEVER: Final = 2**62


@dataclass(frozen=True)
class Coverage:
    """The first instants in event time, ms; ALWAYS, or NEVER where a lane has none of it yet."""

    plan: Plan
    metrics: tuple[int, ...]
    """By index of the metric."""
    groupings: Mapping[str, int]
    """By name, without the whole."""
    windows: tuple[int, ...]
    """By index of the window."""
    hours: int
    weights: int = ALWAYS
    """Of the columns of weights."""

    @staticmethod
    def of(found: Sequence[Since], plan: Plan) -> "Coverage":
        """That of lanes whose columns hold since then."""

        def latest(instants: Iterable[Mapping[Any, Instant]], name: str | int) -> int:
            return max((_first(of_lane, name) for of_lane in instants), default=ALWAYS)

        columns, groupings = [s.columns for s in found], [s.groupings for s in found]
        windows, hours = [s.windows for s in found], [{"": since.hours} for since in found]
        return Coverage(
            plan,
            tuple(latest(columns, id_) for id_ in plan.column_ids),
            {
                name: latest(groupings, id_)
                for name, id_ in zip(plan.grouping_names[1:], plan.grouping_ids[1:], strict=True)
            },
            tuple(latest(windows, window.length_ms) for window in plan.timing.windows),
            latest(hours, ""),
            ALWAYS if plan.weights_id is None else latest(columns, plan.weights_id),
        )

    @cached_property
    def all(self) -> tuple[int, ...]:
        """All of them, in one order."""
        return (*self.metrics, *self.groupings.values(), *self.windows, self.hours, self.weights)

    @cached_property
    def latest(self) -> int:
        """The latest of them."""
        return max(self.all)

    @property
    def is_whole(self) -> bool:
        """Whether everything always was there."""
        return self.latest == ALWAYS

    def since(self, metric: int, grouping: str, window: int) -> int | None:
        """From when on the rows of a window have a metric of a grouping; None: always, or not
        yet."""
        first = self.metrics[metric], self.groupings.get(grouping, ALWAYS), self.windows[window]
        return max(first) if ALWAYS < max(first) < NEVER else None

    def begins(self, metric: int, grouping: str) -> int | None:
        """From when on the lanes have a metric of a grouping; None: always, or not yet."""
        first = max(self.metrics[metric], self.groupings.get(grouping, ALWAYS))
        return first if ALWAYS < first < NEVER else None

    def hidden_columns(self, start_ms: int) -> Integers:
        """The columns that rows from then on lack."""
        hidden = list[int]()
        for index, first in enumerate(self.metrics):
            if first > start_ms:
                column = self.plan.metric_column(index)
                hidden += range(column, column + len(METRIC_COLUMNS))
        if self.weights > start_ms:
            first = self.plan.weight_column
            hidden += range(first, first + len(WEIGHT_COLUMNS))
        return np.array(hidden, np.int64)

    def hides(self, grouping: str, start_ms: int) -> bool:
        """Whether rows from then on lack the segments of a grouping."""
        return grouping != ALL and self.groupings.get(grouping, ALWAYS) > start_ms

    def without_hidden(
        self, rows: Matrix, segments: Sequence[tuple[str, str]], start_ms: int
    ) -> Matrix:
        """The rows, (segments or more, columns), from then on: 0 in what they lack."""
        columns, lines = self._hidden(segments, start_ms)
        if not len(columns) and not lines:
            return rows
        shown = rows.copy()
        shown[:, columns] = 0
        shown[lines] = 0
        return shown

    def known(
        self, rows: Rows | Floats, segments: Sequence[tuple[str, str]], start_ms: int
    ) -> Rows | Floats:
        """The rows, (segments, columns), from then on, as they are shown: NaN in what they lack,
        which is not known to be 0."""
        columns, lines = self._hidden(segments, start_ms)
        if not len(columns) and not lines:
            return rows
        shown = rows.astype(np.float64)
        shown[:, columns] = np.nan
        shown[lines] = np.nan
        return shown

    def _hidden(
        self, segments: Sequence[tuple[str, str]], start_ms: int
    ) -> tuple[Integers, list[int]]:
        """The columns, and the rows of segments, that are not there from then on."""
        if self.latest <= start_ms:
            return np.array([], np.int64), []
        lines = [n for n, (name, _) in enumerate(segments) if self.hides(name, start_ms)]
        return self.hidden_columns(start_ms), lines


def _first(instants: Mapping[Any, Instant], name: str | int) -> int:
    first = instants.get(name, NEVER)
    return ALWAYS if first is None else first


def files_of(lane: int, timeline: Timeline, latest_ms: int) -> LaneFiles:
    """Those of a lane that has only its timeline."""
    first_ms = timeline.entries[0].start_ms if timeline.entries else 0
    return LaneFiles(0, timeline.entries, timeline.refused, lane, latest_ms, first_ms)


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
class LaneRows:
    """The rows of one measure of a lane beside those of clicks, in its segment ids."""

    panes: Mapping[PaneKey, Pages] = field(default_factory=dict)
    hours: HourPages = field(default_factory=dict)
    lost_hours: frozenset[int] = frozenset()
    """Starts of hours of which the store lost pages."""
    files: LaneFiles | None = None
    """By which they are graded; None: by none."""


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
    """By name. Tallies are never changed: newer ones replace them."""
    lost_before_ms: int | None = None
    """Start of the first base pane of which the lane has all, where it began anew after a loss."""
    experiments_lost_before: Mapping[str, int] = field(default_factory=dict)
    """Name ("" for all undeclared experiments) → the first base pane that counts, in ms: the lane
    began anew, and may have lost what it had counted of them before."""
    experiments_dropped_ms: int = 0
    """When it last dropped silent experiments for a new one; 0: never."""
    settled_before: int | None = None
    """Base panes that start before this instant are in the totals, and in `hours`."""
    expires_ms: int = 0
    """As `WriterState.expires_ms`."""
    hours: HourPages = field(default_factory=dict)
    lost_hours: frozenset[int] = frozenset()
    """Starts of hours of which the store lost rows."""
    queries: QueryHead | None = None
    rows: Mapping[str, LaneRows] = field(default_factory=dict)
    """By the name of the measure: those of others than clicks whose columns are what its reader
    expects."""
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
    def has_or_lost_events(self) -> bool:
        """Whether sums lack something without the lane: it has counted an event, or it began anew
        and lost what it had."""
        return self.has_events or self.lost_before_ms is not None

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
    """What the lanes have. One that never counted an event hides nothing but what it lost: all
    hours before it began anew lack its part, also while no event has come since."""
    found = list[Since]()
    for view in views:
        if view.layouts and view.has_events:
            found.append(_since(view, view.layouts, plan))
        elif view.lost_before_ms is not None:
            found.append(since_the_beginning(plan, view.lost_before_ms))
    return Coverage.of(found, plan)


def _since(view: LaneView, layouts: LaneLayouts, plan: Plan) -> Since:
    """Since when the rows of a lane hold, also of one that does not yet keep as many hours as its
    reader expects: other lanes have some that it has dropped."""
    since = layouts.since_in(plan.timing)
    own = replace(plan, history_hours=layouts.last.history_hours)
    if own.history_hours >= plan.history_hours or view.settled_before is None:
        return since
    first = kept_rows.has_hours_from(view.settled_before, own, view.hours)
    hours = first if since.hours is None else max(since.hours, first)
    return msgspec.structs.replace(since, hours=hours)


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
