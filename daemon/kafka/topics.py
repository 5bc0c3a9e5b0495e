"""Checks that the topics to read exist and fit together, and creates topics.

A lane is partition p of every input topic, so that an impression and its feedback meet. That holds
only where all topics have equally many partitions.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import structlog
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    KafkaError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    for_code,
)
from aiokafka.protocol.metadata import MetadataRequest

from ..backoff import doubled_s
from ..errors import StartError
from ..telemetry.kafka_faults import ADVICE, KafkaFault, NoteFault, ignore_fault
from .client import KafkaSettings, client_arguments

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 5.0

logger = structlog.get_logger(__name__)


def require_equal_counts(counts: Mapping[str, int]) -> None:
    """Raise StartError unless there are topics, all with the same number of partitions."""
    if not counts:
        raise StartError("kafka.topics: name at least one topic")
    if len(set(counts.values())) <= 1:
        return
    listed = ", ".join(f"{topic} has {count}" for topic, count in counts.items())
    raise StartError(
        f"The input topics have unequal numbers of partitions: {listed}. An impression and its"
        " feedback must meet in the same partition number: give all topics the same number of"
        " partitions, the same record key, and the same partitioner (Java's default, murmur2;"
        " `murmur2_random` in librdkafka)."
    )


@dataclass(frozen=True)
class Obstacle:
    """Why the topics cannot be read as they are."""

    fault: KafkaFault
    reason: str


NoteCounts: TypeAlias = Callable[[Mapping[str, int]], None]
"""Takes the number of partitions of each topic, 0 where the topic is missing."""


def ignore_counts(_: Mapping[str, int]) -> None:
    """Note nothing: the default of callers that have no telemetry."""


async def wait_for_topics(
    settings: KafkaSettings,
    note: NoteFault = ignore_fault,
    note_counts: NoteCounts = ignore_counts,
    waiting_for: Callable[[Obstacle], None] = lambda _: None,
) -> dict[str, int]:
    """Return the number of partitions of each topic, once the cluster answers and all exist. Logs
    and notes what it waits for, and passes it to `waiting_for`.
    """
    logged: Obstacle | None = None
    failures = 0
    while True:
        counts, obstacle = await describe_topics(settings, note_counts)
        if obstacle is None:
            return counts
        waiting_for(obstacle)
        if obstacle != logged:
            note(obstacle.fault)
            logger.warning(
                "waiting for Kafka",
                reason=obstacle.reason,
                bootstrap_servers=settings.bootstrap_servers,
                topics=list(settings.topics),
                advice=ADVICE[obstacle.fault],
            )
            logged = obstacle
        failures += 1
        await asyncio.sleep(doubled_s(failures, FIRST_PAUSE_S, LONGEST_PAUSE_S))


async def create_topic(
    settings: KafkaSettings, topic: str, *, partitions: int, replicas: int | None = None
) -> bool:
    """Create the topic unless it exists; True if it was created. `replicas` None leaves their
    number to the cluster.

    Raises KafkaError when the cluster is away or refuses.
    """
    new_topic = NewTopic(topic, partitions, replicas or -1, {} if replicas is None else None)
    admin = AIOKafkaAdminClient(**client_arguments(settings))
    try:
        await admin.start()
        response = await admin.create_topics([new_topic])
    finally:
        await admin.close()
    _, code, *message = response.topic_errors[0]
    error = for_code(code)
    if error is TopicAlreadyExistsError:
        return False
    if code:
        raise error(f"topic {topic} was not created", *message)
    logger.info("topic created", topic=topic, partitions=partitions)
    return True


async def describe_topics(
    settings: KafkaSettings, note_counts: NoteCounts = ignore_counts
) -> tuple[dict[str, int], Obstacle | None]:
    """Ask the cluster for the partition counts, and for what keeps the topics from being read, if
    anything does. Notes the counts where the cluster answers.
    """
    client = AIOKafkaClient(**client_arguments(settings))
    try:
        await client.bootstrap()
        # Asked for by name, a missing topic would be created by clusters that allow it.
        request = MetadataRequest(list(settings.topics), allow_auto_topic_creation=False)
        response = await client.send(client.get_random_node(), request)
    except (KafkaError, OSError) as error:
        return {}, Obstacle("unreachable", f"the cluster does not answer: {error}")
    finally:
        await client.close()
    counts, obstacle = counts_or_obstacle(response.to_object()["topics"])
    note_counts({topic: counts.get(topic, 0) for topic in settings.topics})
    return counts, obstacle


def counts_or_obstacle(
    topics: Sequence[Mapping[str, object]],
) -> tuple[dict[str, int], Obstacle | None]:
    """Return the partition counts in a metadata answer, and why they cannot be used yet, if so."""
    counts: dict[str, int] = {}
    obstacles: list[tuple[str, KafkaFault]] = []
    for entry in topics:
        name, code, partitions = str(entry["topic"]), entry["error_code"], entry["partitions"]
        error = for_code(code)
        if error is TopicAuthorizationFailedError:
            obstacles.append((f"no permission to describe topic {name}", "not_permitted"))
        elif code or not isinstance(partitions, list) or not partitions:
            reason = f"topic {name} does not exist ({error.__name__})"
            obstacles.append((reason, "topic_missing"))
        else:
            counts[name] = len(partitions)
    if not obstacles:
        return counts, None
    reasons = "; ".join(reason for reason, _ in sorted(obstacles))
    return counts, Obstacle(min(obstacles)[1], reasons)
