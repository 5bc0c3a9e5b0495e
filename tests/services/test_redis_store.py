"""The store of lanes on real servers: what claim, commit, load, touch and read promise."""

import asyncio
from binascii import crc_hqx
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis

from relevanced.daemon.errors import Lost, Unavailable
from relevanced.daemon.storage import (
    ADMITTED_KEY,
    Commit,
    DamagedLane,
    LaneDelta,
    LaneStart,
    StallMark,
    blob_keys,
    client as redis_keys,
    lane_store,
    lane_store as redis_commits,
    lane_store as redis_store,
)
from tests.services.fixtures import AnyRedis, OwnRedis
from tests.services.proxy import Proxy
from tests.services.redis_lanes import (
    LANE,
    NAMESPACE,
    PREFIX,
    START,
    ask,
    client_at,
    commit_of,
    dump,
    holder,
    lane_dump,
    lane_with,
    restore,
    store_at,
    take,
    until,
)


@pytest.fixture
def redis(any_redis: AnyRedis) -> AnyRedis:
    """Every test here runs on a cluster as well."""
    return any_redis


# Claims


async def test_first_claim_begins_a_lane(redis: AnyRedis) -> None:
    async with store_at(redis.url) as store:
        head = await store.claim(LANE, "a", START)
    assert (head.token, head.sequence, head.offsets) == ("a", 0, START)
    assert set(await lane_dump(redis.url)) == {f"{PREFIX}head".encode()}


async def test_second_claim_changes_the_token_alone(redis: AnyRedis) -> None:
    async with store_at(redis.url) as store:
        await lane_with(store, "a")
        before = await lane_dump(redis.url)
        head = await store.claim(LANE, "b", {"impressions": 0, "feedback": 0})
        after = await lane_dump(redis.url)
    assert (head.token, head.sequence) == ("b", 1)
    assert head.offsets == {"impressions": 41, "feedback": 3}
    assert head.state.next_slot == 1
    assert [key for key in after if after[key] != before[key]] == [f"{PREFIX}head".encode()]


async def test_claim_unlinks_what_the_former_owner_staged(redis: AnyRedis) -> None:
    async with store_at(redis.url) as store:
        await store.claim(LANE, "a", START)
        await store._stage({f"{PREFIX}stage:a:0:{number}": b"part" for number in range(300)})
        await store.claim(LANE, "b", START)
    assert set(await lane_dump(redis.url, staged=True)) == {f"{PREFIX}head".encode()}


async def test_lane_without_head_starts_anew(redis: AnyRedis) -> None:
    """No key that is left may enter the new lane or stay for ever: not its names, its rows, its
    open state or its admitted values."""
    async with store_at(redis.url) as store:
        await lane_with(store, "a", commits=3)
        await ask(redis.url, "DEL", f"{PREFIX}head")
        assert f"{PREFIX}open:2".encode() in await lane_dump(redis.url)
        head = await take(store, "b")
        assert set(await lane_dump(redis.url)) == {f"{PREFIX}head".encode()}
        names, blobs = await store.load(LANE, head, blob_keys)
        delta = await store.read(LANE, "a", 3, 4)
    assert (head.sequence, head.offsets) == (0, START)
    assert (names, blobs) == ({}, {ADMITTED_KEY: None})
    assert delta == LaneDelta(head, True, [], {})


async def test_since_when_a_lane_has_all_outlives_its_owner_and_its_head(redis: AnyRedis) -> None:
    async with store_at(redis.url) as store:
        await lane_with(store, "a")
        await store.begin_anew(LANE, "a", "b", START, since_ms=7_000)
    async with store_at(redis.url) as store:
        head = await store.claim(LANE, "c", START)
        assert (head.sequence, head.since_ms) == (0, 7_000)
        await lane_with(store, "d", commits=2)
        await lose(redis.url, "head")
        with pytest.raises(DamagedLane) as damage:
            await store.claim(LANE, "e", START)
    assert damage.value.start == LaneStart(START, {}, 7_000)


@pytest.mark.parametrize("left", ["names", "changes", ADMITTED_KEY])
async def test_lane_of_which_anything_is_left_is_not_begun(redis: AnyRedis, left: str) -> None:
    """Also where the note is gone that it had begun."""
    async with store_at(redis.url) as store:
        await lane_with(store, "a")
        await lose(redis.url, *({"head", "names", "changes", ADMITTED_KEY} - {left}))
        await ask(redis.url, "DEL", f"{NAMESPACE}:meta")
        before = await lane_dump(redis.url)
        with pytest.raises(DamagedLane, match="its head is gone"):
            await store.claim(LANE, "b", START)
        assert await lane_dump(redis.url) == before


async def test_one_of_many_claims_wins(redis: AnyRedis) -> None:
    async with store_at(redis.url) as loser, store_at(redis.url) as other:
        first = await loser.claim(LANE, "a", START)
        second = await other.claim(LANE, "b", START)
        assert await loser.commit(commit_of("a", first.sequence)) == "lost"
        assert await other.commit(commit_of("b", second.sequence)) == "applied"


# Sweeps


async def lose(url: str, *names: str) -> None:
    """Remove keys, as an eviction or an operator might."""
    await ask(url, "DEL", *(PREFIX + name for name in names))


async def unswept(url: str) -> bool:
    return bool(await ask(url, "HEXISTS", f"{PREFIX}head", "unswept"))


async def test_no_key_of_a_lane_that_lost_head_and_list_stays(
    redis: AnyRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_keys, "KEYS_AT_ONCE", 2)
    async with store_at(redis.url) as store:
        await store.claim(LANE + 1, "a", START)
        await ask(redis.url, "SET", f"{{{NAMESPACE}:{LANE}0}}:totals:0", "of another lane")
        await ask(redis.url, "SET", f"{{{NAMESPACE}x:{LANE}}}:totals:0", "a stranger's")
        await store.sweep()
        apart = await lane_dump(redis.url)
        await lane_with(store, "a", commits=5)
        await lose(redis.url, "head", "changes")
        await take(store, "b")
        page = {"rows:0:0000:0": b"new", "totals:0": b"new"}
        await store.commit(commit_of("b", 0, blobs=page, blocks={"open:1": b"new"}, names={1: "x"}))
        await store._stage({f"{PREFIX}stage:b:1:0": b"part"})
        assert await store.sweep() == 4 + 4  # pages and blocks
        assert not await unswept(redis.url)
        kept = {"head", "names", "changes", "rows:0:0000:0", "totals:0", "open:1", "stage:b:1:0"}
        left = await lane_dump(redis.url, staged=True)
        assert left.keys() - apart.keys() == {f"{PREFIX}{name}".encode() for name in kept}
        assert {key: left[key] for key in apart} == apart
        assert await store.commit(commit_of("b", 1, blobs={"totals:0": b"newer"})) == "applied"


async def test_sweep_sends_nothing_if_every_lane_is_swept(redis: AnyRedis) -> None:
    async with Proxy(*redis.ports) as proxy, store_at(proxy.url) as store:
        await lane_with(store, "a")
        before = await lane_dump(redis.url)
        assert await unswept(redis.url) and await store.sweep() == 0
        assert not await unswept(redis.url)
        assert (await lane_dump(redis.url)).keys() == before.keys()
        await store.claim(LANE, "b", START)
        sent = len(proxy.requests)
        assert await store.sweep() == 0 and len(proxy.requests) == sent


@pytest.mark.parametrize("given_up", ["before", "midway"])
async def test_next_owner_sweeps_what_the_former_did_not(
    redis: AnyRedis, given_up: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Proxy(*redis.ports) as proxy, store_at(proxy.url) as store:
        await lane_with(store, "a", commits=5)
        await lose(redis.url, "head", "changes")
        await take(store, "b")
        if given_up == "midway":
            monkeypatch.setattr(redis_keys, "KEYS_AT_ONCE", 2)
            proxy.plan("\r\n4\r\n", "cut after")  # the first call with two keys to look at
            with pytest.raises(Unavailable):
                await store.sweep()
        async with store_at(redis.url) as other:
            await take(other, "c")
            await other.commit(commit_of("c", 0, blobs={"totals:0": b"new"}))
            assert await other.sweep() > 0
        kept = {"head", "changes", "totals:0"}
        assert set(await lane_dump(redis.url)) == {f"{PREFIX}{name}".encode() for name in kept}
        assert await store.sweep() == 0


@pytest.mark.parametrize("event", ["commit", "lost again"])
async def test_sweep_keeps_keys_written_after_its_scan(
    redis: AnyRedis, event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys recur: a page of the new lane may have the key of one of the earlier lane."""
    page = {"rows:0:1000:0": b"new", "totals:0": b"new"}
    async with store_at(redis.url) as store, store_at(redis.url) as other:
        await lane_with(store, "a", commits=3)
        await lose(redis.url, "head", "changes")
        await take(store, "b")
        run = store._run

        async def write_first(*arguments: object) -> object:
            monkeypatch.setattr(store, "_run", run)
            if event == "commit":
                await other.commit(commit_of("b", 0, blobs=page, names={1: "x"}))
            else:
                await lose(redis.url, "head")
                await take(other, "c")
                await other.commit(commit_of("c", 0, blobs=page, names={1: "x"}))
            return await run(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(store, "_run", write_first)
        assert (await store.sweep() > 0) == (event == "commit")
        assert await unswept(redis.url) == (event == "lost again")
        delta = await other.read(LANE, "", None, 1)
        await other.sweep()
        assert await other.read(LANE, "", None, 1) == delta
    assert delta is not None and delta.pages == page
    kept = {"head", "names", "changes", *page}
    assert set(await lane_dump(redis.url)) == {f"{PREFIX}{name}".encode() for name in kept}


# Commits


@pytest.fixture(params=[redis_commits.MOST_ARGUMENTS, 0], ids=["sent", "staged"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and arguments of a commit come with the call, or are staged as those of a large one."""
    monkeypatch.setattr(redis_commits, "MOST_ARGUMENTS", request.param)


@pytest.mark.usefixtures("way")
async def test_commit_publishes_everything_for_good(redis: AnyRedis) -> None:
    blobs, blocks = {"rows:0:1000:0": b"page", "totals:0": b"\x00\xff"}, {"open:1": b"block"}
    names = {1: "US", 2: "é,\\"}
    async with store_at(redis.url) as store:
        await store.claim(LANE, "a", START)
        commit = commit_of("a", 0, blobs=blobs, blocks=blocks, names=names, offset=5)
        assert await store.commit(commit) == "applied"
    async with client_at(redis.url) as client:
        for key, value in commit.blobs.items():
            assert await client.get(PREFIX + key) == value
        head = await client.hgetall(f"{PREFIX}head")
        assert {key: head[key.encode()] for key in commit.fields} == commit.fields
        assert head[b"sequence"] == b"1"
        assert await client.hlen(f"{PREFIX}names") == 2
        assert await client.zrange(f"{PREFIX}changes", 0, -1, withscores=True) == [
            (b"open:1", 0),
            (b"rows:0:1000:0", 1),
            (b"totals:0", 1),
        ]
    left = await lane_dump(redis.url, staged=True)
    assert len(left) == 6 and {ttl for _, ttl in left.values()} == {-1}


@pytest.mark.usefixtures("way")
async def test_same_commit_again_changes_nothing(redis: AnyRedis) -> None:
    commit = commit_of("a", 0, blobs={"totals:0": b"1"}, names={1: "US"}, unlinked=["open:1"])
    async with store_at(redis.url) as store:
        await store.claim(LANE, "a", START)
        assert await store.commit(commit) == "applied"
        before = await lane_dump(redis.url)
        assert await store.commit(commit) == "already"
        assert await store.commit(commit) == "already"
    assert await lane_dump(redis.url) == before


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    "commit",
    [
        commit_of("b", 3, blobs={"totals:0": b"wrong"}, names={1: "x"}, unlinked=["open:1"]),
        commit_of("a", 1, blobs={"totals:0": b"wrong"}, names={1: "x"}, unlinked=["open:1"]),
        commit_of("a", 4, blobs={"totals:0": b"wrong"}, names={1: "x"}, unlinked=["open:1"]),
        commit_of("b", 2, unlinked=["open:1"]),
        commit_of("", 3),
    ],
    ids=["other token", "older", "newer", "other token, one behind", "no token"],
)
async def test_lost_commit_changes_nothing(redis: AnyRedis, commit: Commit) -> None:
    async with store_at(redis.url) as store:
        await lane_with(store, "a", commits=3)
        before = await lane_dump(redis.url)
        assert await store.commit(commit) == "lost"
    assert await lane_dump(redis.url) == before


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("missing", [0, 1, 2, 3])
async def test_commit_with_a_missing_part_is_lost(
    redis: AnyRedis, missing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_commits, "INLINE_BYTES", 0)
    parts = {"rows:0:0:0": b"0", "totals:0": b"1", "open:2": b"2"}
    if missing == len(parts):
        monkeypatch.setattr(redis_commits, "MOST_ARGUMENTS", 0)
    async with store_at(redis.url) as store:
        await lane_with(store, "a")
        stage = store._stage

        async def stage_some(values: dict[str, bytes]) -> None:
            await stage({key: v for key, v in values.items() if not key.endswith(f":{missing}")})

        before = await lane_dump(redis.url)
        monkeypatch.setattr(store, "_stage", stage_some)
        assert await store.commit(commit_of("a", 1, blobs=parts, names={2: "x"})) == "lost"
    assert await lane_dump(redis.url) == before


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("hurt", [("HDEL", "names", "1"), ("ZREM", "changes", "totals:0")])
async def test_lane_that_lost_an_entry_is_not_written(
    redis: AnyRedis, hurt: tuple[str, str, str]
) -> None:
    """What this commit brings would make the lane look whole."""
    command, key, entry = hurt
    async with store_at(redis.url) as store:
        await lane_with(store, "a", commits=2)
        assert await ask(redis.url, command, PREFIX + key, entry)
        before = await lane_dump(redis.url)
        added = commit_of("a", 2, blobs={"totals:0": b"more"}, names={3: "s3"})
        assert await store.commit(added) == "damaged"
        assert await lane_dump(redis.url) == before


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("along", "in_all"), [(0, 9), (9, 0), (9, 9), (9, 10**6)])
async def test_inline_and_staged_pages_are_stored_alike(
    redis: AnyRedis, along: int, in_all: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages that were there before, and new ones; one is empty."""
    pages = {"rows:0:0000:0": b"1" * 9, "totals:0": b"", "rows:0:1:0": b"2" * 10, "hours:1:0": b"3"}
    blocks = {"open:2": b"4", "admitted": b"5"}
    monkeypatch.setattr(redis_commits, "INLINE_BYTES", along)
    monkeypatch.setattr(redis_commits, "INLINE_BYTES_IN_ALL", in_all)
    commit = commit_of("a", 1, blobs=pages, blocks=blocks, unlinked=["open:1"], names={2: "x"})
    async with store_at(redis.url) as store:
        await lane_with(store, "a")
        assert await store.commit(commit) == "applied"
        assert await store.commit(commit) == "already"
        head = await store.claim(LANE, "a", START)
        _, loaded = await store.load(LANE, head, lambda _, listed: [*listed, *blocks])
        delta = await store.read(LANE, "a", 1, 2)
    assert loaded == {**pages, **blocks}
    assert delta is not None and delta.pages == pages
    left = await lane_dump(redis.url)
    assert {ttl for _, ttl in left.values()} == {-1} and f"{PREFIX}open:1".encode() not in left


async def test_commit_to_what_is_gone_is_lost(redis: AnyRedis) -> None:
    async with store_at(redis.url) as store:
        await lane_with(store, "a")
        await ask(redis.url, "DEL", f"{PREFIX}head")
        before = await lane_dump(redis.url)
        assert await store.commit(commit_of("a", 1, blobs={"totals:0": b"x"})) == "lost"
        assert await lane_dump(redis.url) == before
        redis.flush()
        assert await store.commit(commit_of("a", 1, names={1: "x"})) == "lost"
    assert await lane_dump(redis.url) == {}


async def test_rolled_back_lane_is_lost_to_its_writer(redis: AnyRedis) -> None:
    async with store_at(redis.url) as store:
        await lane_with(store, "a", commits=2)
        before = await lane_dump(redis.url)
        for sequence in (2, 3):
            await store.commit(commit_of("a", sequence, blobs={"totals:0": b"later"}))
        await restore(redis.url, before)
        assert await store.commit(commit_of("a", 4, blobs={"totals:0": b"ahead"})) == "lost"
        assert not await store.touch(LANE, "a", 4, None)
    assert await lane_dump(redis.url) == before


async def test_staged_values_expire_and_no_reader_sees_them(redis: AnyRedis) -> None:
    async with store_at(redis.url) as store:
        head = await lane_with(store, "a")
        await store._stage({f"{PREFIX}stage:a:1:0": b"part"})
        staged = await lane_dump(redis.url, staged=True)
        head = await store.claim(LANE, "a", START)
        await store._stage({f"{PREFIX}stage:a:1:0": b"part"})
        names, blobs = await store.load(LANE, head, blob_keys)
        delta = await store.read(LANE, "", None, 1)
    ttl = staged[f"{PREFIX}stage:a:1:0".encode()][1]
    assert 0 < ttl <= redis_store.STAGED_FOR_S * 1000
    assert delta is not None
    assert not [key for key in (*names, *blobs, *delta.pages) if "stage" in key]


async def test_unlinked_keys_are_gone_and_not_listed(redis: AnyRedis) -> None:
    async with store_at(redis.url) as store:
        await lane_with(store, "a", commits=2)
        unlinked = ["rows:0:0000:0", "open:1", "rows:never:there:0"]
        assert await store.commit(commit_of("a", 2, unlinked=unlinked)) == "applied"
        delta = await store.read(LANE, "", None, 1)
    assert delta is not None and set(delta.pages) == {"rows:0:1000:0", "totals:0"}
    assert not {f"{PREFIX}{key}".encode() for key in unlinked} & set(await lane_dump(redis.url))


@pytest.mark.usefixtures("way")
async def test_repair_keeps_what_readers_do_not_follow_unfollowed(redis: AnyRedis) -> None:
    followed, unread = {"hours:1:0": b"rows"}, {"queries:1": b"tables"}
    async with store_at(redis.url) as store, client_at(redis.url) as client:
        await store.claim(LANE, "a", START)
        await store.commit(commit_of("a", 0, blobs=followed, blocks=unread))
        repair = replace(commit_of("a", 1), kept=[*followed], kept_unread=[*unread])
        assert await store.commit(repair) == "applied"
        assert await store.verify(LANE, "a", 2) == []
        scores = await client.zrange(f"{PREFIX}changes", 0, -1, withscores=True)
        assert dict(scores) == {b"hours:1:0": 2.0, b"queries:1": 0.0}
        lost = replace(commit_of("a", 2), kept=[*followed], kept_unread=["queries:2"])
        assert await store.commit(lost) == "damaged"


async def test_values_are_absolute(redis: AnyRedis) -> None:
    async with store_at(redis.url) as store:
        await store.claim(LANE, "a", START)
        await store.commit(commit_of("a", 0, blobs={"totals:0": b"long value"}, names={1: "US"}))
        await store.commit(commit_of("a", 1, blobs={"totals:0": b"short"}, names={1: "DE"}))
        delta = await store.read(LANE, "", None, 1)
    assert delta is not None
    assert (delta.pages, delta.names) == ({"totals:0": b"short"}, [(1, "DE")])


async def test_commit_may_be_empty(redis: AnyRedis) -> None:
    async with store_at(redis.url) as store:
        await store.claim(LANE, "a", START)
        assert await store.commit(commit_of("a", 0, offset=3)) == "applied"
        head = await store.claim(LANE, "b", START)
    assert (head.sequence, head.offsets) == (1, {"impressions": 43, "feedback": 5})


async def test_commit_may_have_thousands_of_parts(redis: AnyRedis) -> None:
    blobs = {f"rows:0:{number}:0": b"%d" % number for number in range(5_000)}
    names = {number: f"s{number}" for number in range(1, 5_001)}
    async with store_at(redis.url) as store:
        await store.claim(LANE, "a", START)
        assert await store.commit(commit_of("a", 0, blobs=blobs, names=names)) == "applied"
        assert len(await lane_dump(redis.url, staged=True)) == 5_003
        assert await store.commit(commit_of("a", 0, blobs=blobs, names=names)) == "already"
        delta = await store.read(LANE, "", None, 1)
        assert delta is not None and delta.pages == blobs and len(delta.names) == 5_000
        head = await store.claim(LANE, "b", START)
        stored, loaded = await store.load(LANE, head, blob_keys)
        assert loaded == {**blobs, ADMITTED_KEY: None} and len(stored) == 5_000
        assert await store.commit(commit_of("b", 1, unlinked=list(blobs))) == "applied"
    assert len(await lane_dump(redis.url)) == 2


@pytest.mark.parametrize("sequence", [2**31 - 1, 2**32, 10**15, 2**53 - 3])
async def test_sequences_may_grow_large(redis: AnyRedis, sequence: int) -> None:
    async with store_at(redis.url) as store:
        await store.claim(LANE, "a", START)
        await ask(redis.url, "HSET", f"{PREFIX}head", "sequence", str(sequence))
        first = commit_of("a", sequence, blobs={"totals:0": b"1"})
        assert await store.commit(first) == "applied"
        assert await store.commit(first) == "already"
        assert await store.commit(commit_of("a", sequence + 1, blobs={"rows:0:0:0": b"2"}))
        assert await store.commit(first) == "lost"
        assert await store.touch(LANE, "a", sequence + 2, None)
        delta = await store.read(LANE, "a", sequence + 1, 1)
    assert delta is not None and not delta.whole
    assert (delta.head.sequence, delta.pages) == (sequence + 2, {"rows:0:0:0": b"2"})


async def test_key_of_a_wrong_type_is_met_before_the_first_write(redis: AnyRedis) -> None:
    for name in ("names", "changes"):
        redis.flush()
        async with store_at(redis.url) as store:
            await store.claim(LANE, "a", START)
            await ask(redis.url, "SET", PREFIX + name, "a stranger's")
            before = await lane_dump(redis.url)
            commit = commit_of("a", 0, blobs={"totals:0": b"1"}, names={1: "x"})
            with pytest.raises(Unavailable, match="WRONGTYPE"):
                await store.commit(commit)
        assert await lane_dump(redis.url) == before


async def test_append_only_file_gives_back_what_was_staged_long_ago(
    own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file holds the staging with its end in time, and the renaming behind it: read back after
    that end, the lane must be whole."""
    server = own_redis(appendonly="yes", appendfsync="always", aof_use_rdb_preamble="no")
    monkeypatch.setattr(redis_store, "STAGED_FOR_S", 1)
    async with store_at(server.url) as store:
        await lane_with(store, "a", commits=3)
        await store._stage({f"{PREFIX}stage:a:3:0": b"part"})
        before = await dump(server.url)
        await until(lambda: _is_gone(server.url, f"{PREFIX}stage:a:3:0"))
    server.kill()
    server.start()
    assert await dump(server.url, staged=True) == before


async def _is_gone(url: str, key: str) -> bool:
    return not await ask(url, "EXISTS", key)


# Load and touch


async def test_load_gives_all_that_a_rebuild_needs(
    redis: AnyRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_store, "LOAD_KEYS", 2)
    async with store_at(redis.url) as store:
        await lane_with(store, "a", commits=4)
        head = await store.claim(LANE, "b", START)
        names, blobs = await store.load(
            LANE, head, lambda _, listed: ["open:4", *listed, ADMITTED_KEY]
        )
    pages = {f"rows:0:{n}000:0": b"page %d" % n for n in range(4)} | {"totals:0": b"totals 3"}
    assert blobs == {**pages, "open:4": b"block", ADMITTED_KEY: b"let in"}
    assert names == {str(n): msgspec.json.encode((1, f"s{n}")) for n in range(1, 5)}


@pytest.mark.parametrize("calls_before", [0, 1, 2])
async def test_load_is_lost_to_another_claim(
    redis: AnyRedis, calls_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_store, "LOAD_KEYS", 2)
    async with store_at(redis.url) as store:
        await lane_with(store, "a", commits=4)
        head = await store.claim(LANE, "b", START)
        run, calls = store._run, 0

        async def run_until_claimed(*arguments: object) -> object:
            nonlocal calls
            if calls == calls_before:
                await run(lane_store.CLAIM, _claim_keys(), ["c", PREFIX, 0])
            calls += 1
            return await run(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(store, "_run", run_until_claimed)
        with pytest.raises(Lost):
            await store.load(LANE, head, blob_keys)


def _claim_keys() -> list[str]:
    return [PREFIX + name for name in ("head", "names", "changes", ADMITTED_KEY)]


async def test_touch_writes_the_idle_mark_of_the_writer_only(redis: AnyRedis) -> None:
    async with store_at(redis.url) as store:
        await lane_with(store, "a")
        assert await store.touch(LANE, "a", 1, 1_795_176_000_000)
        assert await store.touch(LANE, "a", 1, None)
        before = await lane_dump(redis.url)
        for token, sequence in (("b", 1), ("a", 0), ("a", 2)):
            assert not await store.touch(LANE, token, sequence, 5)
        assert not await store.touch(LANE + 1, "a", 1, 5)
        assert await lane_dump(redis.url) == before
        delta = await store.read(LANE, "a", 1, 2)
    assert delta is not None and delta.head.idle_ms == 1_795_176_000_000


async def test_the_mark_of_a_batch_that_takes_too_long_is_for_the_next_owner(
    redis: AnyRedis,
) -> None:
    mark = StallMark(1, 1, {"impressions": 50, "feedback": 2}, ("impressions", 41))
    async with store_at(redis.url) as store:
        assert (await lane_with(store, "a")).stall is None
        for lane, token, sequence in ((LANE, "b", 1), (LANE, "a", 0), (LANE + 1, "a", 1)):
            assert not await store.mark(lane, token, sequence, mark)
        assert await store.mark(LANE, "a", 1, mark)
        assert await store.commit(commit_of("a", 1)) == "applied"
        assert (await store.claim(LANE, "b", START)).stall == mark


# Reads


async def test_there_is_nothing_to_read_of_no_lane(redis: AnyRedis) -> None:
    async with store_at(redis.url) as store:
        assert await store.read(LANE, "", None, 1) is None
        assert await store.read(LANE, "a", 3, 1) is None


async def test_read_gives_all_at_first_then_what_changed(redis: AnyRedis) -> None:
    async with store_at(redis.url) as store:
        await lane_with(store, "a", commits=2)
        first = await store.read(LANE, "", None, 1)
        same = await store.read(LANE, "a", 2, 3)
        await store.commit(commit_of("a", 2, blobs={"rows:0:1000:0": b"new"}, names={3: "s3"}))
        then = await store.read(LANE, "a", 2, 3)
    assert first is not None and same is not None and then is not None
    assert (first.whole, first.names) == (True, [(1, "s1"), (1, "s2")])
    assert set(first.pages) == {"rows:0:0000:0", "rows:0:1000:0", "totals:0"}
    assert (same.whole, same.names, same.pages) == (False, [], {})
    assert (then.whole, then.names, then.pages) == (False, [(1, "s3")], {"rows:0:1000:0": b"new"})


@pytest.mark.parametrize(("token", "sequence"), [("b", 2), ("a", 3), ("", 2), ("a", None)], ids=str)
async def test_reader_of_another_past_gets_all(
    redis: AnyRedis, token: str, sequence: int | None
) -> None:
    async with store_at(redis.url) as store:
        await lane_with(store, "a", commits=2)
        first = await store.read(LANE, "", None, 1)
        assert first is not None and await store.read(LANE, token, sequence, 3) == first


async def test_reader_ahead_of_a_roll_back_gets_all(redis: AnyRedis) -> None:
    async with store_at(redis.url) as store:
        await lane_with(store, "a", commits=2)
        before, first = await lane_dump(redis.url), await store.read(LANE, "", None, 1)
        await store.commit(commit_of("a", 2, blobs={"totals:0": b"later"}, names={3: "s3"}))
        await restore(redis.url, before)
        assert await store.read(LANE, "a", 3, 4) == first


async def test_read_in_many_calls_gives_the_same(
    redis: AnyRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_at(redis.url) as store:
        await lane_with(store, "a", commits=20)
        at_once = await store.read(LANE, "", None, 1), await store.read(LANE, "a", 7, 8)
        monkeypatch.setattr(redis_store, "READ_BYTES", 1)
        run, calls = store._run, 0

        async def count(*arguments: object) -> object:
            nonlocal calls
            calls += 1
            return await run(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(store, "_run", count)
        assert (await store.read(LANE, "", None, 1), await store.read(LANE, "a", 7, 8)) == at_once
    assert calls == 20 + 13


@pytest.mark.parametrize("event", ["commit", "claim", "roll back", "removal"])
async def test_lane_that_moves_between_calls_is_read_as_it_is_at_the_end(
    redis: AnyRedis, event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_at(redis.url) as store, store_at(redis.url) as writer:
        await lane_with(writer, "a", commits=6)
        before = await lane_dump(redis.url)
        newer = {"rows:0:0000:0": b"newer", "rows:0:4000:0": b"newer"}
        await writer.commit(commit_of("a", 6, blobs=newer, names={7: "s7"}, offset=7))
        monkeypatch.setattr(redis_store, "READ_BYTES", 1)
        run, calls = store._run, 0

        async def move(*arguments: object) -> object:
            nonlocal calls
            calls += 1
            if calls == 3:
                await moves[event]()
            return await run(*arguments)  # type: ignore[arg-type]

        async def add() -> None:
            page = {"rows:0:0000:0": b"newest", "rows:0:9000:0": b"newest"}
            await writer.commit(commit_of("a", 7, blobs=page, names={8: "s8"}, offset=8))

        moves: dict[str, Callable[[], Awaitable[object]]] = {
            "commit": add,
            "claim": lambda: writer.claim(LANE, "b", START),
            "roll back": lambda: restore(redis.url, before),
            "removal": lambda: asyncio.to_thread(redis.flush),
        }
        monkeypatch.setattr(store, "_run", move)
        delta = await store.read(LANE, "", None, 1)
        assert calls >= 3
        assert delta == await writer.read(LANE, "", None, 1)


async def test_read_ends_although_the_lane_never_rests(
    redis: AnyRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lane that catches up commits faster than it can be read from its beginning."""
    async with store_at(redis.url) as store, store_at(redis.url) as writer:
        await lane_with(writer, "a", commits=10)
        monkeypatch.setattr(redis_store, "READ_BYTES", 30)
        run, sequence = store._run, 10

        async def commit_before(*arguments: object) -> object:
            nonlocal sequence
            assert sequence < 100, "the read never ends"
            await writer.commit(commit_of("a", sequence, blobs={"totals:0": b"%d" % sequence}))
            sequence += 1
            return await run(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(store, "_run", commit_before)
        delta = await store.read(LANE, "", None, 1)
        assert delta == await writer.read(LANE, "", None, 1)


async def test_read_writes_nothing(own_redis: OwnRedis) -> None:
    master = own_redis(repl_diskless_sync_delay="0")
    async with store_at(master.url) as store:
        await lane_with(store, "a", commits=3)
        before = await dump(master.url)
        for sequence in (None, 1, 9):
            await store.read(LANE, "a", sequence, 1)
        assert await dump(master.url) == before
        first = await store.read(LANE, "", None, 1)
    replica = own_redis(replicaof=f"127.0.0.1 {master.port}")
    async with store_at(replica.url) as store:
        found = await until(lambda: store.read(LANE, "", None, 1))
    assert found == first


# Slots


def slot(key: bytes) -> int:
    """The hash slot of a key, by the definition of Redis Cluster."""
    tag = key[key.index(b"{") + 1 : key.index(b"}")] if b"{" in key else key
    return crc_hqx(tag, 0) % 16_384


async def test_every_key_that_a_script_touches_is_in_the_slot_of_its_lane(
    redis: AnyRedis,
) -> None:
    keys: set[bytes] = set()
    url = await holder(redis.url, slot(PREFIX.encode()))
    watching: Any = Redis.from_url(url)
    async with watching, watching.monitor() as monitor:
        async with store_at(redis.url) as store:
            await lane_with(store, "a", commits=2)
            await store.commit(commit_of("a", 2, unlinked=["open:1", "rows:0:0000:0"]))
            await store._stage({f"{PREFIX}stage:a:3:0": b"part"})
            head = await store.claim(LANE, "b", START)
            await store.load(LANE, head, blob_keys)
            await store.touch(LANE, "b", 3, 5)
            await store.mark(LANE, "b", 3, StallMark(3, 1, {}))
            await store.read(LANE, "", None, 1)
            await ask(redis.url, "DEL", f"{PREFIX}head")
            await take(store, "c")
        await ask(url, "ECHO", "end")
        async for line in monitor.listen():
            words = line["command"].split(" ")
            if words[0].upper() == "ECHO":
                break
            if line["client_type"] == "lua":
                many = {"RENAME": 2, "UNLINK": len(words), "EXISTS": len(words)}
                count = many.get(words[0].upper(), 1)
                keys |= {word.encode() for word in words[1 : 1 + count]}
    assert len(keys) > 12
    assert {slot(key) for key in keys} == {slot(PREFIX.encode())}
    assert slot(PREFIX.encode()) != slot(PREFIX.replace(f":{LANE}", ":8").encode())


def test_slots_are_those_of_the_definition() -> None:
    assert slot(b"foo") == 12_182 and slot(b"{user1000}.following") == slot(b"user1000")
    assert PREFIX.startswith("{" + NAMESPACE)
