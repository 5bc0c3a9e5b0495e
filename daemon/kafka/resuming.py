"""Where reading of a lane resumes, once its logs are known to be the ones that were read."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import structlog
from aiokafka.errors import KafkaError, OffsetOutOfRangeError, for_code
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.memory_records import MemoryRecords

from ..config import Ago, LogEnd, Start
from ..errors import Unavailable
from ..storage import LogMark, LogMarks, checksum_of
from ..telemetry import ADVICE, NoteFault, ignore_fault
from ..worker import LogChanged, LogReplaced, LogRewritten, OffsetBeyondEnd, PartitionStatus
from .aiokafka_patches import client_of
from .offsets import records_of
from .topic_ids import Fence, is_fetched_by_id, topic_ids
from .topic_partition import Logs, TopicPartition

ANSWER_PATIENCE_S: Final = 10.0

T = TypeVar("T")

logger = structlog.get_logger(__name__)


async def log_bounds(
    consumer: Any, topic_partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the first offset of each log, and the offset after its last readable record.

    Raises Unavailable.
    """
    places = list(topic_partitions)
    asked = asyncio.gather(consumer.beginning_offsets(places), consumer.end_offsets(places))
    starts, ends = await _answer(asked, lambda: _leaderless(consumer, places))
    return starts, ends


async def starting_offsets(consumer: Any, logs: Logs, start: Start, now_ms: int) -> dict[str, int]:
    """Return, by log, the offset where reading begins.

    `Ago` counts back from `now_ms`, by the records' Kafka timestamps; where no record is that
    young, reading begins at the end. Raises Unavailable.
    """
    starts, ends = await log_bounds(consumer, logs)
    if start is LogEnd.EARLIEST:
        return {logs[place]: offset for place, offset in starts.items()}
    if isinstance(start, Ago):
        # The end was asked for first: a record that arrives in between is not skipped.
        since_ms = max(now_ms - start.ms, 0)
        times = dict.fromkeys(logs, since_ms)
        asked = consumer.offsets_for_times(times)
        found = await _answer(asked, lambda: _leaderless(consumer, logs))
        ends |= {tp: record.offset for tp, record in found.items() if record is not None}
    return {logs[place]: offset for place, offset in ends.items()}


async def first_times(
    consumer: Any, topic_partitions: Collection[TopicPartition]
) -> dict[str, int]:
    """Return, by topic, the Kafka timestamp (ms) of the first record of its log; of several
    partitions, the latest: from then on all are there. Raises Unavailable."""
    asked = consumer.offsets_for_times(dict.fromkeys(topic_partitions, 0))
    found = await _answer(asked, lambda: _leaderless(consumer, topic_partitions))
    times: dict[str, int] = {}
    for (topic, _), record in found.items():
        if record is not None:
            times[topic] = max(times.get(topic, 0), record.timestamp)
    return times


async def group_offsets(consumer: Any, logs: Logs) -> dict[str, int]:
    """Return, by log, the offset that the group stores, where it does. Raises Unavailable."""
    found = await _answer(asyncio.gather(*map(consumer.committed, logs)), no_coordinator)
    stored = zip(logs.values(), found, strict=True)
    return {log: offset for log, offset in stored if offset is not None}


def resume_offset(
    topic_partition: TopicPartition,
    stored: int,
    log_start: int,
    log_end: int,
    topic_id: str | None = None,
) -> tuple[int, int]:
    """Return the offset where reading resumes in a log of the offsets [log_start, log_end), and
    how many records were deleted unread.

    A stored offset inside the log, or at its end, is where reading resumes. Before the start, the
    records between are gone. Beyond the end, this is not the log that was read, or it lost its end:
    raises OffsetBeyondEnd.
    """
    if stored > log_end:
        raise OffsetBeyondEnd(*topic_partition, stored, log_end, topic_id)
    offset = max(stored, log_start)
    return offset, offset - stored


def resume_offsets(
    logs: Logs,
    stored: Mapping[str, int],
    bounds: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]],
    note: NoteFault,
    topic_ids: Mapping[TopicPartition, str],
) -> tuple[dict[str, int], dict[str, int]]:
    """Return, by log, the offset where reading resumes, and how many records were deleted unread
    of the logs that lost any.

    `bounds` is what `log_bounds` returned. Raises OffsetBeyondEnd.
    """
    offsets: dict[str, int] = {}
    gaps: dict[str, int] = {}
    for topic_partition, log in logs.items():
        start, end = bounds[0][topic_partition], bounds[1][topic_partition]
        offsets[log], gone = resume_offset(
            topic_partition, stored[log], start, end, topic_ids.get(topic_partition)
        )
        if gone:
            gaps[log] = gone
            note("records_gone")
            logger.error(
                "the log begins after the stored offset",
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                stored=stored[log],
                log_start=start,
                records_gone=gone,
                advice=ADVICE["records_gone"],
            )
    return offsets, gaps


async def in_time(request: Awaitable[T], about: Callable[[], str]) -> T:
    """The answer to a request that the client would repeat without end. Raises Unavailable, which
    says with `about` what may be the reason."""
    try:
        async with asyncio.timeout(ANSWER_PATIENCE_S):
            return await request
    except TimeoutError as error:
        raise Unavailable(f"no answer within {ANSWER_PATIENCE_S:g} s{about()}") from error


def no_coordinator() -> str:
    """Why a consumer group may not answer."""
    return " of the consumer group: its partition of __consumer_offsets may have no leader"


async def _answer(request: Awaitable[T], about: Callable[[], str]) -> T:
    try:
        return await in_time(request, about)
    except KafkaError as error:
        raise Unavailable(str(error)) from error


def _leaderless(consumer: Any, topic_partitions: Iterable[TopicPartition]) -> str:
    """Those of these partitions that have no leader: the client waits for one."""
    client = client_of(consumer)
    without = [place for place in topic_partitions if _leader_of(client, place) is None]
    named = ", ".join(f"{topic}[{partition}]" for topic, partition in sorted(without))
    return f": no leader of {named}" if named else ""


# Whether a log is the one that a lane has read: by its topic id, its end, and its last record.
#
# The topic id tells a topic that was deleted and created again; it is asked of the partition's
# leader after that has answered for the log, see `topic_ids`. The record at the offset before the
# stored one tells two more cases: a log that lost its end (an unclean leader election, a disk that
# was restored) and was written on, and a recreated topic in a cluster without ids. Where that
# record is gone, by retention or compaction, or was never read, the id alone decides.

FETCHED_BYTES: Final = 1
"""A broker answers with whole batches: with the one that has the offset."""
READ_UNCOMMITTED: Final = 0


async def ids_by_leader(
    client: Any, topic_partitions: Collection[TopicPartition]
) -> dict[TopicPartition, str]:
    """Return the topic ids of these logs, as their leaders know them; without those of a cluster
    that has none. Raises Unavailable.
    """
    leaders: dict[int, list[TopicPartition]] = {}
    for topic_partition in topic_partitions:
        leaders.setdefault(_leader(client, topic_partition), []).append(topic_partition)
    ids: dict[TopicPartition, str] = {}
    for node_id, led in leaders.items():
        found = await topic_ids(client, node_id, [topic for topic, _ in led])
        ids |= {place: found[place.topic] for place in led if place.topic in found}
    return ids


def require_same_topic(
    topic_partition: TopicPartition, stored: int, mark: LogMark, topic_id: str | None
) -> None:
    """Raise LogReplaced where the topic with this id is not the one that was read."""
    if mark.topic_id is not None and topic_id is not None and mark.topic_id != topic_id:
        raise LogReplaced(*topic_partition, stored, mark.topic_id, topic_id)


async def require_same_records(
    client: Any,
    topic_partition: TopicPartition,
    stored: int,
    mark: LogMark,
    topic_id: str | None,
) -> None:
    """Raise LogRewritten where the last record that was read is another one now. Raises
    Unavailable.
    """
    if mark.last_offset is None or mark.checksum is None:
        return
    checksum = await _checksum_at(client, topic_partition, mark.last_offset)
    if checksum is not None and checksum != mark.checksum:
        raise LogRewritten(*topic_partition, stored, mark.last_offset, topic_id)


async def _checksum_at(client: Any, topic_partition: TopicPartition, offset: int) -> int | None:
    """Return the checksum of the record at an offset; None where the log has none there, or it
    cannot be read."""
    topic, partition = topic_partition
    wanted = [(topic, [(partition, offset, FETCHED_BYTES)])]
    request = FetchRequest(0, 0, FETCHED_BYTES, READ_UNCOMMITTED, wanted)
    try:
        response = await client.send(_leader(client, topic_partition), request)
    except (KafkaError, OSError) as error:
        raise Unavailable(f"{topic}[{partition}]: {error}") from error
    for _, answers in response.topics:
        for _, code, _, *_, data in answers:
            if code == OffsetOutOfRangeError.errno:
                return None
            if code:
                raise Unavailable(f"{topic}[{partition}]: {for_code(code).__name__}")
            return _found(topic_partition, data or b"", offset)
    return None


def _found(topic_partition: TopicPartition, data: bytes, offset: int) -> int | None:
    batches = MemoryRecords(data)
    try:
        while batches.has_next():
            batch = batches.next_batch()
            if batch.is_control_batch or batch.next_offset <= offset:
                continue
            for record in records_of(topic_partition, batch, offset):
                return checksum_of(record) if record.offset == offset else None
    except Exception:  # whatever a codec or a damaged batch raises: reading reports it
        return None
    return None


def _leader(client: Any, topic_partition: TopicPartition) -> int:
    leader = _leader_of(client, topic_partition)
    if leader is None:
        raise Unavailable(f"{topic_partition.topic}[{topic_partition.partition}]: no leader")
    return leader


def _leader_of(client: Any, topic_partition: TopicPartition) -> int | None:
    """The broker that leads a partition, as far as the client knows."""
    leader = client.cluster.leader_for_partition(topic_partition)
    return None if leader is None or leader < 0 else int(leader)


NEVER_READ: Final = LogMark()


@dataclass(frozen=True)
class Resumption:
    """Where each log of a lane is read on, by log."""

    offsets: Mapping[str, int]
    gaps: Mapping[str, int]
    """How many records were deleted unread, of the logs that lost any."""
    topic_ids: Mapping[TopicPartition, str]


@dataclass
class KnownLogs:
    """The logs that this process reads."""

    fence: Fence = field(default_factory=dict)
    """Their topic ids: fetches bring records of these topics only."""
    _ends: dict[TopicPartition, tuple[str | None, int]] = field(default_factory=dict)
    _warned: bool = False

    def note_ends(self, partitions: Sequence[PartitionStatus]) -> None:
        """Remember how far each log reached: when it is gone, nobody else knows."""
        for partition in partitions:
            if partition.next_offset is not None and partition.lag_records is not None:
                place = TopicPartition(partition.topic, partition.partition)
                end = partition.next_offset + partition.lag_records
                self._ends[place] = (self.fence.get(place), end)

    def open(self, consumer: Any, topic_ids: Mapping[TopicPartition, str]) -> None:
        """Fence the logs of a lane that is being opened."""
        self.fence.update(topic_ids)
        if self._warned or (topic_ids and is_fetched_by_id(client_of(consumer))):
            return
        self._warned = True
        logger.warning(
            "the brokers cannot fetch by topic id",
            advice="A topic that is deleted and created again is noticed when its lanes are opened"
            " only, not while they are read: stop the workers before you recreate one, or upgrade"
            " to Kafka 3.1 or later.",
        )

    def _unread(self, place: TopicPartition, stored: int, topic_id: str | None) -> int | None:
        """Return how many records the log was seen to have after the offset, or None where that is
        not known of the log with this topic id."""
        known_id, end = self._ends.get(place, (None, -1))
        return None if end < stored or known_id != topic_id else end - stored

    async def resumption(
        self,
        consumer: Any,
        logs: Logs,
        stored: Mapping[str, int],
        marks: LogMarks,
        note: NoteFault = ignore_fault,
    ) -> Resumption:
        """Return where the logs of a lane are read on from these offsets.

        Raises LogChanged where one of them is not the log of its mark, or ends before the offset;
        Unavailable.
        """
        # The lane is not open. Since this process read it, another may have begun another log: the
        # id of that time would let no fetch find the last record.
        for place in logs:
            self.fence.pop(place, None)
        bounds = await log_bounds(consumer, logs)
        # After the bounds: see `topic_ids`.
        client = client_of(consumer)
        ids = await ids_by_leader(client, logs)
        try:
            for place, log in logs.items():
                mark = marks.get(log, NEVER_READ)
                require_same_topic(place, stored[log], mark, ids.get(place))
            offsets, gaps = resume_offsets(logs, stored, bounds, note, ids)
            for place, log in logs.items():
                mark = marks.get(log, NEVER_READ)
                await require_same_records(client, place, stored[log], mark, ids.get(place))
        except LogChanged as error:
            note("log_shorter" if isinstance(error, OffsetBeyondEnd) else "log_replaced")
            place = TopicPartition(error.topic, error.partition)
            error.log = logs[place]
            mark = marks.get(error.log, NEVER_READ)
            error.unread = self._unread(place, error.stored, mark.topic_id)
            raise
        return Resumption(offsets, gaps, ids)


async def ids_of_logs(consumer: Any, logs: Logs) -> dict[str, str]:
    """Return the topic ids of one lane's logs, where the cluster has topic ids. Raises
    Unavailable.
    """
    ids = await ids_by_leader(client_of(consumer), logs)
    return {logs[place]: topic_id for place, topic_id in ids.items()}
