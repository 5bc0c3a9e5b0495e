"""What of a record may be events under a preset: the elements of a batch, or the record. Pure."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from ...config.presets import presets
from ...events.types import LogRecord
from ...mapping.evaluation import Evaluation
from ...mapping.expressions import Expression, expression
from ...mapping.functions import Surroundings
from ..recorded.kcat import RecordedRecord

ANY_SIZE: Final = 1 << 30
"""The work of an expression is bounded by the size of its record; the doctor reads samples."""


def elements_of(preset: str, value: Any) -> Sequence[Any]:
    """The objects that the preset's `each` finds in the value of a record."""
    each = _each(preset)
    found = value if each is None else find(each, value)
    elements = found if isinstance(found, list) else [found]
    return [element for element in elements if isinstance(element, dict)]


def find(path: Expression, value: Any) -> Any:
    """What an expression finds in a value. Raises InvalidField."""
    return Evaluation(Surroundings(value), ANY_SIZE).find(path, value)


def replaced(record: LogRecord, value: bytes | None) -> RecordedRecord:
    """The record with another value."""
    return RecordedRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        value,
        tuple(record.headers),
    )


@lru_cache(maxsize=64)
def _each(preset: str) -> Expression | None:
    text = presets().get(preset, {}).get("each")
    return None if text is None else expression(text)
