"""What of a record is data: its body, or the data of a CloudEvent. Pure.

A CloudEvent is recognized by its `content-type`, in upper or lower case: structured, where that is
`application/cloudevents+json`; else binary, where the headers have `ce_specversion`. Recorded files
have no headers: there, an object with `specversion` is structured.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from ..events import InvalidField, LogRecord, LogRecords, decoded
from ..schemas import Bodies, Body, Framing, json_text
from .expressions import CLOUDEVENTS
from .functions import Surroundings, header, text_of

STRUCTURED: Final = "application/cloudevents+json"
_PREFIX: Final = "ce_"
VERSION: Final = "specversion"
NO_DATA: Final = ("data", "data_base64")
_JSON: Final = msgspec.json.Decoder()

Headers = Sequence[tuple[str, bytes]]


def unwrapped(
    envelope: str,
    value: bytes,
    bodies: Bodies,
    *,
    topic: str = "",
    key: bytes | None = None,
    headers: Headers = (),
    time_ms: int | None = None,
) -> Surroundings:
    """Return the data of a record, and what surrounds it. `bodies` reads all but a structured
    CloudEvent, which is JSON. Raises InvalidField."""
    attributes: dict[str, object] = {}
    if envelope != CLOUDEVENTS:
        data, message = bodies.body(value, headers)
    elif is_binary(headers):
        attributes = binary_attributes(headers)
        data, message = bodies.body(value, headers) if value else Body(None)
    else:
        data, attributes = _structured(_json("record", value))
        message = None
    return Surroundings(data, topic, key, headers, time_ms, attributes, message)


def is_binary(headers: Headers) -> bool:
    """Return whether these are the headers of a binary CloudEvent."""
    content_type = header(headers, "content-type") or ""
    if content_type.lower().startswith("application/cloudevents"):
        return False
    return header(headers, _PREFIX + VERSION) is not None


def binary_attributes(headers: Headers) -> dict[str, object]:
    """Return the attributes of a binary CloudEvent, by their names in lower case."""
    attributes: dict[str, object] = {}
    for name, value in headers:
        lower = name.lower()
        if lower.startswith(_PREFIX):
            attributes.setdefault(lower.removeprefix(_PREFIX), text_of(value))
    attributes["datacontenttype"] = header(headers, "content-type")
    return attributes


def _structured(envelope: object) -> tuple[object, dict[str, object]]:
    if not isinstance(envelope, dict) or VERSION not in envelope:
        rule = f"must be a CloudEvent: with the header {_PREFIX}{VERSION}, or the member {VERSION}"
        raise InvalidField("wrong_type", f"record: {rule}")
    attributes = {name.lower(): value for name, value in envelope.items() if name not in NO_DATA}
    encoded = envelope.get("data_base64")
    if encoded is None:
        return envelope.get("data"), attributes
    try:
        data = base64.b64decode(encoded, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise InvalidField("wrong_type", f"data_base64: must be base64: {error}") from error
    return _json("data_base64", data), attributes


def _json(name: str, value: bytes) -> object:
    found: object = decoded(name, value, _JSON, "wrong_type")
    return found


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
    """CloudEvents as records of their data, n of them, for what is compiled.

    The data stays text: what of it no expression reads is never decoded. What is odd about an event
    gives a record that cannot be read, so that the interpreter must say what it comes to.
    """

    def __init__(self, records: LogRecords, most_bytes: int, framing: Framing) -> None:
        """`most_bytes`: longer records are left to the interpreter. `framing`: of binary ones."""
        self._opened = [_opened(record, most_bytes, framing) for record in records.logged()]

    def __len__(self) -> int:
        return len(self._opened)

    def values(self) -> list[bytes]:
        """The data of each, (n,); empty where there is none."""
        return [one.value or b"" for one in self._opened]

    def logged(self) -> Sequence[Opened]:
        """Each of them, (n,)."""
        return self._opened


def data_of(value: bytes, headers: Headers, framing: Framing) -> tuple[bytes, Mapping[str, object]]:
    """Return the data of a CloudEvent as it is written, and its attributes. Raises ValueError or
    RecursionError where the event is not as it should be, or its data is in base64."""
    if is_binary(headers):
        return json_text(framing, value, headers), binary_attributes(headers)
    envelope = _ENVELOPE.decode(value)
    if VERSION not in envelope or bytes(envelope.get("data_base64", _NULL)) != _NULL:
        raise ValueError(f"no {VERSION}, or base64")
    attributes = {
        name.lower(): _decode(text) for name, text in envelope.items() if name not in NO_DATA
    }
    return bytes(envelope.get("data", _NULL)), attributes


def _opened(record: LogRecord, most_bytes: int, framing: Framing) -> Opened:
    value, headers = record.value, record.headers
    attributes: Mapping[str, object] = {}
    if value is not None:
        try:
            if len(value) > most_bytes:
                value = _UNREADABLE
            else:
                value, attributes = data_of(value, headers, framing)
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
