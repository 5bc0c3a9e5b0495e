"""What stands beside the lanes of a namespace: where each lane began, what an operator permitted,
and the markers that people set.

A lane that lost its head, or everything, looks like one that was never claimed. The register of
lanes tells the two apart, and says from where the log must be read again.

    NAMESPACE:accepted  "LANE LOG" → [topic id, stored offset at which it stopped]: the other logs
                        that lanes may begin
    NAMESPACE:markers   marker id → its bytes, and under the empty name a tag that differs after
                        every change; never empty again once it exists: where it is missing after
                        it was there, the server lost it
"""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ..head import AcceptedLog, LaneStart
from .client import Client, answered, packed_texts

ACCEPTED_LOGS: Final = "accepted"


class AcceptedLogs:
    """Those of one namespace. Methods raise Unavailable while the server does not answer."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._key = f"{namespace}:{ACCEPTED_LOGS}"

    async def of(self, lane: int, log: str) -> AcceptedLog | None:
        """Return what this lane may begin in place of one of its logs; None where there is none."""
        stored: Any = await answered(self._client, self._client.hget(self._key, f"{lane} {log}"))
        return None if stored is None else msgspec.json.decode(stored, type=AcceptedLog)

    async def accept(self, accepted: Mapping[tuple[int, str], AcceptedLog]) -> None:
        """Let lanes begin others in place of their logs, by lane and log. What was accepted before
        is replaced."""
        fields: Any = {
            f"{lane} {log}": msgspec.json.encode(other) for (lane, log), other in accepted.items()
        }
        await answered(self._client, self._client.hset(self._key, mapping=fields))


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
local fields = cmsgpack.unpack(ARGV[1])
for i = 1, #fields, 2 do redis.call('HSET', KEYS[1], fields[i], fields[i + 1]) end
return 1
"""


@dataclass(frozen=True)
class MarkersInStore:
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

    async def read(self) -> MarkersInStore | None:
        """Return all of them; None as for `tag`."""
        found: Any = await answered(self._client, self._client.hgetall(self._key))
        fields = {bytes(name): bytes(value) for name, value in found.items()}
        tag = fields.pop(_TAG.encode(), None)
        return None if tag is None else MarkersInStore(tag, tuple(fields.values()))

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
        fields: list[str | bytes] = [_TAG, _fresh_tag()]
        fields += [part for name, marker in markers.items() for part in (name, marker)]
        # One argument: some managed servers take no more than 4,000.
        packed: Any = packed_texts(fields)
        call = self._client.eval(_PUT_BACK, 1, self._key, packed)
        return bool(await answered(self._client, call))


def _fresh_tag() -> str:
    return secrets.token_hex(8)


PERMISSION_S: Final = 600
"""How long a permission lasts. A stopped lane is tried once a minute."""
_START: Final = "start:"


class LaneRegister:
    """The lanes of one namespace. Methods raise Unavailable."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def start_of(self, lane: int) -> LaneStart | None:
        """Return where the lane began; None where that is not noted."""
        call = self._client.hget(f"{self._namespace}:meta", f"{_START}{lane}")
        stored: Any = await answered(self._client, call)
        return None if stored is None else msgspec.json.decode(stored, type=LaneStart)

    async def note_start(self, lane: int, start: LaneStart) -> None:
        """Note where the lane began. Only its writer may: it read that in its head."""
        value = msgspec.json.encode(start).decode()
        call = self._client.hset(f"{self._namespace}:meta", f"{_START}{lane}", value)
        await answered(self._client, call)

    async def begun(self) -> frozenset[int]:
        """Return the lanes for which a beginning is noted."""
        fields: Any = await answered(self._client, self._client.hkeys(f"{self._namespace}:meta"))
        names = [field.decode() for field in fields]
        return frozenset(int(n.removeprefix(_START)) for n in names if n.startswith(_START))

    async def permit_to_begin_anew(self, lane: int) -> None:
        """Permit the lane, for a while, to begin anew where it is damaged."""
        call = self._client.set(f"{self._namespace}:anew:{lane}", "1", ex=PERMISSION_S)
        await answered(self._client, call)

    async def may_begin_anew(self, lane: int) -> bool:
        """Return whether an operator permitted it."""
        call = self._client.exists(f"{self._namespace}:anew:{lane}")
        return bool(await answered(self._client, call))

    async def forget_permission(self, lane: int) -> None:
        """Remove the permission: the lane has begun anew."""
        await answered(self._client, self._client.unlink(f"{self._namespace}:anew:{lane}"))
