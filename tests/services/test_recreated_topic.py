"""A topic that is deleted and created again: its lanes stop, whenever it happens and however long
the new log is, until a person accepts that log. Then they hold what the oracle makes of both logs.
"""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from tests import oracle
from tests.oracle import Record
from tests.services.daemons import Daemon
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer
from tests.services.whole_path import CONFIG, PARTITIONS, Stage

EVENTS = 4000
PATIENCE_S = 40
STOPPED = "the topic was deleted and created again"


@pytest.fixture
async def stage(
    kafka: Broker, one_redis: RedisServer, make_topic: MakeTopic, tmp_path: Path
) -> AsyncIterator[Stage]:
    built = Stage(kafka, one_redis.url, await make_topic(partitions=PARTITIONS), tmp_path)
    yield built
    built.close()


async def recreate(stage: Stage, sent_again: Sequence[Record]) -> None:
    """Delete the topic and create it again, with records that the old one had."""
    await stage.kafka.delete_topic(stage.topic)
    await stage.kafka.create_topic(stage.topic, PARTITIONS)
    producer = AIOKafkaProducer(bootstrap_servers=stage.kafka.bootstrap, linger_ms=5)
    await producer.start()
    for r in sent_again:
        await producer.send(
            stage.topic, r.value, partition=r.partition, timestamp_ms=r.timestamp_ms
        )
    await producer.stop()


async def stopped(stage: Stage, daemon: Daemon) -> None:
    """Wait until every lane has stopped because of its log."""
    async with asyncio.timeout(PATIENCE_S):
        while (await asyncio.to_thread(daemon.readiness)).count(STOPPED) < PARTITIONS:
            await asyncio.sleep(0.1)
    for lane in range(PARTITIONS):
        assert daemon.series(f'relevanced_lane_stopped{{lane="{lane}"}}') == 1


async def accept(stage: Stage, *more: str) -> tuple[int, str]:
    """Run `relevanced lane accept-new-log`; returns its exit code and what it printed."""
    path = stage.directory / "accept.toml"
    path.write_text(stage.toml("one"))
    command = [sys.executable, "-m", "relevanced.daemon", "lane", "accept-new-log", stage.topic]
    done = await asyncio.to_thread(
        subprocess.run, [*command, "--config", str(path), *more], capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


async def counted(stage: Stage, family: str) -> list[int]:
    store = stage.store("one")
    heads = [await store.head(lane) for lane in range(PARTITIONS)]
    await store._client.aclose()
    return [head.counts.get(family, {}).get(stage.topic, 0) for head in heads if head]


async def begun(stage: Stage) -> None:
    """Wait until every lane has begun the log that was accepted. Offsets alone do not say so: the
    old one of a lane may be beyond the end of its new log."""
    async with asyncio.timeout(PATIENCE_S):
        while await counted(stage, "replaced_logs") != [1] * PARTITIONS:
            await asyncio.sleep(0.1)


async def assert_equals_oracle_of_both(stage: Stage, old: Sequence[Record]) -> None:
    new = [replace(r, offset=r.offset + len(old)) for r in await stage.records()]
    expected = oracle.run([*old, *new], [stage.topic], CONFIG)
    await stage.assert_equals_oracle("one", expected)


async def test_lanes_stop_until_the_log_that_took_their_place_is_accepted(stage: Stage) -> None:
    """At rest, with a new log that is longer than the old one."""
    await stage.produce(EVENTS)
    daemon = stage.daemon("one")
    await stage.wait_for("one", EVENTS)
    assert await accept(stage) == (
        1,
        f"Error: {stage.topic}: every lane's log is the one that it has read: nothing to accept\n",
    )
    assert daemon.terminate() == 0, daemon.log()
    before, old = await stage.taken("one"), await stage.records()
    await recreate(stage, old[-EVENTS // 2 :])
    await stage.produce(2 * EVENTS)

    daemon = stage.daemon("one")
    await stopped(stage, daemon)
    code, told = await accept(stage, "--dry-run")
    assert code == 0 and "nothing accepted" in told, told
    await asyncio.sleep(6)  # longer than a stopped lane waits until its logs are checked again
    assert await stage.taken("one") == before
    code, told = await accept(stage)
    assert code == 0, told
    for lane, offset in before.items():
        assert f"lane {lane}: {STOPPED}" in told and f"Stored offset: {offset}." in told
    await begun(stage)
    await stage.wait_for("one", EVENTS // 2 + 2 * EVENTS)
    assert daemon.series('relevanced_lane_stopped{lane="0"}') == 0
    assert daemon.terminate() == 0, daemon.log()
    assert '"unread_before": "unknown"' in daemon.log()
    assert await counted(stage, "replaced_logs") == [1] * PARTITIONS
    await assert_equals_oracle_of_both(stage, old)


@pytest.mark.parametrize("again", [50, EVENTS], ids=["shorter", "longer"])
async def test_a_topic_that_is_recreated_while_it_is_read_stops_its_lanes(
    stage: Stage, again: int
) -> None:
    await stage.produce(EVENTS)
    daemon = stage.daemon("one")
    await stage.wait_for("one", EVENTS)
    before, old = await stage.taken("one"), await stage.records()
    await recreate(stage, old[-again:])
    await stopped(stage, daemon)
    assert await stage.taken("one") == before
    assert daemon.series('relevanced_kafka_faults_total{fault="log_replaced"}') >= PARTITIONS
    code, told = await accept(stage)
    assert code == 0, told
    await begun(stage)
    await stage.produce(EVENTS)
    await stage.wait_for("one", again + EVENTS)
    assert daemon.terminate() == 0, daemon.log()
    assert await counted(stage, "replaced_logs") == [1] * PARTITIONS
    assert await counted(stage, "gap_records") == [0] * PARTITIONS
    await assert_equals_oracle_of_both(stage, old)
