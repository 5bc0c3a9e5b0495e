"""Kafka's compression codecs for aiokafka, without Rust.

aiokafka unpacks batches by `cramjam`, a compiled Rust module, which it looks up in its own
namespace at each use. `install` puts an object there that answers alike by lz4, zstd and our own
snappy; gzip, which aiokafka takes from the standard library, is only given a limit. What a machine
lacks answers with UnsupportedCodecError when it is used.

Batches come from the network: a few bytes may unpack to gigabytes, so every codec stops at
MAX_UNPACKED_BYTES.
"""

import gzip
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any, Final, Protocol

from aiokafka.errors import UnsupportedCodecError

from . import snappy as kafka_snappy
from .snappy import CorruptBlock, TooLarge

MAX_UNPACKED_BYTES: Final = 256 << 20
"""Brokers take batches of 1 MB unless told otherwise; text packs 20:1 at best. What is larger is an
attack or damage.
"""
_PIECE_BYTES: Final = 1 << 20


def decompressors(limit: int = MAX_UNPACKED_BYTES) -> SimpleNamespace:
    """What stands in for the `cramjam` module."""
    return SimpleNamespace(
        snappy=_Snappy(kafka_snappy.best(), limit),
        lz4=_lz4(_optional("lz4.frame"), limit),
        zstd=_zstd(_optional("compression.zstd") or _optional("backports.zstd"), limit),
    )


class _Snappy:
    """Raw blocks; aiokafka itself cuts the framing that Java's producer puts around them."""

    def __init__(self, snappy: kafka_snappy.Snappy, limit: int) -> None:
        self._snappy = snappy
        self._limit = limit

    def compress_raw(self, data: bytes | memoryview) -> bytes:
        return self._snappy.compress(bytes(data))

    def decompress_raw(self, block: bytes | memoryview) -> bytes:
        return self._snappy.decompress(bytes(block), self._limit)


def _lz4(module: ModuleType | None, limit: int) -> object:
    if module is None:
        return _Absent("lz4", "lz4")
    return _Lz4(module, limit)


def _zstd(module: ModuleType | None, limit: int) -> object:
    if module is None:
        return _Absent("zstd", "backports.zstd")
    return _Zstd(module, limit)


class _Lz4:
    """LZ4 frames."""

    def __init__(self, module: Any, limit: int) -> None:
        self._module = module
        self._limit = limit

    def Compressor(self, *, level: int, **frame: bool) -> "_Lz4Compressor":  # noqa: N802
        return _Lz4Compressor(self._module, level, frame)

    def decompress(self, frames: bytes | memoryview) -> bytes:
        return unpacked("lz4", self._module.LZ4FrameDecompressor, bytes(frames), self._limit)


@dataclass
class _Lz4Compressor:
    """Gathers one frame, whose blocks are independent: brokers take no others."""

    module: Any
    level: int
    frame: dict[str, bool]
    data: bytes = b""

    def compress(self, data: bytes | memoryview) -> None:
        self.data += data

    def finish(self) -> bytes:
        packed: bytes = self.module.compress(
            self.data, compression_level=self.level, store_size=False, **self.frame
        )
        return packed


class _Zstd:
    """Zstandard frames, also those without the size of their content, as Java writes them."""

    def __init__(self, module: Any, limit: int) -> None:
        self._module = module
        self._limit = limit

    def compress(self, data: bytes | memoryview, *, level: int) -> bytes:
        packed: bytes = self._module.compress(bytes(data), level=level)
        return packed

    def decompress(self, frames: bytes | memoryview) -> bytes:
        return unpacked("zstd", self._module.ZstdDecompressor, bytes(frames), self._limit)


class _Absent:
    """A codec that this machine lacks: any use of it says what to install."""

    def __init__(self, codec: str, package: str) -> None:
        self._message = f"{codec}: install the Python package `{package}` to read such batches"

    def __getattr__(self, name: str) -> object:
        raise UnsupportedCodecError(self._message)


class LimitedGzipFile(gzip.GzipFile):
    """`gzip.GzipFile` that reads at most MAX_UNPACKED_BYTES."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size >= 0:
            return super().read(size)
        content = super().read(MAX_UNPACKED_BYTES + 1)
        if len(content) > MAX_UNPACKED_BYTES:
            raise TooLarge("gzip", MAX_UNPACKED_BYTES)
        return content


class Stream(Protocol):
    """What the decompressors of lz4 and zstd have in common."""

    eof: bool
    needs_input: bool
    unused_data: bytes | None

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """The next piece, of at most `max_length` bytes."""


def unpacked(codec: str, new: Callable[[], Stream], data: bytes, limit: int) -> bytes:
    """The content of the frames in `data`, one after the other.

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
