"""Checks that the topics to read exist and fit together, and creates topics.

A lane is partition p of every input topic, so that an impression and its feedback meet. That holds
only where all topics have equally many partitions; one lane of all partitions asks for nothing.
"""

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import structlog
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    CorruptRecordException,
    GroupAuthorizationFailedError,
    KafkaError,
    RecordTooLargeError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnsupportedCodecError,
    for_code,
)
from aiokafka.partitioner import murmur2
from aiokafka.protocol.metadata import MetadataRequest

from ..backoff import doubled_s
from ..config import ONE, REKEY
from ..errors import StartError, Unavailable
from ..telemetry import ADVICE, KafkaFault, NoteFault, ignore_fault
from . import aiokafka_patches
from .aiokafka_patches import unpacking_aside
from .client import KafkaSettings, client_arguments, consumer_arguments, stop_client
from .partitions import Record
from .refusals import Obstacle, obstacle_of
from .topic_partition import Division, TopicPartition

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 5.0

WAY_OUT: Final = (
    f'add lanes = "{ONE}" to [kafka]: one process then reads all partitions as one lane. Where that'
    f' is too much for a core: lanes = "{REKEY}"'
)
"""What helps where topics do not fit together."""

logger = structlog.get_logger(__name__)


def require_counts(counts: Mapping[str, int], division: Division) -> None:
    """Raise StartError unless there are topics, with numbers of partitions that make lanes."""
    if not counts:
        raise StartError("kafka.topics: name at least one topic")
    if division.is_one or len(set(counts.values())) <= 1:
        return
    listed = ", ".join(f"{topic} has {count}" for topic, count in counts.items())
    raise StartError(
        f"The input topics have unequal numbers of partitions: {listed}. An impression and its"
        " feedback must meet in the same partition number: give all topics the same number of"
        " partitions, the same record key, and the same partitioner (Java's default, murmur2;"
        f" `murmur2_random` in librdkafka). Or {WAY_OUT}."
    )


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
    anything does. Notes the counts: 0 where the cluster does not answer.
    """
    client = AIOKafkaClient(**client_arguments(settings))
    try:
        await client.bootstrap()
        # Asked for by name, a missing topic would be created by clusters that allow it.
        request = MetadataRequest(list(settings.topics), allow_auto_topic_creation=False)
        response = await client.send(client.get_random_node(), request)
    except (KafkaError, OSError) as error:
        # No topic is found meanwhile: what was counted before would hold an alert back.
        note_counts(dict.fromkeys(settings.topics, 0))
        return {}, await obstacle_of(settings, error)
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


CHECK_EVERY_S: Final = 10.0


def fault_of(error: Exception) -> KafkaFault:
    """Return the fault that an error of the client stands for."""
    if isinstance(error, (TopicAuthorizationFailedError, GroupAuthorizationFailedError)):
        return "not_permitted"
    if isinstance(error, UnsupportedCodecError):
        return "unknown_codec"
    # Brokers send one whole batch, however large. What does not fit has a damaged length.
    if isinstance(error, (CorruptRecordException, RecordTooLargeError)):
        return "corrupt_batch"
    return "unreadable"


class Diagnosis:
    """Finds out why nothing can be read: by the client's errors, and by a connection of its own, in
    the background.

    aiokafka waits without a word while brokers are away, and takes a topic that was deleted for one
    without partitions.
    """

    def __init__(
        self, settings: KafkaSettings, note: NoteFault, note_counts: NoteCounts = ignore_counts
    ) -> None:
        self._settings = settings
        self._note = note
        self._note_counts = note_counts
        self._task: asyncio.Task[None] | None = None
        self._checked_s = 0.0
        self._counts: Mapping[str, int] = {}
        """As they were when the topics could last be read."""
        self.obstacle: Obstacle | None = None

    async def wait_for_topics(self) -> dict[str, int]:
        """Return the number of partitions of each topic, once the cluster answers and all exist;
        `obstacle` is meanwhile what is waited for.
        """
        self._note_counts(dict.fromkeys(self._settings.topics, 0))
        try:
            self._counts = await wait_for_topics(
                self._settings, self._note, self._note_counts, self._wait_for
            )
            return dict(self._counts)
        finally:
            self.obstacle = None

    def check_if(self, doubtful: bool) -> None:
        """Check now and then while something may be wrong. To be called at every poll; never
        waits.
        """
        now_s = time.monotonic()
        if self._task is not None and not self._task.done():
            return
        if not doubtful:
            self._report(None)
        elif now_s - self._checked_s >= CHECK_EVERY_S:
            self._checked_s = now_s
            self._task = asyncio.create_task(self._check())

    async def stop(self) -> None:
        """Cancel the check in progress."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _check(self) -> None:
        counts, obstacle = await describe_topics(self._settings, self._note_counts)
        if obstacle is None:
            self._counts = counts
        self._report(obstacle)

    def _wait_for(self, obstacle: Obstacle) -> None:
        self.obstacle = obstacle

    def _report(self, obstacle: Obstacle | None) -> None:
        before, self.obstacle = self.obstacle, obstacle
        if obstacle is not None and obstacle != before:
            self._note(obstacle.fault)
            logger.error(
                "Kafka cannot be read",
                reason=obstacle.reason,
                bootstrap_servers=self._settings.bootstrap_servers,
                advice=ADVICE[obstacle.fault],
            )
        elif obstacle is None and before is not None:
            self._note_counts(self._counts)
            logger.info("Kafka answers again", after=before.reason)


async def make_stage_topic(
    settings: KafkaSettings, topic: str, partitions: int, inputs: Diagnosis
) -> None:
    """Create the topic that the stage writes, unless it is there; else say the command that does,
    once. The `inputs` are waited for."""
    await inputs.wait_for_topics()
    try:
        await create_topic(settings, topic, partitions=partitions)
    except (KafkaError, OSError) as error:
        logger.warning(
            "the topic of the stage is not created by this process",
            topic=topic,
            reason=f"{type(error).__name__}: {error}",
            advice=f"If it does not exist: kafka-topics --bootstrap-server"
            f" {settings.bootstrap_servers} --create --topic {topic} --partitions {partitions}."
            " Allow this user to write to it.",
        )


JAVA: Final = "murmur2"
PARTITIONERS: Final[Mapping[str, Callable[[bytes], int]]] = {
    JAVA: lambda key: murmur2(key) & 0x7FFFFFFF,
    "CRC32": zlib.crc32,
}
"""Partitioner → key → a number, which modulo the number of partitions is the partition. The first
is that of the Java client and of aiokafka, the second that of librdkafka."""


FETCH_WAIT_MS: Final = 500
PATIENCE_S: Final = 30.0
"""Topics that give nothing for so long do not answer."""
AT_ONCE: Final = 2_000


async def sampled_records(
    settings: KafkaSettings, since_ms: int, max_bytes: int
) -> AsyncIterator[Sequence[Record]]:
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
            for place, records in fetched.items():
                kept = [record for record in records if record.offset < ends[place]]
                left -= sum(len(record.value or b"") for record in kept)
                yield kept
            before = len(ends)
            ends = {p: end for p, end in ends.items() if await consumer.position(p) < end}
            if fetched or len(ends) < before:
                since_s = time.monotonic()
            elif time.monotonic() - since_s > PATIENCE_S:
                raise Unavailable(f"Kafka: no record came within {PATIENCE_S:.0f} s")
    except (KafkaError, OSError) as error:
        raise Unavailable(f"Kafka: {type(error).__name__}: {error}") from error
    finally:
        await stop_client(aiokafka_patches.stop(consumer))


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
