"""Which hours of the tables of queries a window has, and which are usual for it. Pure."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import timezone, tzinfo
from typing import Final

from ..lane import latest, queries_kept_from
from ..panes import days_before, pane_start
from ..plan import Plan
from ..queries import USUAL_DAYS, usual_hours
from ..storage import QueryHead

NOW: Final = "now"


WINDOWS: Final[Mapping[str, int]] = {NOW: 1, "1h": 1, "6h": 6, "24h": 24, "7d": 168}
"""Window → its hours: the last ones that all lanes have closed; NOW is the open hour so far, where
all lanes have it."""


QUIET_HOURS: Final = 1
"""A lane without events for so long has gone quiet: until then windows wait for its next one, so
that traffic with some events an hour always has whole hours."""


@dataclass(frozen=True)
class LaneHours:
    """What a lane has of tables of queries."""

    lane: int
    head: QueryHead
    settled_before: int | None
    """Hours that end up to this instant do not change any more, but for `unsettled`. None: it has
    events, and nothing of it has settled: all windows wait for it."""
    kept_ms: int = 0
    """Start of the first hour that it still keeps: it may have kept fewer days than now."""
    unsettled: range = range(0)
    """Starts of earlier hours whose last searches are in no table yet."""
    is_waited_for: bool = True
    """False where it began anew and has no event since: it hides what it lost, and no window waits
    for its next event."""

    @staticmethod
    def begun_anew(lane: int, lost_before_ms: int, plan: Plan) -> "LaneHours":
        """Those of a lane without events, which lost what it had before an instant."""
        since_ms = -(-lost_before_ms // plan.hour_ms) * plan.hour_ms
        return LaneHours(lane, QueryHead(since_ms=since_ms), None, is_waited_for=False)

    @staticmethod
    def of(
        lane: int,
        head: QueryHead | None,
        settled_before: int | None,
        expires_ms: int,
        idle_ms: int | None,
        plan: Plan,
    ) -> "LaneHours":
        """Those of a lane with events; `head` is None where it keeps no queries yet. The other
        arguments are as those of `LaneView`.

        Its watermark settles a lane, and a partition that goes quiet has none any more. As the
        scores, all windows go on by the idle mark, `QUIET_HOURS` behind it, once that has passed
        whatever is open in the lane. This is in no table before the next event of the lane: of its
        hours a part is missing.
        """
        if head is None or plan.queries is None:
            return LaneHours(lane, QueryHead(), None)
        hour_ms, unsettled, kept_ms = plan.hour_ms, range(0), 0
        if settled_before is not None:
            first_ms = queries_kept_from(settled_before, plan.queries, hour_ms)
            kept_ms = latest((first_ms, head.kept_from_ms)) or 0
        quiet_ms = None if idle_ms is None else idle_ms - QUIET_HOURS * hour_ms
        if quiet_ms is not None and quiet_ms >= expires_ms:
            timing, settled_ms = plan.timing, settled_before or 0
            settled_before = max(settled_ms, timing.settled_before(quiet_ms))
            last_ms = expires_ms - timing.settle_ms - timing.base_ms
            first_ms = queries_kept_from(settled_before, plan.queries, hour_ms)
            until_ms = min(last_ms + 1, pane_start(settled_before, hour_ms))
            unsettled = range(max(pane_start(settled_ms, hour_ms), first_ms), until_ms, hour_ms)
        return LaneHours(lane, head, settled_before, kept_ms, unsettled)

    @property
    def lost(self) -> Set[int]:
        """The starts of its hours of which a part is missing."""
        return {*self.head.lost, *self.unsettled}


@dataclass(frozen=True)
class QueryWindow:
    """The hours of a window. Starts, in ms."""

    hours: range
    usual: Sequence[Sequence[int]] = ()
    """A list for each usual day that counts, the latest day first."""

    @property
    def from_ms(self) -> int:
        """Where it begins."""
        return self.hours.start

    @property
    def until_ms(self) -> int:
        """Where its last hour ends."""
        return self.hours.stop

    @property
    def starts(self) -> set[int]:
        """The starts of all hours, usual ones too."""
        return {*self.hours, *(start for day in self.usual for start in day)}


def window_of(
    lanes: Sequence[LaneHours],
    name: str,
    hour_ms: int,
    outages: frozenset[int] = frozenset(),
    zone: tzinfo = timezone.utc,
) -> QueryWindow:
    """The hours of a window, those that tables cover, and its usual hours in a time zone, without
    `outages`. Empty where there is no lane, or one has no settled hour yet."""
    open_ms = _open_hour(lanes, hour_ms)
    if open_ms is None:
        return QueryWindow(range(0, 0, hour_ms))
    first_ms = _covered_from(lanes, open_ms)
    covered = range(min(first_ms, open_ms), open_ms, hour_ms)
    if name == NOW:
        until_ms = open_ms + hour_ms if first_ms <= open_ms else open_ms
        return _with_usual(range(open_ms, until_ms, hour_ms), lanes, covered, outages, zone)
    start = max(open_ms - WINDOWS[name] * hour_ms, covered.start)
    return _with_usual(range(start, open_ms, hour_ms), lanes, covered, outages, zone)


def of_hours(
    lanes: Sequence[LaneHours],
    hours: range,
    outages: frozenset[int] = frozenset(),
    zone: tzinfo = timezone.utc,
) -> QueryWindow:
    """The window of these hours, as far as tables still cover them, with its usual ones. Empty as
    `window_of`."""
    open_ms = _open_hour(lanes, hours.step)
    if open_ms is None:
        return QueryWindow(range(0, 0, hours.step))
    first_ms = _covered_from(lanes, open_ms)
    still = range(min(max(hours.start, first_ms), hours.stop), hours.stop, hours.step)
    return _with_usual(still, lanes, range(first_ms, open_ms, hours.step), outages, zone)


def missing_window(lanes: Sequence[LaneHours], name: str, hour_ms: int) -> QueryWindow:
    """The hours of a window that have the table of items without a judgement in all lanes; none
    where it begins later."""
    hours = window_of(lanes, name, hour_ms).hours
    since_ms = max((lane.head.missing_since_ms or 0 for lane in lanes), default=0)
    return QueryWindow(range(min(max(hours.start, since_ms), hours.stop), hours.stop, hour_ms))


def _open_hour(lanes: Sequence[LaneHours], hour_ms: int) -> int | None:
    """Start of the first hour that a lane has not settled; None where one has settled nothing."""
    waited_for = [lane for lane in lanes if lane.is_waited_for]
    settled = [lane.settled_before for lane in waited_for if lane.settled_before is not None]
    if not settled or len(settled) < len(waited_for):
        return None
    return pane_start(min(settled), hour_ms)


def _with_usual(
    hours: range,
    lanes: Sequence[LaneHours],
    covered: range,
    outages: frozenset[int],
    zone: tzinfo,
) -> QueryWindow:
    lost, step = {start for lane in lanes for start in lane.lost}, hours.step
    last_ms = hours.stop - step  # the hours after a change of clocks are the local ones of now
    shifts_ms = (days_before(last_ms, days, zone, step) for days in range(1, USUAL_DAYS + 1))
    shifts = [round(each / step) * step for each in shifts_ms]
    return QueryWindow(hours, usual_hours(hours, covered, outages | lost, shifts))


def _covered_from(lanes: Sequence[LaneHours], open_ms: int) -> int:
    """The first hour that all lanes cover and still keep, as one that is ahead of others drops
    hours; it may be yet to come. Where nothing says since when, it is the earliest hour that any
    lane has: one without searches has no page."""
    heads = [lane.head for lane in lanes]
    stored = [start for head in heads for start in head.hours]
    stored += [head.hour_ms for head in heads if head.hour_ms is not None]
    since = [head.since_ms for head in heads if head.since_ms is not None]
    kept = [lane.kept_ms for lane in lanes]
    return max([min(stored, default=open_ms), *since, *kept])
