"""The keys of native events, found in the bytes of their lines without decoding them. Pure.

    {"type":"impression","impression_id":"q1","timestamp":1795176000000,"items":["d3","d7"]}

What puts lines in order is their kind and their time; all else is decoded when it is their turn.
Without escapes, a name is spelled in one way only. So where a line has each of the two names once
between quotes, these are the fields that a decoder would find, if the line is an event at all.
Whatever is not as plain as that is left to the decoder.

Bytes are compared eight at a time, as words that may begin anywhere in the text.
"""

import re
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics.lists import Booleans, Integers

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
