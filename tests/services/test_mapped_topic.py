"""A topic in the shape of Segment, through Kafka, `[[sources]]` and a killed worker: Redis holds
what the oracle makes of the same events in the native format."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import msgspec
import pytest

from relevanced.daemon.kafka import KafkaSettings
from relevanced.daemon.storage import close
from relevanced.daemon.tools.traffic import SHAPES
from tests import oracle
from tests.kafka_compression import Lz4Producer
from tests.oracle import Record
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer
from tests.services.whole_path import CONFIG, PARTITIONS, Stage

EVENTS = 20_000
NAME = "mapped"
NOT_MAPPED = {"type": "page", "event": "Page Viewed"}


class MappedStage(Stage):
    """A stage whose topic has Segment's calls, and page views between them."""

    shape = SHAPES["segment"]
    native: dict[bytes, bytes]
    """Record → the native event that it is."""

    def toml(self, name: str) -> str:
        given = super().toml(name).replace(f'topics = ["{self.topic}"]\n', "")
        return f"{given}{self.shape.source(self.topic, 'segment')}"

    async def produce(self, count: int) -> None:
        producer = Lz4Producer(KafkaSettings(self.kafka.bootstrap))
        await producer.start()
        for number, (arrival_ms, event) in enumerate(islice(self.events, count)):
            key = str(event["impression_id"]).encode()
            value = msgspec.json.encode(self.shape.record(event))
            self.native[value] = msgspec.json.encode(event)
            await producer.send(self.topic, value, key, timestamp_ms=arrival_ms)
            if number % 10 == 0:
                page = msgspec.json.encode(NOT_MAPPED)
                await producer.send(self.topic, page, key, timestamp_ms=arrival_ms)
        await producer.flush()
        await producer.stop()

    async def native_records(self) -> list[Record]:
        """The records of the topic that are events, in the native format at their offsets."""
        return [
            replace(record, value=self.native[record.value])
            for record in await self.records()
            if record.value in self.native
        ]

    async def skipped(self) -> Counter[str]:
        """What all lanes have skipped, as Redis has it."""
        store, found = self.store(NAME), Counter[str]()
        for lane in range(PARTITIONS):
            delta = await store.read(lane, "", None, 1)
            assert delta is not None
            found.update(delta.head.counts["skipped"])
        await close(store._client)
        return found


@pytest.fixture
async def stage(
    kafka: Broker, one_redis: RedisServer, make_topic: MakeTopic, tmp_path: Path
) -> Iterator[MappedStage]:
    topic = await make_topic(partitions=PARTITIONS)
    built = MappedStage(kafka, one_redis.url, topic, tmp_path)
    built.native = {}
    yield built
    built.close()


async def test_a_mapped_topic_counts_exactly_once_through_a_kill(stage: MappedStage) -> None:
    first = stage.daemon(NAME)
    await stage.produce(EVENTS // 2)
    await stage.wait_for(NAME, EVENTS // 4)
    first.process.kill()
    await stage.produce(EVENTS // 2)
    second = stage.daemon(NAME)
    await stage.wait_for(NAME, EVENTS + EVENTS // 10)
    assert second.terminate() == 0, second.log()
    expected = oracle.run(await stage.native_records(), [stage.topic], CONFIG)
    await stage.assert_equals_oracle(NAME, expected)
    assert await stage.skipped() == {f"{stage.topic}/not_mapped": EVENTS // 10}
