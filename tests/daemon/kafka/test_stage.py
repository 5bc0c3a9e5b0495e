"""What the stage of `lanes = "rekey"` commits and sends when a source cannot be read on."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from aiokafka import TopicPartition

from relevanced.daemon.config import LogEnd, load
from relevanced.daemon.errors import Unavailable
from relevanced.daemon.events import Limits, decoder
from relevanced.daemon.kafka import RekeyStage, StagePorts, kafka_settings, stage_offsets
from relevanced.daemon.worker import DeadLetter
from tests.builders import START_MS

SOURCE = TopicPartition("shop", 0)
SHOWN = {"type": "impression", "impression_id": "q", "timestamp": START_MS, "items": ["a"]}
LOG = [b"{", msgspec.json.encode(SHOWN), b"["]
"""Two of them are refused. What follows cannot be read."""
LOOKS = 5
"""So often is it tried to read that before the process is told to stop."""


class Broker:
    """The log of one source, what the group stores of it, and all that is sent. It takes the place
    of the consumer, of the producer and of the dead-letter topic."""

    def __init__(self) -> None:
        self.committed, self.at, self.looks = (0, ""), 0, 0
        self.paused, self.stop_now = True, asyncio.Event()
        self.letters: list[int] = []
        self.sent: list[bytes] = []
        self.refusals = 0
        """So often are messages not acknowledged."""
        self._client = self._coordinator = self

    # The consumer

    async def start(self) -> None:
        pass

    stop = close = start

    def check_errors(self) -> None:
        pass

    def highwater(self, place: TopicPartition) -> None:
        pass

    last_poll_timestamp = highwater

    def subscribe(self, topics: Sequence[str], listener: Any) -> None:
        listener.on_partitions_assigned([SOURCE])

    def pause(self, *places: TopicPartition) -> None:
        self.paused = True

    def resume(self, *places: TopicPartition) -> None:
        self.paused = False

    def seek(self, place: TopicPartition, offset: int) -> None:
        self.at = offset

    def partitions_for_topic(self, topic: str) -> set[int]:
        return {0}

    async def position(self, place: TopicPartition) -> int:
        return self.at

    async def commit(self, points: dict[TopicPartition, tuple[int, str]]) -> None:
        self.committed = points[SOURCE]

    async def getmany(self, *places: TopicPartition, **limits: int) -> dict[Any, list[Any]]:
        await asyncio.sleep(0)
        if self.paused:
            return {}
        if self.at == len(LOG):
            self.looks += 1
            if self.looks >= LOOKS:
                self.stop_now.set()
            raise ValueError("corrupt")
        record = SimpleNamespace(
            topic=SOURCE.topic, partition=0, offset=self.at, timestamp=-1, value=LOG[self.at]
        )
        self.at += 1
        return {SOURCE: [record]}

    async def beginnings(self, *arguments: object) -> stage_offsets.Beginnings:
        begins = {SOURCE: stage_offsets.Begin(*self.committed)}
        ends = {SOURCE: len(LOG) + 1}
        return stage_offsets.Beginnings(stage_offsets.Noted(1), begins, {}, ends)

    # The producer and the dead-letter topic

    most_bytes = 1_000_000

    async def send(self, message: Any) -> None:
        self.sent.append(message.value)

    async def fit(self, error: Exception) -> None:
        pass

    async def flush(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise Unavailable("not acknowledged")

    async def publish(self, letters: Sequence[DeadLetter]) -> None:
        self.letters += [letter.record.offset for letter in letters]


async def sent_by(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a stage over it until it is told to stop. It commits at the end, and where it must."""
    config = load('[kafka]\ntopics = ["shop"]\nlanes = "rekey"', {}, "test")
    letters: Any = broker
    reading = decoder("native", Limits(passes_on=True))
    ports = StagePorts(
        kafka_settings(config), "sent", 1, 1_000, reading, LogEnd.EARLIEST, letters=letters
    )
    stage = "relevanced.daemon.kafka.stage"

    async def nothing(*arguments: object) -> None:
        pass

    nothing_wrong = SimpleNamespace(check_if=lambda is_due: None, obstacle=None, stop=nothing)
    replaced: dict[str, Any] = {
        "Diagnosis": lambda *arguments: nothing_wrong,
        "AIOKafkaConsumer": lambda **settings: broker,
        "StageProducer": lambda *settings: broker,
        "fetch_by_id": lambda *arguments: None,
        "beginnings": broker.beginnings,
        "store_note": nothing,
        "pause_s": lambda failures, jitter: 0.0,
        "STOPPED_PAUSE_S": 0.0,
        "COMMIT_EVERY_S": 3_600.0,
    }
    for name, value in replaced.items():
        monkeypatch.setattr(f"{stage}.{name}", value)
    monkeypatch.setattr("relevanced.daemon.kafka.stage_clients.POLL_MS", 0)
    async with asyncio.timeout(20):
        await RekeyStage(ports).run(broker.stop_now)


async def test_what_a_source_sent_before_it_became_unreadable_is_not_sent_at_each_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker()
    await sent_by(broker, monkeypatch)
    assert broker.looks >= LOOKS
    assert broker.letters == [0, 2]
    assert broker.committed[0] == len(LOG)


async def test_dead_letters_wait_until_the_messages_before_them_are_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker()
    broker.refusals = 3
    await sent_by(broker, monkeypatch)
    assert not broker.refusals and broker.letters == [0, 2]
