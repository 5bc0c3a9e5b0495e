"""A running daemon on a Redis Cluster and behind a Sentinel: slots move, masters die, and the
numbers come out right."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.crc import key_slot

from relevanced.daemon.storage import LaneStore
from tests import oracle
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_cluster import RedisCluster
from tests.services.redis_lanes import ask, until
from tests.services.redis_server import RedisServer, one_binary
from tests.services.whole_path import CONFIG, PARTITIONS, Stage

SOME = 3_000
RATE = 30
"""Events per second of event time."""
NAME = "topologies"
PATIENCE_S = 40.0

MakeStage = Callable[[str], Awaitable[Stage]]


@pytest.fixture
async def make_stage(
    kafka: Broker, make_topic: MakeTopic, tmp_path: Path
) -> AsyncIterator[MakeStage]:
    """`await make_stage(url)`: a topic, and daemons on the Redis at this URL."""
    stages: list[Stage] = []

    async def make(url: str) -> Stage:
        stages.append(Stage(kafka, url, await make_topic(partitions=PARTITIONS), tmp_path, RATE))
        return stages[-1]

    yield make
    for stage in stages:
        stage.close()


@asynccontextmanager
async def traffic(stage: Stage) -> AsyncIterator[None]:
    """Events arrive all the while."""
    stop = asyncio.Event()

    async def flow() -> None:
        while not stop.is_set():
            await stage.produce(SOME // 10)
            await asyncio.sleep(0.2)

    flowing = asyncio.create_task(flow())
    try:
        yield
    finally:
        stop.set()
        await flowing


async def assert_numbers_are_right(stage: Stage) -> None:
    """After an orderly end of every daemon."""
    records = await stage.records()
    await stage.wait_for(NAME, len(records))
    for daemon in stage.daemons:
        assert await asyncio.to_thread(daemon.terminate) == 0, daemon.log()
        assert "Traceback" not in daemon.log()
    await stage.assert_equals_oracle(NAME, oracle.run(records, [stage.topic], CONFIG))


# Clusters


@pytest.fixture
def replicated(tmp_path: Path) -> Iterator[RedisCluster]:
    """A cluster of the test's own, whose masters have a replica each."""
    built = RedisCluster(one_binary(), tmp_path, 3, replicas=True)
    try:
        built.start()
        yield built
    finally:
        built.kill()


async def begin(stage: Stage) -> None:
    """A daemon that owns all lanes and has taken some events."""
    stage.daemon(NAME, "all")
    await stage.produce(SOME)
    await stage.wait_for(NAME, SOME)


def slot_of(stage: Stage, lane: int) -> int:
    store: LaneStore = stage.store(NAME)
    return key_slot(f"{store.prefix(lane)}head".encode())


async def test_slots_of_lanes_move_while_events_arrive(
    redis_cluster: RedisCluster, make_stage: MakeStage
) -> None:
    cluster = redis_cluster
    stage = await make_stage(cluster.url)
    await begin(stage)
    async with traffic(stage):
        for lane in range(PARTITIONS):
            slot = slot_of(stage, lane)
            source = await cluster.owner_of(slot)
            target = cluster.masters[(cluster.masters.index(source) + 1) % len(cluster.masters)]
            assert await cluster.move_slot(slot, source, target) > 3
            assert await ask(source.url, "CLUSTER", "COUNTKEYSINSLOT", slot) == 0
    await assert_numbers_are_right(stage)


async def test_replica_takes_over_from_a_master_of_the_cluster(
    replicated: RedisCluster, make_stage: MakeStage
) -> None:
    cluster = replicated
    stage = await make_stage(cluster.url)
    await begin(stage)
    dying = cluster.masters.index(await cluster.owner_of(slot_of(stage, 0)))
    # the daemon knows all nodes by now; who looks at the outcome must not begin at the dead one
    living = cluster.masters[(dying + 1) % len(cluster.masters)]
    stage.redis_url = living.url.replace("redis://", "redis+cluster://")
    async with traffic(stage):
        await asyncio.to_thread(cluster.masters[dying].kill)

        async def taken_over() -> bool:
            role = await ask(cluster.replicas[dying].url, "ROLE")
            return bool(role[0] == b"master")

        await until(taken_over, PATIENCE_S)
    await assert_numbers_are_right(stage)


# Sentinels


@pytest.fixture
async def watched(
    tmp_path: Path,
) -> AsyncIterator[tuple[RedisServer, RedisServer, RedisServer]]:
    """A master, its replica, and the Sentinel that watches them."""
    binary = one_binary()
    master = RedisServer(binary, tmp_path / "master", {"repl-diskless-sync-delay": "0"})
    replica = RedisServer(binary, tmp_path / "replica", {"replicaof": f"127.0.0.1 {master.port}"})
    name = tmp_path / "redis-sentinel"
    name.symlink_to(binary)
    watch = {
        f"sentinel monitor main 127.0.0.1 {master.port}": "1",
        "sentinel down-after-milliseconds main": "1000",
        "sentinel failover-timeout main": "6000",
    }
    sentinel = RedisServer(str(name), tmp_path / "sentinel", watch)
    try:
        for server in (master, replica):
            server.start()
        await until(lambda: linked(replica), PATIENCE_S)
        sentinel.start()
        yield master, replica, sentinel
    finally:
        for server in (sentinel, master, replica):
            if server.running:
                server.kill()


async def linked(replica: RedisServer) -> bool:
    told = await ask(replica.url, "INFO", "replication")
    return bool(told["master_link_status"] == "up")


async def test_state_and_offsets_roll_back_together_when_a_sentinel_fails_over(
    watched: tuple[RedisServer, RedisServer, RedisServer], make_stage: MakeStage
) -> None:
    master, replica, sentinel = watched
    stage = await make_stage(f"redis+sentinel://127.0.0.1:{sentinel.port}/main")
    await begin(stage)
    assert master.call("WAIT 1 5000") == ":1"
    replica.call("REPLICAOF NO ONE")  # what is written from here on is lost
    known = await ask(replica.url, "DBSIZE")
    await stage.produce(SOME)
    await stage.wait_for(NAME, 2 * SOME)
    assert await ask(master.url, "DBSIZE") > known
    await asyncio.to_thread(master.kill)
    await stage.produce(SOME)
    await assert_numbers_are_right(stage)
    assert "the store has older state of the lane: reading again" in stage.daemons[0].log()
