"""Which layout is in force in a namespace: who may change it, and who may not."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relevanced.daemon.config import layout_of, load
from relevanced.daemon.storage import SILENT_MS, Generation, LayoutRegistry
from tests.services.fixtures import AnyRedis
from tests.services.redis_lanes import client_at
from tests.services.redis_server import RedisServer
from tests.services.test_verify import command

KEY = "relevanced-1234:layouts"


@pytest.fixture
async def registry(any_redis: AnyRedis) -> AsyncIterator[LayoutRegistry]:
    async with client_at(any_redis.url) as client:
        yield LayoutRegistry(client, "relevanced-1234")


async def silence(registry: LayoutRegistry, digest: str, ms: int) -> None:
    """As if the last proposal had been so long ago."""
    last = int((await registry._client.hget(KEY, f"proposed:{digest}")) or 0)
    await registry._client.hset(KEY, f"proposed:{digest}", str(last - ms))


async def test_the_first_proposal_is_in_force(registry: LayoutRegistry) -> None:
    assert await registry.in_force() is None
    first = await registry.propose("a", "text of a")
    assert first == Generation(1, "a", "text of a") == await registry.in_force()
    assert await registry.propose("a", "text of a") == first


async def test_a_layout_that_was_never_seen_comes_into_force(registry: LayoutRegistry) -> None:
    await registry.propose("a", "A")
    second = await registry.propose("b", "B")
    assert second == Generation(2, "b", "B") == await registry.in_force()


async def test_a_straggler_takes_nobody_back(registry: LayoutRegistry) -> None:
    await registry.propose("a", "A")
    second = await registry.propose("b", "B")
    for _ in range(3):
        assert await registry.propose("a", "A") == second


async def test_a_rollback_is_in_force_once_nobody_proposes_the_other(
    registry: LayoutRegistry,
) -> None:
    await registry.propose("a", "A")
    second = await registry.propose("b", "B")
    await silence(registry, "b", SILENT_MS - 5_000)
    assert await registry.propose("a", "A") == second
    await silence(registry, "b", 10_000)
    third = await registry.propose("a", "A")
    assert third == Generation(3, "a", "A")
    assert await registry.propose("b", "B") == third, "it is the superseded one now"


async def test_an_operator_decides_at_once(registry: LayoutRegistry) -> None:
    await registry.propose("a", "A")
    await registry.propose("b", "B")
    third = await registry.use("a", "A")
    assert third == Generation(3, "a", "A") == await registry.use("a", "A")
    assert await registry.propose("b", "B") == third
    assert [(one.number, one.digest) for one in await registry.history()] == [
        (1, "a"),
        (2, "b"),
        (3, "a"),
    ]


async def test_what_an_operator_decides_stays_before_its_first_worker_has_started(
    registry: LayoutRegistry,
) -> None:
    await registry.propose("a", "A")
    await registry.propose("b", "B")
    await silence(registry, "a", 2 * SILENT_MS)
    third = await registry.use("a", "A")
    assert await registry.propose("b", "B") == third == Generation(3, "a", "A")


async def test_the_command_shows_and_sets_the_layout(
    one_redis: RedisServer, tmp_path: Path
) -> None:
    files = []
    for name in ("RR@10", "nDCG@10"):
        files.append(tmp_path / f"{name}.toml")
        redis = f'[redis]\nurl = "{one_redis.url}"\n'
        files[-1].write_text(f'{redis}[metrics]\nnames = ["{name}"]\n')
    digests = [layout_of(load(path.read_text(), {}, "test")).digest for path in files]

    async def layout(act: str, path: Path) -> str:
        code, out = await command("layout", act, "--config", str(path))
        assert code == 0, out
        return out

    assert "no worker has proposed" in await layout("show", files[0])
    for number, path in enumerate((files[0], files[1], files[0]), 1):
        assert f"generation {number}, {digests[(number - 1) % 2]}" in await layout("use", path)
    shown = await layout("show", files[1])
    assert f"generation 2: {digests[1]} this file\ngeneration 3: {digests[0]} in force\n" in shown


async def test_a_lane_brings_back_what_the_registry_lost(registry: LayoutRegistry) -> None:
    await registry.propose("a", "A")
    found = Generation(7, "b", "B")
    assert await registry.restore(found) == found == await registry.in_force()
    assert await registry.restore(Generation(7, "c", "C")) == found
    assert await registry.restore(Generation(6, "c", "C")) == found
