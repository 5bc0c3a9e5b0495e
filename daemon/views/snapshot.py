"""All lanes summed at one common instant: windows, totals and counts, and means with their standard
errors.

Pure arithmetic on what was read of the lanes: exact integers, and the same for any split of the
traffic into lanes. It knows no store, no clock and no text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import Floats, Integers

from ..changes import WHOLE
from ..events import DROP_REASONS
from ..lane import PAGE_ROWS, Pages, Rows, summed, take
from ..panes import Window, pane_start
from ..plan import COUNT_COLUMNS, Plan
from .lane_view import ALWAYS, Counts, Coverage, LaneStatus, LaneView, coverage_of, status_of

_LENGTHS: Final = [
    COUNT_COLUMNS.index(name) for name in ("impressions", "items_listed", "squared_items_listed")
]


def mean_and_error(counts: Floats, sums: Floats, squares: Floats) -> tuple[Floats, Floats]:
    """((n,) means, (n,) standard errors): NaN without a value, and NaN below two of them."""
    means = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    several = counts > 1
    spread = np.maximum(squares - sums * np.where(several, means, 0.0), 0.0)
    pairs = np.where(several, counts * (counts - 1), np.nan)
    return means, np.sqrt(spread / pairs)


def list_lengths(rows: Rows | Floats) -> tuple[Floats, Floats]:
    """((n,) mean lengths of the result lists, (n,) standard errors) of rows."""
    impressions, sums, squares = (rows[:, column].astype(np.float64) for column in _LENGTHS)
    return mean_and_error(impressions, sums, squares)


LIVE: Final = "live"
SETTLED: Final = "settled"
VIEWS: Final = (LIVE, SETTLED)
EVERYTHING: Final = "all"
"""Name of the unbounded window, which only a replay has."""

Segment: TypeAlias = tuple[str, str]
"""(grouping, segment)."""
_Common: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]
"""((n,) rows of the snapshot, (n,) segment ids of the lane) of the segments that are in both."""

_INT64_MAX: Final = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class WindowRows:
    """One view of one window; `rows` is (segments of the snapshot, columns).

    `end_ms` is the instant that the view shows: as_of, or as_of less the settling time. It
    contains every event up to then. The last pane is the one that contains this instant, so it may
    have a few later events of lanes that are ahead.
    """

    window: str
    view: str
    end_ms: int | None
    rows: Rows
    first_ms: int = 0
    """Start of the first pane of the view."""


@dataclass(frozen=True)
class Snapshot:
    """All lanes together, at one instant.

    `as_of_ms` is None, and there are no windows, while no lane has an event or a lane that has
    some has no time yet. `incomplete` names each (window, view) that had to be left out.
    `segments` are those of the pages of all panes, and the requested ones; what has settled in all
    other segments of a grouping is its row in `elsewhere`. So the cost of a snapshot follows the
    segments with traffic, not all that ever had any: segment ids only grow.
    """

    as_of_ms: int | None
    segments: tuple[Segment, ...]
    windows: tuple[WindowRows, ...]
    incomplete: tuple[tuple[str, str], ...]
    totals: Rows
    ranking: Integers
    """(segments,) impressions in the longest live window, or in the next best: of a grouping that
    not all of it has, those since that began. 0 where there is no window."""
    elsewhere: Mapping[str, Integers] = field(default_factory=dict)
    counts: Counts = field(default_factory=dict)
    lanes: tuple[LaneStatus, ...] = ()
    coverage: Coverage | None = None
    """Since when the lanes have what the plan says; None: always."""

    @property
    def longest(self) -> WindowRows | None:
        """The longest live window, or the next best; None where there is none."""
        ordered = sorted(self.windows, key=lambda window: window.view == LIVE)
        return ordered[-1] if ordered else None

    def count(self, family: str, label: str) -> int:
        """One count; 0 where there is none."""
        return self.counts.get(family, {}).get(label, 0)


def evaluate(
    views: Sequence[LaneView],
    plan: Plan,
    requested: Iterable[Segment] = (),
    now_ms: int | None = None,
    since_ms: int = ALWAYS,
) -> Snapshot:
    """Sum the lanes, as of the clock at the latest where it is given. `requested` are segments to
    include even where no pane has them; `since_ms`: the lanes have no panes that start earlier, so
    what began by then is whole. Raises OverflowError where a sum might not fit int64."""
    segments, coverage = _segments(views, requested, plan), coverage_of(views, plan)
    shape = (len(segments), plan.row_width)
    common = [_common(lane, segments) for lane in views]
    as_of_ms = _as_of(views, now_ms)
    windows: list[WindowRows] = []
    counted: dict[str, Rows] = {}
    incomplete: list[tuple[str, str]] = []
    for index, window, view, end_ms in _window_views(plan, as_of_ms):
        starts = pane_starts(window, end_ms)
        first_ms = max(starts[0], -(-since_ms // window.pane_ms) * window.pane_ms)
        is_covered = coverage.windows[index] <= first_ms
        if not is_covered or any(_dropped(lane, starts, window, plan) for lane in views):
            incomplete.append((window.name, view))
            continue
        panes = [_panes(lane, index, starts) for lane in views]
        counted[view] = _merge(panes, common, shape)
        rows = coverage.without_hidden(counted[view], segments, first_ms)
        windows.append(WindowRows(window.name, view, end_ms, rows, starts[0]))
    totals = _totals(views, common, shape)
    return Snapshot(
        as_of_ms=as_of_ms,
        segments=segments,
        windows=tuple(windows),
        incomplete=tuple(incomplete),
        totals=totals,
        ranking=_ranking(counted, coverage, segments, as_of_ms),
        elsewhere=_elsewhere(views, segments, totals, plan),
        counts=sum_counts(views),
        coverage=None if coverage.is_whole else coverage,
        lanes=tuple(status_of(lane) for lane in views),
    )


def _ranking(
    counted: Mapping[str, Rows],
    coverage: Coverage,
    segments: tuple[Segment, ...],
    as_of_ms: int | None,
) -> Integers:
    """`Snapshot.ranking`, by the rows of the longest window of each view."""
    rows = counted.get(LIVE, counted.get(SETTLED))
    if rows is None or as_of_ms is None:
        return np.zeros(len(segments), np.int64)
    return coverage.without_hidden(rows, segments, as_of_ms)[:, 0]


def with_everything(snapshot: Snapshot, views: Sequence[LaneView], plan: Plan) -> Snapshot:
    """The snapshot of these views with the unbounded window of a replay, as its longest.

    That window contains what has settled, and the base panes that have not.
    """
    common = [_common(lane, snapshot.segments) for lane in views]
    parts = [[lane.totals, *_unsettled(lane, plan)] for lane in views]
    rows = _merge(parts, common, snapshot.totals.shape)
    whole = WindowRows(EVERYTHING, LIVE, snapshot.as_of_ms, rows)
    return replace(snapshot, windows=(*snapshot.windows, whole), ranking=rows[:, 0])


def pane_starts(window: Window, end_ms: int) -> range:
    """The starts of the panes of the window that ends at this instant."""
    last = pane_start(end_ms, window.pane_ms)
    return range(last - window.length_ms + window.pane_ms, last + 1, window.pane_ms)


def sum_panes(
    snapshot: Snapshot, views: Sequence[LaneView], window_index: int, starts: Sequence[int]
) -> Rows:
    """(segments of the snapshot, columns): the sum of these panes of a window, without what not all
    of them have. The snapshot must be that of these views."""
    common = [_common(lane, snapshot.segments) for lane in views]
    panes = [_panes(lane, window_index, starts) for lane in views]
    rows = _merge(panes, common, snapshot.totals.shape)
    if snapshot.coverage is None:
        return rows
    return snapshot.coverage.without_hidden(rows, snapshot.segments, starts[0])


def kept_from(views: Sequence[LaneView], plan: Plan, window_index: int) -> int:
    """The first instant from which every lane keeps the panes of the window, and has them."""
    span = plan.timing.windows[window_index]
    marks = [lane.watermark_ms for lane in views if lane.watermark_ms is not None]
    kept_ms = max((plan.timing.dropped_before(span, mark) for mark in marks), default=0)
    since_ms = max(
        (lane.coverage.windows[window_index] for lane in views if lane.coverage), default=0
    )
    return max(kept_ms, -(-since_ms // span.pane_ms) * span.pane_ms)


def estimates(rows: Rows | Floats, plan: Plan, metric_index: int) -> tuple[Floats, Floats]:
    """((n,) means, (n,) standard errors) of one metric.

    The mean is NaN where no impression is scored. The standard error, from the sample variance of
    independent impressions, is NaN where fewer than two are. Squares are stored in the unit of the
    metric, as sums are.
    """
    column, unit = plan.metric_column(metric_index), plan.metrics[metric_index].unit
    scored = rows[:, column].astype(np.float64)
    return mean_and_error(scored, rows[:, column + 1] / unit, rows[:, column + 2] / unit)


def sum_counts(views: Sequence[LaneView]) -> Counts:
    """Family → label → count: the counts of all lanes together."""
    total: dict[str, dict[str, int]] = {}
    for lane in views:
        for family, counts in lane.counts.items():
            for label, count in counts.items():
                into = total.setdefault(_family_of(family, label), {})
                into[label] = into.get(label, 0) + count
    return total


def check_sum(magnitudes: Iterable[int]) -> None:
    """Raise OverflowError where a sum of numbers with these greatest magnitudes might wrap."""
    bound = sum(magnitudes)
    if bound > _INT64_MAX:
        raise OverflowError(f"rows up to {bound}: must sum to at most {_INT64_MAX}")


def _segments(
    views: Sequence[LaneView], requested: Iterable[Segment], plan: Plan
) -> tuple[Segment, ...]:
    """The segments in any page of a pane, and those requested that a lane has; the whole first,
    then by name."""
    found = {segment for segment in requested if any(segment in lane.names.ids for lane in views)}
    for lane in views:
        for page in {page for pages in lane.panes.values() for page in pages}:
            found.update(lane.names.of_page(page))
    groupings = frozenset(plan.grouping_names[1:])
    return (WHOLE, *sorted(segment for segment in found if segment[0] in groupings))


def _common(lane: LaneView, segments: Sequence[Segment]) -> _Common:
    ids = np.array([lane.names.ids.get(segment, -1) for segment in segments], np.intp)
    rows = np.flatnonzero(ids >= 0)
    return rows, ids[rows]


def _panes(lane: LaneView, window_index: int, starts: Iterable[int]) -> list[Pages]:
    found = (lane.panes.get((window_index, start)) for start in starts)
    return [pages for pages in found if pages is not None]


def _as_of(views: Sequence[LaneView], now_ms: int | None) -> int | None:
    """The least time of the lanes with events, at most the clock; None where one of them has no
    time yet."""
    times = [lane.time_ms for lane in views if lane.has_events]
    reached = [time_ms for time_ms in times if time_ms is not None]
    if not reached or len(reached) < len(times):
        return None
    # Where all producers have wrong clocks the lanes are in the future, but a view never is.
    return min(reached) if now_ms is None else min(*reached, now_ms)


def _window_views(plan: Plan, as_of_ms: int | None) -> Iterable[tuple[int, Window, str, int]]:
    """(window index, window, view, instant that the view ends at) of every view."""
    if as_of_ms is None:
        return
    ends_ms = {LIVE: as_of_ms, SETTLED: as_of_ms - plan.timing.settle_ms}
    for index, window in enumerate(plan.timing.windows):
        for view in VIEWS:
            yield index, window, view, ends_ms[view]


def _dropped(lane: LaneView, starts: range, window: Window, plan: Plan) -> bool:
    """Whether the lane is so far ahead that it has dropped the first of these panes."""
    if lane.watermark_ms is None:
        return False
    return starts[0] < plan.timing.dropped_before(window, lane.watermark_ms)


def _merge(
    parts: Sequence[Sequence[Pages]], common: Sequence[_Common], shape: tuple[int, ...]
) -> Rows:
    """Sum the rows of every lane, which go by its segment ids, into the rows of the snapshot."""
    sums = [summed(of_lane) for of_lane in parts]
    check_sum(bound for _, bound in sums)
    merged = np.zeros(shape, np.int64)
    for (pages, _), (rows, ids) in zip(sums, common, strict=True):
        merged[rows] += take(pages, ids, shape[1])
    return merged


def _totals(views: Sequence[LaneView], common: Sequence[_Common], shape: tuple[int, ...]) -> Rows:
    """What has settled in the segments of the snapshot; no page of others only is summed."""
    parts = [[_of_segments(lane.totals, ids)] for lane, (_, ids) in zip(views, common, strict=True)]
    return _merge(parts, common, shape)


def _of_segments(pages: Pages, ids: NDArray[np.intp]) -> Pages:
    wanted = np.unique(ids // PAGE_ROWS).tolist()
    return {page: pages[page] for page in wanted if page in pages}


def _elsewhere(
    views: Sequence[LaneView], segments: Sequence[Segment], totals: Rows, plan: Plan
) -> Mapping[str, Integers]:
    """Grouping → what has settled in its segments that are not in the snapshot: the sum over all
    segments, which each lane has as its whole, less those that are."""
    rest = {name: np.zeros(plan.row_width, np.int64) for name in plan.grouping_names[1:]}
    for grouping, row in rest.items():
        for lane in views:
            row += lane.settled_in(grouping, plan.row_width)
    for (grouping, _), row in zip(segments, totals, strict=True):
        if grouping in rest:
            rest[grouping] -= row
    return rest


def _unsettled(lane: LaneView, plan: Plan) -> list[Pages]:
    timing = plan.timing
    return [
        rows
        for (window, start), rows in lane.panes.items()
        if window == 0
        and (lane.watermark_ms is None or timing.closes_at(start) > lane.watermark_ms)
    ]


def _family_of(stored: str, label: str) -> str:
    """The family of series of a stored count. Lanes store dropped values beside rejections, but
    the event of a dropped value counts."""
    return "dropped_values" if stored == "rejected" and label in DROP_REASONS else stored
