"""Hours that were filled, written by one process at a time, and tables of queries as readers fetch
them: when somebody asks, not with every read of a lane.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, TypeVar

from ...errors import Unavailable
from ..head import Head, head_of
from ..layouts import PAST, Filling, StoredPast, packed_filling, past_of, unpacked
from .client import Client, answered, portions

T = TypeVar("T")

SILENT_MS: Final = 60_000
"""Without a sign of life for so long, another process may fill."""

_BEGIN: Final = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
_STAGE: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('SADD', KEYS[2], ARGV[3])
for i = 4, #KEYS do
  local from = (i - 4) * 3
  redis.call('SADD', KEYS[3], ARGV[from + 4])
  redis.call('SET', KEYS[i], ARGV[from + 5], 'PXAT', ARGV[from + 6])
end
return 1
"""
_PUBLISH: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('SREM', KEYS[2], ARGV[2]) == 0 then return 0 end
redis.call('HSET', KEYS[3], redis.call('HLEN', KEYS[3]) + 1, ARGV[3])
redis.call('PEXPIREAT', KEYS[4], ARGV[4])
redis.call('DEL', KEYS[1])
return 1
"""
_END: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
"""


class PastStore:
    """The past of one namespace. Methods raise Unavailable."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._prefix = f"{{{namespace}:{PAST}}}:"
        self._token = secrets.token_hex(8)

    async def fillings(self) -> dict[int, Filling]:
        """Return what is published, by number. Raises Damaged."""
        found: Any = await self._answered(self._client.hgetall(self._key("fillings")))
        return {int(number): unpacked(found[number]) for number in sorted(found, key=int)}

    async def load(self, filling: Filling) -> StoredPast:
        """Return a filling with its rows. Raises Damaged."""
        members: Any = await self._answered(self._client.smembers(self._key(f"{filling.id}:keys")))
        keys, blobs = sorted(map(bytes.decode, members)), dict[str, bytes | None]()
        for part in portions(keys):
            values: Any = await self._answered(self._client.mget([self._key(key) for key in part]))
            blobs |= dict(zip(part, values, strict=True))
        return await asyncio.to_thread(past_of, filling, blobs)

    async def begin(self) -> bool:
        """Become the one process that fills, and remove what others staged and never published;
        returns False where another process fills."""
        call = self._client.eval(_BEGIN, 1, self._key("run"), self._token, str(SILENT_MS))
        if not await self._answered(call):
            return False
        staged: Any = await self._answered(self._client.smembers(self._key("staged")))
        for id_ in map(bytes.decode, staged):
            await self.discard(id_)
        return True

    async def stage(
        self, id_: str, blobs: Mapping[str, bytes], expires_ms: Mapping[str, int]
    ) -> None:
        """Write values of a filling that is not published, each until an instant of the server's
        clock; none of them only renews the sign of life."""
        parts = [*portions(list(blobs))] if blobs else [list[str]()]
        for part in parts:
            triples = list[bytes | str]()
            for key in part:
                triples += (key, blobs[key], str(expires_ms[key]))
            own = [self._key(name) for name in ("run", "staged", f"{id_}:keys")]
            keys = [*own, *map(self._key, part)]
            arguments: list[bytes | str] = [self._token, str(SILENT_MS), id_, *triples]
            call = self._client.eval(_STAGE, len(keys), *keys, *arguments)
            if not await self._answered(call):
                raise Unavailable("another process fills: this one was silent for too long")

    async def publish(self, filling: Filling, expires_ms: int) -> None:
        """Publish what was staged for a filling: readers see all of it from now on. `expires_ms`:
        that of its last hour."""
        own = f"{filling.id}:keys"
        keys = [self._key(name) for name in ("run", "staged", "fillings", own)]
        arguments = (self._token, filling.id, packed_filling(filling), str(expires_ms))
        if not await self._answered(self._client.eval(_PUBLISH, len(keys), *keys, *arguments)):
            raise Unavailable("another process fills: this one was silent for too long")

    async def discard(self, id_: str) -> None:
        """Remove what was staged of a filling; nothing of one that is published."""
        # First: an answer that was lost, or a call that is under way, may publish it.
        if not await self._answered(self._client.srem(self._key("staged"), id_)):
            return
        own = self._key(f"{id_}:keys")
        members: Any = await self._answered(self._client.smembers(own))
        for part in portions([self._key(key.decode()) for key in members]):
            await self._answered(self._client.unlink(*part))
        await self._answered(self._client.unlink(own))

    async def end(self) -> None:
        """Let another process fill."""
        await self._answered(self._client.eval(_END, 1, self._key("run"), self._token))

    def _key(self, name: str) -> str:
        return self._prefix + name

    async def _answered(self, call: Awaitable[T]) -> T:
        return await answered(self._client, call)


class QueryStore:
    """The tables of queries of one namespace. Methods raise Unavailable."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def head(self, lane: int) -> Head | None:
        """Return the head of a lane; None where nobody claimed it yet. Raises Damaged."""
        pairs: Any = self._client.hgetall(f"{self._prefix(lane)}head")
        found = await answered(self._client, pairs)
        return head_of({name.decode(): value for name, value in found.items()}) if found else None

    async def values(self, lane: int, keys: Sequence[str]) -> dict[str, bytes | None]:
        """Return the values of these keys of a lane; None for those that are not there."""
        prefix, found = self._prefix(lane), dict[str, bytes | None]()
        for part in portions(keys):
            values: Any = self._client.mget([prefix + key for key in part])
            found |= zip(part, await answered(self._client, values), strict=True)
        return found

    def _prefix(self, lane: int) -> str:
        return f"{{{self._namespace}:{lane}}}:"
