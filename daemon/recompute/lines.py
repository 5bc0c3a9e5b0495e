"""What the lines of recorded files come to: events, by format or by source.

Records as `kcat -J` prints them: a line of JSON for each, with topic, key, headers and payload.

A payload that is no text stands as base64 in `payload_b64`, a key in `key_b64`.

The keys of native events, found in the bytes of their lines without decoding them.

    {"type":"impression","impression_id":"q1","timestamp":1795176000000,"items":["d3","d7"]}

What puts lines in order is their kind and their time; all else is decoded when it is their turn.
Without escapes, a name is spelled in one way only. So where a line has each of the two names once
between quotes, these are the fields that a decoder would find, if the line is an event at all.
Whatever is not as plain as that is left to the decoder.

Bytes are compared eight at a time, as words that may begin anywhere in the text.
"""

import base64
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import Booleans, Integers

from ..config import Config
from ..events import Decoded, InvalidField, Rejected, decoded
from .clients import FileRecordReader, file_record_reader

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


Words: TypeAlias = NDArray[np.uint64]
"""The eight bytes from each place of a text on."""

KEYS_PER_MS: Final = 2
"""Impressions of a millisecond come before its feedback."""
_PLAIN_TIME: Final = re.compile(rb'"timestamp": ?\d')
_TIME_DIGITS: Final = 13
"""Of a time in milliseconds, from the year 2001 to 2286."""
_POWERS: Final = 10.0 ** np.arange(_TIME_DIGITS - 1, -1, -1)
_ZEROS: Final = float(ord("0") * _POWERS.sum())
"""What the characters of a time add up to beyond their digits. Floats are exact that far."""
_WORD_BYTES: Final = 8
_ROOM: Final = bytes(64)
"""After the text: what is read of a field may be read from any quote in it."""
_QUOTE, _T, _SPACE, _COMMA, _OBJECT_END, _ZERO, _ONE, _NINE = b'"t ,}019'


def plain_keys(text: bytes, ends: Integers) -> Integers | None:
    """Twice the time of the event on each line, and one more for feedback, (n,); None where a line
    is not plain. The key of a line that is no event means nothing.

    `ends` are where the ends between two lines are in the text, (n − 1,).
    """
    first_end = int(ends[0]) if len(ends) else len(text)
    if _PLAIN_TIME.search(text, 0, first_end) is None or b"\\" in text:
        return None
    padded = text + _ROOM
    words = np.ndarray(len(padded) - _WORD_BYTES + 1, "<u8", padded, strides=(1,))
    names = _names_of_t(padded)
    begins = words[names]
    kinds_at = _values_of(b'"type":', words, names, begins, ends)
    times_at = _values_of(b'"timestamp":', words, names, begins, ends)
    if kinds_at is None or times_at is None:
        return None
    kinds = words[kinds_at]
    is_feedback = _begin_with(kinds, b'"feedbac')
    if not (is_feedback | _begin_with(kinds, b'"impress')).all():
        return None
    times_ms = _times_ms(padded, times_at)
    return None if times_ms is None else times_ms * KEYS_PER_MS + is_feedback


def _names_of_t(text: bytes) -> Integers:
    """Where there is a quote and the letter t."""
    letters = np.frombuffer(text, np.uint8)
    is_name = letters[:-1] == _QUOTE
    is_name &= letters[1:] == _T
    return np.flatnonzero(is_name)


def _values_of(
    name: bytes, words: Words, names: Integers, begins: Words, ends: Integers
) -> Integers | None:
    """Where the value after a name and its colon is in each line, (n,); None unless each line has
    the name once. `begins` are the words at `names`, the places where it may be."""
    found = names[_begin_with(begins, name[:-1][:_WORD_BYTES])]
    if len(found) != len(ends) + 1:
        return None
    if not ((found[:-1] < ends).all() and (ends < found[1:]).all()):
        return None
    rest = max(len(name) - _WORD_BYTES, 0)
    if not _begin_with(words[found + rest], name[rest:]).all():
        return None
    found += len(name)
    found += _begin_with(words[found], b" ")
    return found


def _begin_with(words: Words, text: bytes) -> Booleans:
    """Whether words begin with a text of at most eight bytes, (n,)."""
    bits = (1 << 8 * len(text)) - 1
    masked = words if len(text) == _WORD_BYTES else words & np.uint64(bits)
    begin: Booleans = masked == np.uint64(int.from_bytes(text, "little"))
    return begin


def _times_ms(text: bytes, places: Integers) -> Integers | None:
    """The times in milliseconds at these places, (n,); None where one is spelled otherwise."""
    width = _TIME_DIGITS + 1
    elements = np.ndarray(len(text) - width + 1, np.dtype((np.void, width)), text, strides=(1,))
    rows = elements[places].view(np.uint8).reshape(-1, width)
    digits, after = rows[:, :-1], rows[:, -1]
    if digits.min() < _ZERO or digits.max() > _NINE or digits[:, 0].min() < _ONE:
        return None
    if not ((after == _COMMA) | (after == _OBJECT_END)).all():
        return None
    times_ms: Integers = (digits @ _POWERS - _ZEROS).astype(np.int64)
    return times_ms
