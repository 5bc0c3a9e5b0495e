"""Sends what the stage of `lanes = "rekey"` makes of its sources, as its topic takes it."""

from typing import Final

import structlog
from aiokafka.errors import InvalidTimestampError

from ..worker import MOST_BYTES, Message
from .client import BATCH_BYTES, TOO_LARGE, KafkaProducer, KafkaSettings, topic_numbers

LIMIT: Final = "max.message.bytes"
OVERHEAD_BYTES: Final = 128
"""A record is longer than its value by less, with its batch."""
LEAST_BYTES: Final = 4_096

logger = structlog.get_logger(__name__)


class StageProducer:
    """A producer for the topic of the stage. Open with `start`, close with `stop`."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._settings, self._topic = settings, topic
        self._most_bytes = MOST_BYTES
        """Of a record that the topic takes."""
        self._with_times = True
        self._producer = KafkaProducer(settings)

    @property
    def most_bytes(self) -> int:
        """Of a value that the topic takes."""
        return self._most_bytes - OVERHEAD_BYTES

    async def start(self) -> int | None:
        """Send no records that are larger than those that the topic takes, and return that; None
        where this user may not ask for it."""
        found = await topic_numbers(self._settings, [self._topic], [LIMIT])
        stated = found.get(self._topic, {}).get(LIMIT)
        await self._limit(stated or self._most_bytes)
        return stated

    async def stop(self) -> None:
        """Close it; what is not acknowledged may be lost."""
        await self._producer.stop()

    async def send(self, message: Message) -> None:
        """Send a message, in the order of the calls. Raises as `KafkaProducer.send`."""
        await self._producer.send(
            self._topic,
            message.value,
            timestamp_ms=message.timestamp_ms if self._with_times else None,
            partition=message.partition,
        )

    async def flush(self) -> None:
        """Return once all that was sent is acknowledged. Raises as `KafkaProducer.flush`."""
        await self._producer.flush()

    async def fit(self, error: Exception) -> None:
        """Let the topic take what it refused with this error, as far as that is possible."""
        if isinstance(error.__cause__, TOO_LARGE):
            before = self._most_bytes
            if (await self.start() or before) >= before:
                await self._limit(max(before // 2, LEAST_BYTES))
            logger.warning(
                "the topic of the stage takes smaller records only",
                topic=self._topic,
                most_bytes=self._most_bytes,
                advice=f"Larger events are refused (too_large). Raise its {LIMIT}, and restart.",
            )
        elif isinstance(error.__cause__, InvalidTimestampError) and self._with_times:
            self._with_times = False
            logger.warning("the topic of the stage refuses the times of records: they are left out")

    async def _limit(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        await self._producer.stop()
        self._producer = KafkaProducer(self._settings, min(BATCH_BYTES, most_bytes))
        await self._producer.start()
