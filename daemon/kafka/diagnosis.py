"""Finds out why nothing can be read: by the client's errors, and by a connection of its own.

aiokafka waits without a word while brokers are away, and takes a topic that was deleted for one
without partitions.
"""

import asyncio
import time
from typing import Final

import structlog
from aiokafka.errors import (
    CorruptRecordException,
    GroupAuthorizationFailedError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
    UnsupportedCodecError,
)

from ..telemetry.kafka_faults import ADVICE, KafkaFault, NoteFault
from .client import KafkaSettings
from .topics import NoteCounts, Obstacle, describe_topics, ignore_counts, wait_for_topics

CHECK_EVERY_S: Final = 10.0

logger = structlog.get_logger(__name__)


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
    """Checks the cluster in the background while nothing is read, and logs what it found."""

    def __init__(
        self, settings: KafkaSettings, note: NoteFault, note_counts: NoteCounts = ignore_counts
    ) -> None:
        self._settings = settings
        self._note = note
        self._note_counts = note_counts
        self._task: asyncio.Task[None] | None = None
        self._checked_s = 0.0
        self.obstacle: Obstacle | None = None

    async def wait_for_topics(self) -> dict[str, int]:
        """Return the number of partitions of each topic, once the cluster answers and all exist;
        `obstacle` is meanwhile what is waited for.
        """
        self._note_counts(dict.fromkeys(self._settings.topics, 0))
        try:
            return await wait_for_topics(
                self._settings, self._note, self._note_counts, self._wait_for
            )
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
        _, obstacle = await describe_topics(self._settings, self._note_counts)
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
            logger.info("Kafka answers again", after=before.reason)
