"""Filled hours in Redis: written by one process at a time, published at once, gone with their
namespace."""

from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from relevanced.daemon.errors import Damaged, Unavailable
from relevanced.daemon.lane import PAGE_ROWS
from relevanced.daemon.storage import (
    Filling,
    InForce,
    Namespace,
    PastStore,
    filling_hour_key,
    names_key,
    pack_page,
    packed_filling,
)
from tests.lane_views import NOW_MS, PLAN
from tests.services.fixtures import AnyRedis
from tests.services.redis_lanes import client_at

NAME = "relevanced-1234"
HOUR = 3_600_000
LATER_MS = 10**13
NAMES = (("all", "all"), ("country", "US"))
PAGES = 700
"""More than one call writes."""


@pytest.fixture
async def client(any_redis: AnyRedis) -> AsyncIterator[Any]:
    async with client_at(any_redis.url) as found:
        yield found


def page(value: int) -> bytes:
    return pack_page(np.full((PAGE_ROWS, PLAN.row_width), value, np.int64))


def values(id_: str) -> dict[str, bytes]:
    found = {filling_hour_key(id_, 0, NOW_MS + n * HOUR, 0): page(n) for n in range(PAGES - 1)}
    return {**found, names_key(id_, 0): packed_filling(NAMES)}


def filling(id_: str) -> Filling:
    layout, until = InForce(PLAN, 1).stored(), NOW_MS + PAGES * HOUR
    return Filling(id_, layout, PLAN.grouping_names, NOW_MS, until, "Kafka", PAGES)


async def staged(store: PastStore, id_: str) -> None:
    assert await store.begin()
    await store.stage(id_, values(id_), dict.fromkeys(values(id_), LATER_MS))


async def left(client: Any) -> list[bytes]:
    return [key async for key in client.scan_iter(match=f"{{{NAME}:past}}:*")]


async def test_what_is_published_is_read_whole_and_before_nothing(client: Any) -> None:
    store = PastStore(client, NAME)
    await staged(store, "f1")
    assert await store.fillings() == {}
    await store.publish(filling("f1"), LATER_MS)
    assert await store.fillings() == {1: filling("f1")}
    past = await store.load(filling("f1"))
    assert (past.filling, past.lost) == (filling("f1"), frozenset())
    (part,) = past.parts
    assert part.names == NAMES and part.hours == {
        NOW_MS + n * HOUR: {0: page(n)} for n in range(PAGES - 1)
    }


async def test_one_process_fills_until_it_is_silent(client: Any) -> None:
    one, two = PastStore(client, NAME), PastStore(client, NAME)
    await staged(one, "f1")
    assert not await two.begin()
    await client.delete(f"{{{NAME}:past}}:run")  # as time does
    assert await two.begin()
    assert len(await left(client)) == 1, "what the other had staged is gone"
    with pytest.raises(Unavailable, match="another process fills"):
        await one.stage("f1", {}, {})
    with pytest.raises(Unavailable, match="another process fills"):
        await one.publish(filling("f1"), LATER_MS)
    await one.end()
    assert not await one.begin(), "it ends its own turn only"
    await two.end()
    assert await one.begin()


async def test_what_is_published_cannot_be_discarded(client: Any) -> None:
    """As after a publication whose answer was lost."""
    store = PastStore(client, NAME)
    await staged(store, "f1")
    await store.publish(filling("f1"), LATER_MS)
    await store.discard("f1")
    assert len((await store.load(filling("f1"))).parts) == 1
    await staged(store, "f2")
    await store.discard("f2")
    with pytest.raises(Unavailable):
        await store.publish(filling("f2"), LATER_MS)
    assert await store.fillings() == {1: filling("f1")}


async def test_lost_and_torn_values_are_noticed(client: Any) -> None:
    store, prefix = PastStore(client, NAME), f"{{{NAME}:past}}:"
    await staged(store, "f1")
    await store.publish(filling("f1"), LATER_MS)
    await client.delete(prefix + filling_hour_key("f1", 0, NOW_MS, 0))
    await client.set(prefix + filling_hour_key("f1", 0, NOW_MS + HOUR, 0), b"rubbish")
    past = await store.load(filling("f1"))
    assert past.lost == {NOW_MS, NOW_MS + HOUR} and len(past.parts[0].hours) == PAGES - 3
    await client.delete(prefix + names_key("f1", 0))
    with pytest.raises(Damaged, match="the names of its segments are gone"):
        await store.load(filling("f1"))
    await client.delete(f"{prefix}f1:keys")
    with pytest.raises(Damaged, match="0 of 700 keys"):
        await store.load(filling("f1"))
    await client.hset(f"{prefix}fillings", "1", b"rubbish")
    with pytest.raises(Damaged, match="cannot be read"):
        await store.fillings()


async def test_values_expire(client: Any) -> None:
    store = PastStore(client, NAME)
    await staged(store, "f1")
    await store.publish(filling("f1"), LATER_MS)
    key = f"{{{NAME}:past}}:{filling_hour_key('f1', 0, NOW_MS, 0)}"
    assert await client.pexpiretime(key) == LATER_MS
    assert await client.pexpiretime(f"{{{NAME}:past}}:f1:keys") == LATER_MS


async def test_the_past_of_a_silent_namespace_is_removed_with_it(client: Any) -> None:
    store = PastStore(client, NAME)
    await staged(store, "f1")
    await store.publish(filling("f1"), LATER_MS)
    await staged(store, "f2")
    own, other = (Namespace(client, "relevanced", name) for name in (NAME, "relevanced-5678"))
    await own.sign_of_life(1)
    assert await other.remove_silent(2) == [NAME]
    assert await left(client) == []
