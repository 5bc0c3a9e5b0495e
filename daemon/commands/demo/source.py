"""The demo's source in place of Kafka: simulated search traffic, as lanes of records.

Records are kept until they are durable, so that a lane can be read again from its stored offsets.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final
from zlib import crc32

import msgspec

from ...config.start import Start
from ...storage.log_marks import NO_MARKS, LogMarks
from ...worker.source import Batch, OffsetBeyondEnd, PartitionStatus

TOPIC: Final = "demo"
LANES: Final = 2


@dataclass(frozen=True)
class DemoRecord:
    """One record with the attributes of a Kafka record."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class DemoSource:
    """Turns the traffic that is due by the clock into records. Its one reader has every lane."""

    def __init__(
        self, traffic: Iterator[tuple[int, Mapping[str, Any]]], clock: Callable[[], float]
    ) -> None:
        self._traffic = traffic
        self._clock = clock
        self._ahead: tuple[int, Mapping[str, Any]] | None = None
        self._logs: list[deque[DemoRecord]] = [deque() for _ in range(LANES)]
        self._ends = [0] * LANES
        self._next: dict[int, int] = {}

    async def poll(
        self, max_records: int, timeout_ms: int, lanes: Collection[int] | None = None
    ) -> Batch:
        """Return the records that are due."""
        self._take_due(max_records)
        unread = {lane: self._unread(lane) for lane in self._next if lanes is None or lane in lanes}
        found = {lane: {TOPIC: records} for lane, records in unread.items() if records}
        for lane in found:
            self._next[lane] = self._ends[lane]
        if not found:
            await asyncio.sleep(timeout_ms / 1000)
        caught_up = self._ahead is not None and self._ahead[0] > self._clock() * 1000
        idle = frozenset(unread) if caught_up else frozenset[int]()
        return Batch(found, {lane: {TOPIC: self._next[lane]} for lane in found}, idle)

    def _take_due(self, max_records: int) -> None:
        now_ms = self._clock() * 1000
        for _ in range(max_records):
            arrival_ms, event = self._ahead or next(self._traffic)
            self._ahead = (arrival_ms, event) if arrival_ms > now_ms else None
            if self._ahead is not None:
                return
            self._append(arrival_ms, event)

    def _append(self, arrival_ms: int, event: Mapping[str, Any]) -> None:
        key = str(event["impression_id"]).encode()
        lane = crc32(key) % LANES
        record = DemoRecord(
            TOPIC, lane, self._ends[lane], arrival_ms, key, msgspec.json.encode(event)
        )
        self._logs[lane].append(record)
        self._ends[lane] += 1

    def _unread(self, lane: int) -> list[DemoRecord]:
        log = self._logs[lane]
        if not log or log[-1].offset < self._next[lane]:
            return []
        return list(islice(log, self._next[lane] - log[0].offset, None))

    @asynccontextmanager
    async def batch_in_hand(self) -> AsyncIterator[None]:
        """Do nothing: lanes are never taken away here."""
        yield

    def lanes_to_open(self) -> frozenset[int]:
        """Return every lane that is not open."""
        return frozenset(range(LANES)) - self.open_lanes

    def lanes_lost(self) -> frozenset[int]:
        """Return none: lanes are never lost."""
        return frozenset()

    async def topic_ids(self, lane: int) -> Mapping[str, str]:
        """Return none: this log is never replaced."""
        return {}

    async def verify(self, lane: int, offsets: Mapping[str, int], marks: LogMarks) -> None:
        """Raise OffsetBeyondEnd where the log ends before these offsets."""
        if offsets[TOPIC] > self._ends[lane]:
            raise OffsetBeyondEnd(TOPIC, lane, offsets[TOPIC], self._ends[lane])

    async def open(
        self, lane: int, offsets: Mapping[str, int], marks: LogMarks = NO_MARKS
    ) -> Mapping[str, int]:
        """Read the lane from these offsets. Raises OffsetBeyondEnd."""
        await self.verify(lane, offsets, marks)
        self._next[lane] = offsets[TOPIC]
        return {}

    async def close(self, lane: int) -> None:
        """Stop reading the lane."""
        self._next.pop(lane, None)

    async def starting_offsets(self, lane: int, start: Start, now_ms: int) -> Mapping[str, int]:
        """Return the offset of the first record that is kept."""
        log = self._logs[lane]
        return {TOPIC: log[0].offset if log else self._ends[lane]}

    async def first_times(self, lane: int) -> Mapping[str, int]:
        """Return none: this log has no Kafka timestamps."""
        return {}

    async def group_offsets(self, lane: int) -> Mapping[str, int]:
        """Return none: there is no group."""
        return {}

    async def still_member(self) -> bool:
        """Return True: there is no group to leave."""
        return True

    def hint(self, lane: int, offsets: Mapping[str, int]) -> None:
        """Drop the records that are durable."""
        log = self._logs[lane]
        while log and log[0].offset < offsets[TOPIC]:
            log.popleft()

    @property
    def open_lanes(self) -> frozenset[int]:
        """The lanes that are read."""
        return frozenset(self._next)

    def status(self) -> Sequence[PartitionStatus]:
        """Return how far each lane is read."""
        now_ms = int(self._clock() * 1000)
        return [
            PartitionStatus(TOPIC, lane, offset, self._ends[lane] - offset, now_ms, None)
            for lane, offset in sorted(self._next.items())
        ]

    @property
    def obstacle(self) -> str | None:
        """Return None: reading never fails."""
        return None
