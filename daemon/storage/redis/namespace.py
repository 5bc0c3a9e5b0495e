"""The state of a namespace beside its lanes: how many there are, who serves the scores, when it was
last written to.

    NAMESPACE:meta      hash: lanes (partitions of the input topics), born (lanes when it began);
                        start:N, the offsets at which lane N began;
                        topics, began, caught_up, succeeded_by, retired_until (see `succession`)
    NAMESPACE:anew:N    an operator's permission to begin lane N anew; expires
    NAMESPACE:exporter  token of the process that serves the series; expires unless renewed
    NAMESPACE:shown     the segments of its counters, for the next exporter
    NAMESPACE:changes   the falls that are open or just over, for the next exporter
    NAMESPACE:markers   hash: what people marked (see `registers`)
    NAMESPACE:accepted  hash: other logs that lanes may begin (see `registers`)
    {NAMESPACE:past}:*  hours that were filled (see `tables`)
    PREFIX:namespaces   sorted set: namespace → clock in ms of its last sign of life
    PREFIX:ids          hash: namespace → its id, which its consumer group carries too; it outlives
                        the namespace, and is gone only where Redis lost it

Tasks of a process for its namespace beside the pipeline, until the process stops.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TypeVar

import structlog

from ...backoff import finished_before_stop, pause_s, stopped_within
from ...errors import Unavailable
from .client import Client, answered, lane_keys, portions, prefix_of
from .lane_store import LaneStore
from .port import Term
from .registers import ACCEPTED_LOGS, MARKERS, LaneRegister
from .succession import Succession

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
"""Where the head exists again, a new owner has claimed the lane, and its keys are not touched."""
_SIGN_OF_LIFE: Final = """
local newest = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
local away = newest[2] and ARGV[2] - newest[2] or 0
if away > tonumber(ARGV[3]) then
  for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
    redis.call('ZADD', KEYS[1], redis.call('ZSCORE', KEYS[1], name) + away, name)
  end
end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
return 1
"""
_TIME: Final = "return redis.call('TIME')"
AWAY_MS: Final = 600_000
OWN_KEYS: Final = ("meta", "exporter", "shown", "changes", "layouts", MARKERS, ACCEPTED_LOGS)


@dataclass(frozen=True)
class LaneCounts:
    """How many lanes there are, and how many there were when the namespace began."""

    now: int
    at_start: int


class Namespace:
    """One namespace. Methods raise Unavailable while the server does not answer or refuses."""

    def __init__(self, client: Client, prefix: str, name: str, topics: Sequence[str] = ()) -> None:
        """`topics`: the input topics, which workers note."""
        self._client = client
        self._topics = " ".join(sorted(topics))
        self._prefix = prefix
        self.name = name
        self._registry = LaneRegister(client, name)
        self._succession = Succession(client, prefix, name, self.now_ms, self._topics)

    async def register(self, lanes: int) -> LaneCounts:
        """Store the number of lanes; the first process to do so also stores how many the namespace
        began with."""
        key = f"{self.name}:meta"
        await self._answered(self._client.hsetnx(key, "born", str(lanes)))
        await self._succession.begin()
        # Before the lanes: exporters begin with these.
        await self._answered(self._client.hset(key, "topics", self._topics))
        await self._answered(self._client.hset(key, "lanes", str(lanes)))
        at_start: Any = await self._answered(self._client.hget(key, "born"))
        return LaneCounts(lanes, int(at_start or lanes))

    async def known_id(self) -> str | None:
        """Return the id of the namespace; None before its first worker, and after a loss."""
        stored: Any = await self._answered(self._client.hget(f"{self._prefix}:ids", self.name))
        return None if stored is None else stored.decode()

    async def keep_id(self, own: str) -> tuple[str, bool]:
        """Give the namespace this id where it has none; returns the id that it has now, and whether
        it had none."""
        key = f"{self._prefix}:ids"
        was_given: Any = await self._answered(self._client.hsetnx(key, self.name, own))
        return await self.known_id() or own, bool(was_given)

    async def lanes(self) -> int:
        """Return the number of lanes; 0 before any worker has registered."""
        stored: Any = await self._answered(self._client.hget(f"{self.name}:meta", "lanes"))
        return int(stored or 0)

    async def begun(self) -> frozenset[int]:
        """Return the lanes that have begun, as far as their owners noted it."""
        return await self._registry.begun()

    async def lease(self, token: str, silence_ms: int) -> bool:
        """Take or renew the lease on serving the scores; returns whether this process has it. The
        lease ends `silence_ms` after the last call."""
        key = f"{self.name}:exporter"
        if await self._answered(self._client.set(key, token, nx=True, px=silence_ms)):
            return True
        renewed = self._client.eval(_RENEW, 1, key, token, str(silence_ms))
        return bool(await self._answered(renewed))

    async def release(self, token: str) -> None:
        """Give the lease back, so that another process can take it at once."""
        await self._answered(self._client.eval(_RELEASE, 1, f"{self.name}:exporter", token))

    async def stored_selection(self) -> bytes | None:
        """Return what the last exporter stored of its counters; None before there was one."""
        stored: Any = await self._answered(self._client.get(f"{self.name}:shown"))
        return None if stored is None else bytes(stored)

    async def store_selection(self, selection: bytes) -> None:
        """Store this for the next exporter."""
        await self._answered(self._client.set(f"{self.name}:shown", selection))

    async def stored_changes(self) -> bytes | None:
        """Return what the last exporter stored of open changes; None before there was one."""
        stored: Any = await self._answered(self._client.get(f"{self.name}:changes"))
        return None if stored is None else bytes(stored)

    async def store_changes(self, changes: bytes) -> None:
        """Store these for the next exporter."""
        await self._answered(self._client.set(f"{self.name}:changes", changes))

    async def term(self) -> Term:
        """Return whether the namespace serves the scores. One that the server lost does not."""
        return await self._succession.term()

    async def take_over(self) -> list[str]:
        """Note that the namespace has caught up with its logs, and serves instead of those that
        did; returns these."""
        return await self._succession.take_over()

    async def retire(self) -> int | None:
        """Note that the namespace is about to be removed for good; returns the server's clock in ms
        up to which that holds, or None where no worker has ever begun it."""
        return await self._succession.retire()

    async def return_after_silence(self, now_ms: int) -> bool:
        """Let a namespace that was succeeded, taken away and is deployed again, catch up anew."""
        return await self._succession.return_after_silence(now_ms)

    async def now_ms(self) -> int:
        """Return the server's clock in ms. With the clocks of processes, a wrong one could make a
        live namespace seem silent, and have it removed."""
        # By a script with a key, so that a cluster always asks the same server.
        call = self._client.eval(_TIME, 1, f"{self._prefix}:namespaces")
        seconds, microseconds = await self._answered(call)
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def sign_of_life(self, now_ms: int) -> None:
        """Store `now_ms` as the time at which the namespace was last written to.

        Where nobody gave a sign for `AWAY_MS`, the server was away, or is an older copy of itself:
        that time is no silence of any namespace, and each gets its sign moved by it.
        """
        key = f"{self._prefix}:namespaces"
        call = self._client.eval(_SIGN_OF_LIFE, 1, key, self.name, now_ms, AWAY_MS)
        await self._answered(call)

    async def remove_silent(self, since_ms: int) -> list[str]:
        """Remove every namespace of this prefix whose last sign of life is before `since_ms`;
        returns their names."""
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
        # Heads first: a process that returns to the namespace meanwhile then starts its lanes anew,
        # instead of reading what is left of them.
        for own in OWN_KEYS:
            await self._answered(self._client.unlink(f"{name}:{own}"))
        keys = await self._answered(lane_keys(self._client, name))
        for key in keys:
            if key.endswith("}:head"):
                await self._answered(self._client.unlink(key))
        for lane, of_lane in groupby(sorted(keys), key=prefix_of):
            for part in portions(list(of_lane)):
                call = self._client.eval(_REMOVE_HEADLESS, len(part) + 1, f"{lane}head", *part)
                await self._answered(call)

    async def eviction_policy(self) -> str | None:
        """Return `maxmemory-policy` of the server; None where it does not report it."""
        try:
            info: Any = await self._answered(self._client.info("memory"))
        except Unavailable:
            return None
        policy = info.get("maxmemory_policy")
        return None if policy is None else str(policy)

    async def _answered(self, call: Awaitable[T]) -> T:
        return await answered(self._client, call)


log = structlog.get_logger(__name__)

SIGN_OF_LIFE_EVERY_S: Final = 10.0
SWEEP_EVERY_S: Final = 1.0
"""How often to check for a claimed lane that may have keys of an earlier one."""


async def show_life(
    namespace: Namespace, lanes: Callable[[], int | None], keep_ms: int, stop: asyncio.Event
) -> None:
    """Write the namespace's sign of life, and remove namespaces without one for `keep_ms`."""
    said: str | None = None
    stay = False
    while True:
        try:
            count = lanes()
            if count is not None:
                # Again each time: partitions may be added, and a server may be emptied.
                await namespace.register(count)
            now_ms = await namespace.now_ms()
            if await namespace.return_after_silence(now_ms):
                log.info("this namespace was succeeded and is deployed again: it catches up anew")
            await namespace.sign_of_life(now_ms)
            successor = (await namespace.term()).successor
            if successor is not None and successor != said:
                log.warning("another namespace serves the scores: stop these daemons", by=successor)
            said = successor
        except Unavailable as error:
            log.debug("no sign of life written", reason=str(error))
        else:
            stay = await _remove_silent(namespace, now_ms - keep_ms, stay)
        if await stopped_within(stop, SIGN_OF_LIFE_EVERY_S):
            return


async def _remove_silent(namespace: Namespace, since_ms: int, stay: bool) -> bool:
    try:
        if removed := await namespace.remove_silent(since_ms):
            log.info("old namespaces removed", namespaces=removed)
    except Unavailable as error:
        return _note_what_stays(error, stay)
    return stay


def _note_what_stays(error: Unavailable, was_refused: bool) -> bool:
    """Log that unused keys are not removed, as a warning the first time that the server forbids it,
    as some do with SCAN; returns whether it has."""
    is_refused = error.trouble in ("permission", "other")
    write = log.warning if is_refused and not was_refused else log.debug
    write("keys that nobody uses stay in Redis, all else works", reason=str(error))
    return was_refused or is_refused


async def sweep_lanes(store: LaneStore, stop: asyncio.Event) -> None:
    """Remove keys of lanes that Redis lost in part. Scanning a large server takes a while: what is
    not done when the process stops is left to the next owner."""
    failures, stay = 0, False

    async def sweep() -> None:
        removed = await store.sweep()
        if removed:
            log.warning("keys of lost lanes removed", keys=removed)

    while True:
        try:
            await finished_before_stop(sweep(), stop)
            failures = 0
        except Unavailable as error:
            failures += 1
            stay = _note_what_stays(error, stay)
        wait_s = SWEEP_EVERY_S + (pause_s(failures, random.random()) if failures else 0.0)
        if await stopped_within(stop, wait_s):
            return
