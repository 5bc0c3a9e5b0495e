"""Whether a log is the one that a lane has read: by its topic id, by its end, and by the last
record.

The topic id tells a topic that was deleted and created again; it is asked of the partition's leader
after that has answered for the log, see `topic_ids`. The record at the offset before the stored one
tells two more cases: a log that lost its end (an unclean leader election, a disk that was restored)
and was written on, and a recreated topic in a cluster without ids. Where that record is gone, by
retention or compaction, or was never read, the id alone decides.
"""

from collections.abc import Sequence
from typing import Any, Final

from aiokafka.errors import KafkaError, OffsetOutOfRangeError, for_code
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.memory_records import MemoryRecords

from ..errors import Unavailable
from ..storage.log_marks import LogMark, checksum_of
from ..worker.source import LogReplaced, LogRewritten
from .records import records_of
from .topic_ids import topic_ids
from .topic_partition import TopicPartition

FETCHED_BYTES: Final = 1
"""A broker answers with whole batches: with the one that has the offset."""
READ_UNCOMMITTED: Final = 0


async def ids_by_leader(
    client: Any, topic_partitions: Sequence[TopicPartition]
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
    leader = client.cluster.leader_for_partition(topic_partition)
    if leader is None or leader < 0:
        raise Unavailable(f"{topic_partition.topic}[{topic_partition.partition}]: no leader")
    return int(leader)
