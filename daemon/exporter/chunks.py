"""A long text in pieces: whatever makes or copies megabytes at once holds the interpreter. Pure."""

from collections.abc import Iterable
from typing import Final, TypeAlias

Chunks: TypeAlias = tuple[bytes, ...]

LONG_BYTES: Final = 16_384
"""A piece of this length is worth a write of its own."""


def gathered(pieces: Iterable[bytes], long: int = LONG_BYTES) -> Chunks:
    """The same bytes in fewer pieces: short neighbours are joined, long pieces stay the objects
    that they are.

    >>> gathered([b"a", b"b", b"long", b"c"], long=4)
    (b'ab', b'long', b'c')
    """
    into: list[bytes] = []
    for piece in pieces:
        if into and max(len(into[-1]), len(piece)) < long:
            into[-1] += piece
        else:
            into.append(piece)
    return tuple(into)
