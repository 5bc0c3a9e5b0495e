"""CloudEvents as records of their data, for what is compiled. Pure.

The data stays text: what of it no expression reads is never decoded. What is odd about an event
gives a record that cannot be read, so that the interpreter must say what it comes to.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from ..events.types import LogRecord, LogRecords
from .envelopes import NO_DATA, VERSION, Headers, binary_attributes, is_binary

_NULL: Final = b"null"
_UNREADABLE: Final = b""
_ENVELOPE: Final = msgspec.json.Decoder(dict[str, Raw])
_decode: Final = msgspec.json.Decoder().decode


class Opened(msgspec.Struct, frozen=True, gc=False):
    """A record with the data of its CloudEvent as its value."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    attributes: Mapping[str, object]
    """Of the CloudEvent, by their names in lower case."""


class OpenedRecords:
    """CloudEvents as records of their data, n of them."""

    def __init__(self, records: LogRecords, most_bytes: int) -> None:
        """`most_bytes`: longer records are left to the interpreter."""
        self._opened = [_opened(record, most_bytes) for record in records.logged()]

    def __len__(self) -> int:
        return len(self._opened)

    def values(self) -> list[bytes]:
        """The data of each, (n,); empty where there is none."""
        return [one.value or b"" for one in self._opened]

    def logged(self) -> Sequence[Opened]:
        """Each of them, (n,)."""
        return self._opened


def data_of(value: bytes, headers: Headers) -> tuple[bytes, Mapping[str, object]]:
    """Return the data of a CloudEvent as it is written, and its attributes. Raises ValueError or
    RecursionError where the event is not as it should be, or its data is in base64."""
    if is_binary(headers):
        return value, binary_attributes(headers)
    envelope = _ENVELOPE.decode(value)
    if VERSION not in envelope or bytes(envelope.get("data_base64", _NULL)) != _NULL:
        raise ValueError(f"no {VERSION}, or base64")
    attributes = {
        name.lower(): _decode(text) for name, text in envelope.items() if name not in NO_DATA
    }
    return bytes(envelope.get("data", _NULL)), attributes


def _opened(record: LogRecord, most_bytes: int) -> Opened:
    value, headers = record.value, record.headers
    attributes: Mapping[str, object] = {}
    if value is not None:
        try:
            if len(value) > most_bytes:
                value = _UNREADABLE
            else:
                value, attributes = data_of(value, headers)
        except (ValueError, RecursionError):
            value = _UNREADABLE
    return Opened(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        value,
        headers,
        attributes,
    )
