"""Records as JSON values. Pure."""

from typing import Any, Final

import msgspec

MOST_RECORDS: Final = 20_000
"""Of a topic whose values are looked at."""
_any_value: Final = msgspec.json.Decoder().decode


def json_value(value: bytes | None) -> Any:
    """The value of a record; None where it is no JSON."""
    try:
        return None if value is None else _any_value(value)
    except (ValueError, RecursionError):
        return None
