"""The mark of an owner whose work on a batch takes too long, as a field of the lane's head. Pure.

It is written while the work goes on, not after it: what stalls an owner may end with the death of
its process. A later commit leaves the field where it is, and offsets show that it is past. With
another log, whose offsets mean something else, it is dropped.
"""

from collections.abc import Mapping
from typing import Final

import msgspec


class StallMark(msgspec.Struct, frozen=True):
    """Work on a lane that took too long."""

    sequence: int
    """Of the head that the work began with."""
    times: int
    """How many owners, one after the other, took too long over work that began here."""
    until: Mapping[str, int]
    """The next offset of each topic after the batch in which it began."""
    record: tuple[str, int] | None = None
    """Topic and offset, where one record alone was worked on."""


NO_STALL: Final = b"null"
"""The field of a mark that was dropped: fields of a head are never removed."""


def pack_mark(mark: StallMark) -> bytes:
    """Return the bytes of the field."""
    return msgspec.json.encode(mark)


def unpack_mark(data: bytes) -> StallMark | None:
    """Return the mark in the field; None where there is none. Raises ValueError."""
    return msgspec.json.decode(data, type=StallMark | None)
