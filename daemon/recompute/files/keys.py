"""Lines of any format as records of one native event each, with the key they are sorted by.

The key orders by event time, and impressions before feedback of the same time. All else of most
lines is decoded when it is their turn: kind and time are found in the bytes. Without escapes, a
name is spelled in one way only. So where a line has each of the two names once between quotes,
these are the fields that a decoder would find, if the line is an event at all. Bytes are compared
eight at a time, as words that may begin anywhere in the text. Lines that are not as plain as that,
of other formats, and arrays, are decoded, and written again as one native event a line.
"""

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import Booleans, Integers

from ...events import (
    TIMED_DECODER,
    Feedback,
    Rejected,
    TimedFeedback,
    TimedImpression,
    native_text,
    timestamp_ms,
    too_large,
)
from .line_files import LineDecoder, Lines
from .refusals import Refusals
from .time_order import NO_RECORDS, OrderedRecords

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


Timed: TypeAlias = TimedImpression | TimedFeedback
TIMED: Final[Mapping[str, msgspec.json.Decoder[Timed]]] = {"native": TIMED_DECODER}
"""Format → what reads only the kind and the time of lines. Lines of others are read in full."""
_OBJECT_START, _OBJECT_END = b"{}"


class EventReader:
    """Reads the lines of recorded files."""

    def __init__(
        self, decode: LineDecoder, format_name: str | None, most_bytes: int, refusals: Refusals
    ) -> None:
        """`format_name`: that of the lines; None where `decode` alone knows it. `most_bytes`: of a
        line."""
        self._timed = None if format_name is None else TIMED.get(format_name)
        self._decode = decode
        self._most_bytes, self._refusals = most_bytes, refusals

    def read(self, part: Lines) -> OrderedRecords:
        """The events of these lines. Notes what is refused, but for lines of which only the time
        was read: they may still turn out to be no event."""
        keys = self._keys_at_once(part)
        if keys is None:
            return self._read_one_by_one(part)
        return OrderedRecords(keys, _places(part), part.text)

    def read_as_is(self, part: Lines) -> OrderedRecords:
        """The same for lines that keep their order: where each may be one event, no time is read,
        and all keys are 0."""
        if self._timed is None or part.too_long is not None or not self._begin_objects(part):
            return self.read(part)
        return OrderedRecords(np.zeros(len(part), np.int64), _places(part), part.text)

    def _begin_objects(self, part: Lines) -> bool:
        """Whether each line begins an object, and none is too long."""
        text = np.frombuffer(part.text, np.uint8)
        starts = np.append(0, part.ends + 1)
        if starts[-1] == len(text) or (text[starts] != _OBJECT_START).any():
            return False
        return int(np.diff(starts, append=len(text) + 1).max()) - 1 <= self._most_bytes

    def _keys_at_once(self, part: Lines) -> Integers | None:
        """The key of each line, (n,); None where they must be read one by one."""
        if self._timed is None or part.too_long is not None or not self._begin_objects(part):
            return None
        keys = plain_keys(part.text, part.ends)
        if keys is not None or not _end_objects(part):
            return keys
        try:
            timed = self._timed.decode_lines(part.text)
            times_ms = [
                time if type(time := one.timestamp) is int else timestamp_ms(time) for one in timed
            ]
        except (ValueError, RecursionError):
            return None
        if len(timed) != len(part):
            return None
        is_feedback = bytes([type(one) is TimedFeedback for one in timed])
        keys = np.fromiter(times_ms, np.int64, len(times_ms))
        keys *= KEYS_PER_MS
        keys += np.frombuffer(is_feedback, np.int8)
        return keys

    def _read_one_by_one(self, part: Lines) -> OrderedRecords:
        if part.too_long is not None:
            self._refusals.note(part.place, too_large(part.too_long, self._most_bytes), b"")
            return NO_RECORDS
        found = list[tuple[int, int, bytes]]()
        for place, line in enumerate(part.split(), part.place):
            key = self._key_of(line)
            if key is not None:
                found.append((key, place, line))
            elif line and not line.isspace():
                found += self._read_in_full(place, line)
        if not found:
            return NO_RECORDS
        keys, places, lines = zip(*found, strict=True)
        return OrderedRecords(
            np.array(keys, np.int64), np.array(places, np.int64), b"\n".join(lines)
        )

    def _key_of(self, line: bytes) -> int | None:
        """The key of a line; None where it must be read in full."""
        if self._timed is None or len(line) > self._most_bytes:
            return None
        try:
            timed = self._timed.decode(line)
            return timestamp_ms(timed.timestamp) * KEYS_PER_MS + (type(timed) is TimedFeedback)
        except (ValueError, RecursionError):
            return None

    def _read_in_full(self, place: int, line: bytes) -> list[tuple[int, int, bytes]]:
        """The events of one line as records of their own."""
        found = []
        for event in self._decode(line):
            if isinstance(event, Rejected):
                self._refusals.note(place, event, line)
            else:
                key = event.time_ms * KEYS_PER_MS + isinstance(event, Feedback)
                found.append((key, place, native_text(event)))
        return found


def _end_objects(part: Lines) -> bool:
    """Whether each line ends an object. Between `}` and `{`, no value goes on: so as many values as
    lines that also begin an object are one in each."""
    text = np.frombuffer(part.text, np.uint8)
    return not (text[np.append(part.ends, len(text)) - 1] != _OBJECT_END).any()


def _places(part: Lines) -> Integers:
    return np.arange(part.place, part.place + len(part))
