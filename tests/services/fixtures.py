"""Servers for the tests: a real Kafka once per session, and every installed flavour of Redis."""

import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import cast

import pytest

from tests.services import kafka_docker, kafka_jars
from tests.services.apicurio import ApicurioRegistry
from tests.services.kafka_server import Broker, KafkaServer
from tests.services.redis_cluster import RedisCluster
from tests.services.redis_server import RedisServer, binaries, one_binary

AnyRedis = RedisServer | RedisCluster
SharedRedis = Callable[[str], RedisServer]
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


@pytest.fixture(scope="session")
def apicurio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApicurioRegistry]:
    """The session's schema registry; each test registers what it needs under subjects of its
    own."""
    registry = ApicurioRegistry(tmp_path_factory.mktemp("apicurio"))
    try:
        registry.start()
        yield registry
    finally:
        registry.close()


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


def installed(flavour: str) -> str:
    """The path of a server; skips the test where it is not installed."""
    path = binaries()[flavour]
    if path is None:
        pytest.skip(f"no {flavour}-server: apt-get install {flavour}-server")
    return path


@pytest.fixture(scope="session", params=list(binaries()))
def redis_binary(request: pytest.FixtureRequest) -> str:
    """The path of a server; the tests that use it run once per flavour."""
    return installed(request.param)


@pytest.fixture(scope="session")
def redis_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedRedis]:
    """`redis_servers(binary)`: one server per flavour, started when first asked for; tests take
    `redis`, which is emptied between them."""
    servers: dict[str, RedisServer] = {}

    def server_of(binary: str) -> RedisServer:
        if binary not in servers:
            servers[binary] = RedisServer(binary, tmp_path_factory.mktemp("redis"))
        servers[binary].start()
        return servers[binary]

    yield server_of
    for server in servers.values():
        server.kill()


@pytest.fixture
def redis(redis_binary: str, redis_servers: SharedRedis) -> RedisServer:
    """An empty server, in memory. A test may kill it: the next one finds it running again."""
    server = redis_servers(redis_binary)
    server.flush()
    return server


@pytest.fixture
def one_redis(redis_servers: SharedRedis) -> RedisServer:
    """An empty server of one flavour, for whole processes: what each flavour makes of each step of
    a lane, the store's tests hold."""
    server = redis_servers(one_binary())
    server.flush()
    return server


@pytest.fixture(scope="session")
def redis_cluster_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """One cluster of three masters; tests take `redis_cluster`, which is emptied between them."""
    cluster = RedisCluster(one_binary(), tmp_path_factory.mktemp("cluster"), 3, replicas=False)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


@pytest.fixture
def redis_cluster(redis_cluster_session: RedisCluster) -> RedisCluster:
    """An empty cluster, in memory. Slots may lie elsewhere than at first: a test may move them."""
    redis_cluster_session.start()
    redis_cluster_session.flush()
    return redis_cluster_session


@pytest.fixture(params=[*binaries(), "cluster"])
def any_redis(request: pytest.FixtureRequest, redis_servers: SharedRedis) -> AnyRedis:
    """`redis` of every flavour and `redis_cluster`: for what holds on one server and on several."""
    if request.param == "cluster":
        return cast(RedisCluster, request.getfixturevalue("redis_cluster"))
    server = redis_servers(installed(request.param))
    server.flush()
    return server


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
