"""The table of event formats, and what they share around one record.

A format reads one JSON object. The rules of every format are here: tombstones, the size limit,
arrays of objects, events with a time too far after their record's.

The flow: bytes → `decoder` → the format's reader (→ the field readers of `fields`) → events.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from . import native, ubi
from .attributes import Trimmed
from .fields import InvalidField, decoded
from .types import (
    DROP_REASONS,
    REJECTION_REASONS,
    SKIP_REASONS,
    Decoded,
    Decoder,
    Event,
    Limits,
    Plain,
    Rejected,
)

ReadObject: TypeAlias = Callable[[bytes], Event | Trimmed | None]
"""Reads one JSON object: returns its event, whole or trimmed, or None for a line that is no record.

Raises `InvalidField`, and nothing else, for any other bytes, arrays included.
"""

ReadPlain: TypeAlias = Callable[[bytes], Plain]

FORMATS: Final[Mapping[str, tuple[Callable[[Limits], ReadObject], ReadPlain | None]]] = {
    "native": (native.reader, native.read_plain),
    "ubi": (ubi.reader, None),
}
"""Name → (maker of the reader that applies the limits, reader of plain records or None). A new
format is one entry."""

DETAILED_ELEMENTS: Final = 100
"""So many refused elements of one array get a detail: an array of garbage must not fill memory with
sentences."""

_JSON_SPACE: Final = b" \t\r\n"
_ELEMENTS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_NO_OBJECT: Final = Rejected("wrong_type", "element of an array: must be an object")
_WITHOUT_DETAIL: Final = {
    reason: Rejected(reason) for reason in REJECTION_REASONS + SKIP_REASONS + DROP_REASONS
}


def decoder(name: str, limits: Limits) -> Decoder:
    """Return the decoder of a format. Raises ValueError for a name that is not in the table."""
    if name not in FORMATS:
        raise ValueError(f"format={name!r}: must be one of {', '.join(FORMATS)}")
    reader, plain = FORMATS[name]
    return RecordDecoder(reader(limits), limits, plain)


@dataclass(frozen=True)
class RecordDecoder:
    """Decodes records of one object, which `read` reads, or of an array of them."""

    read: ReadObject
    limits: Limits
    plain: ReadPlain | None = None

    def __call__(self, value: bytes | None, record_time_ms: int | None) -> list[Decoded]:
        limits = self.limits
        if value is None:
            return [Rejected("tombstone")]
        if len(value) > limits.max_record_bytes:
            rule = f"must be <= {limits.max_record_bytes}"
            return [Rejected("too_large", f"{len(value)} bytes: {rule}")]
        try:
            event = self.read(value)
        except InvalidField as error:
            if _is_array(value):
                return _decode_elements(value, record_time_ms, self)
            return [Rejected(error.reason, error.detail)]
        if event is None or type(event) is Trimmed:
            return _trimmed(event, record_time_ms, limits.max_future_ms)
        if record_time_ms is None or event.time_ms <= record_time_ms + limits.max_future_ms:
            return [event]
        if record_time_ms < 0:
            return [event]
        return [_future(event, record_time_ms, limits.max_future_ms)]


def _trimmed(read: Trimmed | None, record_time_ms: int | None, max_future_ms: int) -> list[Decoded]:
    """Return the event and a rejection for each value left out of it; nothing for no record."""
    if read is None:
        return []
    event = read.event
    if record_time_ms is not None and 0 <= record_time_ms < event.time_ms - max_future_ms:
        return [_future(event, record_time_ms, max_future_ms)]
    return [event, *(_WITHOUT_DETAIL[reason] for reason in read.dropped)]


def _decode_elements(value: bytes, record_time_ms: int | None, decode: Decoder) -> list[Decoded]:
    """Return the events of an array, whose elements are refused singly. An array in it is no
    event."""
    try:
        elements = decoded("record", value, _ELEMENTS, "wrong_type")
    except InvalidField as error:
        return [Rejected(error.reason, error.detail)]
    events: list[Decoded] = []
    detailed = 0
    for element in map(bytes, elements):
        is_object = element.startswith(b"{")
        for event in decode(element, record_time_ms) if is_object else [_NO_OBJECT]:
            if isinstance(event, Rejected) and event.detail:
                detailed += 1
                if detailed > DETAILED_ELEMENTS:
                    event = _WITHOUT_DETAIL[event.reason]
            events.append(event)
    return events


def _is_array(value: bytes) -> bool:
    return value.lstrip(_JSON_SPACE).startswith(b"[")


def _future(event: Event, record_time_ms: int, max_future_ms: int) -> Rejected:
    ahead_ms = event.time_ms - record_time_ms
    rule = f"must be at most {max_future_ms} ms ahead of its record"
    return Rejected("future", f"timestamp={event.time_ms}: {ahead_ms} ms ahead, {rule}")
