"""What is made of each Kafka record: seven fields, and none of what nobody asks for.

The client makes a record of eleven fields, which costs as much as reading its JSON. It has no
setting for that, so its method is replaced; a test holds that the fields are the same.

What was fetched of a partition that goes to another process is given up half read. In the client
it and its iterator hold each other, megabytes a rebalance until all garbage is looked for: here the
iterator does not hold it.
"""

from collections.abc import Iterator
from typing import Any
from weakref import proxy

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


_unpack = PartitionRecords._unpack_records


def _unpack_unheld(records: PartitionRecords) -> Iterator[Record]:
    unpacked: Iterator[Record] = _unpack(proxy(records))
    return unpacked


def install() -> None:
    """Let all consumers of this process make such records, and give up what they do not read. They
    must not deserialize."""
    PartitionRecords._consumer_record = _lean
    PartitionRecords._unpack_records = _unpack_unheld
