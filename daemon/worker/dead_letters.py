"""The dead-letter topic: records that could not be read as events, with where they came from and
why they were refused.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import structlog

from ..errors import RecordRefused, Unavailable
from ..telemetry import RateLimit
from .batch import DeadLetter

log = structlog.get_logger(__name__)

SHORTENED_BYTES: Final = 16_384
"""How many bytes of a record are kept that the dead-letter topic refuses whole."""


class Producer(Protocol):
    """The part of a Kafka producer that dead letters need."""

    async def send(
        self,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        timestamp_ms: int | None = None,
    ) -> None:
        """Put a record into the producer's buffer."""

    async def flush(self) -> None:
        """Wait until every record in the buffer is acknowledged."""


class DeadLetterTopic:
    """Publishes dead letters, at least once: they are acknowledged before the commit that moves the
    offsets past them."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        # A producer raises a failure once, in whichever call comes next: with one caller at a time
        # it reaches the one whose letters failed.
        self._one_at_a_time = asyncio.Lock()

    async def publish(self, letters: Sequence[DeadLetter]) -> None:
        """Publish letters; returns when all are acknowledged. A record that the topic refuses is
        sent without its time stamp, or shortened if it is too large. Raises Unavailable: then all
        must be published again."""
        async with self._one_at_a_time:
            await self._publish(letters)

    async def _publish(self, letters: Sequence[DeadLetter]) -> None:
        try:
            try:
                for letter in letters:
                    await self._send(letter, letter.record.value or b"")
                await self._producer.flush()
            except RecordRefused:
                # The producer does not say which one: send them singly.
                for letter in letters:
                    await self._send_what_fits(letter)
        except Unavailable as error:
            raise Unavailable(f"dead-letter topic {self._topic}: {error}") from error

    async def _send_what_fits(self, letter: DeadLetter) -> None:
        """Send a letter in the first form that the topic takes: whole, without its time stamp,
        shortened, or both."""
        value = letter.record.value or b""
        refusal: RecordRefused | None = None
        for sent in dict.fromkeys((value, value[:SHORTENED_BYTES])):
            for with_time in (True, False):
                try:
                    await self._send(letter, sent, with_time)
                    await self._producer.flush()
                    return
                except RecordRefused as error:
                    refusal = error
        # No dead letter is worth stopping its lane.
        log.error(
            "dead letter refused",
            topic=letter.record.topic,
            partition=letter.record.partition,
            offset=letter.record.offset,
            reason=str(refusal),
        )

    async def _send(self, letter: DeadLetter, value: bytes, with_time: bool = True) -> None:
        record, headers = letter.record, headers_of(letter)
        length = len(record.value or b"")
        if len(value) < length:
            headers.append(("relevanced.shortened_from_bytes", str(length).encode()))
        timestamp_ms = record.timestamp if record.timestamp >= 0 else None
        if timestamp_ms is not None and not with_time:
            # A topic may bound how far time stamps are from its clock: the record of a producer
            # whose clock is wrong, or an old one that is read again, would never be taken.
            headers.append(("relevanced.refused_timestamp_ms", str(timestamp_ms).encode()))
            timestamp_ms = None
        await self._producer.send(
            self._topic, value, key=record.key, headers=headers, timestamp_ms=timestamp_ms
        )


def headers_of(letter: DeadLetter) -> list[tuple[str, bytes]]:
    """The headers of a dead letter: where the record came from, and why it was refused."""
    record = letter.record
    return [
        ("relevanced.topic", record.topic.encode()),
        ("relevanced.partition", str(record.partition).encode()),
        ("relevanced.offset", str(record.offset).encode()),
        ("relevanced.reason", letter.reason.encode()),
        ("relevanced.detail", letter.detail.encode()),
    ]


DETAIL_CHARACTERS: Final = 200
ADVICE: Final = (
    "Look at what produces them. Where events.dead_letter_topic is set they are kept there; they"
    " are counted by reason, and reading goes on."
)


class RefusedRecordsLog:
    """Logs refused records, for one process: one line a minute for each reason. Counters give their
    number, and the dead letters the records themselves.

    With `values`, each line has the detail of the refusal, which shows a part of the record.
    Without it, a line names what to look up, and nothing that a searcher typed.
    """

    def __init__(self, values: bool = False) -> None:
        self._values = values
        self._rate_limit = RateLimit[str]()

    def log(self, letters: Sequence[DeadLetter], now_s: float) -> None:
        """Log the first record of each reason, unless that reason was logged within the last
        minute; `records` counts those since then."""
        for letter in letters:
            reason, record = letter.reason, letter.record
            records = self._rate_limit.due(reason, 1, now_s)
            if records is None:
                continue
            log.warning(
                "records refused",
                reason=reason,
                records=records,
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                advice=ADVICE,
                **({"detail": letter.detail[:DETAIL_CHARACTERS]} if self._values else {}),
            )
