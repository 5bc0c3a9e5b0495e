"""Unpacks Kafka's compressed batches for aiokafka, without Rust. Pure.

aiokafka unpacks by `cramjam`, a compiled Rust module. `decompressors` returns what stands in for
it, by lz4, zstd and our own snappy; gzip, which aiokafka takes from the standard library, is only
given a limit. Nothing here compresses: the daemon sends dead letters and simulated
events as they are.

Batches come from the network: a few bytes may unpack to gigabytes, so every codec stops at
MAX_UNPACKED_BYTES.
"""

import ctypes
import gzip
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType, SimpleNamespace
from typing import Final, Protocol

from aiokafka.errors import UnsupportedCodecError

LIBRARIES: Final = ("libsnappy.so.1", "libsnappy.1.dylib")
_LONGEST_SHORT_LITERAL: Final = 60
_MAX_VARINT_BYTES: Final = 5


class CorruptBlock(ValueError):
    """Compressed data that its format does not allow, or that ends too early."""


class TooLarge(ValueError):
    """Compressed data that would unpack to more than is allowed."""

    def __init__(self, codec: str, limit: int) -> None:
        super().__init__(f"{codec}: unpacks to more than {limit} bytes")


class Snappy(Protocol):
    """A way to unpack raw blocks: in pure Python, or by the system's libsnappy where there is one.

    A block is its length as a varint, then literals and copies of what was already written. Both
    ways give equal results; the library is some twenty times faster. Blocks come from the network:
    every length and distance in them is checked.
    """

    def decompress(self, block: bytes, limit: int) -> bytes:
        """Return the content of a block, of at most `limit` bytes.

        Raises CorruptBlock or TooLarge.
        """


class PythonSnappy:
    """The format in Python."""

    def decompress(self, block: bytes, limit: int) -> bytes:
        length, position = _read_varint(block)
        if length > limit:
            raise TooLarge("snappy", limit)
        out = bytearray()
        try:
            while position < len(block) and len(out) <= length:
                append = _append_copy if block[position] & 3 else _append_literal
                position = append(out, block, position)
        except IndexError as error:
            raise CorruptBlock("snappy: the block ends inside an element") from error
        if len(out) != length or position != len(block):
            raise CorruptBlock(f"snappy: {len(out)} bytes where the block announces {length}")
        return bytes(out)


class LibrarySnappy:
    """The format by libsnappy's C interface."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def decompress(self, block: bytes, limit: int) -> bytes:
        size = ctypes.c_size_t()
        source = (block, ctypes.c_size_t(len(block)))
        if self._library.snappy_uncompressed_length(*source, ctypes.byref(size)):
            raise CorruptBlock("snappy: the block has no length")
        if size.value > limit:
            raise TooLarge("snappy", limit)
        out = ctypes.create_string_buffer(max(size.value, 1))
        if self._library.snappy_uncompress(*source, out, ctypes.byref(size)):
            raise CorruptBlock("snappy: the block is damaged")
        return out.raw[: size.value]


def best_snappy() -> Snappy:
    """Return the library's where this machine has it, else Python's."""
    for name in LIBRARIES:
        try:
            return LibrarySnappy(ctypes.CDLL(name))
        except OSError:
            continue
    return PythonSnappy()


def _append_literal(out: bytearray, block: bytes, position: int) -> int:
    size = block[position] >> 2
    position += 1
    if size >= _LONGEST_SHORT_LITERAL:
        width = size - _LONGEST_SHORT_LITERAL + 1
        size = int.from_bytes(block[position : position + width], "little")
        position += width
    end = position + size + 1
    if end > len(block):
        raise CorruptBlock("snappy: a literal is longer than the block")
    out += block[position:end]
    return end


def _append_copy(out: bytearray, block: bytes, position: int) -> int:
    tag = block[position]
    if tag & 3 == 1:
        end = position + 2
        size, distance = 4 + (tag >> 2 & 7), tag >> 5 << 8 | block[position + 1]
    else:
        end = position + (3 if tag & 3 == 2 else 5)
        size, distance = (tag >> 2) + 1, int.from_bytes(block[position + 1 : end], "little")
    start = len(out) - distance
    if distance == 0 or start < 0 or end > len(block):
        raise CorruptBlock(f"snappy: a copy from {distance} back at {len(out)}")
    if distance >= size:
        out += out[start : start + size]
    else:  # a copy that overlaps what it writes repeats it
        out += (out[start:] * (size // distance + 1))[:size]
    return end


def _read_varint(block: bytes) -> tuple[int, int]:
    number = 0
    for index, byte in enumerate(block[:_MAX_VARINT_BYTES]):
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return number, index + 1
    raise CorruptBlock("snappy: the block has no length")


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
        snappy=_Snappy(best_snappy(), limit),
        lz4=_Frames("lz4", lz4.LZ4FrameDecompressor, limit) if lz4 else _Absent("lz4", "lz4"),
        zstd=(
            _Frames("zstd", zstd.ZstdDecompressor, limit)
            if zstd
            else _Absent("zstd", "backports.zstd")
        ),
    )


class _Snappy:
    """Raw blocks; aiokafka itself cuts the framing that Java's producer puts around them."""

    def __init__(self, snappy: Snappy, limit: int) -> None:
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
