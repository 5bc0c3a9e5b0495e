"""Where simulated events go: a Kafka topic, or a file of JSON lines."""

import sys
from typing import BinaryIO, Protocol

import structlog

from ...kafka.client import KafkaSettings
from ...kafka.producer import KafkaProducer
from ...kafka.topics import create_topic

logger = structlog.get_logger(__name__)


class Sink(Protocol):
    """Where events go."""

    async def start(self) -> None:
        """Open it."""

    async def send(self, key: bytes, value: bytes, time_ms: int) -> None:
        """Hand one event over."""

    async def flush(self) -> None:
        """Wait until everything handed over is safe."""

    async def stop(self) -> None:
        """Close it."""


class KafkaSink:
    """A topic, made if it is missing."""

    def __init__(self, settings: KafkaSettings, topic: str, partitions: int) -> None:
        self._settings = settings
        self._topic = topic
        self._partitions = partitions
        self._producer = KafkaProducer(settings)

    async def start(self) -> None:
        """Waits while the cluster is away."""
        await self._producer.start()
        try:
            await create_topic(self._settings, self._topic, partitions=self._partitions)
        except RuntimeError as error:
            # What the Kafka client raises. Who may not make topics may still have one.
            logger.warning("topic could not be made", topic=self._topic, reason=str(error))

    async def send(self, key: bytes, value: bytes, time_ms: int) -> None:
        """The record's own timestamp is the time at which the event arrives."""
        await self._producer.send(self._topic, value, key, timestamp_ms=time_ms)

    async def flush(self) -> None:
        """Raises Unavailable or RecordRefused where a record was not taken."""
        await self._producer.flush()

    async def stop(self) -> None:
        """Sends what is buffered first."""
        await self._producer.stop()


class FileSink:
    """A file of JSON lines; `-` is the standard output."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: BinaryIO = sys.stdout.buffer

    async def start(self) -> None:
        """Replaces what the file held."""
        if self._path != "-":
            self._file = open(self._path, "wb")

    async def send(self, key: bytes, value: bytes, time_ms: int) -> None:
        """One line; the key stands in it already."""
        self._file.write(value + b"\n")

    async def flush(self) -> None:
        """To the operating system."""
        self._file.flush()

    async def stop(self) -> None:
        """The standard output stays open."""
        if self._path != "-":
            self._file.close()
