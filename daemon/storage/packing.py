"""Values as bytes: integers, pages of rows and msgspec values, compressed. Pure.

Integers are stored by byte position (all lowest bytes, then all second ones, …) before they are
compressed: counters are small and times differ in their low bytes, so most of these runs are
zeros or repeat, which zstd packs at its fastest level. Change nothing here without a new version of
the schema (see `schema`): what is stored must be read back.
"""

import sys
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..lane.paged_rows import PAGE_ROWS, Rows

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

T = TypeVar("T")
PackingError: Final = zstd.ZstdError
"""Raised, beside ValueError, when bytes are unpacked that were not packed here."""

ZSTD_LEVEL: Final = 1
"""Level 3 saves a few per cent of the bytes and costs twice the time."""

_encode = msgspec.msgpack.Encoder().encode
_compressor: Final = zstd.ZstdCompressor(ZSTD_LEVEL)
"""One for all values: a new one for each would take a third of the time again. Each value is a
frame of its own, so nothing is shared between them but the memory."""


def _compressed(data: bytes) -> bytes:
    packed: bytes = _compressor.compress(data, _compressor.FLUSH_FRAME)
    return packed


def pack(value: Any) -> bytes:
    """Return any msgspec value as compressed MessagePack."""
    return _compressed(_encode(value))


def unpack(data: bytes, kind: type[T]) -> T:
    """Return the value of this type that was packed. Raises msgspec.DecodeError, zstd.ZstdError."""
    return msgspec.msgpack.decode(zstd.decompress(data), type=kind)


def pack_integers(values: NDArray[np.int64]) -> bytes:
    """Return integers, (n,) or (rows, columns), as bytes by byte position, lowest first, not yet
    compressed."""
    return np.ascontiguousarray(values, "<i8").reshape(-1).view(np.uint8).reshape(-1, 8).T.tobytes()


def unpack_integers(data: bytes) -> NDArray[np.int64]:
    """Return packed integers as an array, (n,), that may be changed."""
    columns = np.frombuffer(data, np.uint8).reshape(8, -1)
    return np.ascontiguousarray(columns.T).view("<i8").reshape(-1).astype(np.int64, copy=False)


def pack_page(rows: Rows) -> bytes:
    """Return one page of rows, (PAGE_ROWS, columns), compressed. Column by column: the bytes of one
    counter stand together."""
    return _compressed(pack_integers(rows.T))


def unpack_page(data: bytes) -> Rows:
    """Return the page that was packed, (PAGE_ROWS, columns)."""
    return np.ascontiguousarray(unpack_integers(zstd.decompress(data)).reshape(-1, PAGE_ROWS).T)
