"""Reads the sources of the stage of `lanes = "rekey"`, where one bad batch holds back no other, and
sends what the stage makes of them, as its topic takes it."""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import structlog
from aiokafka.errors import InvalidTimestampError, KafkaError, OffsetOutOfRangeError

from ..telemetry import ADVICE, NoteFault
from ..worker import MOST_BYTES, Message
from .aiokafka_patches import unpacking_aside
from .client import KafkaSettings
from .offsets import Record
from .producer import BATCH_BYTES, TOO_LARGE, KafkaProducer
from .retention import topic_numbers
from .topic_partition import TopicPartition
from .topics import fault_of

POLL_MS: Final = 200
MOST_RECORDS: Final = 2_000
ALONE_S: Final = 30.0
ALONE_RECORDS: Final = 500

Polled: TypeAlias = Mapping[TopicPartition, Sequence[Record]]


class Unreadable(KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """A batch cannot be unpacked."""


class StageReader:
    """Polls the consumer of the stage. After an error each source is read alone for a while."""

    def __init__(self, note: NoteFault) -> None:
        self._note = note
        self._alone_until_s = 0.0
        self.unreadable: dict[TopicPartition, str] = {}
        """Why sources must stop, once what the last poll returned of them is sent."""

    async def poll(self, consumer: Any, sources: Collection[TopicPartition]) -> Polled:
        """Return what sources have. Raises KafkaError: then all must begin anew."""
        self.unreadable.clear()
        if time.monotonic() >= self._alone_until_s:
            return await self._together(consumer)
        await asyncio.sleep(POLL_MS / 1000)
        consumer._coordinator.check_errors()
        return {place: await self._alone(consumer, place) for place in list(sources)}

    async def _together(self, consumer: Any) -> Polled:
        try:
            with unpacking_aside(consumer):
                polled = await consumer.getmany(timeout_ms=POLL_MS, max_records=MOST_RECORDS)
                return cast(Polled, polled)
        except OffsetOutOfRangeError:
            raise
        except Exception as error:  # whatever a codec, a checksum or the coordinator raises
            self._alone_until_s = time.monotonic() + ALONE_S
            if isinstance(error, KafkaError):
                raise
            raise Unreadable(f"{type(error).__name__}: {error}") from error

    async def _alone(self, consumer: Any, place: TopicPartition) -> Sequence[Record]:
        """Return records of one source, and note whether it cannot be read after them."""
        taken = list[Record]()
        try:
            with unpacking_aside(consumer):
                # One by one: an error loses none of the good records before it.
                while len(taken) < ALONE_RECORDS and (
                    fetched := await consumer.getmany(place, max_records=1)
                ):
                    taken += fetched[place]
        except OffsetOutOfRangeError:
            raise
        except Exception as error:
            fault = fault_of(error)
            self._note(fault)
            self.unreadable[place] = f"{type(error).__name__}: {error}. {ADVICE[fault]}"
        return taken


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
