"""What a namespace knows of its lanes outside their own keys: where each began, and which an
operator permitted to begin anew.

A lane that lost its head, or everything, looks like one that was never claimed. This tells the two
apart, and says from where the log must be read again.
"""

from typing import Any, Final

import msgspec

from ..log_marks import LaneStart
from .client import Client, answered

PERMISSION_S: Final = 600
"""How long a permission lasts. A stopped lane is tried once a minute."""
_START: Final = "start:"


class Registry:
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
