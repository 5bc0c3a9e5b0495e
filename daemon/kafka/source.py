"""Reads the input topics: lane by lane, in offset order, no record lost and none twice.

    source = KafkaSource(settings)
    await source.start()
    while True:
        for lane in source.lanes_lost(): …                      forget it
        for lane in source.lanes_to_open(): …                   claim it, then
            gaps = await source.open(lane, stored_offsets, stored_marks)
        batch = await source.poll(10_000, 500)
        async with source.batch_in_hand(): …                    process, commit, then
            source.hint(lane, offsets)

Reading begins where the caller of `open` says, never where the group's offsets are. One task polls;
no queue stands between it and the consumer: not polling is the back-pressure. A rebalance waits for
the batch in hand.
"""

import asyncio
import time
from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import structlog

from ..config import Start
from ..errors import OtherRedis, Unavailable
from ..storage import NO_MARKS, LogMarks
from ..telemetry import ADVICE, NoteFault, ignore_fault
from ..worker import Batch, LaneLost, PartitionStatus
from . import aiokafka_patches
from .assigned_lanes import AssignedLanes, at_ends, partition_count, partition_status
from .assignor import UNKNOWN
from .client import KafkaSettings
from .group_redis import other_redis
from .member import GroupMember, GroupOffsets
from .offsets import IdleLogs
from .partition_faults import is_stuck
from .reader import Reader
from .resuming import (
    KnownLogs,
    Resumption,
    first_times,
    group_offsets,
    ids_of_logs,
    starting_offsets,
)
from .topic_partition import TopicPartition, place_in
from .topics import Diagnosis, NoteCounts, ignore_counts, require_counts

LAST_HINT_PATIENCE_S: Final = 2.0

logger = structlog.get_logger(__name__)


class KafkaSource:
    """The input topics, as one member of the consumer group. Open by `start`, close by `stop`."""

    def __init__(
        self,
        settings: KafkaSettings,
        note: NoteFault = ignore_fault,
        note_counts: NoteCounts = ignore_counts,
    ) -> None:
        """`note` is called with every fault that is found, for a counter, and `note_counts` with
        the partition counts of the topics whenever the cluster states them."""
        aiokafka_patches.install()
        self._settings = settings
        self._note = note
        self._lanes = AssignedLanes(settings.topics, settings.division)
        self._logs = KnownLogs()
        self._member = GroupMember(settings, self._lanes, self._logs.fence, note)
        self._reader = Reader(self._lanes, note)
        self._diagnosis = Diagnosis(settings, note, note_counts)
        self._group = GroupOffsets(self._lanes)
        self._idle_logs = IdleLogs(settings.idle_after_s)
        self._fetching: asyncio.Task[None] | None = None
        self._joined = False
        self._count_at_start = 0
        self._refused: OtherRedis | None = None

    async def start(self) -> None:
        """Look the topics up, and join the group. Raises StartError."""
        await self.look_up()
        await self.join()

    async def look_up(self) -> None:
        """Return once the cluster and all topics are there; logs what it waits for. Raises
        StartError where the topics do not fit together or the settings cannot work."""
        counts = await self._diagnosis.wait_for_topics()
        require_counts(counts, self._settings.division)
        self._count_at_start = max(counts.values())

    async def join(self, note: str = UNKNOWN) -> None:
        """Join the group, after `look_up`. `note`: to which Redis this process belongs (see
        `group_redis`)."""
        self._group.redis = note
        await self._member.join(note)
        self._reader.note_answer()
        self._joined = True

    async def stop(self) -> None:
        """Leave the group, so that others take over at once. No batch may be in hand. Bounded."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait({self._fetching})
            self._fetching = None
        self._joined = False
        await self._diagnosis.stop()
        if self._member.consumer is not None:
            await self._group.close(self._member.consumer, LAST_HINT_PATIENCE_S)
        await self._member.leave()

    async def poll(
        self, max_records: int, timeout_ms: int, lanes: Collection[int] | None = None
    ) -> Batch:
        """Return what is there, or comes within the time, of these lanes (None: of all that are
        open); the records of others wait. Returns early when lanes are assigned or revoked.

        Must be called again and again, with or without lanes: the group drops a member that does
        not. An outage gives empty batches and a line in the log, no error; an error that is raised
        is one that this process cannot mend. Raises OtherRedis where the group is one of another
        Redis: leave it."""
        self._require_own_group()
        # A fetch in progress is waited for, never cancelled: aiokafka would count this member as
        # busy for ever, and a rebalance can hold it longer than a caller wants to wait.
        self._reader.resume_watch()
        wanted = self._lanes.open_lanes if lanes is None else frozenset(lanes)
        unread = wanted - self._reader.waiting_lanes
        self._watch(unread)
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch(max_records, timeout_ms, unread))
        await asyncio.wait(
            {self._fetching, self._member.change()},
            timeout=timeout_ms / 1000,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if self._fetching.done():
            fetching, self._fetching = self._fetching, None
            fetching.result()
        if self._member.consumer is not None:
            self._group.commit_pending(self._member.consumer)
        self._reader.pause_watch()
        return self._take(wanted)

    def batch_in_hand(self) -> AbstractAsyncContextManager[None]:
        """Return the `async with` around processing and committing what `poll` returned, entered
        without awaiting anything before it.

        A rebalance waits until nobody is inside, for at most a third of the session timeout.
        """
        return self._member.batch_in_hand()

    def lanes_to_open(self) -> frozenset[int]:
        """Return the lanes that are assigned whole and not open: also those that were closed."""
        return frozenset() if self._member.rebalancing else self._lanes.to_open()

    def lanes_lost(self) -> frozenset[int]:
        """Return the lanes that stopped being open without `close` since the last call: revoked, or
        their next offset, or their log, is gone. Some may be among `lanes_to_open` again."""
        return self._lanes.take_lost()

    async def open(
        self, lane: int, offsets: Mapping[str, int], marks: LogMarks = NO_MARKS
    ) -> Mapping[str, int]:
        """Read the lane from these next offsets on, from the logs of these marks alone. Returns how
        many records were deleted unread, of the logs that lost any.

        Raises LogChanged (a log is another one), LaneLost (not assigned whole any more),
        Unavailable (no answer in time). The lane is then not open."""
        found = await self._resumption(lane, offsets, marks, self._note)
        self._logs.open(self._consumer(), found.topic_ids)
        self._reader.faults.keep(self._lanes.next_offset)
        self._reader.drop(lane)
        self._lanes.open(lane, found.offsets)
        self._member.read_from(self._lanes.positions(lane))
        logger.info("lane opened", lane=lane, offsets=dict(found.offsets))
        return found.gaps

    async def verify(self, lane: int, offsets: Mapping[str, int], marks: LogMarks) -> None:
        """Return where `open` would not raise LogChanged; raises what it would. Reads nothing."""
        await self._resumption(lane, offsets, marks, ignore_fault)

    async def _resumption(
        self, lane: int, offsets: Mapping[str, int], marks: LogMarks, note: NoteFault
    ) -> Resumption:
        generation = self._lanes.generation
        if lane not in self.lanes_to_open():
            raise LaneLost(f"lane {lane} is not to be opened")
        logs = self._lanes.logs(lane)
        found = await self._logs.resumption(self._consumer(), logs, offsets, marks, note)
        if self._lanes.generation != generation or lane not in self.lanes_to_open():
            raise LaneLost(f"lane {lane} was taken while it was opened")
        return found

    async def topic_ids(self, lane: int) -> Mapping[str, str]:
        """Return, by log, the ids of the lane's topics, where the cluster has them. Raises
        Unavailable."""
        return await ids_of_logs(self._consumer(), self._lanes.logs(lane))

    async def close(self, lane: int) -> None:
        """Stop reading the lane for now; it stays assigned, and is among `lanes_to_open`."""
        if lane in self._lanes.open_lanes and not self._member.rebalancing:
            self._member.consumer.pause(*self._lanes.logs(lane))
        self._lanes.close(lane, lost=False)
        self._reader.drop(lane)

    async def starting_offsets(self, lane: int, start: Start, now_ms: int) -> dict[str, int]:
        """Return, by log, the offset where a lane without stored offsets begins: an end of its
        logs, or so far back from `now_ms` by the records' Kafka timestamps (the end of the log
        where no record is that young). Raises Unavailable."""
        return await starting_offsets(self._consumer(), self._lanes.logs(lane), start, now_ms)

    async def first_times(self, lane: int) -> dict[str, int]:
        """Return, by topic, the Kafka timestamp (ms) of its first record. Raises Unavailable."""
        return await first_times(self._consumer(), self._lanes.logs(lane))

    async def group_offsets(self, lane: int) -> dict[str, int]:
        """Return, by log, the next offset as the group knows it. Raises Unavailable."""
        return await group_offsets(self._consumer(), self._lanes.logs(lane))

    async def still_member(self) -> bool:
        """Whether this process was still a member, with the same lanes, after this call began."""
        generation = self._lanes.generation
        consumer = self._member.consumer
        if consumer is None or not await self._group.proves_membership(consumer):
            return False
        return self._lanes.generation == generation and not self._member.rebalancing

    def hint(self, lane: int, offsets: Mapping[str, int]) -> None:
        """Commit these to the group some time, for lag tools. Never waits, decides nothing."""
        self._group.note({place_in(lane, log): at for log, at in offsets.items()})

    def next_offsets(self, lane: int) -> dict[str, int]:
        """Return the next offset of every log of an open lane, after all that `poll` returned."""
        logs, positions = self._lanes.logs(lane), self._lanes.positions(lane)
        return {logs[place]: offset for place, offset in positions.items()}

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The topic-partitions that the group assigned to this process."""
        return self._lanes.assigned

    @property
    def open_lanes(self) -> frozenset[int]:
        """The lanes that are read."""
        return self._lanes.open_lanes

    @property
    def lane_count(self) -> int:
        """The number of lanes: of partitions of the input topics (the largest, should they differ
        now), or one."""
        found = partition_count(self._member.consumer, self._lanes.topics) or self._count_at_start
        return self._lanes.division.count(found)

    @property
    def obstacle(self) -> str | None:
        """What keeps the topics as such from being read, as far as that is known."""
        obstacle = self._diagnosis.obstacle
        return None if obstacle is None else obstacle.reason

    def status(self) -> list[PartitionStatus]:
        """Return how far each assigned topic-partition is read."""
        consumer, lanes, faults = self._member.consumer, self._lanes, self._reader.faults
        found = [partition_status(consumer, lanes, faults, tp) for tp in sorted(lanes.assigned)]
        self._logs.note_ends(found)
        return found

    async def _fetch(self, max_records: int, timeout_ms: int, lanes: Collection[int]) -> None:
        await self._reader.fetch(self._consumer(), max_records, timeout_ms, lanes)

    def refuse(self, error: OtherRedis) -> None:
        """Let the next `poll` raise this: the Redis of this process is another one now."""
        self._refused = error

    def _require_own_group(self) -> None:
        if self._refused is None and (met := self._member.assignor.met):
            self._refused = other_redis(self._settings.group_id, met, self._group.redis)
        if self._refused is not None:
            raise self._refused

    def _watch(self, lanes: Collection[int]) -> None:
        """Look for what aiokafka does not report, and connect anew where it waits for ever."""
        if not self._joined:
            return
        session_s = self._settings.session_timeout_s
        self._reader.exclude_unanswered(self._member.consumer, lanes, session_s)
        now_s, answers_s = time.monotonic(), self._answers_s()
        self._diagnosis.check_if(
            not self._lanes.assigned
            or bool(self._lanes.missing_topics)
            or min(answers_s) < now_s - session_s / 3
        )
        if any(is_stuck(now_s, answer_s, session_s) for answer_s in answers_s):
            self._note("stuck")
            logger.warning(
                "no sign of life from Kafka, connecting anew",
                answers_missing_s=round(now_s - min(answers_s)),
                advice=ADVICE["stuck"],
            )
            self._joined = False
            self._fetching = asyncio.create_task(self._rejoin(self._fetching))

    def _answers_s(self) -> list[float]:
        """Return when the cluster last answered, when there last was an assignment, and when the
        group last confirmed it."""
        now_s = time.monotonic()
        missing_since_s = (self._member.rebalancing_since_s, self._group.unproven_since_s)
        return [self._reader.last_answer_s, *(now_s if s is None else s for s in missing_since_s)]

    async def _rejoin(self, hung: asyncio.Task[None] | None) -> None:
        if hung is not None:
            hung.cancel()
            await asyncio.wait({hung})
        await self._member.leave()
        await self._diagnosis.wait_for_topics()
        await self._member.join(self._group.redis)
        self._reader.note_answer()
        self._joined = True

    def _take(self, wanted: Collection[int]) -> Batch:
        if self._member.rebalancing:
            return Batch({}, {}, frozenset())
        open_lanes = self._lanes.open_lanes
        lanes = self._reader.take(open_lanes.intersection(wanted))
        unread = self._reader.waiting_lanes
        now_ms = int(time.time() * 1000)
        ends = at_ends(self._member.consumer, self._lanes, open_lanes - unread, now_ms)
        caught_up = frozenset(n for n, ended in ends.items() if ended >= self._lanes.logs(n).keys())
        next_offsets = {lane: self.next_offsets(lane) for lane in lanes}
        return Batch(lanes, next_offsets, caught_up, self._idle(ends))

    def _idle(self, ends: Mapping[int, Collection[TopicPartition]]) -> dict[int, frozenset[str]]:
        """The idle logs of lanes that have several of each topic, by these ends of logs."""
        if not self._lanes.division.is_one:
            return {}
        offsets = self._lanes.next_offset
        at_end = {place: offsets[place] for ended in ends.values() for place in ended}
        idle = self._idle_logs.find(at_end, time.monotonic())
        return {
            n: frozenset(self._lanes.division.logs_of(idle & {*ends[n]}).values()) for n in ends
        }

    def _consumer(self) -> Any:
        if self._member.consumer is None:
            raise Unavailable("not connected")
        return self._member.consumer
