"""Unpacks Kafka's compressed batches for aiokafka, without Rust.

aiokafka unpacks by `cramjam`, a compiled Rust module. `decompressors` returns what stands in for
it, by lz4, zstd and our own snappy; gzip, which aiokafka takes from the standard library, is only
given a limit. Nothing here compresses: the daemon sends dead letters and simulated
events as they are.

Batches come from the network: a few bytes may unpack to gigabytes, so every codec stops at
MAX_UNPACKED_BYTES.
"""

import gzip
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType, SimpleNamespace
from typing import Final, Protocol

from aiokafka.errors import UnsupportedCodecError

from . import snappy as kafka_snappy
from .snappy import CorruptBlock, TooLarge

MAX_UNPACKED_BYTES: Final = 256 << 20
"""Brokers take batches of 1 MB unless configured otherwise; text packs 20:1 at best. What is larger
is an attack or damage.
"""
_PIECE_BYTES: Final = 1 << 20

_at_once: ContextVar[int] = ContextVar("at_once", default=MAX_UNPACKED_BYTES)


@contextmanager
def unpacking_at_most(limit: int) -> Iterator[None]:
    """Inside, batches that unpack to more than `limit` bytes raise TooLarge."""
    token = _at_once.set(limit)
    try:
        yield
    finally:
        _at_once.reset(token)


def decompressors(limit: int = MAX_UNPACKED_BYTES) -> SimpleNamespace:
    """Return what stands in for the `cramjam` module. A codec that this machine lacks raises
    UnsupportedCodecError when it is used.
    """
    lz4 = _optional("lz4.frame")
    zstd = _optional("compression.zstd") or _optional("backports.zstd")
    return SimpleNamespace(
        snappy=_Snappy(kafka_snappy.best(), limit),
        lz4=_Frames("lz4", lz4.LZ4FrameDecompressor, limit) if lz4 else _Absent("lz4", "lz4"),
        zstd=(
            _Frames("zstd", zstd.ZstdDecompressor, limit)
            if zstd
            else _Absent("zstd", "backports.zstd")
        ),
    )


class _Snappy:
    """Raw blocks; aiokafka itself cuts the framing that Java's producer puts around them."""

    def __init__(self, snappy: kafka_snappy.Snappy, limit: int) -> None:
        self._snappy = snappy
        self._limit = limit

    def decompress_raw(self, block: bytes | memoryview) -> bytes:
        return self._snappy.decompress(bytes(block), min(self._limit, _at_once.get()))


class _Frames:
    """Frames of lz4 or zstd, also without the size of their content, as Java writes them."""

    def __init__(self, codec: str, new: "Callable[[], Stream]", limit: int) -> None:
        self._codec = codec
        self._new = new
        self._limit = limit

    def decompress(self, frames: bytes | memoryview) -> bytes:
        limit = min(self._limit, _at_once.get())
        return unpacked(self._codec, self._new, bytes(frames), limit)


class _Absent:
    """A codec that this machine lacks: the error names the package to install."""

    def __init__(self, codec: str, package: str) -> None:
        self._message = f"{codec}: install the Python package `{package}` to read such batches"

    def __getattr__(self, name: str) -> object:
        raise UnsupportedCodecError(self._message)


class LimitedGzipFile(gzip.GzipFile):
    """A `gzip.GzipFile` that refuses to unpack more than MAX_UNPACKED_BYTES."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size >= 0:
            return super().read(size)
        limit = min(MAX_UNPACKED_BYTES, _at_once.get())
        content = super().read(limit + 1)
        if len(content) > limit:
            raise TooLarge("gzip", limit)
        return content


class Stream(Protocol):
    """The decompressor of one frame, of lz4 or zstd."""

    eof: bool
    needs_input: bool
    unused_data: bytes | None

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return the next piece, of at most `max_length` bytes."""


def unpacked(codec: str, new: Callable[[], Stream], data: bytes, limit: int) -> bytes:
    """Return the content of the frames in `data`, one after the other.

    Raises CorruptBlock or TooLarge.
    """
    content = bytearray()
    while data:
        stream = new()
        try:
            content += stream.decompress(data, _PIECE_BYTES)
            while not stream.eof and not stream.needs_input and len(content) <= limit:
                content += stream.decompress(b"", _PIECE_BYTES)
        except Exception as error:  # each library has its own, some of them bare RuntimeError
            raise CorruptBlock(f"{codec}: {error}") from error
        if len(content) > limit:
            raise TooLarge(codec, limit)
        if not stream.eof:
            raise CorruptBlock(f"{codec}: the frame is cut short")
        data = stream.unused_data or b""
    return bytes(content)


def _optional(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
