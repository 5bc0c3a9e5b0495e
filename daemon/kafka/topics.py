"""Whether the topics to read exist and fit together, and why nothing can be read of them.

A lane is partition p of every input topic, so that an impression and its feedback meet. That holds
only where all topics have equally many partitions; one lane of all partitions asks for nothing.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import structlog
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    CorruptRecordException,
    GroupAuthorizationFailedError,
    KafkaError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
    UnsupportedCodecError,
    for_code,
)
from aiokafka.protocol.metadata import MetadataRequest

from ..backoff import doubled_s
from ..config import ONE, REKEY
from ..errors import StartError
from ..telemetry import ADVICE, KafkaFault, NoteFault, ignore_fault
from .client import KafkaSettings, client_arguments
from .refusals import Obstacle, obstacle_of
from .topic_partition import Division

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
