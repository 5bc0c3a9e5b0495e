"""Sinks of simulated events: a Kafka topic, or a file of JSON lines, also as `kcat -C -J` prints
the records of a topic: a recording without a broker.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import BinaryIO, Final, Protocol, TypeAlias

import msgspec
import structlog

from ...backoff import doubled_s
from ...errors import Unavailable
from ...kafka import JAVA, PARTITIONERS, KafkaProducer, KafkaSettings, create_topic

MOST_UNACKNOWLEDGED: Final = 20_000
"""Records that are kept to be sent again."""
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 5.0

Record: TypeAlias = tuple[bytes, bytes, int]
"""Key, value, and the Kafka timestamp in milliseconds."""
AsLine: TypeAlias = Callable[[Record], bytes]

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
    """A Kafka topic, created if it is missing. Outlives outages of the brokers: what was not
    acknowledged is sent again, in order. So some records may be there twice after an outage; events
    that are there twice count once. It waits for Kafka until `end_ms` on the clock, None: for ever.
    """

    def __init__(
        self, settings: KafkaSettings, topic: str, partitions: int, end_ms: int | None = None
    ) -> None:
        self._settings = settings
        self._end_ms = end_ms
        self._topic = topic
        self._partitions = partitions
        self._producer = KafkaProducer(settings)
        self._unacknowledged: list[Record] = []

    async def start(self) -> None:
        """Connect and create the topic; waits while the cluster is unavailable. Raises Unavailable
        at the end."""
        try:
            async with asyncio.timeout(self._left_s()):
                await self._producer.start()
        except TimeoutError:
            raise Unavailable(
                f"{self._settings.bootstrap_servers}: Kafka did not answer before the end"
            ) from None
        try:
            await create_topic(self._settings, self._topic, partitions=self._partitions)
        except RuntimeError as error:
            # The Kafka client raises no narrower type. Without the right to create topics, an
            # existing one may still be written to.
            logger.warning("topic could not be created", topic=self._topic, reason=str(error))

    async def send(self, key: bytes, value: bytes, time_ms: int) -> None:
        """Send one record; its Kafka timestamp is the arrival time of the event. Raises
        RecordRefused, and Unavailable at the end."""
        record = (key, value, time_ms)
        self._unacknowledged.append(record)
        try:
            await self._send(record)
        except Unavailable as error:
            await self._send_again(error)
        if len(self._unacknowledged) >= MOST_UNACKNOWLEDGED:
            await self.flush()

    async def flush(self) -> None:
        """Wait for the acknowledgements, until the end if Kafka is away. Raises RecordRefused, and
        Unavailable at the end."""
        try:
            await self._producer.flush()
        except Unavailable as error:
            await self._send_again(error)
        self._unacknowledged.clear()

    async def _send(self, record: Record) -> None:
        key, value, time_ms = record
        await self._producer.send(self._topic, value, key, timestamp_ms=time_ms)

    async def _send_again(self, error: Unavailable) -> None:
        """Send everything that was not acknowledged, until all of it is."""
        records = len(self._unacknowledged)
        logger.warning("sending again until Kafka answers", reason=str(error), records=records)
        failures = 0
        while self._unacknowledged:
            if self._left_s() == 0:
                raise Unavailable(
                    f"{records:,} events were not acknowledged before the end: {error}"
                )
            failures += 1
            await asyncio.sleep(doubled_s(failures, FIRST_PAUSE_S, LONGEST_PAUSE_S))
            try:
                for record in self._unacknowledged:
                    await self._send(record)
                await self._producer.flush()
            except Unavailable:
                continue
            self._unacknowledged.clear()
        logger.info("Kafka answers again", records=records)

    def _left_s(self) -> float | None:
        """Seconds until the end, at least 0; None without one."""
        return None if self._end_ms is None else max(self._end_ms / 1000 - time.time(), 0.0)

    async def stop(self) -> None:
        """Send what is buffered and disconnect."""
        await self._producer.stop()


class FileSink:
    """A file of JSON lines; path `-` is standard output. `as_line` makes the line of a record;
    without it a line is the value, which contains the key already."""

    def __init__(self, path: str, as_line: AsLine | None = None) -> None:
        self._path = path
        self._as_line = as_line
        self._file: BinaryIO = sys.stdout.buffer

    async def start(self) -> None:
        """Open the file and truncate it."""
        if self._path != "-":
            self._file = open(self._path, "wb")

    async def send(self, key: bytes, value: bytes, time_ms: int) -> None:
        """Write one line."""
        record = (key, value, time_ms)
        self._file.write((value if self._as_line is None else self._as_line(record)) + b"\n")

    async def flush(self) -> None:
        """Pass what is buffered to the operating system."""
        self._file.flush()

    async def stop(self) -> None:
        """Close the file; standard output stays open."""
        if self._path != "-":
            self._file.close()


class Recording:
    """The lines of a topic with so many partitions, to which records come in order."""

    def __init__(self, topic: str, partitions: int) -> None:
        self._topic = topic
        self._partitions = partitions
        self._records = Counter[int]()

    def line(self, record: Record) -> bytes:
        """The line of the next record, at the partition to which a producer sends its key."""
        key, value, time_ms = record
        partition = PARTITIONERS[JAVA](key) % self._partitions
        offset = self._records[partition]
        self._records[partition] += 1
        return msgspec.json.encode(
            {
                "topic": self._topic,
                "partition": partition,
                "offset": offset,
                "tstype": "create",
                "ts": time_ms,
                "broker": 0,
                "key": key.decode(),
                "payload": value.decode(),
            }
        )
