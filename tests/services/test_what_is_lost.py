"""The limit of the promise: what Kafka no longer has is lost, counted where it was never read, and
everything else is as if nothing had happened."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from tests import oracle
from tests.services.daemons import Daemon
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer
from tests.services.whole_path import CONFIG, PARTITIONS, Stage

EVENTS = 4000
GONE = 200
"""Records of each partition that nobody reads before Kafka deletes them."""


@pytest.fixture
async def built(
    kafka: Broker, one_redis: RedisServer, make_topic: MakeTopic, tmp_path: Path
) -> AsyncIterator[Stage]:
    stage = Stage(kafka, one_redis.url, await make_topic(partitions=PARTITIONS), tmp_path)
    yield stage
    stage.close()


async def comes(daemon: Daemon, holds: Callable[[], object]) -> None:
    """Wait until this holds."""
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(holds):
            await asyncio.sleep(0.1)


async def delete_before(stage: Stage, offsets: dict[int, int]) -> None:
    admin: Any = AIOKafkaAdminClient(bootstrap_servers=stage.kafka.bootstrap)
    await admin.start()
    try:
        places = {TopicPartition(stage.topic, n): offset for n, offset in offsets.items()}
        asked = {place: RecordsToDelete(offset) for place, offset in places.items()}
        await admin.delete_records(asked)
    finally:
        await admin.close()


async def run_to_the_end(stage: Stage, records: int) -> None:
    daemon = stage.daemon("one")
    await stage.wait_for("one", records)
    assert daemon.terminate() == 0, daemon.log()


async def gaps(stage: Stage) -> list[int]:
    store = stage.store("one")
    deltas = [await store.read(lane, "", None, 1) for lane in range(PARTITIONS)]
    await store._client.aclose()
    heads = [delta.head for delta in deltas if delta is not None]
    return [head.counts.get("gap_records", {}).get(stage.topic, 0) for head in heads]


async def test_only_what_kafka_no_longer_has_is_lost(built: Stage, one_redis: RedisServer) -> None:
    await built.produce(EVENTS)
    await run_to_the_end(built, EVENTS)
    taken = await built.taken("one")
    await built.produce(EVENTS)
    records = await built.records()

    # While the daemon is away Kafka deletes some of what it has not read: a gap, and counted.
    await delete_before(built, {lane: offset + GONE for lane, offset in taken.items()})
    await run_to_the_end(built, 2 * EVENTS)
    read = [r for r in records if not 0 <= r.offset - taken[r.partition] < GONE]
    assert len(read) == 2 * EVENTS - PARTITIONS * GONE
    assert await gaps(built) == [GONE] * PARTITIONS
    await built.assert_equals_oracle("one", oracle.run(read, [built.topic], CONFIG))

    # Then Redis is empty as well: the numbers are those of what Kafka still has, and of no more.
    one_redis.flush()
    await run_to_the_end(built, 2 * EVENTS)
    left = [r for r in records if r.offset >= taken[r.partition] + GONE]
    assert len(left) == EVENTS - PARTITIONS * GONE
    await built.assert_equals_oracle("one", oracle.run(left, [built.topic], CONFIG))


async def test_a_lost_state_is_counted_with_where_it_is_rebuilt_from(
    built: Stage, one_redis: RedisServer
) -> None:
    """Also where no worker is left that knew it: the consumer group does."""
    lost = 'relevanced_lane_state_lost_total{rebuilt_from="kafka_start"}'
    await built.produce(EVENTS)
    daemon = built.daemon("one")
    await built.wait_for("one", EVENTS)
    assert daemon.series(lost) == 0 and "lane begins" in daemon.log()
    await comes(daemon, lambda: "what a lost Redis would be filled with" in daemon.log())
    assert "7 days (retention.ms)" in daemon.log()
    stated = "the last 7 days only, not from history.days (35 days)"
    await comes(daemon, lambda: stated in daemon.readiness())
    assert daemon.terminate() == 0

    one_redis.flush()
    daemon = built.daemon("one")
    await built.wait_for("one", EVENTS)
    assert daemon.series(lost) == PARTITIONS
    assert daemon.log().count("it is read again, and its log has all of it") == PARTITIONS
    began = [
        daemon.series(f'relevanced_lane_rebuilt_from_timestamp_seconds{{lane="{lane}"}}')
        for lane in range(PARTITIONS)
    ]
    first = {r.partition: r.timestamp_ms / 1000 for r in reversed(await built.records())}
    assert began == [first[lane] for lane in range(PARTITIONS)]

    one_redis.flush()  # and while it runs
    await comes(daemon, lambda: daemon.series(lost) == 2 * PARTITIONS)
    await built.wait_for("one", EVENTS)
