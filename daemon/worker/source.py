"""The port that records come from: a Kafka consumer group, or the demo's own traffic."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

import structlog
from msgspec.structs import replace

from ..config import Ago, LogEnd, Start
from ..errors import Lost, Unavailable
from ..events import LogRecord, timestamp_text
from ..storage import NO_MARKS, ClaimedLane, LogMark, LogMarks, Store, confirm, plan_commit
from ..telemetry import Telemetry


class LaneLost(Exception):
    """The lane is not, or no longer, assigned to this process."""


class LogChanged(Exception):
    """The log is not, or may not be, the one that the lane has read. The lane stays stopped until
    that log is back, or an operator accepts the one that is there.

    Reading such a log from the stored offset would leave out its first records, and nothing would
    show it; reading it from the start is right where it has taken the place of the old one, and
    only an operator knows that (`relevanced lane accept-new-log`): then the lane begins it at its
    start and keeps all that it has. What is sent again in the new log counts once: an impression
    that is still open is a duplicate, and one that has settled is late.
    """

    def __init__(
        self, topic: str, partition: int, stored: int, found: str | None, why: str
    ) -> None:
        """`found`: the topic id of the log that is there; None in a cluster without ids."""
        self.topic, self.partition, self.stored = topic, partition, stored
        self.found = found or ""
        self.why = why
        self.unread: int | None = None
        """How many records of the log that was read are known to have been left."""
        super().__init__(
            f"{topic}[{partition}]: {why} The lane stays stopped until that log is back, or until"
            f" `relevanced lane accept-new-log {topic}` lets it begin the log that is there now."
        )


class OffsetBeyondEnd(LogChanged):
    """The log ends before the stored offset: it lost records that it had acknowledged, or, in a
    cluster without topic ids, is another one.
    """

    def __init__(
        self, topic: str, partition: int, stored: int, end: int, found: str | None = None
    ) -> None:
        self.end = end
        why = f"the stored offset {stored} is beyond the end of the log, {end}."
        if found is None:
            why += " Was the topic deleted and created again?"
        super().__init__(topic, partition, stored, found, why)


class LogReplaced(LogChanged):
    """The topic was deleted and created again."""

    def __init__(
        self, topic: str, partition: int, stored: int, read: str, found: str | None
    ) -> None:
        why = f"the topic was deleted and created again: its id was {read} and is {found}."
        super().__init__(topic, partition, stored, found, why)


class LogRewritten(LogChanged):
    """The last record that was read is another one now: the log lost its end and was written on,
    or, in a cluster without topic ids, the topic was created again.
    """

    def __init__(
        self, topic: str, partition: int, stored: int, offset: int, found: str | None
    ) -> None:
        why = f"the record at offset {offset}, the last that was read, is another one now."
        super().__init__(topic, partition, stored, found, why)


@dataclass(frozen=True)
class Batch:
    """What one poll gave.

    `lanes`: lane → topic → records in offset order, for the lanes that have any. `next_offsets`:
    for the same lanes, the offset of every topic after these records, to be stored with what they
    produce. `caught_up`: the open lanes whose topic-partitions were all seen at the end of their
    logs within the last 5 s, with nothing left to deliver.
    """

    lanes: Mapping[int, Mapping[str, Sequence[LogRecord]]]
    next_offsets: Mapping[int, Mapping[str, int]]
    caught_up: frozenset[int]


@dataclass(frozen=True)
class PartitionStatus:
    """One assigned topic-partition, for gauges. None: not known yet, or not read."""

    topic: str
    partition: int
    next_offset: int | None
    lag_records: int | None
    fetched_ms: int | None
    fault: str | None


class Source(Protocol):
    """Lanes of records, read from the offsets with which the caller opens a lane."""

    async def poll(
        self, max_records: int, timeout_ms: int, lanes: Collection[int] | None = None
    ) -> Batch:
        """Return the records of these lanes (None: of all that are open) that are there or come
        within `timeout_ms`, at most `max_records` of each lane; those of other lanes wait. Must be
        called again and again, also without lanes."""

    def batch_in_hand(self) -> AbstractAsyncContextManager[None]:
        """`async with` around processing and committing, as often at once as there are batches:
        lanes are not taken away meanwhile, for a bounded time."""

    def lanes_to_open(self) -> frozenset[int]:
        """The lanes that are assigned and not open."""

    def lanes_lost(self) -> frozenset[int]:
        """The lanes that stopped being open without a `close` since the last call."""

    async def topic_ids(self, lane: int) -> Mapping[str, str]:
        """Return the ids of the topics by their names, where the cluster has such ids. Raises
        Unavailable.
        """

    async def verify(self, lane: int, offsets: Mapping[str, int], marks: LogMarks) -> None:
        """Return if the lane's logs are those of the marks and reach as far as the offsets.

        Raises LogChanged, LaneLost, Unavailable.
        """

    async def open(
        self, lane: int, offsets: Mapping[str, int], marks: LogMarks = NO_MARKS
    ) -> Mapping[str, int]:
        """Read the lane from these offsets, and from no other logs than those of the marks; returns
        how many records of a topic are gone, where any are.

        Raises LogChanged, LaneLost, Unavailable.
        """

    async def close(self, lane: int) -> None:
        """Stop reading the lane for now; it stays assigned."""

    async def starting_offsets(self, lane: int, start: Start, now_ms: int) -> Mapping[str, int]:
        """Return, by topic, the offset where a lane without stored offsets begins. `Ago` counts
        back from `now_ms`. Raises Unavailable.
        """

    async def first_times(self, lane: int) -> Mapping[str, int]:
        """Return, by topic, the Kafka timestamp (ms) of the first record that the lane's logs still
        have; none of empty logs. Raises Unavailable."""

    async def group_offsets(self, lane: int) -> Mapping[str, int]:
        """Return, by topic, the next offset as the group knows it: a hint of how far some worker
        had come, stored apart from the state. Raises Unavailable."""

    async def still_member(self) -> bool:
        """Whether the group confirmed this process as a member after the call began."""

    def hint(self, lane: int, offsets: Mapping[str, int]) -> None:
        """Note that these offsets are durable: a hint for tools that show lag, never read back."""

    @property
    def open_lanes(self) -> frozenset[int]:
        """The lanes that are open."""

    def status(self) -> Sequence[PartitionStatus]:
        """The status of every assigned topic-partition."""

    @property
    def obstacle(self) -> str | None:
        """Why no topic can be read at all, where that is known; else None."""


log = structlog.get_logger(__name__)


class LostState:
    """Counts the lanes whose state was lost, and says from where each is rebuilt.

    A worker that owned the lane before knows it. One that did not asks the consumer group, which
    has a hint of how far some worker had come, outside Redis.
    """

    def __init__(self, source: Source, telemetry: Telemetry, clock: Callable[[], float]) -> None:
        self._source = source
        self._telemetry = telemetry
        self._clock = clock

    async def note(
        self, claimed: ClaimedLane, start: Start, durable_offsets: Mapping[str, int]
    ) -> bool:
        """Count and log the lane if the store has no state of it, or older state than it had
        confirmed, where `durable_offsets` are those that this process knows. Returns whether it
        was lost."""
        offsets = dict(claimed.lane.offsets)
        lane_log = log.bind(lane=claimed.lane.number, offsets=offsets)
        if claimed.sequence > 0:
            to_read_again = Counter(durable_offsets) - Counter(offsets)
            if to_read_again:
                self._telemetry.lane_state_lost.labels("stored_offsets").inc()
                lane_log.warning(
                    "the store has older state of the lane: reading again from its offsets",
                    records_again=dict(to_read_again),
                )
            return bool(to_read_again)
        known = durable_offsets or await self._of_the_group(claimed.lane.number)
        if not any(known.values()):
            lane_log.info("lane begins")
            return False
        await self._note_whole(claimed, start, known)
        return True

    async def _note_whole(
        self, claimed: ClaimedLane, start: Start, known: Mapping[str, int]
    ) -> None:
        lane, offsets = claimed.lane.number, claimed.lane.offsets
        from_ms = rebuilt_from_ms(start, await self._first_times(lane), int(self._clock() * 1000))
        self._telemetry.lane_state_lost.labels("kafka_start").inc()
        self._telemetry.lane_rebuilt_from_s.labels(str(lane)).set(from_ms / 1000)
        log.error(
            "the store lost the lane: it begins anew, and everything before is gone",
            lane=lane,
            offsets=dict(offsets),
            rebuilt_from=timestamp_text(from_ms),
            records_again=dict(Counter(known) - Counter(offsets)),
        )

    async def _of_the_group(self, lane: int) -> Mapping[str, int]:
        try:
            return await self._source.group_offsets(lane)
        except Unavailable as error:
            log.warning("not known if the lane had state before", lane=lane, reason=str(error))
            return {}

    async def _first_times(self, lane: int) -> Mapping[str, int]:
        try:
            return await self._source.first_times(lane)
        except Unavailable:
            return {}


def rebuilt_from_ms(start: Start, first_times_ms: Mapping[str, int], now_ms: int) -> int:
    """The instant, by the Kafka timestamps of records, from which a lane that begins anew at
    `start` has every record; the clock where its logs are empty."""
    if start is LogEnd.LATEST:
        return now_ms
    logs_ms = max(first_times_ms.values(), default=now_ms)
    return max(now_ms - start.ms, logs_ms) if isinstance(start, Ago) else logs_ms


def skipped(begin: Mapping[str, int], durable_offsets: Mapping[str, int]) -> dict[str, int]:
    """How many records of each topic lie between the last offsets of a lane that the store lost and
    where it begins anew. With `start = "latest"` nobody reads them."""
    return {
        topic: begin[topic] - durable
        for topic, durable in durable_offsets.items()
        if begin[topic] > durable
    }


@dataclass(frozen=True)
class LastLogs:
    """The logs of a lane that is stopped because of them, and how far they were read."""

    offsets: Mapping[str, int]
    marks: LogMarks

    async def check(self, lane: int, source: Source, store: Store) -> None:
        """Return once these logs are back or others are accepted in their place; costs no claim
        and no load of the lane. Raises LogChanged, LaneLost, Unavailable."""
        try:
            await source.verify(lane, self.offsets, self.marks)
        except LogChanged as error:
            if not await is_accepted(store, lane, error):
                raise


async def is_accepted(store: Store, lane: int, error: LogChanged) -> bool:
    """Whether an operator let the lane begin the log that is there. Raises Unavailable."""
    accepted = await store.accepted_log(lane, error.topic)
    return (
        accepted is not None
        and accepted.topic_id == error.found
        and accepted.offset == error.stored
    )


async def open_logs(source: Source, store: Store, claimed: ClaimedLane) -> Counter[str]:
    """Open the lane at its offsets, and at the start of those logs that were accepted; returns
    how many records of each topic will never be read, as far as that is known. The caller commits
    it together with the new offsets.

    Raises LogChanged for a log that is another one and not accepted, LaneLost, Unavailable, Lost.
    """
    gaps, lane = Counter[str](), claimed.lane
    rewritten = set[str]()
    while True:
        try:
            gone = await source.open(lane.number, lane.offsets, claimed.logs)
        except LogChanged as error:
            if not await is_accepted(store, lane.number, error):
                await _store_found(store, claimed, error)
                raise
            mark = claimed.logs.get(error.topic, LogMark())
            if error.found and error.found == mark.topic_id:
                rewritten.add(error.topic)  # What it deleted had been read, for all that is known.
            gaps[error.topic] += _begin_new_log(claimed, error)
            continue
        for topic, mark in claimed.logs.items():
            claimed.logs[topic] = replace(mark, found=None, unread=None)
        for topic, records in gone.items():
            lane.offsets[topic] += records
        return gaps + Counter({t: n for t, n in gone.items() if t not in rewritten})


def _begin_new_log(claimed: ClaimedLane, error: LogChanged) -> int:
    """Let the lane begin the log that was found; returns how many records of the other one are
    known to have been left."""
    lane, topic = claimed.lane, error.topic
    mark = claimed.logs.get(topic, LogMark())
    unread = error.unread if mark.unread is None else mark.unread
    lane.offsets[topic] = 0
    claimed.logs[topic] = LogMark(error.found or None)
    claimed.stall, claimed.drop_stall = None, True
    lane.count("replaced_logs", topic, 1)
    log.warning(
        "another log begun, as accepted",
        lane=lane.number,
        topic=topic,
        topic_id_before=mark.topic_id,
        topic_id=error.found or None,
        offset_before=error.stored,
        unread_before="unknown" if unread is None else f"at least {unread}",
    )
    return unread or 0


async def _store_found(store: Store, claimed: ClaimedLane, error: LogChanged) -> None:
    """Store that another log was found, and how much of the lane's own is known to be left: when
    its worker is gone, nobody else knows. Raises Unavailable, Lost."""
    mark = claimed.logs.get(error.topic, LogMark())
    unread = error.unread if mark.unread is None else mark.unread
    now = replace(mark, found=error.found, unread=unread)
    if now == mark:
        return
    claimed.logs[error.topic] = now
    commit = plan_commit(claimed)
    if await store.commit(commit) not in ("applied", "already"):
        raise Lost
    confirm(claimed, commit)
