"""Asks the cluster for offsets of its logs, and waits for the answer for a bounded time."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, TypeVar

import structlog
from aiokafka.errors import KafkaError

from ..config.start import Ago, LogEnd, Start
from ..errors import Unavailable
from ..telemetry.kafka_faults import ADVICE, NoteFault
from .positions import resume_offset
from .topic_partition import TopicPartition

ANSWER_PATIENCE_S: Final = 10.0

T = TypeVar("T")

logger = structlog.get_logger(__name__)


async def log_bounds(
    consumer: Any, topic_partitions: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the first offset of each log, and the offset after its last readable record.

    Raises Unavailable.
    """
    starts, ends = await _answer(
        asyncio.gather(
            consumer.beginning_offsets(topic_partitions), consumer.end_offsets(topic_partitions)
        )
    )
    return starts, ends


async def starting_offsets(
    consumer: Any, topic_partitions: Sequence[TopicPartition], start: Start, now_ms: int
) -> dict[str, int]:
    """Return, by topic, the offset where reading begins.

    `Ago` counts back from `now_ms`, by the records' Kafka timestamps; where no record is that
    young, reading begins at the end. Raises Unavailable.
    """
    starts, ends = await log_bounds(consumer, topic_partitions)
    if start is LogEnd.EARLIEST:
        return {topic: offset for (topic, _), offset in starts.items()}
    if isinstance(start, Ago):
        # The end was asked for first: a record that arrives in between is not skipped.
        since_ms = max(now_ms - start.ms, 0)
        times = dict.fromkeys(topic_partitions, since_ms)
        found = await _answer(consumer.offsets_for_times(times))
        ends |= {tp: record.offset for tp, record in found.items() if record is not None}
    return {topic: offset for (topic, _), offset in ends.items()}


async def first_times(consumer: Any, topic_partitions: Sequence[TopicPartition]) -> dict[str, int]:
    """Return, by topic, the Kafka timestamp (ms) of the first record of its log; of several
    partitions, the latest: from then on all are there. Raises Unavailable."""
    found = await _answer(consumer.offsets_for_times(dict.fromkeys(topic_partitions, 0)))
    times: dict[str, int] = {}
    for (topic, _), record in found.items():
        if record is not None:
            times[topic] = max(times.get(topic, 0), record.timestamp)
    return times


async def group_offsets(
    consumer: Any, topic_partitions: Sequence[TopicPartition]
) -> dict[str, int]:
    """Return, by topic, the offset that the group stores, where it does. Raises Unavailable."""
    found = await _answer(asyncio.gather(*map(consumer.committed, topic_partitions)))
    stored = zip(topic_partitions, found, strict=True)
    return {topic: offset for (topic, _), offset in stored if offset is not None}


def resume_offsets(
    topic_partitions: Sequence[TopicPartition],
    stored: Mapping[str, int],
    bounds: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]],
    note: NoteFault,
    topic_ids: Mapping[TopicPartition, str],
) -> tuple[dict[str, int], dict[str, int]]:
    """Return, by topic, the offset where reading resumes, and how many records were deleted unread
    for the topics that lost any.

    `bounds` is what `log_bounds` returned. Raises OffsetBeyondEnd.
    """
    offsets: dict[str, int] = {}
    gaps: dict[str, int] = {}
    for topic_partition in topic_partitions:
        topic, partition = topic_partition
        start, end = bounds[0][topic_partition], bounds[1][topic_partition]
        offsets[topic], gone = resume_offset(
            topic_partition, stored[topic], start, end, topic_ids.get(topic_partition)
        )
        if gone:
            gaps[topic] = gone
            note("records_gone")
            logger.error(
                "the log begins after the stored offset",
                topic=topic,
                partition=partition,
                stored=stored[topic],
                log_start=start,
                records_gone=gone,
                advice=ADVICE["records_gone"],
            )
    return offsets, gaps


async def _answer(request: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(ANSWER_PATIENCE_S):
            return await request
    except TimeoutError as error:
        raise Unavailable(f"no answer within {ANSWER_PATIENCE_S} s") from error
    except KafkaError as error:
        raise Unavailable(str(error)) from error
