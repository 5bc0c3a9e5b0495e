"""Numbers of variable length, as Avro and Protobuf write them. Pure."""

from typing import Final

_MOST_BYTES: Final = 10


class CutShort(ValueError):
    """The bytes end inside a value, or a number has more bytes than 64 bits need."""


def unsigned(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at `at`, and where it ends. Raises CutShort."""
    number = shift = 0
    for place in range(at, min(at + _MOST_BYTES, len(data))):
        byte = data[place]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place + 1
        shift += 7
    raise CutShort


def zigzag(data: bytes, at: int) -> tuple[int, int]:
    """Return the number, whose lowest bit is its sign, and where it ends. Raises CutShort."""
    number, at = unsigned(data, at)
    return (number >> 1) ^ -(number & 1), at
