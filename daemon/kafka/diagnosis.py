"""What is wrong, when nothing comes: what an error of the client means, and a look at the cluster
by a connection of its own.

aiokafka waits without a word while brokers are away, and takes a topic that is gone for one that
has no partitions.
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
from .topics import Obstacle, look

LOOK_EVERY_S: Final = 10.0

logger = structlog.get_logger(__name__)


def fault_of(error: Exception) -> KafkaFault:
    """What an error of the client means."""
    if isinstance(error, (TopicAuthorizationFailedError, GroupAuthorizationFailedError)):
        return "not_permitted"
    if isinstance(error, UnsupportedCodecError):
        return "unknown_codec"
    # Brokers send one whole batch, however large. What does not fit has a damaged length.
    if isinstance(error, (CorruptRecordException, RecordTooLargeError)):
        return "corrupt_batch"
    return "unreadable"


class Diagnosis:
    """Looks at the cluster while there is doubt, in the background, and says what it found."""

    def __init__(self, settings: KafkaSettings, note: NoteFault) -> None:
        self._settings = settings
        self._note = note
        self._task: asyncio.Task[None] | None = None
        self._looked_s = 0.0
        self.obstacle: Obstacle | None = None

    def doubt(self, doubtful: bool) -> None:
        """Whether there is reason to look. To be told at every poll; never waits."""
        now_s = time.monotonic()
        if self._task is not None and not self._task.done():
            return
        if not doubtful:
            self._found(None)
        elif now_s - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = now_s
            self._task = asyncio.create_task(self._look())

    async def stop(self) -> None:
        """Leave no task behind."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _look(self) -> None:
        _, obstacle = await look(self._settings)
        self._found(obstacle)

    def _found(self, obstacle: Obstacle | None) -> None:
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
