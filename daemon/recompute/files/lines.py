"""What the lines of recorded files come to: values of a topic, or records as `kcat -J` prints them.

kcat prints a line of JSON for each record, with topic, key, headers and payload. A payload that is
no text stands as base64 in `payload_b64`, a key in `key_b64`.
"""

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from ...config import Config
from ...events import Decoded, InvalidField, Rejected, decoded
from ..clients import FileRecordReader, file_record_reader

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


class UnknownTopic(ValueError):
    """Files cannot be read, as it is not known of which topic they are: what to do, for people."""


class LineDecoder(Protocol):
    """Reads one line."""

    def __call__(self, line: bytes) -> Sequence[Decoded]: ...  # noqa: D102


@dataclass(frozen=True)
class ValueLines:
    """Lines that are the values of one topic."""

    reader: FileRecordReader
    topic: str

    def __call__(self, line: bytes) -> Sequence[Decoded]:
        """The events of a line."""
        return self.reader.events(RecordedRecord(self.topic, 0, 0, NO_STAMP, None, line, ()))


@dataclass(frozen=True)
class KcatLines:
    """Lines as `kcat -J` prints them."""

    reader: FileRecordReader

    def __call__(self, line: bytes) -> Sequence[Decoded]:
        """The events of the record of a line."""
        try:
            record = record_of(line)
        except InvalidField as error:
            return [Rejected(error.reason, error.detail)]
        return self.reader.events(record)


@contextmanager
def line_decoder(config: Config, *, kcat: bool, topic: str | None) -> Iterator[LineDecoder]:
    """What reads lines: values of `topic`, or records as of `kcat -J`. Raises UnknownTopic where
    there are several sources, and no topic is named, and StartError; reading raises Unavailable
    where a schema is needed and the registry does not answer."""
    with file_record_reader(config) as reader:
        if kcat:
            yield KcatLines(reader)
        else:
            yield ValueLines(reader, _topic_of(config, topic))


def _topic_of(config: Config, topic: str | None) -> str:
    topics = config.kafka.topics if config.sources else config.kafka.topics[:1]
    if topic is None and len(topics) > 1:
        listed = ", ".join(topics)
        raise UnknownTopic(
            f"sources: of which topic are the files? Name it with --topic ({listed}), or record"
            " them with kcat -J, and say --kcat"
        )
    if topic is not None and config.sources and topic not in topics:
        raise UnknownTopic(f"--topic {topic}: must be one of sources.topic ({', '.join(topics)})")
    return topic or topics[0]


def most_line_bytes(config: Config, *, kcat: bool) -> int:
    """The longest line that is read."""
    most = config.events.max_record_bytes
    return TEXT_BYTES * most + LINE_BYTES if kcat else most
