"""In which unit the times of mapped records are written. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from ...config.mapped_sources import mapped
from ...config.settings import Config
from ...events.types import Event, Limits, LogRecord, Rejected
from ...mapping.tables import AUTO, UNITS, Source, TimeFormat
from ...mapping.topics import topic_decoder
from ...schemas.types import JSON

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
        for source in mapped(config.sources)
        if source.reader is None
    }
    return {topic: unit for topic, unit in found.items() if unit is not None}


def unit_of(source: Source, records: Sequence[LogRecord], limits: Limits) -> str | None:
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


def _events(source: Source, records: Sequence[LogRecord], limits: Limits) -> Iterator[Event]:
    # In another unit a time may seem to be far ahead of its record.
    any_time = msgspec.structs.replace(limits, max_future_ms=ANY_FUTURE_MS)
    decode = topic_decoder([source], any_time)
    for record in records[:TRIED_RECORDS]:
        for event in decode.of_record(record):
            if not isinstance(event, Rejected):
                yield event
