"""Rows of lanes summed to what is shown: windows at one common instant, totals, counts.

Pure arithmetic on what was read of the lanes; exact, and the same for any cut of the traffic into
lanes. It knows no store, no clock and no text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics.lists import Floats, Integers

from ..events.types import DROP_REASONS
from ..lane.paged_rows import PAGE_ROWS, Pages, Rows, summed, take
from ..panes import Window, pane_start
from ..plan import ALL, Plan
from .lane_view import Counts, LaneView

LIVE: Final = "live"
SETTLED: Final = "settled"
VIEWS: Final = (LIVE, SETTLED)
WHOLE: Final = (ALL, ALL)
"""The segment that holds every impression."""
EVERYTHING: Final = "all"
"""Name of the window without ends, which only a replay has."""

Segment: TypeAlias = tuple[str, str]
"""(grouping, segment)."""
_Places: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]
"""The segments of a snapshot that a lane knows: (places in the snapshot, numbers in the lane)."""

_INT64_MAX: Final = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class WindowRows:
    """One view of one window; `rows` is (segments of the snapshot, columns).

    `end_ms` is the instant the view was taken for: as_of, or as_of less the settling time. Events
    up to it are in. Its last pane is the one that holds this instant, and may hold a few later
    events of lanes that are ahead.
    """

    window: str
    view: str
    end_ms: int | None
    rows: Rows


@dataclass(frozen=True)
class LaneStatus:
    """The event times that a lane has reached; None where it knows none yet."""

    lane: int
    watermark_ms: int | None
    time_ms: int | None


@dataclass(frozen=True)
class Snapshot:
    """All lanes together, at one instant.

    `as_of_ms` is None, and there are no windows, while no lane has held an event or one that has
    does not know its time yet. `incomplete` names the (window, view) that had to be left out.
    `segments` are those of the pages of all panes that are kept, and those that were asked for;
    what has settled in the others of a grouping is its row in `elsewhere`.
    """

    as_of_ms: int | None
    segments: tuple[Segment, ...]
    windows: tuple[WindowRows, ...]
    incomplete: tuple[tuple[str, str], ...]
    totals: Rows
    elsewhere: Mapping[str, Integers] = field(default_factory=dict)
    counts: Counts = field(default_factory=dict)
    lanes: tuple[LaneStatus, ...] = ()

    def count(self, family: str, label: str) -> int:
        """One count, 0 where there is none."""
        return self.counts.get(family, {}).get(label, 0)


def evaluate(views: Sequence[LaneView], plan: Plan, asked: Iterable[Segment] = ()) -> Snapshot:
    """Sum the lanes; `asked` are segments to tell whether they live or not. Raises OverflowError
    where a sum might not fit int64."""
    segments = _common_segments(views, asked)
    shape = (len(segments), plan.row_width)
    places = [_places(lane, segments) for lane in views]
    as_of_ms = _as_of(views)
    windows: list[WindowRows] = []
    incomplete: list[tuple[str, str]] = []
    for number, window, view, end_ms in _asked(plan, as_of_ms):
        starts = pane_starts(window, end_ms)
        if any(_dropped(lane, starts, window, plan) for lane in views):
            incomplete.append((window.name, view))
            continue
        panes = [_panes(lane, number, starts) for lane in views]
        windows.append(WindowRows(window.name, view, end_ms, _merge(panes, places, shape)))
    totals = _totals(views, places, shape)
    return Snapshot(
        as_of_ms=as_of_ms,
        segments=segments,
        windows=tuple(windows),
        incomplete=tuple(incomplete),
        totals=totals,
        elsewhere=_elsewhere(views, segments, totals, plan),
        counts=_sum_counts(views),
        lanes=tuple(LaneStatus(lane.lane, lane.watermark_ms, lane.time_ms) for lane in views),
    )


def with_everything(snapshot: Snapshot, views: Sequence[LaneView], plan: Plan) -> Snapshot:
    """The snapshot of these views with the window without ends of a replay, as its longest.

    That window holds what has settled, and the base panes that have not.
    """
    places = [_places(lane, snapshot.segments) for lane in views]
    parts = [[lane.totals, *_unsettled(lane, plan)] for lane in views]
    rows = _merge(parts, places, snapshot.totals.shape)
    whole = WindowRows(EVERYTHING, LIVE, snapshot.as_of_ms, rows)
    return replace(snapshot, windows=(*snapshot.windows, whole))


def pane_starts(window: Window, end_ms: int) -> range:
    """Where the panes of the window begin that ends at this instant."""
    last = pane_start(end_ms, window.pane_ms)
    return range(last - window.length_ms + window.pane_ms, last + 1, window.pane_ms)


def sum_panes(
    snapshot: Snapshot, views: Sequence[LaneView], number: int, starts: Iterable[int]
) -> Rows:
    """(segments of the snapshot of these views, columns): the sum of these panes of window
    `number`."""
    places = [_places(lane, snapshot.segments) for lane in views]
    panes = [_panes(lane, number, starts) for lane in views]
    return _merge(panes, places, snapshot.totals.shape)


def kept_from(views: Sequence[LaneView], plan: Plan, number: int) -> int:
    """Panes of window `number` that start at this instant or later are kept by every lane."""
    span = plan.timing.windows[number]
    marks = [lane.watermark_ms for lane in views if lane.watermark_ms is not None]
    return max((plan.timing.dropped_before(span, mark) for mark in marks), default=0)


def estimates(rows: Rows | Floats, plan: Plan, number: int) -> tuple[Floats, Floats]:
    """((n,) means, (n,) standard errors) of metric `number`.

    The mean is NaN where nothing is scored; the standard error, from the sample variance of
    independent impressions, where fewer than two are. Squares are stored in the metric's unit like
    sums.
    """
    column, unit = plan.metric_column(number), plan.metrics[number].unit
    scored = rows[:, column].astype(np.float64)
    sums = rows[:, column + 1] / unit
    squares = rows[:, column + 2] / unit
    means = np.divide(sums, scored, out=np.full(len(rows), np.nan), where=scored > 0)
    several = scored > 1
    spread = np.maximum(squares - sums * np.where(several, means, 0.0), 0.0)
    pairs = np.where(several, scored * (scored - 1), np.nan)
    return means, np.sqrt(spread / pairs)


def check_sum(magnitudes: Iterable[int]) -> None:
    """Refuse a sum of numbers with these greatest magnitudes that might wrap."""
    bound = sum(magnitudes)
    if bound > _INT64_MAX:
        raise OverflowError(f"rows up to {bound}: must sum to at most {_INT64_MAX}")


def _common_segments(views: Sequence[LaneView], asked: Iterable[Segment]) -> tuple[Segment, ...]:
    """The segments in any page of a pane that is kept, and those asked for; the whole first, then
    by name."""
    known = {name for name in asked if any(name in lane.names.ids for lane in views)}
    for lane in views:
        for page in {page for pages in lane.panes.values() for page in pages}:
            known.update(lane.names.of_page(page))
    return (WHOLE, *sorted(known - {WHOLE}))


def _places(lane: LaneView, segments: Sequence[Segment]) -> _Places:
    numbers = [lane.names.ids.get(segment, -1) for segment in segments]
    known = np.flatnonzero(np.array(numbers) >= 0)
    return known, np.array(numbers, np.intp)[known]


def _panes(lane: LaneView, number: int, starts: Iterable[int]) -> list[Pages]:
    found = (lane.panes.get((number, start)) for start in starts)
    return [pages for pages in found if pages is not None]


def _as_of(views: Sequence[LaneView]) -> int | None:
    """The least time of the lanes that held an event; None where one does not know its time yet."""
    times = [lane.time_ms for lane in views if lane.has_events]
    known = [time_ms for time_ms in times if time_ms is not None]
    return min(known) if known and len(known) == len(times) else None


def _asked(plan: Plan, as_of_ms: int | None) -> Iterable[tuple[int, Window, str, int]]:
    """(window number, window, view, instant that the view ends at) of every view."""
    if as_of_ms is None:
        return
    ends_ms = {LIVE: as_of_ms, SETTLED: as_of_ms - plan.timing.settle_ms}
    for number, window in enumerate(plan.timing.windows):
        for view in VIEWS:
            yield number, window, view, ends_ms[view]


def _dropped(lane: LaneView, starts: range, window: Window, plan: Plan) -> bool:
    """True where the lane is so far ahead that it no longer keeps the first of these panes."""
    if lane.watermark_ms is None:
        return False
    return starts[0] < plan.timing.dropped_before(window, lane.watermark_ms)


def _merge(
    parts: Sequence[Sequence[Pages]], places: Sequence[_Places], shape: tuple[int, ...]
) -> Rows:
    """Sum each lane's rows, by segment number, into one matrix by the snapshot's numbers."""
    sums = [summed(lane) for lane in parts]
    check_sum(bound for _, bound in sums)
    merged = np.zeros(shape, np.int64)
    for (rows, _), (known, numbers) in zip(sums, places, strict=True):
        merged[known] += take(rows, numbers, shape[1])
    return merged


def _totals(views: Sequence[LaneView], places: Sequence[_Places], shape: tuple[int, ...]) -> Rows:
    """What has settled in the snapshot's segments: of all the others nothing is looked at."""
    parts = [
        [_of_segments(lane.totals, numbers)]
        for lane, (_, numbers) in zip(views, places, strict=True)
    ]
    return _merge(parts, places, shape)


def _of_segments(pages: Pages, segments: NDArray[np.intp]) -> Pages:
    wanted = np.unique(segments // PAGE_ROWS).tolist()
    return {page: pages[page] for page in wanted if page in pages}


def _elsewhere(
    views: Sequence[LaneView], segments: Sequence[Segment], totals: Rows, plan: Plan
) -> Mapping[str, Integers]:
    """Grouping → what has settled in those of its segments that are not among these."""
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


def _sum_counts(views: Sequence[LaneView]) -> Counts:
    summed: dict[str, dict[str, int]] = {}
    for lane in views:
        for family, counts in lane.counts.items():
            for label, count in counts.items():
                into = summed.setdefault(_family_of(family, label), {})
                into[label] = into.get(label, 0) + count
    return summed


def _family_of(stored: str, label: str) -> str:
    """A value that was left out was read like a rejection, but its event counts."""
    return "dropped_values" if stored == "rejected" and label in DROP_REASONS else stored
