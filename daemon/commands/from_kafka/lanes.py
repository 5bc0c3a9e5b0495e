"""Hours of all lanes, computed anew from the records in Kafka, and as they are stored in Redis.

Nothing is written, and no consumer group is joined.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from ...config.settings import Config
from ...config.start import Ago, LogEnd
from ...errors import Damaged
from ...judgements.timeline import Timeline
from ...kafka.lane_log import LaneLogs
from ...kafka.settings import kafka_settings
from ...lane.lane import Lane, new_lane
from ...panes import HOUR_MS
from ...plan import Plan
from ...storage.redis.lane_store import LaneStore
from ...storage.redis.namespace import Namespace
from ...storage.schema import namespace
from ...storage.log_marks import NO_MARKS
from ..judgements.library import WholeIndex, class_by_the_whole_index, whole_index
from ..recorded.judged import rows_of
from ..redis_client import connected
from ..schema_registry import record_reader
from ..verify.provable import Reach
from ..verify.replaying import Replay, Watching
from ..verify.stored import stored_lane
from .hour_rows import HourRows, plan_of_hours
from .judged_hours import AllHours, add_stored, empty

BETWEEN_MS: Final = HOUR_MS
"""Read before what must be read at least, for clocks and delays of producers."""

Show: TypeAlias = Callable[[int, int, float], None]
"""Takes a lane, the number of lanes, and the share of the lane that was read."""


async def computed_hours(config: Config, span: range, show: Show) -> AllHours:
    """Return the hours that begin in the span, as this configuration counts the records that Kafka
    has, and grades them by the whole index. Raises Unavailable, StartError, LogChanged and
    OverflowError."""
    plan, index = plan_of_hours(config.plan), whole_index(config)
    found = AllHours(HourRows(plan, span), None if index is None else empty(plan, span))
    timeline = Timeline() if index is None else index.timeline

    async def shown(lane: int, lanes: int, share: float) -> None:
        show(lane, lanes, share)

    async with LaneLogs(kafka_settings(config)) as logs:
        for number in range(logs.lanes):
            each = partial(shown, number, logs.lanes)
            again = await made_again(config, logs, number, plan, span, found, each, index)
            found.finish(again.lane, again.first_ms, timeline)
    return found


@dataclass(frozen=True)
class MadeAgain:
    """A lane with the records that some hours need."""

    lane: Lane
    first_ms: int | None
    """Earlier hours are not whole; None: of none it is known."""
    is_read: bool
    """Whether the log was read to its end."""


async def made_again(
    config: Config,
    logs: LaneLogs,
    number: int,
    plan: Plan,
    span: range,
    watching: Watching,
    applied: Callable[[float], Awaitable[None]],
    index: WholeIndex | None = None,
) -> MadeAgain:
    """Apply the records of a lane that the hours of the span need. `watching` takes over past
    hours; `applied` takes the share that was read, after each batch. Lists are graded by the index,
    if there is one. Raises Unavailable, StartError, LogChanged, OverflowError."""
    timing, most_ms = config.timing, config.limits.max_future_ms
    lead_ms = 2 * (most_ms + timing.base_ms) + timing.settle_ms + BETWEEN_MS
    begin = await logs.offsets(number, Ago(0), max(span.start - lead_ms, 0))
    until = await logs.offsets(number, LogEnd.LATEST, 0)
    log = await logs.open(number, begin, until, NO_MARKS)
    topics = list(until)
    is_whole = not any(log.next_offsets.values())
    reach = None if is_whole else Reach(timing, most_ms, topics)
    lane = new_lane(number, plan, dict(log.next_offsets), topics)
    class_by_the_whole_index(lane, config)
    if index is not None:
        rows_of(lane).prepare(index.timeline, index.judgements)
    async with record_reader(config) as reader:
        replay = Replay(lane, reader.decoder, reach, watching)
        while unread := log.unread:
            if lane.settled_before is not None and lane.settled_before >= span.stop:
                break
            topic = replay.next_topic(unread)
            records = await log.take(topic, replay.batch_records)
            await reader.prepare(topic, records)
            replay.apply(topic, records, log.next_offsets[topic])
            await applied(log.share_read)
    return MadeAgain(lane, replay.first_ms, log.is_read)


async def stored_hours(config: Config, span: range) -> AllHours:
    """Return the hours that begin in the span, as the workers of this configuration have stored
    them; none where a lane has lost an hour, or is damaged. Raises Unavailable."""
    found, name = _nothing(config.plan, span), namespace(config)
    async with connected(config) as client:
        try:
            for lane in range(await Namespace(client, config.redis.namespace, name).lanes()):
                await _read(LaneStore(client, name), lane, found)
        except Damaged:
            return _nothing(config.plan, span)  # a sum without this lane would be too small
    return found


def _nothing(plan: Plan, span: range) -> AllHours:
    return AllHours(HourRows(plan, span), None if plan.judged is None else empty(plan, span))


async def _read(store: LaneStore, lane: int, found: AllHours) -> None:
    delta = await store.read(lane, "", None, 1)
    if delta is None or not any(delta.head.counts.get("events", {}).values()):
        return
    rows = found.clicks
    stored = stored_lane(lane, delta.head, delta.names, delta.pages, rows.plan)
    rows.settled_ms = min(rows.settled_ms, delta.head.state.settled_before or 0)
    rows.missing.update(delta.head.state.lost_hours)
    for start in stored.hours:
        rows.add(start, stored.names, stored.rows(stored.hours[start], start, start))
    if found.judged is not None:
        add_stored(found.judged, stored)
