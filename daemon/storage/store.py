"""The port through which worker and exporter reach stored lanes. Redis implements it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from .commit import Commit
from .head import Head

Answer: TypeAlias = Literal["applied", "already", "lost"]


@dataclass(frozen=True)
class LaneDelta:
    """What changed of a lane since its reader's last read. Where `whole`, it is the whole lane, and
    replaces what the reader had."""

    head: Head
    whole: bool
    names: Sequence[tuple[int, str]]
    """(grouping id, segment) of the segments that the reader does not have yet."""
    pages: Mapping[str, bytes]


class Store(Protocol):
    """Lanes of one namespace. All methods raise Unavailable while the server does not answer or
    refuses for now."""

    async def claim(self, lane: int, token: str, start: Mapping[str, int]) -> Head:
        """Become the writer of a lane under a token never used before; returns its head.

        `start` becomes its offsets if it has none. A claim is never sent twice: each attempt takes
        a new token, so that the late delivery of an earlier one is noticed by the next compare.
        """

    async def load(
        self, lane: int, head: Head, keys_of: Callable[[Head, Sequence[str]], list[str]]
    ) -> tuple[dict[str, bytes], dict[str, bytes | None]]:
        """Return (segment names, blobs) of a claimed lane: the values of the keys that `keys_of`
        names, and None for the other keys that readers follow. Raises Lost if the lane has another
        writer by now."""

    async def commit(self, commit: Commit) -> Answer:
        """Publish a commit. After Unavailable, send it again unchanged."""

    async def touch(self, lane: int, token: str, sequence: int, idle_ms: int | None) -> bool:
        """Return whether the lane still has this token and sequence; if it has, write the idle mark
        (clock in ms) in the same step."""

    async def read(
        self, lane: int, token: str, sequence: int | None, names: int
    ) -> LaneDelta | None:
        """Return what changed since (token, sequence), where the reader has `names` segment names;
        None if there is no such lane."""
