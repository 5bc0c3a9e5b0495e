"""Topics of every format at once, through Kafka, `[[sources]]` and a killed worker: Redis has what
the oracle makes of the same events in the native format."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from relevanced.daemon.kafka import KafkaSettings
from relevanced.daemon.tools.traffic import Traffic, generate_events
from tests import oracle
from tests.kafka_compression import Lz4Producer
from tests.services.daemons import until
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer
from tests.services.test_one_lane import assert_replay_is_the_oracles
from tests.services.whole_path import CONFIG, FAULTS, PARTITIONS, START_MS, Stage
from tests.topic_formats import FORMATS

EVENTS = 2_400
"""Of each format."""
NAME = "formats"


class FormatStage(Stage):
    """A stage with a topic for each format, or two where feedback has one of its own."""

    lanes = ""

    def __init__(self, kafka: Broker, redis_url: str, topics: dict[str, str], at: Path) -> None:
        super().__init__(kafka, redis_url, "", at)
        self.by_name = topics
        self.topics = list(topics.values())
        self.native: dict[bytes, bytes] = {}
        """Record → the native event that it is."""
        self.streams = {
            name: generate_events(Traffic(seed=seed, rate=20, faults=FAULTS), START_MS)
            for seed, name in enumerate(FORMATS, 1)
        }

    def toml(self, name: str) -> str:
        given = super().toml(name).replace('topics = [""]\n', "")
        sources = {name: one.source for name, one in FORMATS.items()}
        sources |= {f"{name}-feedback": f.feedback for name, f in FORMATS.items() if f.feedback}
        tables = (f'[[sources]]\ntopic = "{self.by_name[n]}"\n{t}' for n, t in sources.items())
        return given.replace("[redis]", f"{self.lanes}[redis]") + "".join(tables)

    async def produce(self, count: int) -> None:
        producer = Lz4Producer(KafkaSettings(self.kafka.bootstrap))
        await producer.start()
        for name, stream in self.streams.items():
            for arrival_ms, event in islice(stream, count):
                topic, value, headers = self._record(name, event)
                key = str(event["impression_id"]).encode()
                await producer.send(topic, value, key, headers, arrival_ms)
        await producer.flush()
        await producer.stop()

    def _record(self, name: str, event: dict[str, Any]) -> tuple[str, bytes, Any]:
        written = FORMATS[name]
        value = msgspec.json.encode(written.record(event))
        self.native[value] = msgspec.json.encode(written.native(event))
        is_apart = written.feedback is not None and event["type"] == "feedback"
        topic = self.by_name[f"{name}-feedback" if is_apart else name]
        return topic, value, written.headers(event)

    async def native_records(self) -> Iterator[oracle.Record]:
        return (replace(one, value=self.native[one.value]) for one in await self.records())


@pytest.fixture
async def stage(
    kafka: Broker, one_redis: RedisServer, make_topic: MakeTopic, tmp_path: Path
) -> AsyncIterator[FormatStage]:
    names = [*FORMATS, *(f"{name}-feedback" for name, one in FORMATS.items() if one.feedback)]
    topics = {name: await make_topic(partitions=PARTITIONS, prefix=name) for name in names}
    built = FormatStage(kafka, one_redis.url, topics, tmp_path)
    yield built
    built.close()


async def test_topics_of_every_format_count_exactly_once_through_a_kill(
    stage: FormatStage,
) -> None:
    first = stage.daemon(NAME)
    await stage.produce(EVENTS // 2)
    await stage.wait_for(NAME, len(FORMATS) * EVENTS // 4)
    first.process.kill()
    await stage.produce(EVENTS // 2)
    second = stage.daemon(NAME)
    await stage.wait_for(NAME, len(FORMATS) * EVENTS)
    assert second.terminate() == 0, second.log()
    expected = oracle.run(await stage.native_records(), stage.topics, CONFIG)
    joined = sum(one.feedback_outcomes["joined"] for one in expected.values())
    assert joined > len(FORMATS) * EVENTS // 4
    await stage.assert_equals_oracle(NAME, expected)


async def test_one_lane_of_every_format_equals_replay_after_a_kill_anywhere(
    stage: FormatStage, rng: np.random.Generator
) -> None:
    stage.lanes = 'lanes = "one"\nidle_after = "off"\n'
    count = len(FORMATS) * EVENTS
    first = stage.daemon(NAME)
    producing = asyncio.create_task(stage.produce(EVENTS))
    await stage.wait_for(NAME, int(rng.integers(count)))
    first.terminate(signal.SIGKILL)
    await producing
    second = stage.daemon(NAME)
    await until(second.readiness, second)  # the first may have read everything
    await stage.wait_for(NAME, count)
    assert await asyncio.to_thread(second.terminate) == 0, second.log()
    expected = await stage.assert_one_equals_oracle(NAME, await stage.native_records())
    assert expected.feedback_outcomes["joined"] > count // 4
    path = stage.directory / "one.toml"
    path.write_text(stage.toml(NAME))
    await assert_replay_is_the_oracles(path, expected)
