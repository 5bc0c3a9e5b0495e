"""The state of a namespace beside its lanes, on real servers."""

import asyncio
import time

import pytest
from structlog.testing import capture_logs

from relevanced.daemon.errors import Unavailable
from relevanced.daemon.storage import (
    AWAY_MS,
    CLAIM,
    Client,
    LaneCounts,
    LaneStore,
    MarkerLog,
    Namespace,
    blob_keys,
    client as redis_keys,
    show_life,
    sweep_lanes,
)
from tests.services.fixtures import AnyRedis, OwnRedis
from tests.services.proxy import Proxy
from tests.services.redis_lanes import (
    LANE,
    NAMESPACE,
    NOBODY,
    START,
    ask,
    client_at,
    commit_of,
    dump,
    lane_with,
    take,
    until,
)


@pytest.fixture
def redis(any_redis: AnyRedis) -> AnyRedis:
    """Every test here runs on a cluster as well."""
    return any_redis


def own(client: Client, name: str = NAMESPACE) -> Namespace:
    return Namespace(client, "relevanced", name)


async def test_first_to_register_sets_the_lanes_at_start(redis: AnyRedis) -> None:
    async with client_at(redis.url) as client:
        assert await own(client).lanes() == 0
        assert await own(client).register(4) == LaneCounts(4, 4)
        assert await own(client).register(6) == LaneCounts(6, 4)
        assert await own(client).lanes() == 6
        assert await own(client, "relevanced-other").lanes() == 0


async def test_time_is_that_of_the_server(redis: AnyRedis, monkeypatch: pytest.MonkeyPatch) -> None:
    before_ms = time.time() * 1000
    with monkeypatch.context() as stepped:
        stepped.setattr(time, "time", lambda: 0.0)
        async with client_at(redis.url) as client:
            told_ms = await own(client).now_ms()
    assert before_ms - 2 <= told_ms <= time.time() * 1000 + 2


# The lease


async def test_one_of_many_takes_the_lease_and_keeps_it(redis: AnyRedis) -> None:
    async with client_at(redis.url) as client:
        tokens = [f"t{number}" for number in range(20)]
        won = await asyncio.gather(*(own(client).lease(token, 60_000) for token in tokens))
        holder = tokens[won.index(True)]
        assert won.count(True) == 1
        again = await asyncio.gather(*(own(client).lease(token, 60_000) for token in tokens))
    assert [token for token, renewed in zip(tokens, again) if renewed] == [holder]


async def test_lease_is_taken_over_after_silence(redis: AnyRedis) -> None:
    async with client_at(redis.url) as client:
        assert await own(client).lease("a", 60_000)
        assert not await own(client).lease("b", 60_000)
        assert await own(client).lease("a", 50)
        await until(lambda: own(client).lease("b", 60_000))
        assert not await own(client).lease("a", 60_000)


async def test_lease_that_is_renewed_stays(redis: AnyRedis) -> None:
    async with client_at(redis.url) as client:
        assert await own(client).lease("a", 100)
        assert await own(client).lease("a", 60_000)
        assert int((await ask(redis.url, "PTTL", f"{NAMESPACE}:exporter"))) > 50_000
        assert await own(client).lease("a", 1_000)
        assert int((await ask(redis.url, "PTTL", f"{NAMESPACE}:exporter"))) <= 1_000


async def test_lease_is_released_by_its_owner_only(redis: AnyRedis) -> None:
    async with client_at(redis.url) as client:
        await own(client).lease("a", 60_000)
        await own(client).release("b")
        assert not await own(client).lease("b", 60_000)
        await own(client).release("a")
        assert await own(client).lease("b", 60_000)
        await own(client).release("a")
        assert await own(client).lease("b", 60_000)


async def test_lease_with_a_lost_answer_is_owned(redis: AnyRedis) -> None:
    async with Proxy(*redis.ports) as proxy, client_at(proxy.url) as client:
        await client.ping()
        proxy.plan("exporter", "cut after")
        with pytest.raises(Unavailable):
            await own(client).lease("a", 60_000)
        assert not await own(client).lease("b", 60_000)
        assert await own(client).lease("a", 60_000)


async def test_selection_of_counters_is_stored(redis: AnyRedis) -> None:
    memory = bytes(range(256)) * 100
    async with client_at(redis.url) as client:
        assert await own(client).stored_selection() is None
        await own(client).store_selection(memory)
        assert await own(client).stored_selection() == memory
        assert await own(client, "relevanced-other").stored_selection() is None


async def test_open_changes_are_stored(redis: AnyRedis) -> None:
    async with client_at(redis.url) as client:
        assert await own(client).stored_changes() is None
        await own(client).store_changes(b"[]")
        assert await own(client).stored_changes() == b"[]"
        assert await own(client, "relevanced-other").stored_changes() is None


# Removal


async def fill(client: Client, name: str, lanes: int = 3) -> None:
    """Fill a namespace with every kind of key."""
    store = LaneStore(client, name)
    await own(client, name).register(lanes)
    await own(client, name).lease("t", 60_000)
    await own(client, name).store_selection(b"x")
    await own(client, name).store_changes(b"[]")
    await MarkerLog(client, name).add("m", b"{}", 9)
    await lane_with(store, "a", commits=2)
    await store._stage({f"{store.prefix(LANE)}stage:a:2:0": b"part"})
    for lane in range(lanes):
        await store.claim(lane, "a", START)


async def test_silent_namespaces_are_removed_and_no_other_key(
    redis: AnyRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_keys, "KEYS_AT_ONCE", 3)
    near = ["relevanced-1", "relevanced-11", "relevanced-1.", "relevanced-*", "relevanced-?"]
    async with client_at(redis.url) as client:
        for name in (*near, "other-1"):
            await fill(client, name)
        strangers = ["relevanced-1:mine", "relevanced-1", "{relevanced-1:x}:head", "{relevanced-1}"]
        for key in strangers:
            await client.set(key, "x")
        before = await dump(redis.url, staged=True)
        for name in near:
            await own(client, name).sign_of_life(1_000 if name == "relevanced-1" else 2_000)
        await Namespace(client, "other", "other-1").sign_of_life(1)
        assert await own(client, "relevanced-11").remove_silent(2_000) == ["relevanced-1"]
        after = await dump(redis.url, staged=True)
    gone = {key.decode() for key in before if key not in after}
    assert {key[: key.index("}") + 1] for key in gone if key[0] == "{"} == {
        f"{{relevanced-1:{lane}}}" for lane in (0, 1, 2, LANE)
    }
    assert {key for key in gone if key[0] != "{"} == {
        f"relevanced-1:{key}" for key in ("meta", "exporter", "shown", "changes", "markers")
    }
    assert not [key for key in after if key.startswith(b"{relevanced-1:") and b":x}" not in key]


@pytest.mark.parametrize("name", ["relevanced-*", "relevanced-?", "relevanced-[12]"])
async def test_name_is_not_a_pattern(redis: AnyRedis, name: str) -> None:
    async with client_at(redis.url) as client:
        await fill(client, "relevanced-1")
        before = await dump(redis.url)
        await fill(client, name)
        await own(client, name).sign_of_life(1)
        assert await own(client).remove_silent(2) == [name]
        after = {key: value for key, (value, _) in (await dump(redis.url)).items()}
    assert after == {key: value for key, (value, _) in before.items()}


async def test_own_namespace_is_never_removed(redis: AnyRedis) -> None:
    async with client_at(redis.url) as client:
        await fill(client, NAMESPACE)
        await own(client).sign_of_life(1)
        assert await own(client).remove_silent(2) == []
        assert await own(client).lanes() == 3


async def test_time_without_any_sign_of_life_is_no_silence(redis: AnyRedis) -> None:
    """The server was off for a week, or is a copy of a week ago: whoever comes back first removes
    no one else. What was silent before is so later on."""
    week_ms = 7 * 24 * 3_600_000
    async with client_at(redis.url) as client:
        for name, at_ms in (("relevanced-1", 1), ("relevanced-2", AWAY_MS)):
            await fill(client, name)
            await own(client, name).sign_of_life(at_ms)
        first = own(client, NAMESPACE)
        await first.sign_of_life(now_ms := AWAY_MS + week_ms)
        assert await first.remove_silent(now_ms - 1) == ["relevanced-1"]
        assert await own(client, "relevanced-2").lanes() == 3
        await first.sign_of_life(now_ms + AWAY_MS)
        assert await first.remove_silent(now_ms + 1) == ["relevanced-2"]


async def test_namespace_with_a_new_sign_of_life_stays(redis: AnyRedis) -> None:
    """It was silent when the removal began, and is not when its turn comes."""
    async with client_at(redis.url) as client:
        for name in ("relevanced-1", "relevanced-2"):
            await fill(client, name)
            await own(client, name).sign_of_life(1)
        remover, sweep = own(client), own(client)._remove

        async def sweep_while_another_wakes(name: str) -> None:
            await own(client, "relevanced-2").sign_of_life(9)
            await sweep(name)

        remover._remove = sweep_while_another_wakes  # type: ignore[method-assign]
        assert await remover.remove_silent(2) == ["relevanced-1"]
        assert await own(client, "relevanced-2").lanes() == 3


async def test_lane_that_is_claimed_during_its_removal_is_whole(redis: AnyRedis) -> None:
    """Its writer starts anew, and what it commits is not removed as left over."""
    async with client_at(redis.url) as client:
        store = LaneStore(client, "relevanced-1")
        await fill(client, "relevanced-1")
        await own(client, "relevanced-1").sign_of_life(1)
        evaluate, woken = client.eval, False

        async def wake_first(text: str, *arguments: object) -> object:
            nonlocal woken
            if not woken and text != CLAIM.text:
                woken = True
                head = await take(store, "b")
                assert head.sequence == 0
                page = {"totals:0": b"new", "rows:0:0000:0": b"new"}
                assert await store.commit(commit_of("b", 0, blobs=page)) == "applied"
            return await evaluate(text, *arguments)  # type: ignore[arg-type]

        client.eval = wake_first  # type: ignore[method-assign,assignment]
        assert await own(client).remove_silent(2) == ["relevanced-1"]
        head = await store.claim(LANE, "c", START)
        _, blobs = await store.load(LANE, head, blob_keys)
    assert woken and head.sequence == 1
    assert blobs == {"totals:0": b"new", "rows:0:0000:0": b"new", "admitted": None}


# The server


async def test_eviction_policy_is_read(own_redis: OwnRedis) -> None:
    server = own_redis(maxmemory_policy="allkeys-lru")
    async with client_at(server.url) as client:
        assert await own(client).eviction_policy() == "allkeys-lru"
        server.call("CONFIG SET maxmemory-policy volatile-lru")
        assert await own(client).eviction_policy() == "volatile-lru"


async def test_eviction_policy_may_be_secret(own_redis: OwnRedis) -> None:
    server = own_redis(rename_command='INFO ""')
    async with client_at(server.url) as client:
        assert await own(client).eviction_policy() is None


@pytest.mark.parametrize("how", ["renamed", "by ACL"])
async def test_a_server_that_forbids_scan_and_config_only_keeps_old_keys(
    own_redis: OwnRedis, how: str
) -> None:
    """And says so once."""
    server = own_redis(**({"rename_command": 'SCAN ""'} if how == "renamed" else {}))
    server.run_command("ACL SETUSER default -config" + (" -scan" if how == "by ACL" else ""))
    with capture_logs() as logged:
        async with client_at(server.url) as client:
            namespace, stop = own(client), asyncio.Event()
            await namespace.sign_of_life(0)
            await client.zadd("relevanced:namespaces", {"relevanced-1": 1})
            store = LaneStore(client, namespace.name)
            await store.claim(LANE, "a", START)
            store._unswept[LANE] = "mark"
            tasks = [
                asyncio.create_task(show_life(namespace, lambda: 1, 1, stop)),
                asyncio.create_task(sweep_lanes(store, stop)),
            ]
            async with asyncio.timeout(60):
                while len([one for one in logged if one["log_level"] == "warning"]) < 2:
                    await asyncio.sleep(0.05)
            assert all("nobody uses" in one["event"] for one in logged)
            assert not any(task.done() for task in tasks)
            assert float(await client.zscore("relevanced:namespaces", namespace.name)) > 0
            assert await namespace.eviction_policy() == "noeviction"
            stop.set()
            await asyncio.gather(*tasks)


async def test_every_step_raises_when_the_server_is_gone(redis: AnyRedis) -> None:
    redis.kill()
    async with client_at(redis.url) as client:
        namespace = own(client)
        steps = [
            namespace.register(1),
            namespace.lanes(),
            namespace.lease("a", 1),
            namespace.release("a"),
            namespace.stored_selection(),
            namespace.store_selection(b""),
            namespace.stored_changes(),
            namespace.store_changes(b""),
            namespace.now_ms(),
            namespace.sign_of_life(1),
            namespace.remove_silent(1),
        ]
        for step in steps:
            with pytest.raises(Unavailable, match=NOBODY):
                await step
        assert await namespace.eviction_policy() is None
