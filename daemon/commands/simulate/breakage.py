"""What may break in the simulated search, besides its ranking. Pure."""

from random import Random
from typing import Final, Literal, TypeAlias
from zlib import crc32

from .world import Ranking

Breakage: TypeAlias = Literal["ranking", "index", "tracking", "mix"]
BREAKAGES: Final[tuple[Breakage, ...]] = ("ranking", "index", "tracking", "mix")
"""Lists are ranked at random; an index shard is down, and lists lack its items; clicks are lost;
more of the searches come from a segment whose users have always clicked less."""

SHARDS: Final = 5
CLICKS_LOST: Final = 0.2
LESS_ATTRACTED: Final = 0.6
"""Attraction of an item to users of the segment that grows, as a share of that to others."""
MOVED: Final = 1 / 3
"""Share of the searches of all others that come from the segment that grows instead."""


def without_a_shard(ranking: Ranking) -> Ranking:
    """The ranking without the items of the first of `SHARDS` shards, and so shorter."""
    pairs = zip(ranking.items, ranking.attractions, strict=True)
    kept = [(item, value) for item, value in pairs if crc32(item.encode()) % SHARDS]
    return Ranking(tuple(item for item, _ in kept), tuple(value for _, value in kept))


def less_attractive(ranking: Ranking) -> Ranking:
    """The ranking as users who click less see it."""
    return Ranking(ranking.items, tuple(LESS_ATTRACTED * a for a in ranking.attractions))


def is_lost(random: Random) -> bool:
    """Draw whether a lossy tracker loses a click."""
    return random.random() < CLICKS_LOST
