"""The markers that people set, stored beside the lanes.

The hash `NAMESPACE:markers` has marker id → its bytes, and under the empty name a tag that differs
after every change. The hash is never empty again once it exists: where it is missing after it was
there, the server lost it.
"""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .client import Client, answered

MARKERS: Final = "markers"
_TAG: Final = ""
_ADD: Final = """
local known = redis.call('HGET', KEYS[1], ARGV[1])
if known then return known end
if redis.call('HLEN', KEYS[1]) > tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2], '', ARGV[4])
return 1
"""
_REMOVE: Final = """
local removed = 0
for i = 2, #ARGV do removed = removed + redis.call('HDEL', KEYS[1], ARGV[i]) end
if removed > 0 then redis.call('HSET', KEYS[1], '', ARGV[1]) end
return removed
"""
_PUT_BACK: Final = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1
"""


@dataclass(frozen=True)
class Stored:
    """All markers as they are stored, and the tag of this state."""

    tag: bytes
    markers: tuple[bytes, ...]


class MarkerLog:
    """Those of one namespace. Methods raise Unavailable while the server does not answer."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._key = f"{namespace}:{MARKERS}"

    async def tag(self) -> bytes | None:
        """Return the tag of the stored markers; None where there never were any, or they are
        lost."""
        found: Any = await answered(self._client, self._client.hget(self._key, _TAG))
        return None if found is None else bytes(found)

    async def read(self) -> Stored | None:
        """Return all of them; None as for `tag`."""
        found: Any = await answered(self._client, self._client.hgetall(self._key))
        fields = {bytes(name): bytes(value) for name, value in found.items()}
        tag = fields.pop(_TAG.encode(), None)
        return None if tag is None else Stored(tag, tuple(fields.values()))

    async def add(self, name: str, marker: bytes, most: int) -> bytes | bool:
        """Store a marker; returns True, or False where there are `most` already. Where one of this
        name is stored, it stays and is returned."""
        call = self._client.eval(_ADD, 1, self._key, name, marker, str(most), _fresh_tag())
        found: Any = await answered(self._client, call)
        return bool(found) if isinstance(found, int) else bytes(found)

    async def remove(self, names: Iterable[str]) -> int:
        """Remove the markers of these names; returns how many there were."""
        call = self._client.eval(_REMOVE, 1, self._key, _fresh_tag(), *names)
        return int(await answered(self._client, call))

    async def put_back(self, markers: Mapping[str, bytes]) -> bool:
        """Store these after the server lost them; returns False where it has markers again."""
        fields = [part for name, marker in markers.items() for part in (name, marker)]
        call = self._client.eval(_PUT_BACK, 1, self._key, _TAG, _fresh_tag(), *fields)
        return bool(await answered(self._client, call))


def _fresh_tag() -> str:
    return secrets.token_hex(8)
