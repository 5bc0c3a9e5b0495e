"""Questions to the cluster about places in its logs, and answers in bounded time."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, TypeVar

import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from ..errors import Unavailable
from ..telemetry.kafka_faults import ADVICE, NoteFault
from ..worker.source import OffsetBeyondEnd
from .lanes import Place, start_of_reading

ANSWER_PATIENCE_S: Final = 10.0

T = TypeVar("T")

logger = structlog.get_logger(__name__)


def partition_of(place: Place) -> TopicPartition:
    """A place as aiokafka names it."""
    return TopicPartition(*place)


async def log_bounds(
    consumer: Any, places: Sequence[Place]
) -> tuple[dict[Place, int], dict[Place, int]]:
    """The first offset that each log holds, and the offset after its last readable record.

    Raises Unavailable.
    """
    partitions = list(map(partition_of, places))
    starts, ends = await _answer(
        asyncio.gather(consumer.beginning_offsets(partitions), consumer.end_offsets(partitions))
    )
    return _by_place(starts), _by_place(ends)


async def starting_offsets(
    consumer: Any, places: Sequence[Place], start: str | int, now_ms: int
) -> dict[str, int]:
    """Topic → offset where reading begins: "earliest", "latest", or milliseconds before `now_ms`.

    Time is that of the records' Kafka timestamps; where no record is that young, reading begins at
    the end. Raises Unavailable.
    """
    starts, ends = await log_bounds(consumer, places)
    if start == "earliest":
        return {topic: offset for (topic, _), offset in starts.items()}
    if start != "latest":
        # The end was asked for first: a record that arrives in between is not skipped.
        since_ms = max(now_ms - int(start), 0)
        times = {partition_of(place): since_ms for place in places}
        found = await _answer(consumer.offsets_for_times(times))
        ends |= {tuple(place): at.offset for place, at in found.items() if at is not None}
    return {topic: offset for (topic, _), offset in ends.items()}


def beginnings(
    places: Sequence[Place],
    stored: Mapping[str, int],
    bounds: tuple[Mapping[Place, int], Mapping[Place, int]],
    note: NoteFault,
) -> tuple[dict[str, int], dict[str, int]]:
    """Topic → offset where reading goes on, and, for the topics that have any, how many records are
    gone. Raises OffsetBeyondEnd.
    """
    begin: dict[str, int] = {}
    gaps: dict[str, int] = {}
    for place in places:
        topic, partition = place
        start, end = bounds[0][place], bounds[1][place]
        try:
            begin[topic], lost = start_of_reading(place, stored[topic], start, end)
        except OffsetBeyondEnd:
            note("log_shorter")
            raise
        if lost:
            gaps[topic] = lost
            note("records_gone")
            logger.error(
                "the log begins behind the stored offset",
                topic=topic,
                partition=partition,
                stored=stored[topic],
                log_start=start,
                records_gone=lost,
                advice=ADVICE["records_gone"],
            )
    return begin, gaps


async def _answer(asked: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(ANSWER_PATIENCE_S):
            return await asked
    except TimeoutError as error:
        raise Unavailable(f"no answer within {ANSWER_PATIENCE_S} s") from error
    except KafkaError as error:
        raise Unavailable(str(error)) from error


def _by_place(offsets: Mapping[TopicPartition, int]) -> dict[Place, int]:
    return {(topic, partition): offset for (topic, partition), offset in offsets.items()}
