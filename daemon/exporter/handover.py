"""What the exporter that leads leaves to the next one: the falls, so that what was said stays said,
and the selection of its counters.

Each value says which process stored it. One that comes back after its lease was over knows by that
whether another one led meanwhile, whose value is newer, or Redis lost what was stored last, or all.
"""

import math
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

import msgspec
import structlog

from ..errors import Unavailable

LOOK_EVERY_S: Final = 10.0
"""How often the exporter that leads looks whether Redis still has what the next one needs; after so
long it stores again what was refused."""

T = TypeVar("T", bound=msgspec.Struct)

log = structlog.get_logger(__name__)


class _Stored(msgspec.Struct):
    """What is stored beside the fields of a value."""

    by: str = ""
    """The token of the process; processes of earlier versions give none."""


def packed(value: msgspec.Struct, by: str = "") -> bytes:
    """It as JSON, stored by the process of this token."""
    return msgspec.json.encode({**msgspec.structs.asdict(value), "by": by})


def restored(stored: bytes | None, nothing: T) -> T:
    """What is stored; `nothing` where there is none that can be read."""
    if stored is None:
        return nothing
    try:
        return msgspec.json.decode(stored, type=type(nothing))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        kind = type(nothing).__name__
        log.warning("what an exporter stored cannot be read", kind=kind, reason=str(error))
        return nothing


def _stored_by(stored: bytes) -> str:
    try:
        return msgspec.json.decode(stored, type=_Stored).by
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


class Handover(Generic[T]):
    """One of these values."""

    def __init__(
        self,
        nothing: T,
        token: str,
        read: Callable[[], Awaitable[bytes | None]],
        write: Callable[[bytes], Awaitable[None]],
    ) -> None:
        self._nothing = nothing
        self._token = token
        self._read, self._write = read, write
        self._bytes: bytes | None = None
        self.stored: T | None = None
        """As this process read or stored it last; None before that."""
        self._due_s = -math.inf
        self._fails = False

    async def take_over(self, *, led_last: bool) -> T | None:
        """What another process stored; None where what this process has itself is as new, or
        nothing is stored. `led_last`: as far as it knows, no other one has led since it did. Raises
        Unavailable."""
        stored = await self._read()
        is_own = stored is not None and _stored_by(stored) == self._token
        is_known = led_last and (is_own or stored == self._bytes)
        self._bytes, self.stored = stored, restored(stored, self._nothing)
        return None if is_known or self.stored == self._nothing else self.stored

    async def keep(self, value: T, now_s: float) -> None:
        """See that this value is stored, and from time to time that Redis still has it. Where Redis
        refuses it nothing is raised, but logged once."""
        is_due, writes = now_s >= self._due_s, value != self.stored
        if not is_due and (self._fails or not writes):
            return
        try:
            writes = writes or await self._read() != self._bytes
            if writes:
                stored = packed(value, self._token)
                await self._write(stored)
                self._bytes, self.stored = stored, value
        except Unavailable as error:
            if not self._fails:
                log.warning("what the next exporter needs was not stored", reason=str(error))
            self._fails = True
            if not writes:
                return  # it costs little to ask the next time
        else:
            self._fails = False
        if is_due or self._fails:
            self._due_s = now_s + LOOK_EVERY_S

    def look_soon(self) -> None:
        """Look the next time: Redis may have come back without it."""
        self._due_s = -math.inf
