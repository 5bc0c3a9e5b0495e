"""What is made of each Kafka record: seven fields, and none of what nobody asks for.

The client makes a record of eleven fields, which costs as much as reading its JSON, and asks for
each in two calls. It has no settings for that, so two of its methods are replaced; tests hold that
the fields, and what is taken, are the same.
"""

from itertools import islice
from typing import Any

import msgspec
from aiokafka.consumer.fetcher import FetchResult, PartitionRecords


class Record(msgspec.Struct, gc=False):
    """One record as a consumer returns it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


def _lean(_: PartitionRecords, place: Any, record: Any) -> Record:
    return Record(
        place.topic,
        place.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        tuple(record.headers),
    )


def _taken(fetched: FetchResult, max_records: int | None = None) -> list[Record]:
    """The next records of one partition, and where it is read on from."""
    if not fetched.check_assignment(fetched._topic_partition) or not fetched.has_more():
        return []
    records = fetched._partition_records
    taken = list(islice(records._records_iterator, max_records))
    fetched._update_position()
    if max_records is None or len(taken) < max_records:
        records._records_iterator = fetched._partition_records = None
    return taken


def install() -> None:
    """Let all consumers of this process make and take such records. They must not deserialize."""
    PartitionRecords._consumer_record = _lean
    FetchResult.getall = _taken
