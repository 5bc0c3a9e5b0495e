"""Recorded events through the daemon's own pipeline: a lane, and what is taken over on the way."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rich.progress import Progress

from ..config import Config
from ..experiments import Stretch, joined_stretches
from ..lane import Lane
from ..plan import Plan
from ..worker import configure_allocator
from .buckets import NO_END, JudgedHours, RecordedBuckets, plan_in_buckets
from .driver import LaneDriver, LaneSink
from .files import FileEvents, IgnoredKinds, Refusals, file_lane
from .query_hours import QueryHours


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
        plan = plan.without_judgements
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
