"""Dead letters: records that no event could be made of, written to a topic with where they came
from and why."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import structlog

from ..errors import RecordRefused, Unavailable
from .batch import DeadLetter

log = structlog.get_logger(__name__)

SHORTENED_BYTES: Final = 16_384
"""What is kept of a record that the dead-letter topic refuses whole."""


class Producer(Protocol):
    """What is asked of a producer."""

    async def send(
        self,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        timestamp_ms: int | None = None,
    ) -> None:
        """Hand a record over."""

    async def flush(self) -> None:
        """Wait until everything handed over is acknowledged."""


class DeadLetterTopic:
    """Publishes dead letters. Acknowledged before the commit that passes them, so at least once."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        # A producer tells one failure once: it must be told to whose letters it belongs.
        self._one_at_a_time = asyncio.Lock()

    async def publish(self, letters: Sequence[DeadLetter]) -> None:
        """Returns when all are acknowledged. Raises Unavailable; then all are to be published
        again. What the topic refuses, such as a record too large for it, is sent shortened."""
        async with self._one_at_a_time:
            await self._publish(letters)

    async def _publish(self, letters: Sequence[DeadLetter]) -> None:
        try:
            try:
                for letter in letters:
                    await self._send(letter, letter.record.value or b"")
                await self._producer.flush()
            except RecordRefused:
                # Which one it was is not said.
                for letter in letters:
                    await self._send_what_fits(letter)
        except Unavailable as error:
            raise Unavailable(f"dead-letter topic {self._topic}: {error}") from error

    async def _send_what_fits(self, letter: DeadLetter) -> None:
        value = letter.record.value or b""
        try:
            await self._send(letter, value)
            await self._producer.flush()
        except RecordRefused:
            await self._send_shortened(letter, value)

    async def _send_shortened(self, letter: DeadLetter, value: bytes) -> None:
        try:
            await self._send(letter, value[:SHORTENED_BYTES], shortened_from=len(value))
            await self._producer.flush()
        except RecordRefused as error:
            # No dead letter is worth a lane that stands still.
            log.error(
                "dead letter refused",
                topic=letter.record.topic,
                partition=letter.record.partition,
                offset=letter.record.offset,
                reason=str(error),
            )

    async def _send(
        self, letter: DeadLetter, value: bytes, shortened_from: int | None = None
    ) -> None:
        record, headers = letter.record, headers_of(letter)
        if shortened_from is not None:
            headers.append(("relevanced.shortened_from_bytes", str(shortened_from).encode()))
        await self._producer.send(
            self._topic,
            value,
            key=record.key,
            headers=headers,
            timestamp_ms=record.timestamp if record.timestamp >= 0 else None,
        )


def headers_of(letter: DeadLetter) -> list[tuple[str, bytes]]:
    """Where the record came from, and what is wrong with it."""
    record = letter.record
    return [
        ("relevanced.topic", record.topic.encode()),
        ("relevanced.partition", str(record.partition).encode()),
        ("relevanced.offset", str(record.offset).encode()),
        ("relevanced.reason", letter.reason.encode()),
        ("relevanced.detail", letter.detail.encode()),
    ]
