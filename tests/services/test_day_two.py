"""The steps of deploy/guide/operations.md on real servers: whatever is done, the numbers in the end
are those of a run that nobody disturbed."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from redis.asyncio import Redis

from deploy.send_again import send_again
from tests import oracle
from tests.services import processes
from tests.services.daemons import Daemon, until
from tests.services.fixtures import MakeTopic, OwnKafka
from tests.services.kafka_server import Broker, KafkaServer
from tests.services.redis_server import RedisServer, one_binary
from tests.services.whole_path import CONFIG, PARTITIONS, Stage

OPERATIONS = Path(__file__).parents[2] / "deploy" / "guide" / "operations.md"
EVENTS = 3000
NOW_MS = 1_795_176_000_000
TOML = """
windows = ["1m"]
[kafka]
bootstrap_servers = ["{kafka}"]
topics = ["{topic}"]
start = "earliest"
commit_interval = "50ms"
{more}
[redis]
url = "{redis}"
{redis_more}
[attribution]
window = "1m"
lateness = "1s"
[events]
{events}
"""


@pytest.fixture
async def stage(kafka: Broker, make_topic: MakeTopic, tmp_path: Path) -> AsyncIterator[Stage]:
    """A topic, and a Redis with an append-only file; `stage.redis` is the server."""
    redis = RedisServer(one_binary(), tmp_path / "first", {"appendonly": "yes"})
    redis.start()
    built = Stage(kafka, redis.url, await make_topic(partitions=PARTITIONS), tmp_path)
    built.redis = redis  # type: ignore[attr-defined]
    yield built
    built.close()
    redis.kill()


def first_redis(stage: Stage) -> RedisServer:
    redis = stage.redis  # type: ignore[attr-defined]
    assert isinstance(redis, RedisServer)
    return redis


def info(redis: RedisServer, section: str, field: str) -> str:
    """One field of INFO."""
    command = ["redis-cli", "-p", str(redis.port), "INFO", section]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(rf"^{field}:(.*?)\r?$", text, re.MULTILINE)
    assert found, text
    return found[1]


async def read_to_the_end(stage: Stage, records: int) -> None:
    daemon = stage.daemon("one")
    await stage.wait_for("one", records)
    assert daemon.terminate() == 0, daemon.log()


async def equal_to_an_undisturbed_run(stage: Stage) -> None:
    expected = oracle.run(await stage.records(), [stage.topic], CONFIG)
    await stage.assert_equals_oracle("one", expected)


def steps_of_a_restore() -> str:
    """The commands of the page, word for word."""
    _, _, section = OPERATIONS.read_text().partition("\n## Backup and restore\n")
    blocks = re.findall(r"^```sh\n(.*?)^```$", section.partition("\n## ")[0], re.M | re.S)
    assert len(blocks) == 1, "the page has one block of commands for a restore"
    return str(blocks[0])


START = """redis-server "$CONF" --daemonize yes
until redis-cli -p "$PORT" PING | grep PONG; do sleep 0.1; done
"""
"""As a server starts whose configuration alone says how."""


class RestoredRedis:
    """A server that starts as the page says, and later with its configuration alone."""

    def __init__(self, backup: Path, data: Path) -> None:
        data.mkdir()
        self.port = processes.free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.conf = data.parent / "restored.conf"
        self.conf.write_text(f"bind 127.0.0.1\nport {self.port}\ndir {data}\nappendonly yes\n")
        self.variables = {
            "BACKUP": str(backup),
            "DIR": str(data),
            "CONF": str(self.conf),
            "PORT": str(self.port),
        }

    async def run(self, commands: str) -> str:
        """What the commands print."""
        done = await asyncio.to_thread(
            subprocess.run,
            ["bash", "-euo", "pipefail", "-c", commands],
            env={**os.environ, **self.variables},
            stdout=subprocess.PIPE,
            timeout=60,
            check=True,
            text=True,
        )
        return done.stdout

    async def restart(self) -> None:
        """Stop as an init system does, and start with the configuration alone."""
        process = int(await self.run('redis-cli -p "$PORT" INFO server | sed -n s/^process_id://p'))
        os.kill(process, signal.SIGTERM)
        async with asyncio.timeout(20):
            while Path(f"/proc/{process}/cmdline").exists() and _command_line(process):
                await asyncio.sleep(0.05)
        await self.run(START)

    def close(self) -> None:
        # Not there where a step before its start has failed.
        command = ["redis-cli", "-p", str(self.port), "SHUTDOWN", "NOSAVE"]
        subprocess.run(command, check=False, timeout=20)


def _command_line(process: int) -> bytes:
    """Empty once the process has ended, whoever is to reap it."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


async def keys_of(url: str) -> dict[bytes, Any]:
    """Each key with its value: a hash may have its fields in another order after a restore."""
    client: Any = Redis.from_url(url)

    async def ranked(key: bytes) -> list[tuple[bytes, float]]:
        return list(await client.zrange(key, 0, -1, withscores=True))

    read = {
        b"string": client.get,
        b"hash": client.hgetall,
        b"set": client.smembers,
        b"zset": ranked,
    }
    try:
        keys = [key async for key in client.scan_iter(count=1000)]
        return {key: await read[await client.type(key)](key) for key in keys}
    finally:
        await client.aclose()


@pytest.mark.parametrize("kind", ["aof", "rdb"])
async def test_a_backup_taken_under_load_is_restored(
    stage: Stage, tmp_path: Path, kind: str
) -> None:
    redis = first_redis(stage)
    await stage.produce(EVENTS)
    daemon = stage.daemon("one")
    await stage.wait_for("one", EVENTS // 3)
    backup, data = tmp_path / "backup", tmp_path / "data"
    backup.mkdir()
    restored = RestoredRedis(backup, data)
    if kind == "aof":
        redis.run_command("CONFIG SET auto-aof-rewrite-percentage 0")
        await until(lambda: info(redis, "persistence", "aof_rewrite_in_progress") == "0", daemon)
        shutil.copytree(redis.directory / "appendonlydir", data / "appendonlydir")
    else:
        redis.run_command("BGSAVE")
        await until(lambda: info(redis, "persistence", "rdb_bgsave_in_progress") == "0", daemon)
        shutil.copy(redis.directory / "dump.rdb", backup)
    await stage.wait_for("one", EVENTS)
    await stage.produce(EVENTS)
    await stage.wait_for("one", 2 * EVENTS)
    assert daemon.terminate() == 0
    redis.kill()  # and everything since the copy is lost
    try:
        await restored.run(steps_of_a_restore() if kind == "rdb" else START)
        stage.redis_url = restored.url
        taken = sum((await stage.taken("one")).values())
        assert EVENTS // 3 <= taken < 2 * EVENTS, "the copy is older"
        await read_to_the_end(stage, 2 * EVENTS)
        await equal_to_an_undisturbed_run(stage)
    finally:
        restored.close()


async def test_a_backup_by_bgsave_is_restored_by_the_commands_of_the_page(
    stage: Stage, tmp_path: Path
) -> None:
    redis = first_redis(stage)
    await stage.produce(EVENTS)
    await read_to_the_end(stage, EVENTS)
    redis.run_command("BGSAVE")
    async with asyncio.timeout(20):
        while info(redis, "persistence", "rdb_bgsave_in_progress") != "0":
            await asyncio.sleep(0.05)
    backup = tmp_path / "backup"
    backup.mkdir()
    shutil.copy(redis.directory / "dump.rdb", backup)
    (backup / "dump.rdb").chmod(0o400)
    before, expected = (backup / "dump.rdb").read_bytes(), await keys_of(redis.url)
    assert len(expected) > PARTITIONS
    redis.kill()
    restored = RestoredRedis(backup, tmp_path / "data")
    try:
        printed = await restored.run(steps_of_a_restore())
        assert str(len(expected)) in printed.splitlines(), "DBSIZE is shown"
        assert await keys_of(restored.url) == expected
        await restored.restart()
        assert await keys_of(restored.url) == expected, "appendonly is permanent"
    finally:
        restored.close()
    assert [path.name for path in backup.iterdir()] == ["dump.rdb"]
    assert (backup / "dump.rdb").read_bytes() == before


async def test_redis_is_moved_by_a_replica(stage: Stage, tmp_path: Path) -> None:
    old = first_redis(stage)
    await stage.produce(EVENTS)
    daemon = stage.daemon("one")
    await stage.wait_for("one", EVENTS // 3)
    new = RedisServer(one_binary(), tmp_path / "second", {"appendonly": "yes"})
    new.start()
    try:
        new.run_command(f"REPLICAOF 127.0.0.1 {old.port}")
        await until(lambda: info(new, "replication", "master_link_status") == "up", daemon)
        assert daemon.terminate() == 0
        offsets = ("replication", "master_repl_offset")
        await until(lambda: info(new, *offsets) == info(old, *offsets), daemon)
        new.run_command("REPLICAOF NO ONE")
        old.kill()
        stage.redis_url = new.url
        assert sum((await stage.taken("one")).values()) >= EVENTS // 3
        await stage.produce(EVENTS)
        await read_to_the_end(stage, 2 * EVENTS)
        await equal_to_an_undisturbed_run(stage)
    finally:
        new.kill()


async def test_a_rollback_continues_the_former_namespace(stage: Stage) -> None:
    await stage.produce(EVENTS)
    await read_to_the_end(stage, EVENTS)
    former = await stage.taken("one")
    changed = stage.toml("one").replace('lateness = "5s"', 'lateness = "6s"')
    await stage.produce(EVENTS)
    daemon = Daemon(stage.directory, changed, "worker")
    stage.daemons.append(daemon)
    await until(lambda: daemon.series("relevanced_owned_lanes") == PARTITIONS, daemon)
    assert daemon.terminate() == 0
    assert await stage.taken("one") == former, "the fresh namespace stands beside it"
    await read_to_the_end(stage, 2 * EVENTS)
    await equal_to_an_undisturbed_run(stage)


async def test_a_password_of_redis_is_rotated(stage: Stage, tmp_path: Path) -> None:
    redis = first_redis(stage)
    redis.run_command("ACL SETUSER relevanced on >old ~* &* +@all")
    secret = tmp_path / "password"
    secret.write_text("old")
    open_url = stage.redis_url
    login = open_url.replace("redis://", "redis://relevanced@")
    config = stage.toml("one").replace(
        f'url = "{open_url}"', f'url = "{login}"\npassword_file = "{secret}"'
    )

    def worker() -> Daemon:
        stage.daemons.append(Daemon(stage.directory, config, "worker"))
        return stage.daemons[-1]

    await stage.produce(EVENTS)
    first = worker()
    await stage.wait_for("one", EVENTS // 3)
    redis.run_command("ACL SETUSER relevanced >new")
    secret.write_text("new")
    second = worker()
    await until(lambda: second.series("relevanced_owned_lanes") > 0, second)
    assert first.terminate() == 0, first.log()
    redis.run_command("ACL SETUSER relevanced <old")
    await stage.produce(EVENTS)
    await stage.wait_for("one", 2 * EVENTS)
    assert second.terminate() == 0, second.log()
    await equal_to_an_undisturbed_run(stage)


def small(kafka: str, topic: str, redis: str, **more: str) -> str:
    """A configuration with short waits."""
    parts = {"more": "", "redis_more": "", "events": "", **more}
    return TOML.format(kafka=kafka, topic=topic, redis=redis, **parts)


def impression(number: int) -> bytes:
    fields = {"type": "impression", "impression_id": f"q{number}", "timestamp": NOW_MS}
    return json.dumps({**fields, "items": ["a"], "query": "x" * 40}).encode()


def click(number: int) -> bytes:
    fields = {"type": "feedback", "impression_id": f"q{number}", "timestamp": NOW_MS + 1}
    return json.dumps({**fields, "kind": "click", "item": "a"}).encode()


async def send(bootstrap: str, topic: str, values: dict[str, bytes]) -> dict[str, int]:
    """Send by key; returns the partition of each key."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    try:
        return {
            key: (
                await producer.send_and_wait(topic, value, key.encode(), timestamp_ms=NOW_MS)
            ).partition
            for key, value in values.items()
        }
    finally:
        await producer.stop()


async def test_with_more_partitions_only_feedback_whose_key_moved_is_lost(
    kafka: Broker, make_topic: MakeTopic, one_redis: RedisServer, tmp_path: Path
) -> None:
    topic, count = await make_topic(partitions=2), 60
    before = await send(kafka.bootstrap, topic, {f"q{n}": impression(n) for n in range(count)})
    admin: Any = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    await admin.create_partitions({topic: NewPartitions(4)})
    await admin.close()
    after = await send(kafka.bootstrap, topic, {f"q{n}": click(n) for n in range(count)})
    more = range(count, 2 * count)
    await send(kafka.bootstrap, topic, {f"q{n}": impression(n) for n in more})
    await send(kafka.bootstrap, topic, {f"q{n}": click(n) for n in more})
    moved = sum(before[key] != after[key] for key in before)
    assert 0 < moved < count
    daemon = Daemon(tmp_path, small(kafka.bootstrap, topic, one_redis.url))
    try:
        joined = 'relevanced_feedback_outcomes_total{outcome="joined"}'
        await until(lambda: daemon.series(joined) == 2 * count - moved, daemon)
        waiting = [f'relevanced_waiting_feedback{{lane="{lane}"}}' for lane in range(4)]
        await until(lambda: sum(map(daemon.series, waiting)) == moved, daemon)
    finally:
        daemon.close()


async def test_dead_letters_are_sent_again(
    kafka: Broker, make_topic: MakeTopic, one_redis: RedisServer, tmp_path: Path
) -> None:
    """Records that were too large are read once the limit is raised; garbage stays a letter."""
    topic, letters = await make_topic(partitions=2), await make_topic(partitions=2)
    values = {f"q{n}": impression(n) for n in range(10)} | {"garbage": b"{"}
    await send(kafka.bootstrap, topic, values)
    events = f'dead_letter_topic = "{letters}"\nmax_record_bytes = '
    config = small(kafka.bootstrap, topic, one_redis.url, events=f"{events}64")
    daemon = Daemon(tmp_path, config)
    try:
        await until(lambda: daemon.series("relevanced_dead_letters_total") == 11, daemon)
    finally:
        daemon.close()
    config = small(kafka.bootstrap, topic, one_redis.url, events=f"{events}1000")
    daemon = Daemon(tmp_path, config.replace('start = "earliest"', 'start = "latest"'))
    try:
        await until(lambda: daemon.series("relevanced_owned_lanes") == 2, daemon)
        assert await send_again(kafka.bootstrap, letters, "too_large") == 10
        accepted = 'relevanced_impression_outcomes_total{outcome="accepted"}'
        await until(lambda: daemon.series(accepted) == 10, daemon)
    finally:
        daemon.close()


async def test_the_permissions_that_are_documented_are_enough(
    own_kafka: OwnKafka, one_redis: RedisServer, tmp_path: Path
) -> None:
    """With the default group, whose name ends in a hash."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    broker = own_kafka(
        listeners={"LOGIN": "SASL_PLAINTEXT"},
        properties={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": f'{login} user_relevanced="secret";',
        },
    )
    for topic in ("search-events", "search-dead-letters"):
        await broker.create_topic(topic, partitions=1)
    await send(broker.bootstrap, "search-events", {"q1": impression(1), "garbage": b"{"})
    commands = re.findall(r"^    kafka-acls.sh (.*)$", OPERATIONS.read_text(), re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        await asyncio.to_thread(allow, broker, command.split())
    user = 'security_protocol = "SASL_PLAINTEXT"\nsasl_mechanism = "PLAIN"\n'
    user += 'sasl_username = "relevanced"\nsasl_password = "secret"'
    letters = 'dead_letter_topic = "search-dead-letters"'
    config = small(
        broker.address("LOGIN"), "search-events", one_redis.url, more=user, events=letters
    )
    daemon = Daemon(tmp_path, config)
    try:
        accepted = 'relevanced_impression_outcomes_total{outcome="accepted"}'
        await until(lambda: daemon.series(accepted) == 1, daemon)
        await until(lambda: daemon.series("relevanced_dead_letters_total") == 1, daemon)
        assert "not_permitted" not in daemon.log() and "Authorization" not in daemon.log()
    finally:
        daemon.close()


def allow(broker: KafkaServer, arguments: list[str]) -> None:
    command = broker._java(
        "org.apache.kafka.tools.AclCommand", "--bootstrap-server", broker.bootstrap, *arguments
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
