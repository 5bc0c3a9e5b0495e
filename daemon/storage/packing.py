"""Bytes for numbers and texts: how single values are written down. Pure.

Integers are stored by byte position (all lowest bytes, then all second ones, …) before they are
compressed: counters are small, so most of those runs are zeros.
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
"""What unpacking raises for bytes that were not packed here, beside ValueError."""

ZSTD_LEVEL: Final = 1
"""Level 3 saves a few bytes in a hundred and costs twice the time."""

_encode = msgspec.msgpack.Encoder().encode
_compressor: Final = zstd.ZstdCompressor(ZSTD_LEVEL)
"""One for all pages: to make one for each would take a third of the time again. Whatever it packs
is a frame of its own."""


def _compressed(data: bytes) -> bytes:
    packed: bytes = _compressor.compress(data, _compressor.FLUSH_FRAME)
    return packed


def pack(value: Any) -> bytes:
    """Any msgspec value, compressed."""
    return _compressed(_encode(value))


def unpack(data: bytes, kind: type[T]) -> T:
    """The value of this type that was packed. Raises msgspec.DecodeError, zstd.ZstdError."""
    return msgspec.msgpack.decode(zstd.decompress(data), type=kind)


def pack_integers(values: NDArray[np.int64]) -> bytes:
    """Integers as bytes, uncompressed, in the order that compresses best."""
    return np.ascontiguousarray(values, "<i8").reshape(-1).view(np.uint8).reshape(-1, 8).T.tobytes()


def unpack_integers(data: bytes) -> NDArray[np.int64]:
    """The integers as a flat array of their own."""
    columns = np.frombuffer(data, np.uint8).reshape(8, -1)
    return np.ascontiguousarray(columns.T).view("<i8").reshape(-1).astype(np.int64, copy=False)


def pack_page(rows: Rows) -> bytes:
    """One page of rows, (PAGE_ROWS, columns)."""
    return _compressed(pack_integers(rows.T))


def unpack_page(data: bytes) -> Rows:
    """The page that was packed."""
    return np.ascontiguousarray(unpack_integers(zstd.decompress(data)).reshape(-1, PAGE_ROWS).T)
