"""Lines of any format as records of one native event each, with the key they are sorted by.

The key orders by event time, and impressions before feedback of the same time. Of most lines, only
the kind and the time are read here, from their bytes where they are plain (`key_scan`); lines of
other formats, and arrays, are decoded, and written again as one native event a line.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec
import numpy as np

from relevanced.metrics.lists import Integers

from ...events.decoder import too_large
from ...events.native import TIMED_DECODER, TimedFeedback, TimedImpression
from ...events.native_text import native_text
from ...events.timestamps import timestamp_ms
from ...events.types import Feedback, Rejected
from .key_scan import KEYS_PER_MS, plain_keys
from .line_decoding import LineDecoder
from .line_files import Lines
from .refusals import Refusals
from .time_order import NO_RECORDS, Records

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

    def read(self, part: Lines) -> Records:
        """The events of these lines. Notes what is refused, but for lines of which only the time
        was read: they may still turn out to be no event."""
        keys = self._keys_at_once(part)
        if keys is None:
            return self._read_one_by_one(part)
        return Records(keys, _places(part), part.text)

    def read_as_is(self, part: Lines) -> Records:
        """The same for lines that keep their order: where each may be one event, no time is read,
        and all keys are 0."""
        if self._timed is None or part.too_long is not None or not self._begin_objects(part):
            return self.read(part)
        return Records(np.zeros(len(part), np.int64), _places(part), part.text)

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

    def _read_one_by_one(self, part: Lines) -> Records:
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
        return Records(np.array(keys, np.int64), np.array(places, np.int64), b"\n".join(lines))

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
