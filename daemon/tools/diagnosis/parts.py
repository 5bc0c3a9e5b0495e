"""What every part of the doctor needs: values and expressions of JSON records as TOML, units of
their times, and one line of what it says.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import msgspec

from ...config import Config, applied_sources, presets
from ...events import Event, InvalidField, Limits, LogRecord, Rejected, decoded
from ...mapping import (
    AUTO,
    UNITS,
    Evaluation,
    Expression,
    MappedSource,
    Surroundings,
    TimeFormat,
    expression,
    topic_decoder,
)
from ...recompute.files import RecordedRecord
from ...schemas import JSON


def toml(value: Any) -> str:
    """A text or a list of texts as TOML."""
    return msgspec.json.encode(value).decode()


def jmespath_literal(text: str) -> str:
    """A text as a literal of JMESPath."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


MOST_RECORDS: Final = 20_000
"""Of a topic whose values are looked at."""
_ANY_VALUE: Final = msgspec.json.Decoder()


def json_value(value: bytes | None) -> Any:
    """The value of a record; None where it is no JSON."""
    try:
        return None if value is None else decoded("record", value, _ANY_VALUE, "wrong_type")
    except InvalidField:
        return None


ANY_SIZE: Final = 1 << 30
"""The work of an expression is bounded by the size of its record; the doctor reads samples."""


def elements_of(preset: str, value: Any) -> Sequence[Any]:
    """The objects that the preset's `each` finds in the value of a record."""
    each = _each(preset)
    found = value if each is None else find_value(each, value)
    elements = found if isinstance(found, list) else [found]
    return [element for element in elements if isinstance(element, dict)]


def find_value(path: Expression, value: Any) -> Any:
    """What an expression finds in a value. Raises InvalidField."""
    return Evaluation(Surroundings(value), ANY_SIZE).find(path, value)


def with_value(record: LogRecord, value: bytes | None) -> RecordedRecord:
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


Level: TypeAlias = Literal["good", "look", "wrong"]
"""`look`: somebody should. `wrong`: numbers would be."""


@dataclass(frozen=True)
class DoctorFinding:
    """One line."""

    name: str
    level: Level
    words: str


def is_wrong(found: Sequence[DoctorFinding]) -> bool:
    """Whether numbers would be wrong."""
    return any(finding.level == "wrong" for finding in found)


def percent(share: float) -> str:
    """A share for people."""
    return f"{100 * share:.1f} %"


TRIED_RECORDS: Final = 200
"""Of a topic."""
TEXT: Final = "ISO 8601"
ANY_FUTURE_MS: Final = 10**15
"""More than any time is ahead of its record."""


def units_of(config: Config, samples: Mapping[str, Sequence[LogRecord]]) -> dict[str, str]:
    """Topic → unit, or `ISO 8601`, of the topics that tables read; without those whose times are of
    several units."""
    found = {
        source.topic: unit_of(source, samples.get(source.topic, ()), config.limits)
        for source in applied_sources(config.sources)
        if source.reader is None
    }
    return {topic: unit for topic, unit in found.items() if unit is not None}


def unit_of(source: MappedSource, records: Sequence[LogRecord], limits: Limits) -> str | None:
    """The unit by which the first records, which are JSON, have the times that they have by `auto`;
    ISO 8601 where no unit reads any of them; None where there is no such unit, or no event."""
    if source.time.name != AUTO:
        return source.time.name
    source = replace(source, codec=JSON, schema=None)
    expected = list(_events(source, records, limits))
    if not expected:
        return None
    is_number = False
    for unit in UNITS:
        by_unit = replace(source, time=TimeFormat(unit))
        read = list(_events(by_unit, records, limits))
        is_number |= bool(read)
        if read == expected:
            return unit
    return None if is_number else TEXT


def _events(source: MappedSource, records: Sequence[LogRecord], limits: Limits) -> Iterator[Event]:
    # In another unit a time may seem to be far ahead of its record.
    any_time = msgspec.structs.replace(limits, max_future_ms=ANY_FUTURE_MS)
    decode = topic_decoder([source], any_time)
    for record in records[:TRIED_RECORDS]:
        for event in decode.of_record(record):
            if not isinstance(event, Rejected):
                yield event
