"""Fetching from the open lanes: nothing is lost when a fetch fails, and one bad partition does not
stop the others.

aiokafka's `getmany` moves past the records of all partitions when one of them cannot be read, and
never says which. So our own next offsets are the truth, the client is put back to them after any
error, and partitions are then read one by one.
"""

import asyncio
import time
from collections.abc import Collection, Sequence
from typing import Any, Final, TypeAlias

import structlog
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import FetchError
from aiokafka.errors import GroupAuthorizationFailedError, OffsetOutOfRangeError

from ..telemetry.kafka_faults import ADVICE, KafkaFault, NoteFault, not_noted
from .aborted import Aborted
from .diagnosis import fault_of
from .lanes import Faults, LaneBook, Place, Silence, is_at_end, not_yet_taken
from .offsets import partition_of
from .records import Record, take_aborted

ERROR_PAUSE_S: Final = 0.2
NOTHING_YET_PAUSE_S: Final = 0.02
NOWHERE: Final = ("", -1)
"""What to read of when nothing is to be read: without partitions, getmany would read all."""

Records: TypeAlias = dict[int, dict[str, list[Record]]]
Fetched: TypeAlias = dict[TopicPartition, Sequence[Record]]

logger = structlog.get_logger(__name__)


class Reader:
    """Gathers records of open lanes; `take` hands them out."""

    def __init__(self, book: LaneBook, note: NoteFault = not_noted) -> None:
        self.faults = Faults()
        self.last_sign_s = time.monotonic()
        self._note = note
        self._aborted = Aborted(note)
        self._rested_s = self.last_sign_s
        self._book = book
        self._ready: Records = {}
        self._newest_fetch_ms: int | None = None
        self._silence = Silence()
        self._said: str | None = None

    def take(self, lanes: Collection[int]) -> Records:
        """What was gathered of these lanes since the last call: lane → topic → records in offset
        order. What is not open any more is forgotten."""
        for lane in self._ready.keys() - self._book.open_lanes:
            del self._ready[lane]
        return {lane: self._ready.pop(lane) for lane in list(self._ready) if lane in lanes}

    @property
    def waiting_lanes(self) -> frozenset[int]:
        """Lanes of which something was gathered and not taken."""
        return frozenset(self._ready)

    def drop(self, lane: int) -> None:
        """The lane is not read any more: what was gathered of it goes."""
        self._ready.pop(lane, None)

    def note_sign(self) -> None:
        """The cluster just gave a sign of life."""
        self.last_sign_s = time.monotonic()

    def _excuse(self, seconds: float) -> None:
        """Nobody was asked for so long: that was no silence."""
        self.last_sign_s = min(self.last_sign_s + seconds, time.monotonic())

    def rest_watch(self) -> None:
        """Nobody polls from now on: silence means nothing."""
        self._rested_s = time.monotonic()

    def resume_watch(self) -> None:
        """Polling goes on: the time since `rest_watch` was no silence."""
        self._excuse(time.monotonic() - self._rested_s)

    async def fetch(
        self, consumer: Any, max_records: int, timeout_ms: int, lanes: Collection[int]
    ) -> None:
        """One round over these lanes, at most `max_records` of each. Of errors, only what kills the
        process gets out of here."""
        self.faults.keep(self._book.next_offset)
        for place in self.faults.try_again(time.monotonic(), _now_ms()):
            consumer.resume(TopicPartition(*place))
        began_s, left_out = time.monotonic(), self.faults.left_out()
        places = [p for p in self._book.next_offset if p[1] in lanes and p not in left_out]
        try:
            if self.faults.suspects:
                await self._one_by_one(consumer, max_records, timeout_ms, places)
            else:
                partitions = map(partition_of, places or [NOWHERE])
                got = await consumer.getmany(
                    *partitions, timeout_ms=timeout_ms, max_records=max_records
                )
                if await self._accept(consumer, got) >= max_records:
                    await self._fill_up(consumer, got, max_records)
                self._said = None
        except OffsetOutOfRangeError as error:
            self._place_is_gone(consumer, error)
        except Exception as error:  # whatever a codec, a checksum or the coordinator raises
            await self._step_back(consumer, error)
        if not places:
            self._excuse(time.monotonic() - began_s)

    async def _fill_up(self, consumer: Any, got: Fetched, max_records: int) -> None:
        """Others had taken the room of the lane that came last: it may have a whole batch too."""
        lane = list(got)[-1].partition
        places = [place for place in got if place.partition == lane]
        room = max_records - sum(len(got[place]) for place in places)
        if room > 0:
            await self._accept(consumer, await consumer.getmany(*places, max_records=room))

    async def _one_by_one(
        self, consumer: Any, max_records: int, timeout_ms: int, places: Collection[Place]
    ) -> None:
        faults, room = self.faults, max_records
        others = set(places) - faults.suspects.keys()
        if others:
            got = await consumer.getmany(*map(partition_of, others), max_records=room)
            room -= await self._accept(consumer, got)
        for place in list(faults.suspects):
            if room > 0 and place in places and place in self._book.next_offset:
                room -= await self._alone(consumer, place, room)
        if room == max_records:
            await asyncio.sleep(min(NOTHING_YET_PAUSE_S, timeout_ms / 1000))

    async def _alone(self, consumer: Any, place: Place, room: int) -> int:
        """Read one place record by record: an error costs none of the good records before it."""
        partition, taken, emptied = partition_of(place), 0, False
        try:
            while taken < room and not emptied:
                got = await consumer.getmany(partition, max_records=1)
                taken += await self._accept(consumer, got)
                emptied = not got
        except OffsetOutOfRangeError as error:
            self._place_is_gone(consumer, error)
        except Exception as error:
            self._blame(consumer, place, error)
        if emptied and (taken or self._end_seen(consumer, place)):
            self._absolve(place)
        return taken

    async def _accept(self, consumer: Any, got: Fetched) -> int:
        """Keep what is new; the number of records seen. Gives up control nowhere."""
        book = self._book
        for (topic, lane), records in got.items():
            if (topic, lane) not in book.next_offset:
                continue  # closed while this was on its way
            fresh = not_yet_taken(records, book.next_offset[topic, lane])
            if fresh:
                self._ready.setdefault(lane, {}).setdefault(topic, []).extend(fresh)
        for place, expected in book.next_offset.items():
            # The client also steps over what is no record: markers, aborted transactions. And, when
            # it makes up an error of its own, over one record.
            if not _fails_next(consumer, partition_of(place)):
                position = await consumer.position(partition_of(place))
                book.next_offset[place] = max(expected, position)
        self._note_sign(consumer)
        self._aborted.tell(take_aborted(), time.monotonic())
        return sum(map(len, got.values()))

    def _note_sign(self, consumer: Any) -> None:
        """A sign of life: an answer to a fetch, or, where nothing is fetched, a poll's success."""
        awaited = self._book.next_offset.keys() - self.faults.left_out()
        fetches = [consumer.last_poll_timestamp(partition_of(place)) for place in awaited]
        newest = max((fetch for fetch in fetches if fetch is not None), default=None)
        if not awaited or newest != self._newest_fetch_ms:
            self.note_sign()
        self._newest_fetch_ms = newest

    def _end_seen(self, consumer: Any, place: Place) -> bool:
        """Whether the end of the log was seen after the place became a suspect."""
        next_offset, since_ms = self._book.next_offset.get(place), self.faults.suspects.get(place)
        if next_offset is None or since_ms is None:
            return False  # a rebalance came in between
        partition = partition_of(place)
        seen_ms = consumer.last_poll_timestamp(partition)
        at_end = is_at_end(next_offset, consumer.highwater(partition), seen_ms, _now_ms())
        return at_end and seen_ms > since_ms

    async def _step_back(self, consumer: Any, error: Exception) -> None:
        """Put the client back to where we are; who is to blame will show."""
        reason, fault = f"{type(error).__name__}: {error}", fault_of(error)
        read = self._book.next_offset.keys() - self.faults.left_out()
        if reason != self._said:
            self._said = reason
            logger.warning("fetch failed, reading on", error=reason, advice=ADVICE[fault])
            if not read or isinstance(error, GroupAuthorizationFailedError):
                self._note(fault)  # others are noted when it shows whose they are
        for place in read:
            consumer.seek(partition_of(place), self._book.next_offset[place])
        self.faults.suspect(read, _now_ms())
        await asyncio.sleep(ERROR_PAUSE_S)

    def _blame(self, consumer: Any, place: Place, error: Exception) -> None:
        self._leave_out(consumer, place, fault_of(error), f"{type(error).__name__}: {error}")

    def leave_out_silent(self, consumer: Any, lanes: Collection[int], silence_s: float) -> None:
        """Leave out, for a while, what is read of these lanes and was not answered for so long
        while others were: aiokafka asks again at once, for ever, where a broker answers with an
        error that it does not know."""
        now_s = time.monotonic()
        read = self._book.next_offset.keys() - self.faults.left_out()
        asked = [place for place in read if place[1] in lanes]
        fetched = {place: consumer.last_poll_timestamp(partition_of(place)) for place in asked}
        for place in self._silence.heard(fetched, now_s, silence_s):
            reason = f"no answer to its fetches for {silence_s:.0f} s"
            self._leave_out(consumer, place, "unreadable", reason)

    def _leave_out(self, consumer: Any, place: Place, fault: KafkaFault, reason: str) -> None:
        offset = self._book.next_offset.get(place)
        if offset is None:
            return  # a rebalance came in between
        consumer.seek(partition_of(place), offset)
        consumer.pause(partition_of(place))
        if self.faults.blame(place, reason, time.monotonic()):
            topic, partition = place
            self._note(fault)
            logger.error(
                "partition cannot be read, trying on",
                topic=topic,
                partition=partition,
                offset=offset,
                error=reason,
                advice=ADVICE[fault],
            )

    def _absolve(self, place: Place) -> None:
        if self.faults.absolve(place):
            topic, partition = place
            logger.info("partition is read again", topic=topic, partition=partition)

    def _place_is_gone(self, consumer: Any, error: OffsetOutOfRangeError) -> None:
        """The log does not hold the offset: the lane is lost until it is opened anew, which finds
        out what happened.
        """
        for (topic, lane), offset in error.args[0].items():
            if lane not in self._book.open_lanes:
                continue
            logger.warning(
                "offset out of range, opening the lane anew",
                topic=topic,
                partition=lane,
                offset=offset,
            )
            consumer.pause(*map(partition_of, self._book.places(lane)))
            self._book.close(lane, lost=True)
            self.drop(lane)


def _fails_next(consumer: Any, partition: TopicPartition) -> bool:
    """Whether the next read of the partition raises."""
    return type(consumer._fetcher._records.get(partition)) is FetchError


def _now_ms() -> int:
    return int(time.time() * 1000)  # the clock that aiokafka stamps its fetches with
