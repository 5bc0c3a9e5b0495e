"""Which logs of a topic are not those that its lanes have read, asked from outside of the group."""

from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

from ..errors import Unavailable
from ..storage.head import Head
from ..worker.source import LogChanged
from . import aiokafka_patches
from .client import KafkaSettings, client_arguments, end
from .resuming import KnownLogs
from .topic_partition import TopicPartition
from .topics import describe_topics


async def changed_logs(
    settings: KafkaSettings, topic: str, heads: Mapping[int, Head]
) -> dict[int, LogChanged]:
    """Return, by lane, what is wrong with the log of a topic, where it is not the one that the lane
    has read. A lane without a partition of the topic is left out. Raises Unavailable.
    """
    aiokafka_patches.install()
    counts, obstacle = await describe_topics(settings)
    if obstacle is not None:
        raise Unavailable(obstacle.reason)
    consumer: Any = AIOKafkaConsumer(**client_arguments(settings))
    changed = dict[int, LogChanged]()
    try:
        await consumer.start()
        for lane, head in heads.items():
            if lane < counts[topic]:
                place, stored = TopicPartition(topic, lane), {topic: head.offsets[topic]}
                try:
                    await KnownLogs().resumption(consumer, [place], stored, head.logs)
                except LogChanged as error:
                    changed[lane] = error
    except (KafkaError, OSError) as error:
        raise Unavailable(f"Kafka: {error}") from error
    finally:
        await end(aiokafka_patches.stop(consumer))
    return changed
