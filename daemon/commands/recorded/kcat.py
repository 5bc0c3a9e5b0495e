"""Records as `kcat -J` prints them: a line of JSON for each, with topic, key, headers and payload.

A payload that is no text stands as base64 in `payload_b64`, a key in `key_b64`. Pure.
"""

import base64
from typing import Any, Final

import msgspec

from ...events.fields import InvalidField, decoded

NO_STAMP: Final = -1
TEXT_BYTES: Final = 6
"""A byte of a record takes at most so many in a line: as an escape."""
LINE_BYTES: Final = 1 << 20
"""So many more are allowed for what stands around it."""


class RecordedRecord(msgspec.Struct, frozen=True, gc=False):
    """A recorded record of a log."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class _Line(msgspec.Struct):
    topic: str
    partition: int = 0
    offset: int = 0
    ts: int | None = None
    key: str | None = None
    key_b64: str | None = None
    payload: str | None = None
    payload_b64: str | None = None
    headers: list[str | None] | None = None


_LINE: Final = msgspec.json.Decoder(_Line)


def record_of(line: bytes) -> RecordedRecord:
    """Return the record of a line. Raises InvalidField."""
    read = decoded("line of kcat -J", line, _LINE, "wrong_type")
    return RecordedRecord(
        read.topic,
        read.partition,
        read.offset,
        NO_STAMP if read.ts is None else read.ts,
        _bytes(read.key, read.key_b64, "key_b64"),
        _bytes(read.payload, read.payload_b64, "payload_b64"),
        _headers(read.headers),
    )


def _bytes(text: str | None, encoded: str | None, name: str) -> bytes | None:
    if encoded is None:
        return None if text is None else text.encode()
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise InvalidField("wrong_type", f"{name}: must be base64: {error}") from error


def _headers(listed: list[str | None] | None) -> tuple[tuple[str, bytes], ...]:
    """The headers, which kcat prints as names and values in turn."""
    pairs: Any = zip((listed or [])[::2], (listed or [])[1::2])
    return tuple((name or "", (value or "").encode()) for name, value in pairs)
