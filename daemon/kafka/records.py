"""The record that the reader makes of each Kafka record: seven of the eleven fields of aiokafka."""

from typing import Any, Final

import msgspec

from .topic_partition import TopicPartition

NO_TIMESTAMP: Final = -1


class Record(msgspec.Struct, gc=False):
    """One record as a consumer returns it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


def records_of(topic_partition: TopicPartition, batch: Any, first: int) -> list[Record]:
    """Return the records of a batch from the offset `first` on: a broker sends the whole batch that
    has the offset it was asked for.
    """
    topic, partition = topic_partition
    records: list[Any] = [
        Record(
            topic,
            partition,
            raw.offset,
            raw.timestamp,
            raw.key,
            raw.value,
            tuple(headers) if (headers := raw.headers) else (),
        )
        for raw in batch
    ]
    if records and records[0].timestamp is None:  # the oldest format has none
        for record in records:
            record.timestamp = NO_TIMESTAMP
    if records and records[0].offset < first:
        return [record for record in records if record.offset >= first]
    return records
