"""A server that crashed while it appended a commit to its log, and what a later start makes of it.

Servers cut a log that ends inside a transaction, but those before 2026-08 cut it behind the last
whole command of the transaction. What is appended later belongs to the transaction as well, and the
next start publishes a part of a commit that never was.
"""

import random
from pathlib import Path

import pytest

from relevanced.daemon.views import LaneView
from tests.seeds import seeds
from tests.services.fixtures import OwnRedis
from tests.services.redis_server import RedisServer
from tests.services.test_damage import SOME, VALUES, assert_is_right, often, reference, scene_at

__all__ = ["often"]
BEGIN, END = b"*1\r\n$5\r\nMULTI\r\n", b"*1\r\n$4\r\nEXEC\r\n"


def log_of(server: RedisServer) -> Path:
    """The part of the append-only file that grows."""
    return max((server.directory / "appendonlydir").glob("*.incr.aof"))


def tear_last_commit(server: RedisServer, fraction: float) -> None:
    """Cut the log of a stopped server inside the last transaction that moved a head's sequence."""
    path = log_of(server)
    data = path.read_bytes()
    begin = data.rfind(BEGIN, 0, data.rfind(b"$8\r\nsequence\r\n"))
    end = data.index(END, begin)
    path.write_bytes(data[: begin + len(BEGIN) + int((end - begin - len(BEGIN)) * fraction)])


@pytest.mark.parametrize("seed", seeds(8))
async def test_no_part_of_a_torn_commit_is_ever_counted(own_redis: OwnRedis, seed: int) -> None:
    rng = random.Random(f"torn {seed}")
    server = own_redis(appendonly="yes", appendfsync="always")
    async with scene_at(server) as scene:
        scene.log.values += VALUES[SOME : SOME + 100]
        async with scene.working():
            await scene.settled()
        server.kill()
        tear_last_commit(server, rng.random())
        server.start()
        await scene.client.connection_pool.disconnect()
        # Another owner reads other batches from there on: it writes other pages.
        del scene.log.values[SOME + rng.randrange(1, 30) :]
        async with scene.working():
            await scene.settled()
        server.restart()
        await scene.client.connection_pool.disconnect()
        seen = await scene.read()
        if isinstance(seen, LaneView):
            assert_is_right(seen, reference(len(scene.log.values)))
        async with scene.working():
            await scene.settled()
        assert_is_right(await scene.read(), reference(len(scene.log.values)))
