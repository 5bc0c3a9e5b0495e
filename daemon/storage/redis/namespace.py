"""What a namespace holds beside its lanes: how many there are, who serves the scores, when it was
last written.

    NAMESPACE:meta      hash: lanes (partitions of the input topics now), born (then, when it began)
    NAMESPACE:exporter  token of the process that serves the scores; ends with its silence
    NAMESPACE:shown     which segments its counters have shown
    PREFIX:namespaces   sorted set: namespace → clock in ms of its last sign of life
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TypeVar

from ...errors import Unavailable
from .client import Client, answered
from .scan import lane_keys, portions, prefix_of

T = TypeVar("T")

_RENEW: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""
_RELEASE: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
"""
_REMOVE_HEADLESS: Final = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
for i = 2, #KEYS do redis.call('UNLINK', KEYS[i]) end
return 1
"""
"""A head that is there again has a new owner, and so may have any key of the lane."""
_TIME: Final = "return redis.call('TIME')"
OWN_KEYS: Final = ("meta", "exporter", "shown")


@dataclass(frozen=True)
class LaneCounts:
    """How many lanes there are, and how many there were when the namespace began."""

    lanes: int
    born: int


class Namespace:
    """One namespace. Methods raise Unavailable where the server does not do its work now."""

    def __init__(self, client: Client, prefix: str, name: str) -> None:
        self._client = client
        self._prefix = prefix
        self.name = name

    async def register(self, lanes: int) -> LaneCounts:
        """Note the number of lanes; the first process to do so sets how many the namespace was born
        with."""
        key = f"{self.name}:meta"
        await self._answered(self._client.hsetnx(key, "born", str(lanes)))
        await self._answered(self._client.hset(key, "lanes", str(lanes)))
        born: Any = await self._answered(self._client.hget(key, "born"))
        return LaneCounts(lanes, int(born or lanes))

    async def lanes(self) -> int:
        """The number of lanes; 0 before any worker has registered."""
        found: Any = await self._answered(self._client.hget(f"{self.name}:meta", "lanes"))
        return int(found or 0)

    async def lease(self, token: str, silence_ms: int) -> bool:
        """Be, or stay, the one process that serves the scores. It must ask again before
        `silence_ms` have passed."""
        key = f"{self.name}:exporter"
        if await self._answered(self._client.set(key, token, nx=True, px=silence_ms)):
            return True
        renewed = self._client.eval(_RENEW, 1, key, token, str(silence_ms))
        return bool(await self._answered(renewed))

    async def release(self, token: str) -> None:
        """Let another process serve the scores at once."""
        await self._answered(self._client.eval(_RELEASE, 1, f"{self.name}:exporter", token))

    async def stored_selection(self) -> bytes | None:
        """What the last exporter remembered of its counters."""
        stored: Any = await self._answered(self._client.get(f"{self.name}:shown"))
        return None if stored is None else bytes(stored)

    async def store_selection(self, memory: bytes) -> None:
        """Keep this for the next exporter."""
        await self._answered(self._client.set(f"{self.name}:shown", memory))

    async def now_ms(self) -> int:
        """The server's clock: where a process's own is wrong, no living namespace may seem silent
        to it, or through it to others."""
        # By a script with a key: in a cluster, always that key's server.
        asked = self._client.eval(_TIME, 1, f"{self._prefix}:namespaces")
        seconds, microseconds = await self._answered(asked)
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def sign_of_life(self, now_ms: int) -> None:
        """Note that the namespace is written to."""
        key = f"{self._prefix}:namespaces"
        await self._answered(self._client.zadd(key, {self.name: now_ms}))

    async def remove_silent(self, since_ms: int) -> list[str]:
        """Remove every namespace of this prefix without a sign of life since then, whole; returns
        their names."""
        key = f"{self._prefix}:namespaces"
        found: Any = await self._answered(self._client.zrangebyscore(key, "-inf", f"({since_ms}"))
        removed = []
        for name in map(bytes.decode, found):
            seen_ms: Any = await self._answered(self._client.zscore(key, name))
            if name == self.name or seen_ms is None or seen_ms >= since_ms:
                continue
            await self._remove(name)
            await self._answered(self._client.zrem(key, name))
            removed.append(name)
        return removed

    async def _remove(self, name: str) -> None:
        """Heads first: a process that comes back to the namespace meanwhile begins its lanes anew,
        instead of reading what is left of them."""
        for own in OWN_KEYS:
            await self._answered(self._client.unlink(f"{name}:{own}"))
        keys = await self._answered(lane_keys(self._client, name))
        for key in keys:
            if key.endswith("}:head"):
                await self._answered(self._client.unlink(key))
        for lane, of_lane in groupby(sorted(keys), key=prefix_of):
            for some in portions(list(of_lane)):
                call = self._client.eval(_REMOVE_HEADLESS, len(some) + 1, f"{lane}head", *some)
                await self._answered(call)

    async def eviction_policy(self) -> str | None:
        """`maxmemory-policy` of the server; None where it does not say."""
        try:
            info: Any = await self._answered(self._client.info("memory"))
        except Unavailable:
            return None
        policy = info.get("maxmemory_policy")
        return None if policy is None else str(policy)

    async def _answered(self, call: Awaitable[T]) -> T:
        return await answered(self._client, call)
