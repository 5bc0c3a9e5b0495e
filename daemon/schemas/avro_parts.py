"""What generated readers of Avro call for the less frequent parts of a body. Pure.

`b` is the body, `i` the next byte of it. A byte that is not there raises IndexError, as it does in
generated code.
"""

import struct
from typing import Any, Final

from .values import BadBody, TooManyValues, bytes_text, decimal_number, finite
from .varints import CutShort, unsigned, zigzag

MOST_VALUES: Final = 250_000
"""Most values of one body beyond one for each of its bytes."""
MOST_DEPTH: Final = 64
"""Records may stand so deep in records of their own type."""
BOOLEANS: Final = (False, True)
_FLOAT: Final = struct.Struct("<f").unpack_from
_DOUBLE: Final = struct.Struct("<d").unpack_from
_LONGS: Final = 1 << 64


def size(b: bytes, i: int) -> tuple[int, int]:
    """Return twice a length or an index of several bytes, and where it ends. A negative one is
    refused, as is any that no body has room for."""
    number, i = unsigned(b, i)
    if number & 1:
        raise BadBody("has a negative length or index")
    return number, i


def long(b: bytes, i: int) -> tuple[int, int]:
    """Return a signed number of 64 bits, and where it ends."""
    number, i = unsigned(b, i)
    if number >= _LONGS:
        raise BadBody("has a number of more than 64 bits")
    return (number >> 1) ^ -(number & 1), i


def block(b: bytes, i: int, least_bytes: int, weight: int, left: list[int]) -> tuple[int, int]:
    """Return how many elements follow, and where the first begins: 0 ends the array. Each has at
    least so many bytes, and at most so many values that they do not pay for, which are taken off
    `left`."""
    count, i = zigzag(b, i)
    if count < 0:
        count = -count
        _, i = size(b, i)
    if count * least_bytes > len(b) - i:
        raise CutShort
    left[0] -= count * weight
    if left[0] < 0:
        raise TooManyValues(f"has more than {MOST_VALUES} values that have no byte of their own")
    return count, i


def deeper(depth: int, weight: int, left: list[int]) -> int:
    """Return the depth of a record inside one of its own type."""
    left[0] -= weight
    if depth >= MOST_DEPTH:
        raise TooManyValues(f"is nested deeper than {MOST_DEPTH}")
    return depth + 1


def float4(b: bytes, i: int) -> float | None:
    """Return a number of 4 bytes; None for NaN and the infinities."""
    return finite(_FLOAT(b, i)[0])


def float8(b: bytes, i: int) -> float | None:
    """Return a number of 8 bytes; None for NaN and the infinities."""
    return finite(_DOUBLE(b, i)[0])


def bad_branch(index: int) -> BadBody:
    """Return the error of a union's index that has no type."""
    return BadBody(f"has branch {index >> 1} of a union that has fewer")


NAMES: Final[dict[str, Any]] = {
    "size": size,
    "long": long,
    "block": block,
    "deeper": deeper,
    "float4": float4,
    "float8": float8,
    "bad_branch": bad_branch,
    "BOOLEANS": BOOLEANS,
    "bytes_text": bytes_text,
    "decimal_number": decimal_number,
}
"""The names that generated code finds."""
