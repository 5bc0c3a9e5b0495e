"""Lines of any format as records of one native event each, with the key they are sorted by.

The key orders by event time, and impressions before feedback of the same time. Of most lines, only
the kind and the time are read here, from their bytes where they are plain (`lines`); lines of
other formats, and arrays, are decoded, and written again as one native event a line.

Records put in the order of event time, with memory for a buffer of them, however many there are.

    records ─▶ blocks ─▶ temporary file ─▶ merge ─▶ records in order

Recorded events come nearly in order, so blocks of them are written as they come, and put in order
only as they are read back: a block is loaded when the merge reaches its earliest event, and
whatever is earlier than the next block is ready. A buffer of blocks that are less in order than
that is sorted first, so that few blocks overlap whatever the files are.
"""

import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import SEEK_END
from itertools import chain, pairwise, zip_longest
from types import TracebackType
from typing import IO, Final, TypeAlias

import msgspec
import numpy as np

from relevanced.metrics import Integers

from ..events import (
    TIMED_DECODER,
    Feedback,
    Rejected,
    TimedFeedback,
    TimedImpression,
    native_text,
    timestamp_ms,
    too_large,
)
from .line_files import Lines, Refusals
from .lines import KEYS_PER_MS, LineDecoder, plain_keys

BUFFER_BYTES: Final = 32 << 20
"""So much is sorted at once. An input that is smaller needs no file."""
BLOCK_BYTES: Final = 128 << 10
"""Lines of one block of what was sorted."""
MOST_OVERLAPPING: Final = 16
"""A buffer is left as it is if no record is further away from its place than so many blocks."""
RECORD_BYTES: Final = 80
"""What a line takes beside its bytes while it is sorted: an object, a reference, key and place."""


class NoRoom(Exception):
    """The temporary file cannot be written: what to do about it, for people."""


@dataclass(frozen=True)
class OrderedRecords:
    """Records of one event each, n of them: a block."""

    keys: Integers
    """(n,): they are put in order by these; equal ones keep their order."""
    places: Integers
    """(n,): where each of them was read."""
    text: bytes
    """The events as lines of JSON, with an end between two of them."""

    def __len__(self) -> int:
        return len(self.keys)

    def lines(self) -> list[bytes]:
        """Each record."""
        return self.text.split(b"\n") if len(self) else []


NO_RECORDS: Final = OrderedRecords(np.zeros(0, np.int64), np.zeros(0, np.int64), b"")


@dataclass(frozen=True)
class Ordered:
    """Records that follow each other in order, n of them."""

    keys: Integers
    places: Integers
    lines: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.keys)

    def part(self, start: int, stop: int) -> "Ordered":
        """The records from `start` to before `stop`."""
        if (start, stop) == (0, len(self)):
            return self
        span = slice(start, stop)
        return Ordered(self.keys[span], self.places[span], self.lines[span])

    def before(self, key: int, place: int) -> int:
        """How many records stand before one of this key and place."""
        start, end = np.searchsorted(self.keys, (key, key + 1)).tolist()
        same: int = np.searchsorted(self.places[start:end], place).item()
        return int(start) + same


class TimeOrder:
    """Takes records in any order and returns them in that of their keys, once."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        # One entry for each block that was written. Columns, for a terabyte has eight million.
        self._first_keys, self._first_places = array("q"), array("q")
        self._starts = array("q")
        self._counts, self._sizes = array("q"), array("q")
        self._buffer: list[OrderedRecords] = []
        self._buffered_bytes = 0
        self.count = 0
        """Records so far."""

    def __enter__(self) -> "TimeOrder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, records: OrderedRecords) -> None:
        """Take more records. Raises NoRoom."""
        if not records:
            return
        self.count += len(records)
        self._buffer.append(records)
        self._buffered_bytes += len(records.text) + RECORD_BYTES * len(records)
        if self._buffered_bytes >= BUFFER_BYTES:
            self._write()

    def in_order(self) -> Iterator[Ordered]:
        """Yield all records in order, some at a time."""
        unwritten, self._buffer = _blocks_of(self._buffer), []
        written = len(self._first_keys)
        for block in unwritten:
            self._note_first(block)
        first_keys, first_places = np.array(self._first_keys), np.array(self._first_places)
        turns = np.lexsort((first_places, first_keys)).tolist()
        loaded = _NOTHING
        for number, following in zip_longest(turns, turns[1:]):
            block = self._read(number) if number < written else unwritten[number - written]
            loaded = _merged((loaded, _as_read(block)))
            ready = len(loaded)
            if following is not None:
                ready = loaded.before(int(first_keys[following]), int(first_places[following]))
            if ready:
                yield loaded.part(0, ready)
                loaded = loaded.part(ready, len(loaded))

    def _note_first(self, block: OrderedRecords) -> None:
        """Note key and place of the record of a block that comes first."""
        first = int(block.keys.argmin())
        self._first_keys.append(int(block.keys[first]))
        self._first_places.append(int(block.places[first]))

    def _write(self) -> None:
        """Write the buffer."""
        blocks, self._buffer, self._buffered_bytes = _blocks_of(self._buffer), [], 0
        start = 0
        try:
            if self._file is None:
                # Without a name from the start: nothing is left of it, however the process ends.
                self._file = tempfile.TemporaryFile()
            start = self._file.seek(0, SEEK_END)
            for block in blocks:
                self._note_first(block)
                self._starts.append(start)
                self._counts.append(len(block))
                self._sizes.append(len(block.text))
                start += self._file.write(np.concatenate((block.keys, block.places)).tobytes())
                start += self._file.write(block.text)
            self._file.flush()
        except OSError as error:
            raise NoRoom(_advice(start, error)) from error

    def _read(self, number: int) -> OrderedRecords:
        """A block that was written."""
        assert self._file is not None
        count = self._counts[number]
        self._file.seek(self._starts[number])
        columns = np.frombuffer(self._file.read(16 * count), np.int64)
        return OrderedRecords(
            columns[:count], columns[count:], self._file.read(self._sizes[number])
        )


def _as_read(block: OrderedRecords) -> Ordered:
    return Ordered(block.keys, block.places, block.lines())


_NOTHING: Final = _as_read(NO_RECORDS)


def _merged(parts: Sequence[Ordered]) -> Ordered:
    """The records of all parts in order: those of equal keys in that of their places, and of equal
    places in that of the parts."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return _NOTHING
    keys = np.concatenate([part.keys for part in parts])
    places = np.concatenate([part.places for part in parts])
    lines = list(chain.from_iterable(part.lines for part in parts))
    if all(one.places.max() < other.places.min() for one, other in pairwise(parts)):
        if not (keys[1:] < keys[:-1]).any():
            return Ordered(keys, places, lines)
        order = np.argsort(keys, kind="stable")
    else:
        order = np.lexsort((places, keys))
    return Ordered(keys[order], places[order], [lines[n] for n in order.tolist()])


def _blocks_of(buffer: list[OrderedRecords]) -> list[OrderedRecords]:
    """The records of a buffer in blocks of which few overlap: those of the buffer, or sorted ones
    of about BLOCK_BYTES."""
    if _are_nearly_in_order(buffer):
        return buffer
    ordered = _merged([_as_read(part) for part in buffer])
    keys, places, lines = ordered.keys, ordered.places, ordered.lines
    ends = np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)))
    limits = np.arange(BLOCK_BYTES, int(ends[-1]), BLOCK_BYTES)
    cuts = sorted({0, *np.searchsorted(ends, limits).tolist(), len(lines)})
    return [
        OrderedRecords(keys[start:stop], places[start:stop], b"\n".join(lines[start:stop]))
        for start, stop in pairwise(cuts)
    ]


def _are_nearly_in_order(blocks: Sequence[OrderedRecords]) -> bool:
    """Whether no record is before one that came more than MOST_OVERLAPPING blocks earlier."""
    if len(blocks) <= MOST_OVERLAPPING:
        return True
    latest = np.maximum.accumulate([block.keys.max() for block in blocks])
    earliest = np.array([block.keys.min() for block in blocks])
    return not (earliest[MOST_OVERLAPPING:] < latest[:-MOST_OVERLAPPING]).any()


def _advice(written: int, error: OSError) -> str:
    return (
        f"{tempfile.gettempdir()}: no room to put the events in order of time, {written:,} bytes of"
        f" them written so far: {error.strerror}. The variable TMPDIR names another folder. Files"
        " whose lines are in order of time already need none with --as-is."
    )


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
