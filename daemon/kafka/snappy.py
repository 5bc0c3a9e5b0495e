"""Unpacks Snappy's raw blocks without a compiled wheel: in pure Python, or by the system's
libsnappy where there is one.

A block is its length as a varint, then literals and copies of what was already written. Both ways
give equal results; the library is some twenty times faster. Blocks come from the network: every
length and distance in them is checked.
"""

import ctypes
from typing import Final, Protocol

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
    """A way to unpack raw blocks."""

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


def best() -> Snappy:
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
