"""Lanes made again from the records that Kafka has, as far as some hours need them."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, TypeAlias

from ..config import ONE, Ago, Config, LogEnd
from ..events import timestamp_text
from ..kafka import LaneLog, LaneLogs, LogSpan, kafka_settings
from ..lane import Pending, new_lane, place_of
from ..panes import HOUR_MS
from ..plan import Plan
from ..storage import NO_MARKS, Head, LogMark
from .driver import LATEST_MS, LaneDriver, LaneSink, has_events, judged_rows
from .libraries import WholeIndex, class_by_the_whole_index
from .log_replay import LogReplay
from .lost_beginning import LostBeginning
from .record_reader import RecordReader, record_reader
from .redis_client import stored_heads
from .stored_logs import StoredLogs

BETWEEN_MS: Final = HOUR_MS
"""Read before what must be read at least, for clocks and delays of producers."""

Show: TypeAlias = Callable[[float], Awaitable[None]]
"""Takes the share that was read, after each batch."""


class RecordsGone(Exception):
    """Kafka has deleted records that may be of any hour, or of any up to a time that the lane
    noted, so that no hour of the span is whole. The text says of which topic-partitions, and the
    way out."""

    def __init__(self, lane: int, logs: Sequence[str], whole_ms: int | None = None) -> None:
        places = (place_of(lane, log) for log in sorted(logs))
        names = ", ".join(f"{topic}[{partition}]" for topic, partition in places)
        files = "recorded events as FILE... in place of --kafka"
        if whole_ms is None:
            rule = f"which hours they were of: no hour is whole. Give {files}"
        else:
            first = timestamp_text(-(-whole_ms // HOUR_MS) * HOUR_MS)
            rule = f"which hours before {first} they were of. Give --from {first}, or {files}"
        super().__init__(
            f"Kafka has deleted records of {names}, and no event is left there that tells {rule}"
        )


def known_until(head: Head | None, log: str, end: int) -> int | None:
    """The latest event time of a log of which no record is left, where its lane has read all of
    them; None where nobody knows. The offset of a lane tells nothing: it goes to the end also over
    records that were deleted before they were read. Nor does its last record, which may be no
    event, where it has ever gone over others: these may be later than all events that it read."""
    mark_ms = None if head is None else head.watermarks.get(log)
    if head is None or mark_ms is None or head.logs.get(log, LogMark()).last_offset != end - 1:
        return None
    if head.counts.get("gap_records", {}).get(log) or log in head.replaced_logs:
        return None
    pending = head.state.pending.get(log, Pending())
    return max(mark_ms, head.since_ms or 0, *pending.times_ms.values())


def require_known(
    lane: int, head: Head | None, ends: Mapping[str, int], start_ms: int, lead_ms: int
) -> None:
    """Raise RecordsGone unless all events of these logs, of which no record is left, are known to
    lie before what hours from `start_ms` on need: what begins `lead_ms` before. `ends`: the offset
    at which each ends."""
    latest = {log: known_until(head, log, end) for log, end in ends.items()}
    unknown = [log for log, until_ms in latest.items() if until_ms is None]
    if unknown:
        raise RecordsGone(lane, unknown)
    whole = {log: ms + lead_ms + 1 for log, ms in latest.items() if ms is not None}
    late = [log for log, whole_ms in whole.items() if whole_ms > start_ms]
    if late:
        raise RecordsGone(lane, late, max(whole.values()))


def undated_losses(spans: Mapping[str, LogSpan], replaced: Collection[str]) -> list[str]:
    """The logs that have lost their beginnings, where no record before the span dates what is
    lost."""
    lost = [log for log, span in spans.items() if span.earliest > 0 or log in replaced]
    return [log for log in lost if spans[log].is_undated]


def require_dated(
    lane: int,
    logs: Collection[str],
    gone: Sequence[str],
    since_ms: int | None,
    start_ms: int,
    lead_ms: int,
) -> None:
    """Raise RecordsGone where nothing is left in the logs of a lane that dates what `gone` ones
    have lost, or what any may have lost before `since_ms` lies in what hours from `start_ms` on
    need."""
    if gone:
        raise RecordsGone(lane, gone)
    if since_ms is not None and since_ms + lead_ms > start_ms:
        raise RecordsGone(lane, [*logs], since_ms + lead_ms)


async def read_log(
    log: LaneLog, reader: RecordReader, replay: LogReplay, show: Show, until_ms: int | None = None
) -> None:
    """Apply what is left of a log to its lane, until the hours before `until_ms` have settled.
    Raises Unavailable, LogChanged, OverflowError."""
    lane = replay.driver.lane
    while unread := log.unread:
        if until_ms is not None and lane.settled_before is not None:
            if lane.settled_before >= until_ms:
                return
        replay.lift(log.next_offsets.keys() - unread)
        name = replay.next_log(unread)
        records = await log.take(name, replay.batch_records)
        await reader.prepare(name, records)
        replay.apply(name, records, log.next_offsets[name])
        await show(log.share_read)


async def lanes_from_kafka(
    config: Config,
    plan: Plan,
    span: range,
    sink: LaneSink,
    show: Show,
    index: WholeIndex | None = None,
    workers: Config | None = None,
) -> AsyncIterator[tuple[LaneDriver, int | None]]:
    """Yield each lane once it has all records that the hours of the span need, with the clock at
    which its log ended; None where the log goes on. `sink` is that of all lanes. Lists are graded
    by the index, if there is one. `workers`: the configuration of those that have read the logs;
    None: this one. Raises Unavailable, StartError, LogChanged, RecordsGone, OverflowError."""
    workers, config = workers or config, config.of_inputs
    # Of another cluster, offsets and topic ids tell nothing of these logs. That one took the place
    # of another is taken as said of both: a list of other brokers may be of the same cluster.
    is_theirs = {*workers.kafka.bootstrap_servers} == {*config.kafka.bootstrap_servers}
    timing, most_ms = config.timing, config.limits.max_future_ms
    lead_ms = 2 * (most_ms + timing.base_ms) + timing.settle_ms + BETWEEN_MS
    lead_ms += plan.touch_reach_ms
    heads = await stored_heads(workers)  # before the ends of the logs: these do not lie before
    async with LaneLogs(kafka_settings(config)) as logs:
        for number in range(logs.lanes):

            async def shown(share: float, number: int = number) -> None:
                await show((number + share) / logs.lanes)

            clock_ms = int(time.time() * 1000)
            begin = await logs.offsets(number, Ago(0), max(span.start - lead_ms, 0))
            until = await logs.offsets(number, LogEnd.LATEST, 0)
            stored = StoredLogs.of(number, until, heads)
            marks = stored.marks if is_theirs else NO_MARKS
            log = await logs.open(number, begin, until, marks)
            emptied = {name: of.end for name, of in log.spans.items() if of.has_lost_all}
            head = heads.get(number) if is_theirs else None
            require_known(number, head, emptied, span.start, lead_ms)
            left = {name: of for name, of in log.spans.items() if name not in emptied}
            gone = undated_losses(left, stored.replaced)
            begun = [name for name in left if until[name]]
            if unwritten := [name for name in gone if name not in begun]:
                raise RecordsGone(number, unwritten)
            lacks = gone or stored.since_ms is not None or any(log.next_offsets[n] for n in left)
            lost = LostBeginning(plan, most_ms, begun, stored.since_ms) if lacks else None
            lane = new_lane(number, plan, dict(log.next_offsets), list(until))
            class_by_the_whole_index(lane, config)
            if index is not None:
                judged_rows(lane).files.prepare(index.timeline, index.judgements)
            async with record_reader(config) as reader:
                lifts = dict.fromkeys(until, LATEST_MS) if config.kafka.lanes == ONE else {}
                replay = LogReplay(lane, reader.decoder, sink, lost, lifts)
                await read_log(log, reader, replay, shown, span.stop)
            if not has_events(lane):  # which could tell from when on hours are whole
                require_dated(number, left, gone, stored.since_ms, span.start, lead_ms)
            yield replay.driver, clock_ms if log.is_read else None
            await shown(1.0)
