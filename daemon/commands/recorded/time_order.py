"""Records put in the order of event time, with memory for a buffer of them, however many there are.

    records ─▶ blocks ─▶ temporary file ─▶ merge ─▶ records in order

Recorded events come nearly in order, so blocks of them are written as they come, and put in order
only as they are read back: a block is loaded when the merge reaches its earliest event, and is kept
until its latest is passed. A buffer of blocks that are less in order than that is sorted first, so
that few blocks overlap whatever the files are.
"""

import tempfile
from array import array
from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import SEEK_END
from itertools import pairwise
from types import TracebackType
from typing import IO, Final, Literal

import numpy as np

from relevanced.metrics.lists import Integers

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
class Records:
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


NO_RECORDS: Final = Records(np.zeros(0, np.int64), np.zeros(0, np.int64), b"")


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


class TimeOrder:
    """Takes records in any order and returns them in that of their keys, once."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        # One entry for each block that was written. Columns, for a terabyte has eight million.
        self._first_keys, self._starts = array("q"), array("q")
        self._counts, self._sizes = array("q"), array("q")
        self._buffer: list[Records] = []
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

    def add(self, records: Records) -> None:
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
        first_keys = np.array([*self._first_keys, *map(_first_key, unwritten)], np.int64)
        # Blocks with the same first key stay in the order in which they came.
        turns = np.argsort(first_keys, kind="stable")
        loaded: list[_Loaded] = []
        for turn, number in enumerate(turns.tolist()):
            block = self._read(number) if number < written else unwritten[number - written]
            insort(loaded, _Loaded(number, block), key=lambda one: one.number)
            bound = None
            if turn + 1 < len(turns):
                following = int(turns[turn + 1])
                bound = (int(first_keys[following]), following)
            ready = _merged([one.take(bound) for one in loaded])
            loaded = [one for one in loaded if not one.is_done]
            if len(ready):
                yield ready

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
                self._first_keys.append(_first_key(block))
                self._starts.append(start)
                self._counts.append(len(block))
                self._sizes.append(len(block.text))
                start += self._file.write(np.concatenate((block.keys, block.places)).tobytes())
                start += self._file.write(block.text)
            self._file.flush()
        except OSError as error:
            raise NoRoom(_advice(start, error)) from error

    def _read(self, number: int) -> Records:
        """A block that was written."""
        assert self._file is not None
        count = self._counts[number]
        self._file.seek(self._starts[number])
        columns = np.frombuffer(self._file.read(16 * count), np.int64)
        return Records(columns[:count], columns[count:], self._file.read(self._sizes[number]))


class _Loaded:
    """A block in order, and how much of it was taken."""

    def __init__(self, number: int, block: Records) -> None:
        self.number = number
        self._records = _merged([Ordered(block.keys, block.places, block.lines())])
        self._taken = 0

    @property
    def is_done(self) -> bool:
        """Whether all of it was taken."""
        return self._taken == len(self._records)

    def take(self, bound: tuple[int, int] | None) -> Ordered:
        """The next records, up to where the block that is loaded next may have earlier ones.

        That is given by its first key and its number: records with the same key stand before it if
        they are of a block that came before. Without a bound, nothing follows.
        """
        start, stop = self._taken, len(self._records)
        if bound is not None:
            key, number = bound
            side: Literal["left", "right"] = "right" if self.number < number else "left"
            stop = int(np.searchsorted(self._records.keys, key, side=side))
        self._taken = max(start, stop)
        return self._records.part(start, self._taken)


def _first_key(block: Records) -> int:
    return int(block.keys.min())


def _merged(parts: Sequence[Ordered]) -> Ordered:
    """The records of all parts in order: of equal keys, those of earlier parts come first."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return Ordered(NO_RECORDS.keys, NO_RECORDS.places, ())
    first = parts[0]
    keys = first.keys if len(parts) == 1 else np.concatenate([part.keys for part in parts])
    if len(parts) == 1 and not (keys[1:] < keys[:-1]).any():
        return first
    places = np.concatenate([part.places for part in parts])
    order = np.argsort(keys, kind="stable")
    lines = [line for part in parts for line in part.lines]
    return Ordered(keys[order], places[order], [lines[n] for n in order.tolist()])


def _blocks_of(buffer: list[Records]) -> list[Records]:
    """The records of a buffer in blocks of which few overlap: those of the buffer, or sorted ones
    of about BLOCK_BYTES."""
    if _are_nearly_in_order(buffer):
        return buffer
    ordered = _merged([Ordered(part.keys, part.places, part.lines()) for part in buffer])
    keys, places, lines = ordered.keys, ordered.places, ordered.lines
    ends = np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)))
    limits = np.arange(BLOCK_BYTES, int(ends[-1]), BLOCK_BYTES)
    cuts = sorted({0, *np.searchsorted(ends, limits).tolist(), len(lines)})
    return [
        Records(keys[start:stop], places[start:stop], b"\n".join(lines[start:stop]))
        for start, stop in pairwise(cuts)
    ]


def _are_nearly_in_order(blocks: Sequence[Records]) -> bool:
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
