"""The store when answers are lost, requests come late, and servers refuse."""

import asyncio
import re
from collections.abc import Awaitable, Callable

import pytest

from relevanced.daemon.errors import Unavailable
from relevanced.daemon.storage import LaneStore, client as redis_client
from tests.services.fixtures import AnyRedis, OwnRedis
from tests.services.proxy import Fault, Proxy
from tests.services.redis_lanes import (
    LANE,
    NOBODY,
    PREFIX,
    START,
    ask,
    client_at,
    commit_of,
    dump,
    lane_with,
    store_at,
    until,
)


@pytest.fixture
def redis(any_redis: AnyRedis) -> AnyRedis:
    """Every test here runs on a cluster as well."""
    return any_redis


PARTS = {"totals:0": b"1", "rows:0:1000:0": b"2"}
STAGED = {"open:2": b"3"}
"""Small pages are arguments of the script; a block never is."""


async def test_scripts_that_the_server_forgot_are_sent_again(redis: AnyRedis) -> None:
    async with store_at(redis.url) as store:
        for sequence in range(3):
            redis.run_command("SCRIPT FLUSH")
            head = await store.claim(LANE, f"t{sequence}", START)
            redis.run_command("SCRIPT FLUSH")
            await store.verify(LANE, head.token, sequence)
            redis.run_command("SCRIPT FLUSH")
            await store.load(LANE, head, lambda _, listed: list(listed))
            redis.run_command("SCRIPT FLUSH")
            commit = commit_of(head.token, sequence, blobs=PARTS)
            assert await store.commit(commit) == "applied"
            redis.run_command("SCRIPT FLUSH")
            assert await store.touch(LANE, head.token, sequence + 1, None)
            redis.run_command("SCRIPT FLUSH")
            assert await store.read(LANE, "", None, 1) is not None


# Lost answers


@pytest.mark.parametrize("fault", ["cut before", "cut after", "late"])
@pytest.mark.parametrize("command", ["SET", "EVALSHA"])
async def test_interrupted_commit_is_sent_again_by_the_caller_only(
    redis: AnyRedis, command: str, fault: Fault
) -> None:
    commit = commit_of("a", 1, blobs=PARTS, blocks=STAGED, names={2: "x"}, offset=2)
    async with Proxy(*redis.ports) as proxy, store_at(proxy.url) as store:
        await lane_with(store, "a")
        scripts, before = proxy.sent("EVALSHA"), await dump(redis.url)
        proxy.plan(f"\r\n{command}\r\n", fault)
        with pytest.raises(Unavailable, match="^Redis: ConnectionError: "):
            await store.commit(commit)
        ran = command == "EVALSHA" and fault == "cut after"
        assert proxy.sent("EVALSHA") - scripts == int(ran)
        assert (await dump(redis.url) != before) == ran
        assert await store.commit(commit) == ("already" if ran else "applied")
        delta = await store.read(LANE, "a", 1, 2)
    assert delta is not None and (delta.head.sequence, delta.pages) == (2, PARTS)


async def test_interrupted_claim_is_never_repeated(redis: AnyRedis) -> None:
    async with Proxy(*redis.ports) as proxy, store_at(proxy.url) as store:
        await lane_with(store, "a")
        sent = proxy.sent("EVALSHA")
        proxy.plan("EVALSHA", "cut after")
        with pytest.raises(Unavailable):
            await store.claim(LANE, "b", START)
        assert proxy.sent("EVALSHA") == sent + 1
        assert await store.commit(commit_of("a", 1)) == "lost"
        assert (await store.claim(LANE, "c", START)).sequence == 1


async def test_server_that_falls_silent_is_unavailable(
    redis: AnyRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_client, "TIMEOUT_S", 0.3)
    commit = commit_of("a", 1, blobs=PARTS, blocks=STAGED)
    async with Proxy(*redis.ports) as proxy, store_at(proxy.url) as store:
        await lane_with(store, "a")
        proxy.plan("EVALSHA", "silent")
        with pytest.raises(Unavailable, match="^Redis: TimeoutError: "):
            await store.commit(commit)
        assert await store.commit(commit) == "already"


async def test_frozen_server_answers_again(
    redis: AnyRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_client, "TIMEOUT_S", 0.3)
    commit = commit_of("a", 1, blobs=PARTS, blocks=STAGED)
    async with store_at(redis.url) as store:
        await lane_with(store, "a")
        redis.freeze()
        try:
            with pytest.raises(Unavailable, match="Timeout"):
                await store.commit(commit)
        finally:
            redis.thaw()
        assert await store.commit(commit) == "applied"


async def test_answers_stay_with_their_questions_after_a_cancellation(redis: AnyRedis) -> None:
    async with Proxy(*redis.ports) as proxy, store_at(proxy.url) as store:
        await lane_with(store, "a")
        for pause_s in (0.0, 0.002, 0.02, 0.04):
            proxy.delay_s = 0.03
            call = asyncio.ensure_future(store.commit(commit_of("a", 1, blobs=PARTS)))
            await asyncio.sleep(pause_s)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            proxy.delay_s = 0.0
            assert await store.touch(LANE, "nobody", 0, None) is False
            assert await store.commit(commit_of("nobody", 0)) == "lost"
        assert await store.commit(commit_of("a", 1, blobs=PARTS)) in ("applied", "already")


# Late copies


@pytest.mark.parametrize("commits_meanwhile", [0, 1, 5])
async def test_copy_delivered_after_its_retry_changes_nothing(
    redis: AnyRedis, commits_meanwhile: int
) -> None:
    old = {"totals:0": b"old"}
    first = commit_of("a", 1, blobs=old, blocks=STAGED, names={2: "old"}, unlinked=["open:1"])
    async with Proxy(*redis.ports) as proxy, store_at(proxy.url) as store:
        await lane_with(store, "a")
        proxy.plan("EVALSHA", "late")
        with pytest.raises(Unavailable):
            await store.commit(first)
        assert await store.commit(first) == "applied"
        for sequence in range(2, 2 + commits_meanwhile):
            await store.commit(commit_of("a", sequence, blobs={"totals:0": b"new"}))
        before = await dump(redis.url)
        answer = await proxy.deliver_late()
    assert answer == (b"lost" if commits_meanwhile else b"already")
    assert await dump(redis.url) == before


@pytest.mark.parametrize("staged_again", [True, False])
async def test_copy_of_a_former_owner_changes_nothing(redis: AnyRedis, staged_again: bool) -> None:
    old = {"totals:0": b"old"}
    first = commit_of("a", 1, blobs=old, blocks=STAGED, names={2: "old"}, unlinked=["open:1"])
    async with Proxy(*redis.ports) as proxy, store_at(proxy.url) as store:
        await lane_with(store, "a")
        if staged_again:
            proxy.plan("\r\nSET\r\n", "late")
            with pytest.raises(Unavailable):
                await store.commit(first)
        proxy.plan("EVALSHA", "late")
        with pytest.raises(Unavailable):
            await store.commit(first)
        await store.claim(LANE, "b", START)
        before = await dump(redis.url)
        assert await proxy.deliver_late() == b"lost"
        assert await dump(redis.url) == before
        assert await store.commit(commit_of("b", 1, blobs={"totals:0": b"new"})) == "applied"


async def test_late_copy_of_a_claim_takes_the_lane_and_nothing_else(redis: AnyRedis) -> None:
    """Its sender has another token by then: the lane has no writer until the next claim."""
    async with Proxy(*redis.ports) as proxy, store_at(proxy.url) as store:
        await lane_with(store, "a")
        proxy.plan("EVALSHA", "late")
        with pytest.raises(Unavailable):
            await store.claim(LANE, "b", START)
        await store.claim(LANE, "c", START)
        await proxy.deliver_late()
        assert await store.commit(commit_of("c", 1, blobs=PARTS)) == "lost"
        head = await store.claim(LANE, "d", START)
        assert await store.commit(commit_of("d", head.sequence, blobs=PARTS)) == "applied"


# Refusals


async def refused(call: Callable[[LaneStore], Awaitable[object]], url: str) -> str:
    """The text of the Unavailable that a step of a lane raises."""
    async with store_at(url) as store:
        with pytest.raises(Unavailable) as raised:
            await call(store)
    return str(raised.value)


async def commit_parts(store: LaneStore) -> None:
    secret = b"secret value" * 20
    await store.commit(commit_of("a", 1, blobs={"totals:0": secret}, blocks={"open:2": secret}))


async def commit_pages(store: LaneStore) -> None:
    await store.commit(commit_of("a", 1, blobs={"totals:0": b"secret value" * 20}))


async def commit_nothing(store: LaneStore) -> None:
    await store.commit(commit_of("a", 1))


async def claim(store: LaneStore) -> None:
    await store.claim(LANE, "b", START)


async def touch(store: LaneStore) -> None:
    await store.touch(LANE, "a", 1, 5)


async def read(store: LaneStore) -> None:
    await store.read(LANE, "", None, 1)


@pytest.mark.parametrize("step", [commit_parts, commit_pages, commit_nothing, touch])
async def test_full_server_refuses_and_changes_nothing(
    own_redis: OwnRedis, step: Callable[[LaneStore], Awaitable[None]]
) -> None:
    server = own_redis(maxmemory_policy="noeviction")
    async with store_at(server.url) as store:
        await lane_with(store, "a")
    before = await dump(server.url)
    server.call("CONFIG SET maxmemory 1")
    text = await refused(step, server.url)
    server.call("CONFIG SET maxmemory 0")
    assert text.startswith("Redis: OutOfMemoryError: ") and "maxmemory" in text
    assert "value" not in text and await dump(server.url) == before


async def test_replica_refuses_what_writes(own_redis: OwnRedis) -> None:
    master = own_redis(repl_diskless_sync_delay="0")
    async with store_at(master.url) as store:
        await lane_with(store, "a")
    replica = own_redis(replicaof=f"127.0.0.1 {master.port}")
    await until(lambda: ask(replica.url, "EXISTS", f"{PREFIX}head"))
    for step in (commit_parts, commit_pages, commit_nothing, claim, touch):
        text = await refused(step, replica.url)
        assert text.startswith("Redis: ReadOnlyError: ")


async def test_connections_to_a_demoted_master_are_closed(own_redis: OwnRedis) -> None:
    """The name resolves to the new master; an open connection would stay with the old one."""
    new = own_redis(repl_diskless_sync_delay="0")
    async with store_at(new.url) as store:
        await lane_with(store, "a")
    old = own_redis(replicaof=f"127.0.0.1 {new.port}")
    await until(lambda: ask(old.url, "EXISTS", f"{PREFIX}head"))
    async with Proxy(*old.ports) as proxy, store_at(proxy.url) as store:
        assert await store.read(LANE, "", None, 1) is not None
        proxy.target_ports[0] = new.port
        with pytest.raises(Unavailable, match="ReadOnly"):
            await store.commit(commit_of("a", 1, blobs=PARTS))
        assert await store.commit(commit_of("a", 1, blobs=PARTS)) == "applied"


async def test_loading_server_is_unavailable(own_redis: OwnRedis) -> None:
    server = own_redis()
    async with store_at(server.url) as store:
        await lane_with(store, "a", commits=50)
    server.call("SAVE")
    server.kill()
    server.settings = {**server.settings, "key-load-delay": "20000"}
    server.settings["loading-process-events-interval-bytes"] = "1024"
    starting = asyncio.create_task(asyncio.to_thread(server.start))
    async with store_at(server.url) as store:

        async def loading() -> bool:
            try:
                return await store.read(LANE, "", None, 1) is None
            except Unavailable as error:
                return "BusyLoadingError" in str(error)

        assert await until(loading)
        await starting
        assert await store.commit(commit_of("a", 50, blobs=PARTS)) == "applied"


@pytest.mark.parametrize("step", [commit_parts, commit_pages, commit_nothing, claim, touch, read])
async def test_head_of_a_wrong_type_is_unavailable(
    redis: AnyRedis, step: Callable[[LaneStore], Awaitable[None]]
) -> None:
    await ask(redis.url, "SET", f"{PREFIX}head", "x")
    assert "WRONGTYPE" in await refused(step, redis.url)


async def test_nobody_listens(redis: AnyRedis) -> None:
    redis.kill()
    for step in (commit_parts, claim, touch, read):
        assert re.match(NOBODY, await refused(step, redis.url))


PASSWORD = "open-sesame"


@pytest.mark.parametrize(
    "settings",
    [
        {"requirepass": "another"},
        {"requirepass": PASSWORD, "rename_command": 'AUTH ""'},
        {"rename_command": 'HELLO ""'},
        {},
    ],
    ids=["wrong", "no AUTH", "no HELLO", "none wanted"],
)
async def test_no_message_contains_the_password(
    own_redis: OwnRedis, settings: dict[str, str]
) -> None:
    server = own_redis(**settings)
    url = f"redis://:{PASSWORD}@127.0.0.1:{server.port}/0"
    for step in (commit_parts, claim):
        text = await refused(step, url)
        assert text.startswith("Redis: ") and PASSWORD not in text


@pytest.mark.parametrize(
    ("user", "words"), [("", "Authentication required"), (":x@", "AuthenticationError: ")]
)
async def test_server_with_another_password_is_unavailable(
    own_redis: OwnRedis, user: str, words: str
) -> None:
    server = own_redis(requirepass=PASSWORD)
    assert words in await refused(claim, f"redis://{user}127.0.0.1:{server.port}/0")


async def test_server_without_hello_is_served(own_redis: OwnRedis) -> None:
    server = own_redis(requirepass=PASSWORD, rename_command='HELLO ""')
    async with client_at(f"redis://:{PASSWORD}@127.0.0.1:{server.port}/0") as client:
        assert (await LaneStore(client, "n").claim(LANE, "a", START)).token == "a"
