"""Reads the records since a time from all partitions, up to so many bytes: a sample of topics."""

import time
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

from ..errors import Unavailable
from ..events import LogRecord
from . import aiokafka_patches
from .aiokafka_patches import unpacking_aside
from .client import KafkaSettings, consumer_arguments, stop_client
from .offsets import Record
from .topic_partition import TopicPartition
from .topics import describe_topics

FETCH_WAIT_MS: Final = 500
PATIENCE_S: Final = 30.0
"""Topics that give nothing for so long do not answer."""
AT_ONCE: Final = 2_000


@dataclass(frozen=True)
class SamplePortion:
    """Some records of a sample."""

    records: Sequence[Record]
    unfinished: Collection[TopicPartition]
    """Of which more is to come; after the last portion, those that the limit cut."""


async def sampled_records(
    settings: KafkaSettings, since_ms: int, max_bytes: int
) -> AsyncIterator[SamplePortion]:
    """The records of all partitions whose Kafka timestamps are `since_ms` or later, up to those of
    now, in portions, until their values have so many bytes. Without a consumer group: nothing is
    committed. Raises Unavailable."""
    aiokafka_patches.install()
    consumer = AIOKafkaConsumer(**(consumer_arguments(settings) | {"group_id": None}))
    try:
        places = await _places(settings)
        await consumer.start()
        ends = await _begin(consumer, places, since_ms)
        left, since_s = max_bytes, time.monotonic()
        while left > 0 and ends:
            with unpacking_aside(consumer):
                fetched = await consumer.getmany(
                    *ends, timeout_ms=FETCH_WAIT_MS, max_records=AT_ONCE
                )
            kept = [
                record
                for place, records in fetched.items()
                for record in records
                if record.offset < ends[place]
            ]
            left -= sum(len(record.value or b"") for record in kept)
            before = len(ends)
            ends = {p: end for p, end in ends.items() if await consumer.position(p) < end}
            yield SamplePortion(kept, ends.keys())
            if fetched or len(ends) < before:
                since_s = time.monotonic()
            elif time.monotonic() - since_s > PATIENCE_S:
                raise Unavailable(f"Kafka: no record came within {PATIENCE_S:.0f} s")
    except (KafkaError, OSError) as error:
        raise Unavailable(f"Kafka: {type(error).__name__}: {error}") from error
    finally:
        await stop_client(aiokafka_patches.stop(consumer))


def reached_ms(
    records: Iterable[LogRecord], unfinished: Collection[TopicPartition], since_ms: int
) -> int:
    """The Kafka time up to which all partitions were read: the least time that an unfinished one
    has reached, which is `since_ms` where nothing of it was read. What others have after it must
    not be compared: a light topic of clicks is read to its end before a heavy one of lists."""
    last = dict.fromkeys(unfinished, since_ms)
    for record in records:
        place = TopicPartition(record.topic, record.partition)
        if place in last:
            last[place] = max(last[place], record.timestamp)
    return min(last.values())


async def _places(settings: KafkaSettings) -> list[TopicPartition]:
    counts, obstacle = await describe_topics(settings)
    if obstacle is not None:
        raise Unavailable(f"Kafka: {obstacle.reason}")
    return [
        TopicPartition(topic, number)
        for topic in settings.topics
        for number in range(counts[topic])
    ]


async def _begin(
    consumer: Any, places: Sequence[TopicPartition], since_ms: int
) -> Mapping[TopicPartition, int]:
    """Go to the first records; returns the end of each partition that has any."""
    consumer.assign(places)
    ends = await consumer.end_offsets(places)
    begins = await consumer.offsets_for_times(dict.fromkeys(places, since_ms))
    found = {}
    for place in places:
        begin = begins.get(place)
        first = ends[place] if begin is None else begin.offset
        consumer.seek(place, first)
        if first < ends[place]:
            found[place] = ends[place]
    return found
