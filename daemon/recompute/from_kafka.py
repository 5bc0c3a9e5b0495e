"""Lanes made again from the records that Kafka has, as far as some hours need them."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from ..config import ONE, Ago, Config, LogEnd
from ..kafka import LaneLog, LaneLogs, kafka_settings
from ..lane import new_lane, place_of
from ..panes import HOUR_MS
from ..plan import Plan
from ..storage import NO_MARKS
from .driver import LATEST_MS, LaneDriver, LaneSink, has_events, judged_rows
from .libraries import WholeIndex, class_by_the_whole_index
from .log_replay import LogReplay
from .lost_beginning import LostBeginning
from .record_reader import RecordReader, record_reader

BETWEEN_MS: Final = HOUR_MS
"""Read before what must be read at least, for clocks and delays of producers."""

Show: TypeAlias = Callable[[float], Awaitable[None]]
"""Takes the share that was read, after each batch."""


class RecordsGone(Exception):
    """Kafka has deleted records that may be of any hour, so that no hour is whole. The text says of
    which topic-partitions, and the way out."""

    def __init__(self, lane: int, logs: Sequence[str]) -> None:
        places = (place_of(lane, log) for log in sorted(logs))
        names = ", ".join(f"{topic}[{partition}]" for topic, partition in places)
        super().__init__(
            f"Kafka has deleted records of {names}, and no event is left there that tells which"
            " hours they were of: no hour is whole. Give recorded events as FILE... in place of"
            " --kafka"
        )


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
) -> AsyncIterator[tuple[LaneDriver, int | None]]:
    """Yield each lane once it has all records that the hours of the span need, with the clock at
    which its log ended; None where the log goes on. `sink` is that of all lanes. Lists are graded
    by the index, if there is one. Raises Unavailable, StartError, LogChanged, RecordsGone,
    OverflowError."""
    config = config.of_inputs
    timing, most_ms = config.timing, config.limits.max_future_ms
    lead_ms = 2 * (most_ms + timing.base_ms) + timing.settle_ms + BETWEEN_MS
    lead_ms += plan.touch_reach_ms
    async with LaneLogs(kafka_settings(config)) as logs:
        for number in range(logs.lanes):

            async def shown(share: float, number: int = number) -> None:
                await show((number + share) / logs.lanes)

            clock_ms = int(time.time() * 1000)
            begin = await logs.offsets(number, Ago(0), max(span.start - lead_ms, 0))
            until = await logs.offsets(number, LogEnd.LATEST, 0)
            log = await logs.open(number, begin, until, NO_MARKS)
            if emptied := [name for name, of in log.spans.items() if of.has_lost_all]:
                raise RecordsGone(number, emptied)
            is_whole = not any(log.next_offsets.values())
            begun = [name for name, end in until.items() if end]
            lost = None if is_whole else LostBeginning(plan, most_ms, begun)
            lane = new_lane(number, plan, dict(log.next_offsets), list(until))
            class_by_the_whole_index(lane, config)
            if index is not None:
                judged_rows(lane).files.prepare(index.timeline, index.judgements)
            async with record_reader(config) as reader:
                lifts = dict.fromkeys(until, LATEST_MS) if config.kafka.lanes == ONE else {}
                replay = LogReplay(lane, reader.decoder, sink, lost, lifts)
                await read_log(log, reader, replay, shown, span.stop)
            gone = [name for name, of in log.spans.items() if of.has_lost_beginning]
            if gone and not has_events(lane):  # which could tell from when on hours are whole
                raise RecordsGone(number, gone)
            yield replay.driver, clock_ms if log.is_read else None
            await shown(1.0)
