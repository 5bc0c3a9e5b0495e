"""A slot of a Redis Cluster that is on its way, key by key, from one master to another: each step
of its lane gives the whole answer or none, never a part of it. (Commits and claims, which need all
keys of a lane at once, wait for the end of the move.)"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.crc import key_slot

from relevanced.daemon.errors import Damaged, Unavailable
from relevanced.daemon.storage import LaneStore, StallMark, blob_keys, lane_store
from tests.services.redis_cluster import RedisCluster
from tests.services.redis_lanes import LANE, PREFIX, START, commit_of, lane_with, store_at

PAGES = 4
SLOT = key_slot(f"{PREFIX}head".encode())


async def read(store: LaneStore) -> Any:
    delta = await store.read(LANE, "", None, 1)
    return None if delta is None else (delta.head.sequence, delta.names, dict(delta.pages))


async def load(store: LaneStore) -> Any:
    """As a new owner: claim and load."""
    head = await store.claim(LANE, "next", START)
    names, blobs = await store.load(LANE, head, blob_keys)
    return head.sequence, head.offsets, names, blobs


async def touch(store: LaneStore) -> Any:
    return await store.touch(LANE, "a", PAGES, 5)


async def mark(store: LaneStore) -> Any:
    return await store.mark(LANE, "a", PAGES, StallMark(PAGES, 1, {}))


async def commit(store: LaneStore) -> Any:
    pages = {"totals:0": b"totals", "rows:0:9000:0": b"page"}
    return await store.commit(commit_of("a", PAGES, blobs=pages, blocks={"open:9": b"x" * 9_000}))


async def commit_staged(store: LaneStore) -> Any:
    """As a large one: its keys are not known to the server before the script runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lane_store, "MOST_ARGUMENTS", 0)
        return await commit(store)


COMMITS = (commit, commit_staged)


@pytest.mark.parametrize("head_first", [True, False], ids=["head first", "head last"])
@pytest.mark.parametrize("step", [read, load, touch, mark, *COMMITS])
async def test_a_lane_whose_slot_moves_is_whole_or_unavailable(
    redis_cluster: RedisCluster,
    step: Callable[[LaneStore], Awaitable[Any]],
    head_first: bool,
) -> None:
    answers: list[Any] = []
    for moved in (0, 1, 4, 8):
        redis_cluster.flush()
        async with store_at(redis_cluster.url) as store:
            await lane_with(store, "a", commits=PAGES)
            whole = None if step in (mark, touch, *COMMITS) else await step(store)
            if step is load:
                redis_cluster.flush()
                await lane_with(store, "a", commits=PAGES)
            async with redis_cluster.moving(SLOT) as move:
                await move(moved, first=f"{PREFIX}head" if head_first else None)
                try:
                    async with asyncio.timeout(5):
                        answers.append(await step(store))
                except (Unavailable, Damaged):
                    answers.append("unavailable")
            if whole is None:
                whole = True if step in (mark, touch) else "applied"
            assert answers[-1] in (whole, "unavailable"), f"after {moved} keys had moved"
            if answers[-1] == "unavailable":
                assert await step(store) == whole, "once the slot has moved"
    assert step in (load, *COMMITS) or whole in answers
