"""Records as JSON values. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from ...events.types import LogRecord

MOST_RECORDS: Final = 20_000
"""Of a topic whose values are looked at."""
_any_value: Final = msgspec.json.Decoder().decode


def json_value(value: bytes | None) -> Any:
    """The value of a record; None where it is no JSON."""
    try:
        return None if value is None else _any_value(value)
    except (ValueError, RecursionError):
        return None


def json_objects(records: Sequence[LogRecord]) -> Iterator[Any]:
    """Those of the first records that are JSON objects."""
    values = (json_value(record.value) for record in records[:MOST_RECORDS])
    return (value for value in values if isinstance(value, dict))
