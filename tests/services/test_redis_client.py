"""URLs and what they connect to."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.sentinel import SentinelConnectionPool

from relevanced.daemon.config import Secret
from relevanced.daemon.errors import Unavailable
from relevanced.daemon.logins import Password
from relevanced.daemon.storage import (
    IN_URL,
    Access,
    Client,
    LaneStore,
    Namespace,
    answered,
    blob_keys,
    connect,
)
from tests.services.fixtures import OwnRedis
from tests.services.proxy import Proxy
from tests.services.redis_cluster import RedisCluster as SharedCluster
from tests.services.redis_lanes import LANE, START, ask, client_at, commit_of, lane_with, until
from tests.services.redis_server import RedisServer


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h", {"host": "h"}),
        ("redis://h:7/3", {"host": "h", "port": 7, "db": 3}),
        ("redis://u:p%40%3A@h?db=2", {"username": "u", "password": "p@:", "db": 2}),
        ("redis://:p@h/0", {"password": "p"}),
        (f"rediss://h?ssl_ca_certs={__file__}", {"host": "h", "ssl_ca_certs": __file__}),
        ("redis://h?socket_timeout=2.5&client_name=x", {"socket_timeout": 2.5, "client_name": "x"}),
        ("redis+sentinel://a:1,b/main", {"db": 0}),
        ("redis+sentinel://u:p%40@a:1/main?db=4", {"username": "u", "password": "p@", "db": 4}),
        ("redis+sentinel://only-user@a/main", {"username": "only-user"}),
        ("redis+cluster://:p@h:7", {"password": "p"}),
    ],
)
async def test_url_is_read(url: str, expected: dict[str, object]) -> None:
    options = await options_of(connect(url))
    assert {name: options.get(name) for name in expected} == expected
    assert ("password" in expected) == bool(options.get("password"))


async def options_of(client: Client) -> dict[str, Any]:
    """What its connections are made with, the login as the server gets it."""
    options: dict[str, Any] = dict(client.get_connection_kwargs())
    if (provider := options.get("credential_provider")) is not None:
        *user, options["password"] = await provider.get_credentials_async()
        options |= {"username": user[0]} if user else {}
    return options


async def test_password_beside_the_url_is_used() -> None:
    access = Access(Password(Secret("p")))
    for url in ("redis://h", "redis+cluster://h", "redis+sentinel://h/main"):
        assert (await options_of(connect(url, access)))["password"] == "p"


async def test_sentinels_are_those_of_the_url() -> None:
    client = connect("redis+sentinel://u:p@a:1,b,[::1]:3,[::2]/main")
    pool = sentinel_pool(client)
    assert pool.service_name == "main"
    options = [await options_of(s) for s in pool.sentinel_manager.sentinels]
    addresses = [(option["host"], option["port"]) for option in options]
    assert addresses == [("a", 1), ("b", 26379), ("::1", 3), ("::2", 26379)]
    assert not [option for option in options if option.get("password")]
    assert sentinel_pool(connect("redis+sentinel://a")).service_name == "mymaster"


def sentinel_pool(client: Client) -> SentinelConnectionPool:
    assert isinstance(client, Redis) and isinstance(client.connection_pool, SentinelConnectionPool)
    return client.connection_pool


@pytest.mark.parametrize("url", ["http://u:secret@h", "u:secret@h", "unix:///secret", "redis"])
def test_scheme_must_be_known(url: str) -> None:
    with pytest.raises(ValueError, match="the scheme must be one of redis, rediss, ") as raised:
        connect(url)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "option", ["decode_responses=true", "retry_on_error=x", "protocol=3", "tls", "foo=secret"]
)
def test_option_must_be_known(option: str) -> None:
    name = option.partition("=")[0]
    with pytest.raises(ValueError, match=rf"\?{name}=…: must be one of db, ") as raised:
        connect(f"redis://h?{option}")
    assert "secret" not in str(raised.value)
    assert name not in IN_URL


@pytest.mark.parametrize("scheme", ["redis", "redis+cluster", "redis+sentinel"])
async def test_library_never_retries(scheme: str) -> None:
    client = connect(f"{scheme}://h:1/main")
    clients: list[Any] = [client]
    if scheme == "redis+sentinel":
        clients += sentinel_pool(client).sentinel_manager.sentinels
    for each in clients:
        is_cluster = isinstance(each, RedisCluster)
        kept = each.retry if is_cluster else each.get_connection_kwargs()["retry"]
        assert kept.get_retries() == 0


@pytest.mark.parametrize("command", ["INCRBY", "SET"])
async def test_command_with_a_lost_answer_ran_once(redis: RedisServer, command: str) -> None:
    async with Proxy(*redis.ports) as proxy, client_at(proxy.url) as client:
        await client.ping()
        proxy.plan(f"\r\n{command}\r\n", "cut after")
        with pytest.raises(Unavailable, match="Redis: ConnectionError: "):
            if command == "INCRBY":
                await answered(client, client.incr("n"))
            else:
                pipeline = client.pipeline(transaction=False)
                pipeline.set("n", 1)
                await answered(client, pipeline.execute())
        assert proxy.sent(f"\r\n{command}\r\n") == 1
        assert await client.get("n") == b"1"


async def test_many_calls_at_once_find_a_connection_each(redis: RedisServer) -> None:
    """As many as a process may own lanes."""
    async with client_at(redis.url) as client:
        store = LaneStore(client, "n")
        heads = await asyncio.gather(*(store.claim(lane, "a", START) for lane in range(300)))
    assert len(heads) == 300


# Clusters and Sentinels


async def cluster_of_two(own_redis: OwnRedis) -> RedisServer:
    """Two servers with half of the slots each."""
    settings = {"cluster_enabled": "yes", "cluster_node_timeout": "2000"}
    servers = [own_redis(**settings) for _ in range(2)]
    servers[0].call("CLUSTER ADDSLOTSRANGE 0 8191")
    servers[1].call("CLUSTER ADDSLOTSRANGE 8192 16383")
    servers[0].call(f"CLUSTER MEET 127.0.0.1 {servers[1].port} {servers[1].bus_port}")

    async def agreed() -> bool:
        infos = [await ask(server.url, "CLUSTER INFO") for server in servers]
        return all(
            info["cluster_state"] == "ok" and info["cluster_slots_assigned"] == "16384"
            for info in infos
        )

    await until(agreed)
    return servers[0]


async def test_lanes_live_in_a_cluster(own_redis: OwnRedis) -> None:
    server = await cluster_of_two(own_redis)
    async with client_at(server.url.replace("redis://", "redis+cluster://")) as client:
        assert isinstance(client, RedisCluster)
        for name in ("a-1", "b-2", "c-3", "d-4"):
            await live_in(client, name)
        assert await Namespace(client, "p", "p-1").eviction_policy() == "noeviction"
        namespace = Namespace(client, "p", "b-2")
        await namespace.sign_of_life(9)
        await Namespace(client, "p", "a-1").sign_of_life(1)
        assert await namespace.remove_silent(5) == ["a-1"]
        left = {key.decode() async for key in client.scan_iter()}
    assert not [key for key in left if "a-1" in key]
    assert len([key for key in left if key.startswith("{b-2:7}:")]) == 8


async def live_in(client: RedisCluster, name: str) -> None:
    """Every step of a lane, and of its namespace."""
    store, namespace = LaneStore(client, name), Namespace(client, "p", name)
    await lane_with(store, "a", commits=2)
    head = await store.claim(LANE, "b", START)
    assert (await store.load(LANE, head, blob_keys))[1]["totals:0"] == b"totals 1"
    assert await store.commit(commit_of("b", 2, unlinked=["open:1"])) == "applied"
    assert await store.touch(LANE, "b", 3, 7)
    assert await store.read(LANE, "b", 2, 1) is not None
    assert (await namespace.register(3)).at_start == 3
    assert await namespace.lease("t", 60_000) and await namespace.lease("t", 60_000)
    await namespace.store_selection(b"x")
    await namespace.release("t")


@pytest.mark.parametrize("error", [AttributeError, RuntimeError])
async def test_call_interrupted_by_a_new_layout_of_the_cluster_is_unavailable(
    error: type[Exception],
) -> None:
    async def torn() -> None:
        raise error("no stream")

    with pytest.raises(Unavailable, match=f"^Redis: {error.__name__}: no stream"):
        await answered(connect("redis+cluster://h"), torn())
    with pytest.raises(error):
        await answered(connect("redis://h"), torn())


async def test_cluster_that_is_down_is_unavailable(own_redis: OwnRedis) -> None:
    server = own_redis(cluster_enabled="yes")
    for url in (f"redis+cluster://127.0.0.1:{server.port}", "redis+cluster://127.0.0.1:1"):
        async with client_at(url) as client:
            with pytest.raises(Unavailable, match="^Redis: "):
                await LaneStore(client, "n").claim(LANE, "a", START)


async def test_client_of_a_cluster_is_closed_whole_after_a_failed_call(
    redis_cluster: SharedCluster,
) -> None:
    async with client_at(redis_cluster.url) as client:
        assert isinstance(client, RedisCluster)
        await client.ping(target_nodes=RedisCluster.PRIMARIES)
        first, *others = client.get_primaries()
        await ask(f"redis://127.0.0.1:{first.port}", "CLIENT", "KILL", "TYPE", "normal")
        with pytest.raises(Unavailable):
            await answered(client, client.execute_command("PING", target_nodes=first))
        left = [connection for node in others for connection in node._connections]
        assert [connection.is_connected for connection in left] == [True] * len(others)
    assert not [connection for connection in left if connection.is_connected]


async def test_sentinel_names_the_master(own_redis: OwnRedis, tmp_path: Path) -> None:
    server = own_redis()
    name = tmp_path / "redis-sentinel"
    name.symlink_to(server.binary)
    watch = {f"sentinel monitor main 127.0.0.1 {server.port}": "1"}
    sentinel = RedisServer(str(name), tmp_path / "sentinel", watch)
    try:
        sentinel.start()
        url = f"redis+sentinel://127.0.0.1:1,127.0.0.1:{sentinel.port}/main"
        async with client_at(url) as client:
            await LaneStore(client, "n").claim(LANE, "a", START)
    finally:
        sentinel.kill()
    assert server.call(f"EXISTS {{n:{LANE}}}:head") == ":1"
