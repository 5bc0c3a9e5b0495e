"""What of a record is data: its body, or the data of a CloudEvent. Pure.

A CloudEvent is recognized by its `content-type`, in upper or lower case: structured, where that is
`application/cloudevents+json`; else binary, where the headers have `ce_specversion`. Recorded files
have no headers: there, an object with `specversion` is structured.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Final

import msgspec

from ..events.fields import InvalidField, decoded
from ..schemas.bodies import Bodies, Body
from .functions import Surroundings, header, text_of
from .tables import CLOUDEVENTS

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
        data, message = bodies.of(value, headers)
    elif is_binary(headers):
        attributes = binary_attributes(headers)
        data, message = bodies.of(value, headers) if value else Body(None)
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
