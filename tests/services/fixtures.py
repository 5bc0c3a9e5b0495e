"""Servers for the tests: a real Kafka once per session, and every installed flavour of Redis."""

import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.services import kafka_docker, kafka_jars
from tests.services.kafka_server import Broker, KafkaServer
from tests.services.redis_server import RedisServer, binaries

OwnRedis = Callable[..., RedisServer]
OwnKafka = Callable[..., KafkaServer]
MakeTopic = Callable[..., Awaitable[str]]


def this_machines_broker(directory: Path) -> Broker:
    """The broker of this machine: the one that was named, else Java's, else Docker's."""
    named = os.environ.get("RELEVANCED_TEST_KAFKA")
    if named:
        return Broker(named)
    if kafka_jars.java():
        return KafkaServer(directory)
    if kafka_docker.engine_runs():
        return kafka_docker.DockerKafka()
    raise kafka_jars.KafkaUnavailable(kafka_jars.ADVICE)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The session's Kafka broker: `.bootstrap`, `.create_topic`, `.kill`, `.restart` …"""
    broker = this_machines_broker(tmp_path_factory.mktemp("kafka"))
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


@pytest.fixture
async def make_topic(kafka: Broker) -> AsyncIterator[MakeTopic]:
    """`await make_topic(partitions=4, config={…})` makes a topic of a unique name for one test."""
    kafka.start()
    names: list[str] = []

    async def make(
        partitions: int = 1, config: Mapping[str, str] | None = None, prefix: str = "topic"
    ) -> str:
        name = f"{prefix}-{uuid.uuid4().hex[:12]}"
        await kafka.create_topic(name, partitions, config)
        names.append(name)
        return name

    yield make
    kafka.start()
    for name in names:
        await kafka.delete_topic(name)


@pytest.fixture
async def topic(make_topic: MakeTopic) -> str:
    """The name of a new topic of one partition."""
    return await make_topic()


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[OwnKafka]:
    """`own_kafka(listeners={…}, properties={…})` starts a broker of the test's own; needs Java."""
    servers: list[KafkaServer] = []

    def make(
        *, listeners: Mapping[str, str] | None = None, properties: Mapping[str, str] | None = None
    ) -> KafkaServer:
        directory = tmp_path / f"kafka-{len(servers)}"
        servers.append(KafkaServer(directory, listeners=listeners, properties=properties))
        servers[-1].start()
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture(scope="session", params=binaries().items(), ids=list(binaries()))
def redis_binary(request: pytest.FixtureRequest) -> str:
    """The path of a server; the tests that use it run once per flavour."""
    name, path = request.param
    assert (
        path
    ), f"redis-server is not on PATH: needed for {name} (Debian: apt-get install {name}-server)"
    return str(path)


@pytest.fixture(scope="session")
def redis_session(
    redis_binary: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RedisServer]:
    """One server per flavour; tests take `redis`, which is emptied between them."""
    server = RedisServer(redis_binary, tmp_path_factory.mktemp("redis"))
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture
def redis(redis_session: RedisServer) -> RedisServer:
    """An empty server, in memory. A test may kill it: the next one finds it running again."""
    redis_session.start()
    redis_session.flush()
    return redis_session


@pytest.fixture
def own_redis(redis_binary: str, tmp_path: Path) -> Iterator[OwnRedis]:
    """`own_redis(appendonly="yes")` starts a server of the test's own; `_` stands for `-`."""
    servers: list[RedisServer] = []

    def make(**settings: str) -> RedisServer:
        lines = {name.replace("_", "-"): value for name, value in settings.items()}
        servers.append(RedisServer(redis_binary, tmp_path / f"redis-{len(servers)}", lines))
        servers[-1].start()
        return servers[-1]

    yield make
    for server in servers:
        server.kill()
