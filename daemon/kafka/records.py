"""What is made of each Kafka record: seven fields, and none of what nobody asks for.

The client makes a record of eleven fields, which costs as much as reading its JSON. It has no
setting for that, so its method is replaced; a test holds that the fields are the same.
"""

from typing import Any

import msgspec
from aiokafka.consumer.fetcher import PartitionRecords


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


def install() -> None:
    """Let all consumers of this process make such records. They must not deserialize."""
    PartitionRecords._consumer_record = _lean
