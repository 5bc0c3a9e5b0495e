"""Sends records to Kafka. What is not acknowledged in time is an error of the next `flush`."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    InvalidTimestampError,
    InvalidTopicError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
)

from ..errors import RecordRefused, Unavailable
from .client import KafkaSettings, client_arguments, logger, stop_client

MAX_REQUEST_BYTES: Final = 64 << 20
"""Larger than any broker takes: how large a record may be is the broker's decision."""
BATCH_BYTES: Final = 256 << 10
LINGER_MS: Final = 5
SEND_TIMEOUT_S: Final = 15.0
RETRY_PAUSE_S: Final = 1.0
TOO_LARGE: Final = (MessageSizeTooLargeError, RecordListTooLargeError)
_NEVER_TAKEN: Final = (
    *TOO_LARGE,
    InvalidTopicError,
    InvalidTimestampError,
)


class KafkaProducer:
    """Open by `start`, close by `stop`. Keys choose partitions as Java's producer does: murmur2."""

    def __init__(self, settings: KafkaSettings, batch_bytes: int = BATCH_BYTES) -> None:
        """`batch_bytes`: several records are sent together up to this size."""
        self._settings = settings
        self._batch_bytes = batch_bytes
        self._producer: Any = None
        self._waiting = 0
        self._failure: BaseException | None = None
        self._settled = asyncio.Event()
        self._settled.set()

    async def start(self) -> None:
        """Connect; waits, and logs so once, while the cluster is away."""
        logged = False
        while self._producer is None:
            producer = AIOKafkaProducer(**self._arguments())
            try:
                await producer.start()
                self._producer = producer
            except KafkaError as error:
                if not logged:
                    servers = self._settings.bootstrap_servers
                    logger.warning(
                        "waiting for Kafka", reason=str(error), bootstrap_servers=servers
                    )
                logged = True
                await asyncio.sleep(RETRY_PAUSE_S)
            finally:
                if self._producer is None:
                    await producer.stop()

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Iterable[tuple[str, bytes]] = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Buffer a record; `flush` raises where it was not taken. Waits while the buffer is full.
        Records of one partition are taken in the order in which they are sent.

        Raises RecordRefused for a record that can never be sent, Unavailable when the topic
        cannot be found now.
        """
        if value is None and key is None:
            key = b""  # a record needs one of the two
        try:
            future = await self._producer.send(
                topic, value, key, partition, timestamp_ms, headers=list(headers)
            )
        except KafkaError as error:
            raise _translated(topic, error) from error
        self._waiting += 1
        self._settled.clear()
        future.add_done_callback(self._settle)

    async def flush(self) -> None:
        """Wait until every record sent is acknowledged.

        Raises RecordRefused or Unavailable (within about twice SEND_TIMEOUT_S) where one was
        not: any of the records sent since the last flush may then be missing.
        """
        await self._settled.wait()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise _translated("", failure) from failure

    async def stop(self) -> None:
        """Send what is buffered and close; gives up after a while when the cluster is away."""
        if self._producer is None:
            return
        producer, self._producer = self._producer, None
        await stop_client(producer.stop())

    def _arguments(self) -> dict[str, Any]:
        return {
            **client_arguments(self._settings),
            "request_timeout_ms": int(SEND_TIMEOUT_S * 1000),
            "acks": "all",
            "linger_ms": LINGER_MS,
            "max_batch_size": self._batch_bytes,
            "max_request_size": MAX_REQUEST_BYTES,
        }

    def _settle(self, future: "asyncio.Future[object]") -> None:
        self._waiting -= 1
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        if error is not None and not isinstance(self._failure, _NEVER_TAKEN):
            self._failure = error
        if self._waiting == 0:
            self._settled.set()


def _translated(topic: str, error: BaseException) -> Exception:
    message = f"{topic}: {error}" if topic else str(error)
    if isinstance(error, _NEVER_TAKEN):
        return RecordRefused(message)
    return Unavailable(message)
