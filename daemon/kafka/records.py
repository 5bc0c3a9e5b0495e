"""What is made of each Kafka record: seven fields, and none of what nobody asks for.

The client makes a record of eleven fields, which costs as much as reading its JSON, one by one and
with several calls for each. It has no settings for that, so two of its methods are replaced:
batches are unpacked at once. Tests hold that fields, records and positions are the same.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, Final

import msgspec
from aiokafka.consumer.fetcher import READ_COMMITTED, FetchResult, PartitionRecords
from aiokafka.errors import CorruptRecordException

from .topic_partition import TopicPartition

NO_TIMESTAMP: Final = -1

_aborted: Final[Counter[TopicPartition]] = Counter()


class Record(msgspec.Struct, gc=False):
    """One record as a consumer returns it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


def take_aborted() -> dict[TopicPartition, int]:
    """How many records of aborted transactions this process left out since the last call."""
    found = dict(_aborted)
    _aborted.clear()
    return found


def _unpacked(fetched: PartitionRecords) -> Iterator[Record]:
    """All records of one fetch that a reader may see."""
    return chain.from_iterable(_unpacked_batches(fetched))


def _unpacked_batches(fetched: PartitionRecords) -> Iterator[list[Record]]:
    """The same by batch; the next offset moves behind a batch when all of it was taken."""
    batches = fetched._records
    while batches.has_next():
        batch = batches.next_batch()
        if fetched._check_crcs and not batch.validate_crc():
            raise CorruptRecordException(f"Invalid CRC - {fetched._tp}")
        if _is_aborted(fetched, batch):
            _aborted[fetched._tp] += sum(1 for _ in batch)
        elif not batch.is_control_batch:
            yield _records_of(fetched._tp, batch, fetched.next_fetch_offset)
        # the last offset of a compacted batch may be beyond its last record
        fetched.next_fetch_offset = batch.next_offset


def _records_of(topic_partition: TopicPartition, batch: Any, first: int) -> list[Record]:
    """The records of a batch from an offset on: all of a batch are fetched, if one is asked for."""
    topic, partition = topic_partition
    records: list[Any] = [
        Record(
            topic,
            partition,
            one.offset,
            one.timestamp,
            one.key,
            one.value,
            tuple(headers) if (headers := one.headers) else (),
        )
        for one in batch
    ]
    if records and records[0].timestamp is None:  # the oldest format has none
        for record in records:
            record.timestamp = NO_TIMESTAMP
    if records and records[0].offset < first:
        return [record for record in records if record.offset >= first]
    return records


def _is_aborted(fetched: PartitionRecords, batch: Any) -> bool:
    """Whether the batch is of an aborted transaction; batches must be asked for in order."""
    if fetched._isolation_level != READ_COMMITTED or batch.producer_id is None:
        return False
    fetched._consume_aborted_up_to(batch.base_offset)
    if batch.is_control_batch:
        if fetched._contains_abort_marker(batch):
            fetched._aborted_producers.discard(batch.producer_id)
        return False
    return batch.is_transactional and batch.producer_id in fetched._aborted_producers


def _taken(result: FetchResult, max_records: int | None = None) -> list[Record]:
    """The next records of one partition; moves to where it is read on from."""
    if not result.check_assignment(result._topic_partition) or not result.has_more():
        return []
    fetched = result._partition_records
    taken = list(islice(fetched._records_iterator, max_records))
    all_taken = max_records is None or len(taken) < max_records
    if taken and not all_taken:
        fetched.next_fetch_offset = taken[-1].offset + 1
    result._update_position()
    if all_taken:
        fetched._records_iterator = result._partition_records = None
    return taken


def install() -> None:
    """Let all consumers of this process make and take such records. They must not deserialize."""
    PartitionRecords._unpack_records = _unpacked
    FetchResult.getall = _taken
