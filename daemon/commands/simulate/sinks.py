"""Sinks of simulated events: a Kafka topic, or a file of JSON lines."""

import sys
from typing import BinaryIO, Protocol

import structlog

from ...kafka.client import KafkaSettings
from ...kafka.producer import KafkaProducer
from ...kafka.topics import create_topic

logger = structlog.get_logger(__name__)


class Sink(Protocol):
    """Destination of simulated events."""

    async def start(self) -> None:
        """Open the sink."""

    async def send(self, key: bytes, value: bytes, time_ms: int) -> None:
        """Send one event that arrives at `time_ms`; it may be buffered."""

    async def flush(self) -> None:
        """Wait until everything sent so far is stored."""

    async def stop(self) -> None:
        """Close the sink; sends what is still buffered."""


class KafkaSink:
    """A Kafka topic, created if it is missing."""

    def __init__(self, settings: KafkaSettings, topic: str, partitions: int) -> None:
        self._settings = settings
        self._topic = topic
        self._partitions = partitions
        self._producer = KafkaProducer(settings)

    async def start(self) -> None:
        """Connect and create the topic; waits while the cluster is unavailable."""
        await self._producer.start()
        try:
            await create_topic(self._settings, self._topic, partitions=self._partitions)
        except RuntimeError as error:
            # The Kafka client raises no narrower type. Without the right to create topics, an
            # existing one may still be written to.
            logger.warning("topic could not be created", topic=self._topic, reason=str(error))

    async def send(self, key: bytes, value: bytes, time_ms: int) -> None:
        """Send one record; its Kafka timestamp is the arrival time of the event."""
        await self._producer.send(self._topic, value, key, timestamp_ms=time_ms)

    async def flush(self) -> None:
        """Wait for the acknowledgements. Raises Unavailable or RecordRefused."""
        await self._producer.flush()

    async def stop(self) -> None:
        """Send what is buffered and disconnect."""
        await self._producer.stop()


class FileSink:
    """A file of JSON lines; path `-` is standard output."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: BinaryIO = sys.stdout.buffer

    async def start(self) -> None:
        """Open the file and truncate it."""
        if self._path != "-":
            self._file = open(self._path, "wb")

    async def send(self, key: bytes, value: bytes, time_ms: int) -> None:
        """Write one line; the event contains the key already."""
        self._file.write(value + b"\n")

    async def flush(self) -> None:
        """Pass what is buffered to the operating system."""
        self._file.flush()

    async def stop(self) -> None:
        """Close the file; standard output stays open."""
        if self._path != "-":
            self._file.close()
