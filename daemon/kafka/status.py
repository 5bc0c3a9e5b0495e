"""How far reading has come: lag, freshness and faults of each topic-partition."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

from ..worker.source import PartitionStatus
from .assigned_lanes import AssignedLanes
from .partition_faults import PartitionFaults
from .positions import is_at_end
from .topic_partition import TopicPartition


def partition_status(
    consumer: Any, lanes: AssignedLanes, faults: PartitionFaults, topic_partition: TopicPartition
) -> PartitionStatus:
    """Return how far a topic-partition is read, as far as that is known."""
    next_offset = lanes.next_offset.get(topic_partition)
    if next_offset is None:
        return PartitionStatus(*topic_partition, None, None, None, None)
    end = consumer.highwater(topic_partition)
    fault = faults.failed.get(topic_partition)
    return PartitionStatus(
        *topic_partition,
        next_offset=next_offset,
        lag_records=None if end is None else max(end - next_offset, 0),
        fetched_ms=consumer.last_poll_timestamp(topic_partition),
        fault=None if fault is None else fault.reason,
    )


def partition_count(consumer: Any, topics: Sequence[str]) -> int:
    """Return the number of partitions of the topics, the largest where they differ; 0 where it is
    not known."""
    found = [consumer.partitions_for_topic(topic) for topic in topics if consumer]
    return max((len(ids) for ids in found if ids), default=0)


def caught_up(consumer: Any, lanes: AssignedLanes, of: Iterable[int]) -> frozenset[int]:
    """Return which of these open lanes were just seen at the ends of all their logs."""
    now_ms = int(time.time() * 1000)
    return frozenset(lane for lane in of if _is_caught_up(consumer, lanes, lane, now_ms))


def _is_caught_up(consumer: Any, lanes: AssignedLanes, lane: int, now_ms: int) -> bool:
    """Whether the ends of all logs of an open lane were just seen, with nothing left to deliver.

    The end is that of the log, not of its committed part: while a transaction is open, records may
    come that are older than the clock.
    """
    return all(
        is_at_end(
            lanes.next_offset[topic_partition],
            consumer.highwater(topic_partition),
            consumer.last_poll_timestamp(topic_partition),
            now_ms,
        )
        for topic_partition in lanes.topic_partitions(lane)
    )
