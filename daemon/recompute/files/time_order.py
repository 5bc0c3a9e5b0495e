"""Records put in the order of event time, with memory for a buffer of them, however many there are.

    records ─▶ blocks ─▶ temporary file ─▶ merge ─▶ records in order

Recorded events come nearly in order, so blocks of them are written as they come, and put in order
only as they are read back: a block is loaded when the merge reaches its earliest event, and
whatever is earlier than the next block is ready. A buffer of blocks that are less in order than
that is sorted first, so that few blocks overlap whatever the files are.
"""

import tempfile
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import SEEK_END
from itertools import chain, pairwise, zip_longest
from types import TracebackType
from typing import IO, Final

import numpy as np

from relevanced.metrics import Integers

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
