"""How far reading has come: lag, freshness and faults of each topic-partition."""

from typing import Any

from ..worker.source import PartitionStatus
from .lanes import Faults, LaneBook, Place, is_at_end
from .offsets import partition_of


def partition_status(
    consumer: Any, book: LaneBook, faults: Faults, place: Place
) -> PartitionStatus:
    """What is known of a place."""
    next_offset = book.next_offset.get(place)
    if next_offset is None:
        return PartitionStatus(*place, None, None, None, None)
    end = consumer.highwater(partition_of(place))
    fault = faults.blamed.get(place)
    return PartitionStatus(
        *place,
        next_offset=next_offset,
        lag_records=None if end is None else max(end - next_offset, 0),
        fetched_ms=consumer.last_poll_timestamp(partition_of(place)),
        fault=None if fault is None else fault.reason,
    )


def is_caught_up(consumer: Any, book: LaneBook, lane: int, now_ms: int) -> bool:
    """Whether all logs of an open lane were just seen at their ends, with nothing left to deliver.

    The end is that of the log, not of its committed part: while a transaction is open, records may
    come that are older than the clock.
    """
    return all(
        is_at_end(
            book.next_offset[place],
            consumer.highwater(partition_of(place)),
            consumer.last_poll_timestamp(partition_of(place)),
            now_ms,
        )
        for place in book.places(lane)
    )
