"""What is deleted from a Redis while workers use it."""

import asyncio
import random
import time
from typing import Final

from relevanced.daemon.storage import LaneStore, connect, lane_keys
from tests.chaos.round import POLL_EVERY_S, Round

SOME_KEYS: Final = 20
SOME_KEYS_PATIENCE_S: Final = 15.0
"""Keys are lost once there are so many: a lane of none cannot lose any."""


async def lose_lane(round: Round, lane: int) -> None:
    """Delete the head of a lane and the list of its keys, which leaves its other keys orphaned."""
    async with connect(round.redis.url) as client:
        prefix = LaneStore(client, round.namespace).prefix(lane)
        await client.delete(f"{prefix}head", f"{prefix}changes")


async def wait_for_keys(round: Round) -> None:
    """Wait, though not for ever, until the lanes have some keys to lose."""
    deadline_s = time.monotonic() + SOME_KEYS_PATIENCE_S
    async with connect(round.redis.url) as client:
        while len(await lane_keys(client, round.namespace)) < SOME_KEYS:
            if time.monotonic() > deadline_s:
                return
            await asyncio.sleep(POLL_EVERY_S)


async def lose_keys(round: Round, fraction: float) -> int:
    """Delete one, some or half of the keys of the lanes, whatever they are; returns how many.

    What a namespace notes of its lanes stays: with `start = "latest"` nobody could say where a lane
    began that lost its head as well, and it would stop, as it should."""
    rng = random.Random(f"keys {fraction}")
    async with connect(round.redis.url) as client:
        keys = sorted(await lane_keys(client, round.namespace))
        if keys:
            lost = rng.sample(keys, rng.choice((1, min(5, len(keys)), -(-len(keys) // 2))))
            return int(await client.unlink(*lost))
    return 0
