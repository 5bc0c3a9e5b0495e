"""A long text in chunks, because making or copying megabytes in one call holds the interpreter.

Pure.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

Chunks: TypeAlias = tuple[bytes, ...]

LONG_BYTES: Final = 16_384
"""A chunk of this length is worth a write of its own."""


def gathered(chunks: Iterable[bytes], long: int = LONG_BYTES) -> Chunks:
    """The same bytes in fewer chunks: short neighbours are joined, long chunks stay the same
    objects, so that two texts can share them.

    >>> gathered([b"a", b"b", b"long", b"c"], long=4)
    (b'ab', b'long', b'c')
    """
    into: list[bytes] = []
    for chunk in chunks:
        if into and max(len(into[-1]), len(chunk)) < long:
            into[-1] += chunk
        else:
            into.append(chunk)
    return tuple(into)
