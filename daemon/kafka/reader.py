"""Fetches from the open lanes: nothing is lost when a fetch fails, and one bad partition does not
stop the others.

When one partition cannot be read, aiokafka's `getmany` moves past the records of all partitions and
does not name the bad one: of six topics with one bad and one healthy partition, four never gave the
records of the healthy one. So the reader keeps next offsets of its own, puts the client back to
them after any error, and then reads the partitions one by one.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

import structlog
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)

from ..telemetry import ADVICE, KafkaFault, NoteFault, ignore_fault
from .aiokafka_patches import counting_aborted, fails_next, unpacking_aside
from .assigned_lanes import AssignedLanes
from .offsets import Record, is_at_end, not_yet_taken
from .partition_faults import AbortedLog, PartitionFaults, UnansweredFetches
from .topic_partition import TopicPartition
from .topics import fault_of

ERROR_PAUSE_S: Final = 0.2
NOTHING_YET_PAUSE_S: Final = 0.02
NO_PARTITION: Final = TopicPartition("", -1)
"""Asked for when nothing is to be read: without an argument, getmany would read all."""

Records: TypeAlias = dict[int, dict[str, list[Record]]]
Fetched: TypeAlias = dict[TopicPartition, Sequence[Record]]

logger = structlog.get_logger(__name__)


class Reader:
    """Gathers records of open lanes; `take` returns them."""

    def __init__(self, lanes: AssignedLanes, note: NoteFault = ignore_fault) -> None:
        self.faults = PartitionFaults()
        self.last_answer_s = time.monotonic()
        self._note = note
        self._aborted_log = AbortedLog(note)
        self._aborted_records: Counter[TopicPartition] = Counter()
        """How many were left out since the last report."""
        self._unwatched_since_s = self.last_answer_s
        self._lanes = lanes
        self._ready: Records = {}
        self._newest_fetch_ms: int | None = None
        self._unanswered = UnansweredFetches()
        self._logged_error: str | None = None

    def take(self, lanes: Collection[int]) -> Records:
        """Return what was gathered of these lanes since the last call: lane → log → records in
        offset order. Drops what was gathered of lanes that are not open any more.
        """
        for lane in self._ready.keys() - self._lanes.open_lanes:
            del self._ready[lane]
        return {lane: self._ready.pop(lane) for lane in list(self._ready) if lane in lanes}

    @property
    def waiting_lanes(self) -> frozenset[int]:
        """The lanes with gathered records that were not taken."""
        return frozenset(self._ready)

    def _lane_of(self, place: TopicPartition) -> int:
        return self._lanes.division.lane_of(place)

    def drop(self, lane: int) -> None:
        """Drop what was gathered of a lane that is not read any more."""
        self._ready.pop(lane, None)

    def note_answer(self) -> None:
        """Record that the cluster answered just now."""
        self.last_answer_s = time.monotonic()

    def _excuse(self, seconds: float) -> None:
        """Do not count this many seconds as silence: no fetch was waiting for an answer."""
        self.last_answer_s = min(self.last_answer_s + seconds, time.monotonic())

    def pause_watch(self) -> None:
        """Stop the watch for silence: nobody polls from now on."""
        self._unwatched_since_s = time.monotonic()

    def resume_watch(self) -> None:
        """Go on watching: the time since `pause_watch` is not counted as silence."""
        self._excuse(time.monotonic() - self._unwatched_since_s)

    async def fetch(
        self, consumer: Any, max_records: int, timeout_ms: int, lanes: Collection[int]
    ) -> None:
        """Gather at most `max_records` of each of these lanes, in one round. Logs errors, and does
        not raise them.
        """
        self.faults.keep(self._lanes.next_offset)
        for topic_partition in self.faults.retry(time.monotonic(), _now_ms()):
            consumer.resume(topic_partition)
        began_s, excluded = time.monotonic(), self.faults.excluded()
        wanted = [
            topic_partition
            for topic_partition in self._lanes.next_offset
            if self._lane_of(topic_partition) in lanes and topic_partition not in excluded
        ]
        read = self._one_by_one if self.faults.suspects else self._together
        try:
            with counting_aborted(self._aborted_records):
                await read(consumer, max_records, timeout_ms, wanted)
        except OffsetOutOfRangeError as error:
            self._reopen_out_of_range(consumer, error)
        except Exception as error:  # whatever a codec, a checksum or the coordinator raises
            await self._step_back(consumer, error)
        if not wanted:
            self._excuse(time.monotonic() - began_s)

    async def _together(
        self, consumer: Any, max_records: int, timeout_ms: int, wanted: Collection[TopicPartition]
    ) -> None:
        with unpacking_aside(consumer):
            fetched = await consumer.getmany(
                *(wanted or [NO_PARTITION]), timeout_ms=timeout_ms, max_records=max_records
            )
        if await self._accept(consumer, fetched) >= max_records:
            await self._fill_up(consumer, fetched, max_records)
        self._logged_error = None

    async def _fill_up(self, consumer: Any, fetched: Fetched, max_records: int) -> None:
        """Fetch the rest of the last lane's batch: `max_records` cut it short after the others."""
        lane = self._lane_of(list(fetched)[-1])
        last = [place for place in fetched if self._lane_of(place) == lane]
        room = max_records - sum(len(fetched[topic_partition]) for topic_partition in last)
        if room > 0:
            await self._accept(consumer, await consumer.getmany(*last, max_records=room))

    async def _one_by_one(
        self,
        consumer: Any,
        max_records: int,
        timeout_ms: int,
        wanted: Collection[TopicPartition],
    ) -> None:
        """Read the suspects each alone, and the others together before them."""
        room = max_records
        others = set(wanted) - self.faults.suspects.keys()
        if others:
            fetched = await consumer.getmany(*others, max_records=room)
            room -= await self._accept(consumer, fetched)
        for suspect in list(self.faults.suspects):
            if room > 0 and suspect in wanted and suspect in self._lanes.next_offset:
                room -= await self._alone(consumer, suspect, room)
        if room == max_records:
            await asyncio.sleep(min(NOTHING_YET_PAUSE_S, timeout_ms / 1000))

    async def _alone(self, consumer: Any, suspect: TopicPartition, room: int) -> int:
        """Read one topic-partition record by record, so that an error loses none of the good
        records before it. Returns how many were read.
        """
        taken, emptied = 0, False
        try:
            while taken < room and not emptied:
                fetched = await consumer.getmany(suspect, max_records=1)
                taken += await self._accept(consumer, fetched)
                emptied = not fetched
        except OffsetOutOfRangeError as error:
            self._reopen_out_of_range(consumer, error)
        except Exception as error:
            self._exclude(consumer, suspect, fault_of(error), _described(error))
        is_readable = emptied and (taken or self._end_seen(consumer, suspect))
        if is_readable and self.faults.clear(suspect):
            logger.info(
                "partition can be read again", topic=suspect.topic, partition=suspect.partition
            )
        return taken

    async def _accept(self, consumer: Any, fetched: Fetched) -> int:
        """Gather the records that are new; returns the number fetched.

        Never yields to the event loop: `position` returns at once where there is a position.
        """
        next_offset = self._lanes.next_offset
        for topic_partition, records in fetched.items():
            if topic_partition not in next_offset:
                continue  # closed while this was on its way
            new = not_yet_taken(records, next_offset[topic_partition])
            if new:
                of_lane = self._ready.setdefault(self._lane_of(topic_partition), {})
                (log,) = self._lanes.division.logs_of([topic_partition]).values()
                of_lane.setdefault(log, []).extend(new)
        for topic_partition, expected in next_offset.items():
            # The client also steps over what is no record: markers, aborted transactions. And, when
            # it makes up an error of its own, over one record.
            if not fails_next(consumer, topic_partition):
                position = await consumer.position(topic_partition)
                next_offset[topic_partition] = max(expected, position)
        self._note_fetches(consumer)
        self._aborted_log.report(self._aborted_records, time.monotonic())
        self._aborted_records.clear()
        return sum(map(len, fetched.values()))

    def _note_fetches(self, consumer: Any) -> None:
        """Record an answer to a fetch, or, where nothing is fetched, the success of the poll."""
        awaited = self._lanes.next_offset.keys() - self.faults.excluded()
        fetches = [consumer.last_poll_timestamp(topic_partition) for topic_partition in awaited]
        newest = max((fetch for fetch in fetches if fetch is not None), default=None)
        if not awaited or newest != self._newest_fetch_ms:
            self.note_answer()
        self._newest_fetch_ms = newest

    def _end_seen(self, consumer: Any, suspect: TopicPartition) -> bool:
        """Whether the end of the log was seen after the topic-partition became a suspect."""
        next_offset = self._lanes.next_offset.get(suspect)
        since_ms = self.faults.suspects.get(suspect)
        if next_offset is None or since_ms is None:
            return False  # a rebalance came in between
        seen_ms = consumer.last_poll_timestamp(suspect)
        now_ms = _now_ms()
        at_end = is_at_end(next_offset, consumer.highwater(suspect), seen_ms, now_ms)
        # The clock may have been set back since.
        return at_end and (seen_ms > since_ms or since_ms > now_ms)

    async def _step_back(self, consumer: Any, error: Exception) -> None:
        """Put the client back to our next offsets, and suspect all that was read."""
        reason, fault = _described(error), fault_of(error)
        read = self._lanes.next_offset.keys() - self.faults.excluded()
        if reason != self._logged_error:
            self._logged_error = reason
            logger.warning("fetch failed, reading continues", error=reason, advice=ADVICE[fault])
            if not read or isinstance(error, GroupAuthorizationFailedError):
                self._note(fault)  # others are noted once it shows which partition has them
        for topic_partition in read:
            consumer.seek(topic_partition, self._lanes.next_offset[topic_partition])
        self.faults.suspect(read, _now_ms())
        await asyncio.sleep(ERROR_PAUSE_S)

    def exclude_unanswered(self, consumer: Any, lanes: Collection[int], silence_s: float) -> None:
        """Exclude, for a while, what is read of these lanes and got no answer for so long while
        other fetches did.

        Where a broker answers with an error that aiokafka does not know, aiokafka asks again at
        once, for ever.
        """
        read = self._lanes.next_offset.keys() - self.faults.excluded()
        answered_ms = {
            topic_partition: consumer.last_poll_timestamp(topic_partition)
            for topic_partition in read
            if self._lane_of(topic_partition) in lanes
        }
        for topic_partition in self._unanswered.find(answered_ms, time.monotonic(), silence_s):
            reason = f"no answer to its fetches for {silence_s:.0f} s"
            self._exclude(consumer, topic_partition, "unreadable", reason)

    def _exclude(
        self, consumer: Any, topic_partition: TopicPartition, fault: KafkaFault, reason: str
    ) -> None:
        offset = self._lanes.next_offset.get(topic_partition)
        if offset is None:
            return  # a rebalance came in between
        consumer.seek(topic_partition, offset)
        consumer.pause(topic_partition)
        if self.faults.exclude(topic_partition, reason, time.monotonic()):
            self._note(fault)
            logger.error(
                "partition cannot be read, will be tried again",
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                offset=offset,
                error=reason,
                advice=ADVICE[fault],
            )

    def _reopen_out_of_range(self, consumer: Any, error: OffsetOutOfRangeError) -> None:
        """Close the lanes whose logs do not have the next offset, or are gone: opening them anew
        finds out what happened.
        """
        for place, offset in error.args[0].items():
            lane = self._lane_of(place)
            if lane not in self._lanes.open_lanes:
                continue
            logger.warning(
                "offset out of range, or another log: opening the lane anew",
                topic=place.topic,
                partition=place.partition,
                offset=offset,
            )
            consumer.pause(*self._lanes.logs(lane))
            self._lanes.close(lane, lost=True)
            self.drop(lane)


_NOT_PERMITTED: Final[Mapping[type[Exception], str]] = {
    TopicAuthorizationFailedError: "no permission to read the topic (READ for kafka.sasl_username)",
    GroupAuthorizationFailedError: "no permission for the consumer group (kafka.group_id)",
}


def _described(error: Exception) -> str:
    words = _NOT_PERMITTED.get(type(error))
    return f"{words or type(error).__name__}: {error}"


def _now_ms() -> int:
    return int(time.time() * 1000)  # the clock that aiokafka stamps its fetches with
