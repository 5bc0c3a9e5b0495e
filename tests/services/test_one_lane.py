"""All partitions of all topics as one lane, on real parts: topics that do not fit together, with an
empty partition; a worker that is killed; and every number is the oracle's."""

import asyncio
import csv
import json
import random
import signal
import time
import zlib
from collections.abc import AsyncIterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions

from relevanced.daemon.storage import close
from relevanced.daemon.tools.traffic import Faults, Traffic, generate_events
from tests import oracle
from tests.services.daemons import Daemon, until
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer
from tests.services.test_verify import command
from tests.services.whole_path import START_MS, Stage

NAME = "one"
EVENTS = 12_000
COUNTS = (4, 6)
"""Partitions of the topic of impressions, and of that of feedback."""
EMPTY = COUNTS[1] - 1
"""The partition of feedback that stays empty."""
ONE = 'lanes = "one"\nidle_after = "5s"\n'


class TwoTopics(Stage):
    """Impressions by their id, as librdkafka places it; feedback by the id as Java does, or by
    other keys."""

    lanes = ONE
    placed_in = EMPTY
    """In so many partitions is feedback."""
    more = 0
    """Partitions that the topic of feedback got since."""

    def __init__(self, kafka: Broker, redis_url: str, topics: list[str], directory: Path) -> None:
        super().__init__(kafka, redis_url, topics[0], directory)
        self.topics = topics
        # Without disorder, so that nothing comes behind a lift.
        traffic = Traffic(seed=5, rate=20, faults=Faults(orphans=0.01, off_list=0.01))
        self.events = generate_events(traffic, START_MS)
        self.rng = random.Random(7)

    @property
    def partitions(self) -> Mapping[str, int]:
        return dict(zip(self.topics, (COUNTS[0], COUNTS[1] + self.more), strict=True))

    def toml(self, name: str) -> str:
        named = ", ".join(f'"{topic}"' for topic in self.topics)
        toml = super().toml(name).replace(f'["{self.topic}"]', f"[{named}]")
        return toml.replace("[redis]", f"{self.lanes}[redis]")

    async def produce(self, count: int) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=self.kafka.bootstrap, linger_ms=5)
        await producer.start()
        for arrival_ms, event in islice(self.events, count):
            is_feedback = event["type"] == "feedback"
            key = str(event["impression_id"]).encode()
            place = zlib.crc32(key) % COUNTS[0]
            if is_feedback:
                key = self.rng.choice((key, self.rng.randbytes(8)))
                place = oracle.place_of_key(key, self.placed_in)
            await producer.send(
                self.topics[is_feedback],
                msgspec.json.encode(event),
                partition=place,
                timestamp_ms=arrival_ms,
            )
        await producer.stop()

    async def assert_is_the_oracles(self) -> oracle.LaneResult:
        """Every number of the lane."""
        return await self.assert_one_equals_oracle(NAME, await self.records())


@pytest.fixture
async def stage(
    kafka: Broker, one_redis: RedisServer, make_topic: MakeTopic, tmp_path: Path
) -> AsyncIterator[TwoTopics]:
    topics = [await make_topic(partitions=count) for count in COUNTS]
    built = TwoTopics(kafka, one_redis.url, topics, tmp_path)
    yield built
    built.close()


async def test_topics_that_do_not_fit_are_refused_with_the_line_to_add(stage: TwoTopics) -> None:
    stage.lanes = ""
    daemon = stage.daemon(NAME)
    assert await asyncio.to_thread(daemon.process.wait, 60) == 1
    assert 'add lanes = \\"one\\" to [kafka]' in daemon.log()


async def test_topics_of_different_keys_are_said_with_the_line_to_add(
    kafka: Broker, stage: TwoTopics, make_topic: MakeTopic
) -> None:
    stage.lanes = ""
    stage.topics = [stage.topics[0], await make_topic(partitions=COUNTS[0])]
    stage.placed_in = COUNTS[0]
    daemon = stage.daemon(NAME)
    await until(lambda: daemon.series("relevanced_owned_lanes") == COUNTS[0], daemon)
    for taken in range(100, 3_001, 100):  # a few of each batch are looked up
        await stage.produce(100)
        await stage.wait_for(NAME, taken)
    await until(lambda: 'add lanes = \\"one\\" to [kafka]' in daemon.readiness(), daemon)
    assert daemon.series("relevanced_wrong_lane_feedback_total") > 100


async def test_a_sample_at_the_start_says_that_topics_have_different_keys(
    kafka: Broker, stage: TwoTopics, make_topic: MakeTopic
) -> None:
    stage.lanes = ""
    stage.topics = [stage.topics[0], await make_topic(partitions=COUNTS[0])]
    stage.placed_in = COUNTS[0]
    five_min_ago = int(time.time() * 1000) - 300_000
    stage.events = generate_events(Traffic(seed=5, rate=20), five_min_ago)
    await stage.produce(3_000)
    daemon = stage.daemon(NAME)
    await stage.wait_for(NAME, 3_000)
    await until(lambda: "feedback does not meet its impressions" in daemon.log(), daemon)
    await until(lambda: "impression in another lane" in daemon.readiness(), daemon)


def owns(daemon: Daemon) -> bool:
    return daemon.series("relevanced_owned_lanes") == 1


async def test_one_lane_of_all_partitions_settles_and_outlives_its_worker(stage: TwoTopics) -> None:
    first = stage.daemon(NAME)
    await until(lambda: owns(first), first)
    second = stage.daemon(NAME)
    await until(lambda: "lanes assigned" in second.log(), second)
    await stage.produce(EVENTS // 2)
    await stage.wait_for(NAME, EVENTS // 2)
    await until(lambda: owns(first), first)
    assert '"lane owned"' not in second.log(), "who had the lane keeps it"
    first.terminate(signal.SIGKILL)
    await stage.produce(EVENTS // 2)
    await stage.wait_for(NAME, EVENTS)
    await until(lambda: second.series('relevanced_lifted_partitions{lane="0"}'), second)
    assert second.series("relevanced_split_ids_total") == 0
    exporter = stage.daemon(NAME, "exporter")
    settled = 'relevanced_settled_impressions_total{grouping="all",segment="all"}'
    await until(lambda: exporter.series(settled), exporter)
    [found] = await verified(stage)
    assert (found["result"], found["notes"]) == ("equal", []), found
    assert found["records"] == EVENTS and found["panes"]
    assert await asyncio.to_thread(second.terminate) == 0, second.log()
    expected = await stage.assert_is_the_oracles()
    assert expected.totals and expected.watermarks[f"{stage.topics[1]}/{EMPTY}"] is None
    await assert_replay_is_the_oracles(config_of(stage), expected)


def config_of(stage: TwoTopics) -> Path:
    path = stage.directory / "one.toml"
    path.write_text(stage.toml(NAME))
    return path


async def verified(stage: TwoTopics) -> list[Any]:
    """What `verify` says of each lane."""
    _, out = await command("verify", "--config", str(config_of(stage)), "--output", "json")
    return json.loads(out)


async def assert_replay_is_the_oracles(path: Path, expected: oracle.LaneResult) -> None:
    """`replay --kafka` reads the same lane: in the whole hour all has settled by now."""
    span = ("--from", "2026-11-20T12:00:00Z", "--to", "2026-11-20T13:00:00Z")
    code, out = await command("replay", "--kafka", "--config", str(path), *span, "--output", "csv")
    assert code == 0, out
    [row] = [
        row
        for row in csv.DictReader(out.splitlines())
        if (row["grouping"], row["metric"]) == ("all", "RR@10")
    ]
    assert int(row["impressions"]) == len(expected.impressions)
    each = [oracle.contribution(one, Stage.config) for one in expected.impressions]
    sums = [sum(one.get(f"RR@10:{column}", 0) for one in each) for column in ("scored", "sum")]
    assert int(row["scored"]) == sums[0]
    assert float(row["mean"]) == pytest.approx(sums[1] / sums[0] / 1e6, abs=1e-6)


async def test_a_partition_that_comes_later_is_read_from_its_beginning(stage: TwoTopics) -> None:
    worker = stage.daemon(NAME)
    await stage.produce(EVENTS // 2)
    await stage.wait_for(NAME, EVENTS // 2)
    await until(lambda: worker.series('relevanced_lifted_partitions{lane="0"}'), worker)
    admin = AIOKafkaAdminClient(bootstrap_servers=stage.kafka.bootstrap)
    await admin.start()
    stage.more = 1
    await admin.create_partitions({stage.topics[1]: NewPartitions(COUNTS[1] + 1)})
    await admin.close()
    stage.placed_in = COUNTS[1] + 1
    await until(lambda: worker.log().count("lane opened") == 2, worker)
    await stage.produce(EVENTS // 4)
    await stage.wait_for(NAME, EVENTS * 3 // 4)
    assert await asyncio.to_thread(worker.terminate) == 0, worker.log()
    expected = await stage.assert_is_the_oracles()
    added = f"{stage.topics[1]}/{COUNTS[1]}"
    assert expected.totals and expected.watermarks[added]
    [found] = await verified(stage)
    assert found["result"] == "equal" and not found["notes"], found
    store = stage.store(NAME)
    noted = await store._registry.start_of(0)
    assert noted is not None and noted.offsets[added] == 0 and added in noted.topic_ids
    await close(store._client)
