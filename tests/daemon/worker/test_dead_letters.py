"""Dead letters: unchanged, with their origin and reason, and acknowledged or sent again."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from relevanced.daemon.errors import RecordRefused, Unavailable
from relevanced.daemon.worker import SHORTENED_BYTES, DeadLetter, DeadLetterTopic, headers_of


class Broker:
    """Takes records until it fails."""

    def __init__(
        self,
        *,
        fails_at: int | None = None,
        failure: Exception = Unavailable("broker 1 is away"),
        largest: int = 1_000_000,
    ) -> None:
        self._failure = failure
        self._largest = largest
        self.taken: list[tuple[Any, ...]] = []
        self.flushed = 0
        self._fails_at = fails_at

    async def send(
        self,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        timestamp_ms: int | None = None,
    ) -> None:
        if len(value) > self._largest:
            raise RecordRefused("too large")
        if len(self.taken) == self._fails_at:
            raise self._failure
        self.taken.append((topic, value, key, dict(headers), timestamp_ms))

    async def flush(self) -> None:
        self.flushed = len(self.taken)


def letter(value: bytes | None = b"{", timestamp: int = 1234) -> DeadLetter:
    record = SimpleNamespace(
        topic="événements", partition=3, offset=2**40, timestamp=timestamp, key=b"k", value=value
    )
    return DeadLetter(record, "not_json", "ends too early")


def topic(broker: Broker) -> DeadLetterTopic:
    return DeadLetterTopic(broker, "dead")


def test_headers_state_the_origin_and_the_reason() -> None:
    assert {name: value.decode() for name, value in headers_of(letter())} == {
        "relevanced.topic": "événements",
        "relevanced.partition": "3",
        "relevanced.offset": str(2**40),
        "relevanced.reason": "not_json",
        "relevanced.detail": "ends too early",
    }


async def test_a_letter_is_the_record_as_it_came() -> None:
    broker = Broker()
    await topic(broker).publish([letter(b"\xff\x00")])
    assert broker.taken == [("dead", b"\xff\x00", b"k", dict(headers_of(letter())), 1234)]


async def test_a_record_without_value_or_time_is_sent_without() -> None:
    broker = Broker()
    await topic(broker).publish([letter(None, timestamp=-1), letter(b"", timestamp=0)])
    assert [(value, time_ms) for _, value, _, _, time_ms in broker.taken] == [(b"", None), (b"", 0)]


async def test_publishing_ends_when_all_are_acknowledged() -> None:
    broker = Broker()
    await topic(broker).publish([letter()] * 3)
    assert (broker.flushed, len(broker.taken)) == (3, 3)


async def test_an_unavailable_broker_is_reported_with_the_topic() -> None:
    with pytest.raises(Unavailable, match="dead-letter topic dead: broker 1 is away"):
        await topic(Broker(fails_at=1)).publish([letter()] * 3)


async def test_an_unforeseen_exception_is_not_hidden() -> None:
    with pytest.raises(ConnectionError):
        await topic(Broker(fails_at=0, failure=ConnectionError())).publish([letter()])


async def test_a_record_that_is_refused_is_sent_shortened_and_the_others_whole() -> None:
    broker = Broker(largest=SHORTENED_BYTES)
    await topic(broker).publish([letter(b"{"), letter(b"x" * 20_000)])
    assert [len(value) for _, value, *_ in broker.taken[-2:]] == [1, SHORTENED_BYTES]
    assert broker.taken[-1][3]["relevanced.shortened_from_bytes"] == b"20000"
    assert broker.flushed == len(broker.taken)


class StrictBroker(Broker):
    """Refuses time stamps that are not of today, as a topic with bounds for them does."""

    async def send(
        self,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        timestamp_ms: int | None = None,
    ) -> None:
        if timestamp_ms is not None and timestamp_ms < 5000:
            raise RecordRefused("the time stamp is out of the range of the topic")
        await super().send(topic, value, key, headers, timestamp_ms)


async def test_a_letter_whose_time_is_refused_is_sent_whole_without_it() -> None:
    broker = StrictBroker()
    await topic(broker).publish([letter(b"{", timestamp=9000), letter(b"x" * 20_000)])
    assert [(len(sent[1]), sent[4]) for sent in broker.taken[-2:]] == [(1, 9000), (20_000, None)]
    headers = broker.taken[-1][3]
    assert headers["relevanced.refused_timestamp_ms"] == b"1234"
    assert "relevanced.shortened_from_bytes" not in headers
    assert broker.flushed == len(broker.taken)


async def test_a_letter_of_which_time_and_length_are_refused_is_sent_shortened_without_it() -> None:
    broker = StrictBroker(largest=SHORTENED_BYTES)
    await topic(broker).publish([letter(b"x" * 20_000)])
    ((_, value, _, headers, timestamp_ms),) = broker.taken
    assert (len(value), timestamp_ms) == (SHORTENED_BYTES, None)
    assert headers["relevanced.shortened_from_bytes"] == b"20000"
    assert headers["relevanced.refused_timestamp_ms"] == b"1234"


async def test_a_letter_of_which_only_the_length_is_refused_keeps_its_time() -> None:
    broker = Broker(largest=SHORTENED_BYTES)
    await topic(broker).publish([letter(b"x" * 20_000)])
    assert broker.taken[-1][4] == 1234
