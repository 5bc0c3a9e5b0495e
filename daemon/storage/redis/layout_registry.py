"""The layout in force in a namespace.

    NAMESPACE:layouts   hash: generation, that of the layout in force; digest:G and text:G of each
                        generation; known:DIGEST, the last generation with this content; and
                        proposed:DIGEST, the server's clock in ms when a worker last proposed it

Workers propose the layout of their own configuration again and again, and work under the one in
force (see layout.lua).
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from . import scripts
from .client import Client, answered
from .scripts import evaluate

T = TypeVar("T")

SILENT_MS: Final = 60_000
"""After so long without a worker that proposes the layout in force, an earlier one may return."""


@dataclass(frozen=True)
class Generation:
    """A layout that is in force, or was."""

    number: int
    digest: str
    text: str


class LayoutRegistry:
    """The layouts of one namespace. Methods raise Unavailable."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._key = f"{namespace}:layouts"

    async def in_force(self) -> Generation | None:
        """Return the layout in force; None before a worker proposed one."""
        number: Any = await self._answered(self._client.hget(self._key, "generation"))
        return None if number is None else await self._of(int(number))

    async def propose(self, digest: str, text: str) -> Generation:
        """Propose a layout; returns the one in force then."""
        return await self._run("propose", digest, text, SILENT_MS)

    async def use(self, digest: str, text: str) -> Generation:
        """Put a layout in force, whatever was before; returns it."""
        return await self._run("use", digest, text, 0)

    async def restore(self, found: Generation) -> Generation:
        """Note a layout that a lane was found under, where it is later than all that are known:
        the namespace was rolled back, or lost it. Returns the one in force then."""
        return await self._run("restore", found.digest, found.text, found.number)

    async def history(self) -> list[Generation]:
        """Return every layout that was in force, the oldest first."""
        fields: Any = await self._answered(self._client.hgetall(self._key))
        numbers = [int(f.removeprefix(b"digest:")) for f in fields if f.startswith(b"digest:")]
        return [
            Generation(n, fields[b"digest:%d" % n].decode(), fields[b"text:%d" % n].decode())
            for n in sorted(numbers)
        ]

    async def _of(self, number: int) -> Generation | None:
        names = [f"digest:{number}", f"text:{number}"]
        found: Any = await self._answered(self._client.hmget(self._key, names))
        digest, text = found
        return None if digest is None else Generation(number, digest.decode(), text.decode())

    async def _run(self, *arguments: str | int) -> Generation:
        call = evaluate(self._client, scripts.LAYOUT, [self._key], arguments)
        number, digest, text = await self._answered(call)
        return Generation(int(number), digest.decode(), text.decode())

    async def _answered(self, call: Awaitable[T]) -> T:
        return await answered(self._client, call)
