"""The whole path on real parts: in the end Redis holds what the oracle makes of the topic."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import oracle
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer
from tests.services.whole_path import CONFIG, PARTITIONS, Stage

EVENTS = 100_000


@pytest.fixture
async def stage(
    kafka: Broker, one_redis: RedisServer, make_topic: MakeTopic, tmp_path: Path
) -> Iterator[Stage]:
    built = Stage(kafka, one_redis.url, await make_topic(partitions=PARTITIONS), tmp_path)
    yield built
    built.close()


async def test_rows_equal_the_oracle_whenever_and_however_many_daemons_run(stage: Stage) -> None:
    third = EVENTS // 3
    before, first = stage.daemon("before"), stage.daemon("two")
    await stage.produce(third)
    await stage.wait_for("two", third // 2)
    half_way, second = stage.daemon("half"), stage.daemon("two")
    await stage.produce(third)
    await stage.wait_for("two", third + third // 2)
    async with asyncio.timeout(60):
        while '"lane owned"' not in second.log():
            await asyncio.sleep(0.1)
    assert "lane dropped" in first.log(), "it gave lanes to the second worker"
    assert first.terminate() == 0, first.log()
    await stage.produce(EVENTS - 2 * third)
    after = stage.daemon("after")
    for name in ("before", "half", "after", "two"):
        await stage.wait_for(name, EVENTS)
    for daemon in (before, half_way, second, after):
        assert daemon.terminate() == 0, daemon.log()
    expected = oracle.run(await stage.records(), [stage.topic], CONFIG)
    for name in ("before", "half", "after", "two"):
        await stage.assert_equals_oracle(name, expected)
