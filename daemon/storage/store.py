"""What worker and exporter ask of whatever holds the lanes. The one that is shipped is Redis."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from .commit import Commit
from .head import Head

Answer: TypeAlias = Literal["applied", "already", "lost"]


@dataclass(frozen=True)
class LaneDelta:
    """What changed of a lane since its reader last looked. `whole` means: forget what you had."""

    head: Head
    whole: bool
    names: Sequence[tuple[int, str]]
    """(grouping number, segment) of the segments that the reader does not know yet."""
    pages: Mapping[str, bytes]


class Store(Protocol):
    """Lanes of one namespace. All methods raise Unavailable where the server does not do its work
    now."""

    async def claim(self, lane: int, token: str, start: Mapping[str, int]) -> Head:
        """Become the writer of a lane under a token never used before; returns its head.

        `start` becomes its offsets where it has none. Never sent twice: a new attempt takes a new
        token.
        """

    async def load(
        self, lane: int, head: Head, keys_of: Callable[[Head, Sequence[str]], list[str]]
    ) -> tuple[dict[str, bytes], dict[str, bytes | None]]:
        """(segment names, blobs) of a claimed lane: what `keys_of` asks for, and None for the other
        keys that readers follow. Raises Lost where it has another writer by now."""

    async def commit(self, commit: Commit) -> Answer:
        """Publish a commit. To be sent again, unchanged, after Unavailable."""

    async def touch(self, lane: int, token: str, sequence: int, idle_ms: int | None) -> bool:
        """True while the token and sequence are the lane's; the idle mark is written with the
        compare."""

    async def read(
        self, lane: int, token: str, sequence: int | None, names: int
    ) -> LaneDelta | None:
        """What changed since (token, sequence), of which the reader has `names` segment names; None
        for no lane."""
