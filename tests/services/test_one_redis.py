"""A consumer group belongs to one Redis: who has another one, or none that answers, stays out of
it, and takes no lane from those who can serve."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.config import load
from relevanced.daemon.errors import OtherRedis
from relevanced.daemon.kafka import KafkaSettings, KafkaSource, kafka_settings, take_group
from relevanced.daemon.storage import namespace
from relevanced.daemon.telemetry import ADVICE
from tests.services.daemons import Daemon, until
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_lanes import ask
from tests.services.redis_server import RedisServer, one_binary
from tests.services.whole_path import PARTITIONS, Stage

EVENTS = 1000
NAME = "one"
OTHER = "this group belongs to another Redis"
READY = '"ready":true'
ASSIGNED = '"event": "lanes assigned"'


@pytest.fixture
async def stage(
    kafka: Broker, one_redis: RedisServer, make_topic: MakeTopic, tmp_path: Path
) -> AsyncIterator[Stage]:
    built = Stage(kafka, one_redis.url, await make_topic(partitions=PARTITIONS), tmp_path)
    yield built
    built.close()


@pytest.fixture
def other_redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(one_binary(), tmp_path / "other")
    server.start()
    yield server
    server.kill()


async def running(stage: Stage) -> Daemon:
    """A daemon that has read all there is, and whose offsets are in the group."""
    await stage.produce(EVENTS)
    daemon = stage.daemon(NAME)
    await stage.wait_for(NAME, EVENTS)
    settings = settings_of(stage)
    await until_noted(settings)
    return daemon


def settings_of(stage: Stage) -> KafkaSettings:
    return kafka_settings(load(stage.toml(NAME), {}, "test"))


async def with_admin(settings: KafkaSettings, ask: Callable[[Any], Any]) -> Any:
    admin: Any = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap_servers)
    await admin.start()
    try:
        return await ask(admin)
    finally:
        await admin.close()


async def until_noted(settings: KafkaSettings) -> None:
    async with asyncio.timeout(40):
        while not await with_admin(
            settings, lambda a: a.list_consumer_group_offsets(settings.group_id)
        ):
            await asyncio.sleep(0.2)


def told(daemon: Daemon, text: str) -> Callable[[], bool]:
    return lambda: text in daemon.readiness()


def logged(daemon: Daemon, text: str) -> Callable[[], bool]:
    return lambda: text in daemon.log()


def at(redis: RedisServer, stage: Stage) -> Daemon:
    """The same configuration at another Redis."""
    stage.daemons.append(
        Daemon(stage.directory, stage.toml(NAME).replace(stage.redis_url, redis.url), "all")
    )
    return stage.daemons[-1]


async def going_on(stage: Stage, other_redis: RedisServer) -> Daemon:
    """The daemon that goes on with all lanes of a group without members, where one at another
    Redis stays out."""
    stray = at(other_redis, stage)
    await until(told(stray, OTHER), stray)
    await stage.produce(EVENTS)
    daemon = stage.daemon(NAME)
    await stage.wait_for(NAME, 2 * EVENTS)
    await until(lambda: daemon.series("relevanced_owned_lanes") == PARTITIONS, daemon)
    return daemon


async def test_a_stray_process_takes_no_lane_and_says_why(
    stage: Stage, other_redis: RedisServer
) -> None:
    daemon = await running(stage)
    away = at(other_redis, stage)
    other_redis.kill()
    await until(told(away, "waiting for Redis: Redis: "), away)
    assert away.series('relevanced_kept_out{trouble="connection"}') == 1
    other_redis.start()
    stray = at(other_redis, stage)
    for one in (away, stray):
        await until(told(one, f"{OTHER}: consumer group {settings_of(stage).group_id}"), one)
        assert json.dumps(ADVICE["other_redis"]) in one.log()
        assert one.series('relevanced_kafka_faults_total{fault="other_redis"}') == 1
        assert one.series('relevanced_kept_out{trouble="other_redis"}') == 1
        with pytest.raises(HTTPError, match="503"):
            one.get("/startedz")  # so a roll-out ends with it
    daemon.get("/startedz")
    assert other_redis.call("KEYS *}:head") == "*0" and ASSIGNED not in stray.log()
    await stage.produce(EVENTS)
    await stage.wait_for(NAME, 2 * EVENTS)
    assert daemon.log().count(ASSIGNED) == 1 and READY in daemon.readiness()


async def test_two_workers_on_an_empty_redis_are_of_one_group(stage: Stage) -> None:
    """Also after that Redis was emptied while they ran, and for a third that comes just then."""
    await stage.produce(EVENTS)
    first, second = stage.daemon(NAME), stage.daemon(NAME)
    await stage.wait_for(NAME, EVENTS)
    for daemon in (first, second):
        await until(told(daemon, READY), daemon)
    await until_noted(settings_of(stage))
    ids = await ask(stage.redis_url, "HGETALL", f"{NAME}:ids")
    await ask(stage.redis_url, "FLUSHALL")
    third = stage.daemon(NAME)
    for daemon in (first, second, third):
        await until(told(daemon, READY), daemon)
    assert await ask(stage.redis_url, "HGETALL", f"{NAME}:ids") == ids
    assert "Redis lost the id of this namespace" in first.log() + second.log()
    await stage.wait_for(NAME, EVENTS)


async def test_a_group_that_no_release_noted_goes_on_with_its_lanes(
    stage: Stage, other_redis: RedisServer
) -> None:
    """An upgrade in place: offsets without a note, lanes without an id."""
    daemon = await running(stage)
    assert daemon.terminate() == 0
    await take_group(settings_of(stage), "")
    await ask(stage.redis_url, "DEL", f"{NAME}:ids")
    await going_on(stage, other_redis)


async def test_lanes_that_began_after_a_loss_go_on_where_nobody_knows_the_id(
    stage: Stage, other_redis: RedisServer
) -> None:
    """Redis was emptied, and all who knew its id died once their lanes had begun anew."""
    daemon = await running(stage)
    assert daemon.terminate() == 0
    await ask(stage.redis_url, "DEL", f"{NAME}:ids")
    successor = await going_on(stage, other_redis)
    assert "nobody is left who knew it" in successor.log()


async def test_an_operator_gives_the_group_to_the_redis_that_took_the_place(
    stage: Stage, other_redis: RedisServer, tmp_path: Path
) -> None:
    daemon = await running(stage)
    path = tmp_path / "moved.toml"
    path.write_text(stage.toml(NAME).replace(stage.redis_url, other_redis.url))
    command = ["lane", "take-group", "--config", str(path)]
    refused = await asyncio.to_thread(CliRunner().invoke, cli, command)
    assert refused.exit_code == 1 and "has 1 members, which work with" in refused.output
    assert daemon.terminate() == 0
    moved = at(other_redis, stage)
    await until(told(moved, OTHER), moved)
    shown = await asyncio.to_thread(CliRunner().invoke, cli, [*command, "--dry-run"])
    assert shown.exit_code == 0 and "nothing taken" in shown.output
    taken = await asyncio.to_thread(CliRunner().invoke, cli, command)
    assert taken.exit_code == 0, taken.output
    await until(told(moved, READY), moved)
    back = stage.daemon(NAME)
    await until(told(back, OTHER), back)


async def test_a_worker_leaves_while_its_redis_is_another_one(stage: Stage) -> None:
    daemon = await running(stage)
    space = namespace(load(stage.toml(NAME), {}, "test"))
    own = (await ask(stage.redis_url, "HGET", f"{NAME}:ids", space)).decode()
    await ask(stage.redis_url, "HSET", f"{NAME}:ids", space, "another")
    await until(told(daemon, OTHER), daemon)
    assert daemon.series("relevanced_owned_lanes") == 0
    await ask(stage.redis_url, "HSET", f"{NAME}:ids", space, own)
    await until(told(daemon, READY), daemon)
    await stage.produce(EVENTS)
    await stage.wait_for(NAME, 2 * EVENTS)


async def test_members_of_two_redises_never_share_the_lanes(stage: Stage) -> None:
    """Where nothing is committed yet, the leader decides; what names no Redis may join it."""
    settings = settings_of(stage)
    members = [KafkaSource(settings) for _ in range(3)]
    first, stray, old = members
    try:
        for member, note in zip(members, ("a1 here", "b2 there", ""), strict=True):
            await member.look_up()
            await member.join(note)
            await turns(first, lambda: bool(first.assignment))
        with pytest.raises(OtherRedis, match="at here .id a1.*at there .id b2"):
            async with asyncio.timeout(30):
                while True:
                    await asyncio.gather(*(member.poll(1, 100) for member in members))
        await stray.stop()
        await turns(first, lambda: bool(old.assignment), old)
        assert first.assignment | old.assignment == {
            TopicPartition(stage.topic, lane) for lane in range(PARTITIONS)
        }
    finally:
        await asyncio.gather(*(member.stop() for member in members))


async def turns(first: KafkaSource, ready: Callable[[], bool], *others: KafkaSource) -> None:
    async with asyncio.timeout(30):
        while not ready():
            await asyncio.gather(*(member.poll(1, 100) for member in (first, *others)))


async def test_members_tell_host_and_process(stage: Stage) -> None:
    daemon = await running(stage)
    settings = settings_of(stage)
    (answer,) = await with_admin(
        settings, lambda a: a.describe_consumer_groups([settings.group_id])
    )
    members = [member[1] for member in answer.groups[0][5]]
    assert members == [f"relevanced-{socket.gethostname()}-{daemon.process.pid}"]
    assert settings.client_id.endswith(f"-{os.getpid()}")
