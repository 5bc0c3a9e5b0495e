"""Recorded events through the daemon's own pipeline: a lane, and what is taken over on the way."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from msgspec import structs
from rich.progress import Progress

from ..config import Config
from ..experiments import Stretch, joined_stretches
from ..http import GAINED, LOST, UNIT_RANGE, Found, Queries, QueryExample, examples_of, queries
from ..lane import ExamplesByKey, Lane, Tables
from ..plan import Plan
from ..queries import KEPT_HOURS, Page, usual_hours
from ..storage import Head, WriterState, writes_of
from ..views import ExamplesOfHour, QueryWindow, page_of
from ..worker import configure_allocator
from .buckets import NO_END, JudgedHours, RecordedBuckets, plan_in_buckets
from .driver import LaneDriver, LaneSink, Settled
from .files import FileEvents, IgnoredKinds, Refusals, file_lane

ROWS: Final = 50
WITH_EXAMPLES: Final = 3
"""So many of the first rows come with their examples."""
COMPARED_HOURS: Final = 24
ALL_DAYS: Final = 100_000
"""A replay keeps the hours of so many days."""


class NothingUsual(Exception):
    """Nothing says what was lost; the message says why."""


class QueriesShown(Queries, frozen=True, forbid_unknown_fields=True):
    """A list of queries, and searches of the first ones as they were shown."""

    examples: dict[str, tuple[QueryExample, ...]]


@dataclass
class QueryHours:
    """The hours that a replay has closed."""

    plan: Plan
    hours: dict[int, Tables] = field(default_factory=dict)
    taken: dict[int, ExamplesByKey] = field(default_factory=dict)
    """Their examples."""
    lost: frozenset[int] = frozenset()
    lost_examples: frozenset[int] = frozenset()

    def take(self, settled: Settled) -> None:
        """See `LaneSink`."""
        queries = settled.lane.queries
        assert queries is not None
        self.hours |= queries.closed
        self.taken |= queries.examples.closed

    def finish(self, settled: Settled) -> None:
        """See `LaneSink`: the hour that is open is closed."""
        assert settled.lane.queries is not None
        settled.lane.queries.close()
        self.take(settled)

    def pages(self, kind: str, starts: Sequence[int]) -> list[Page]:
        """The tables of a kind of these hours."""
        tables = ((start, self.hours.get(start, {}).get(kind)) for start in starts)
        return [page_of(table, start) for start, table in tables if table is not None]

    def examples(self, starts: Sequence[int]) -> list[ExamplesOfHour]:
        """The examples of these hours."""
        assert self.plan.queries is not None
        # As a daemon has them: what a batch took of earlier hours depends on where it was cut.
        first = max(self.hours, default=0) - KEPT_HOURS * self.plan.hour_ms
        found = (self.taken.get(start) for start in starts if start >= first)
        return [(self.plan.queries.min_users, by_key) for by_key in found if by_key is not None]

    def listed(self, order: str) -> QueriesShown:
        """The queries of all hours; what they lost or gained is that of the last 24 hours, against
        the same hours of the days before. Raises NothingUsual."""
        hour_ms = self.plan.hour_ms
        first, last = min(self.hours, default=0), max(self.hours, default=-hour_ms)
        hours, metric = range(first, last + hour_ms, hour_ms), self.plan.metrics[0].name
        window = QueryWindow(hours)
        if order in (LOST, GAINED):
            window, metric = self._compared(hours, order), self._compared_metric(order)
        found = Found(self, window, metric)
        listed = queries(found, order, ROWS)
        shown = {row.query: examples_of(found, row.query) for row in listed.rows[:WITH_EXAMPLES]}
        return QueriesShown(
            **structs.asdict(listed), examples={key: of for key, of in shown.items() if of}
        )

    def _compared(self, hours: range, order: str) -> QueryWindow:
        last = hours[-COMPARED_HOURS:]
        usual = usual_hours(last, hours)
        if not usual:
            raise NothingUsual(
                f"--queries {order}: nothing is usual: that needs half of the last {COMPARED_HOURS}"
                f" hours on a day before, and these files span {len(hours)} h"
            )
        return QueryWindow(last, usual)

    def _compared_metric(self, order: str) -> str:
        """The first metric whose losses are known."""
        for metric in self.plan.metrics:
            if metric.entry.range == UNIT_RANGE:
                return metric.name
        raise NothingUsual(f"--queries {order}: needs a metric within 0 to 1 in metrics.names")

    def stored(self, lane: Lane) -> tuple[Head, dict[str, bytes]]:
        """All hours, and the open one so far, as a daemon stores them: the head, and the values by
        their keys. Of examples those of the last 24 hours."""
        of_lane = lane.queries
        assert of_lane is not None
        of_lane.closed, of_lane.examples.closed = dict(self.hours), dict(self.taken)
        if lane.settled_before is not None:
            of_lane.examples.keep_from(lane.settled_before, self.plan.hour_ms)
        of_lane.is_outdated = True
        writes = writes_of(lane, 0)
        assert writes is not None
        state = WriterState(settled_before=lane.settled_before)
        return Head("", 0, {}, state=state, queries=writes.head), dict(writes.blobs)


class TimedSink(LaneSink, Protocol):
    """A sink that looks at the lane in time: no batch passes a multiple of it."""

    apart_ms: int
    """Event time between two looks."""


@dataclass(frozen=True)
class Replayed:
    """What became of recorded events."""

    driver: LaneDriver
    refusals: Refusals
    ignored_kinds: IgnoredKinds
    buckets: RecordedBuckets | None = None
    """Where scores over time were asked for."""
    looks: TimedSink | None = None
    queries: QueryHours | None = None
    """Where queries were asked for."""
    judged: JudgedHours | None = None
    """Where lists are graded."""

    @property
    def lane(self) -> Lane:
        """To which the events were applied."""
        return self.driver.lane

    @property
    def accepted(self) -> int:
        """Impressions that count."""
        return self.lane.counts["impression_outcomes"]["accepted"]


def replayed(
    paths: Sequence[str],
    config: Config,
    bars: Progress,
    *,
    as_is: bool,
    every_ms: int | None = None,
    looks: TimedSink | None = None,
    judged: JudgedHours | None = None,
    excluded: Sequence[Stretch] = (),
    kcat: bool = False,
    topic: str | None = None,
) -> Replayed:
    """One lane to which all events of the files were applied, in order of their time, or in that of
    the files with `as_is`; and what settled in each bucket of `every_ms`, or what `looks` saw.
    Lists are graded where `judged` takes the judged hours. Experiments leave out what was shown in
    the excluded stretches. Sets the allocator of this process: buffers come and go like batches.

    The lines are values of `topic`, or, with `kcat`, records as `kcat -J` prints them.

    Raises UnknownTopic, OSError for a file that cannot be read, NoRoom where the events cannot be
    put in order, StartError and Unavailable of the schema registry, and ValueError where the panes
    do not divide the buckets.
    """
    configure_allocator()
    plan = config.plan
    if looks is None:
        plan = _plan_without_looks(plan, every_ms, is_judged=judged is not None)
    if excluded and plan.tracking is not None:
        tracking = replace(plan.tracking, excluded=joined_stretches(excluded))
        plan = replace(plan, tracking=tracking)
    if judged is None:
        plan = replace(plan, judged=None)
    lane = file_lane(config, plan)
    if judged is not None:
        judged.begin(lane)
    buckets = RecordedBuckets(every_ms) if looks is None and every_ms is not None else None
    kept = None if plan.queries is None else QueryHours(plan)
    sinks: tuple[LaneSink | None, ...] = (buckets, judged, looks, kept)
    driver = LaneDriver(lane, *(sink for sink in sinks if sink is not None))
    events = FileEvents(config, paths, bars, as_is=as_is, kcat=kcat, topic=topic)
    events.apply_to(driver, None if looks is None else looks.apart_ms)
    return Replayed(driver, events.refusals, events.ignored_kinds, buckets, looks, kept, judged)


def _plan_without_looks(plan: Plan, every_ms: int | None, *, is_judged: bool) -> Plan:
    """The plan with the hours that are needed where nobody looks at the lane meanwhile. Raises
    ValueError where the panes do not divide the buckets."""
    if every_ms is not None:
        return plan_in_buckets(plan, every_ms, is_judged=is_judged)
    return replace(plan, history_hours=NO_END if is_judged else 0)
