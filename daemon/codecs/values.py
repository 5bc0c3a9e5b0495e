"""Values of binary formats as JSON would give them, and the libraries that read them. Pure."""

import base64
import importlib
from functools import lru_cache
from typing import Any, Final

from ..extras import lacking
from ..schemas import LIBRARIES, UnreadableSchema

MOST_VALUES: Final = 250_000
"""Most values of one body beyond one for each of its bytes."""
MOST_DECIMAL_BYTES: Final = 32
"""A decimal of more bytes is refused: no number of people has 77 digits."""


class BadBody(ValueError):
    """A body is not what its schema says; its message is for people."""


class TooManyValues(BadBody):
    """A body has more values than one record may have."""


def bytes_text(data: bytes) -> str:
    """Return bytes as a text: themselves where they are UTF-8, else their base64."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


def decimal_number(data: bytes, scale: int) -> int | float:
    """Return a decimal: an integer where its scale is 0, else the nearest float."""
    if len(data) > MOST_DECIMAL_BYTES:
        raise BadBody(f"a decimal has {len(data)} bytes: must be <= {MOST_DECIMAL_BYTES}")
    number = int.from_bytes(data, signed=True)
    return number / 10**scale if scale else number


def finite(number: float) -> float | None:
    """Return the number; None for those that JSON lacks: NaN and the infinities."""
    return number if number - number == 0.0 else None


@lru_cache(maxsize=None)
def library(codec: str, name: str) -> Any:
    """Return a module of the codec's library. Raises UnreadableSchema where it is not installed."""
    try:
        return importlib.import_module(f"{LIBRARIES[codec]}.{name}")
    except ImportError:
        raise UnreadableSchema(lacking(codec)) from None
