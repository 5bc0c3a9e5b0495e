"""Columns that grow at the end and return memory at the front: integers, and where texts end; and a
map of integers that is looked up for a whole batch at once. Pure.

Why not `array` or numpy arrays: the columns of a lane are its largest objects, and in the heap each
left a hole as large as itself whenever it grew and moved. Here each column is an anonymous mapping
of its own. Addresses beyond its values are reserved, but cost no memory before they are written, so
a column grows without slack, without a copy and without holes; and pages whose values were dropped
at the front are returned to the system at once, while the other values stay where they are.

Ids mostly have one length: then that length is all that is stored of where they end. Otherwise an
end takes four bytes, or eight once there are more bytes than four bytes can count.

A dictionary needs a Python object and a look-up for each key of a batch. Nearly all keys of a batch
were seen before: one binary search answers them together, and inserting is rare.
"""

import mmap
import sys
from array import array
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import Integers

Typecode: TypeAlias = Literal["B", "H", "i", "I", "q"]
"""As in `array`."""
DTYPES: Final[dict[Typecode, Any]] = {
    "B": np.uint8,
    "H": np.uint16,
    "i": np.int32,
    "I": np.uint32,
    "q": np.int64,
}
SMALLEST_BYTES: Final = 1 << 16
"""Reserved for an empty column. Sizes are always powers of two, and whole pages."""

Numbers: TypeAlias = NDArray[Any]
"""(n,) integers of any width."""


def reserved(size: int) -> mmap.mmap:
    """Return `size` bytes of zeros: a page of them takes memory once it is written to."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if sys.platform == "linux":
        try:
            # Each column ends within a page: with huge pages that would cost up to 2 MiB each.
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        except OSError:
            pass  # the kernel has no huge pages
    return memory


def zeros(count: int) -> NDArray[np.int32]:
    """Return `count` zeros, (count,), in a mapping of their own that is freed with the array."""
    return np.frombuffer(reserved(max(4 * count, mmap.PAGESIZE)), np.int32, count)


class Column:
    """Integers of one type by index from 0, appended at the end and dropped at the front.

    Views must be gone before the length changes: the mapping may move, and BufferError is raised
    while a view exists.
    """

    def __init__(self, typecode: Typecode) -> None:
        self._typecode = typecode
        self._dtype = np.dtype(DTYPES[typecode])
        self._memory = reserved(SMALLEST_BYTES)
        self._cells = self._all_cells()
        self._start = self._end = 0
        """The cells of the values. All cells after them are zero."""

    def __len__(self) -> int:
        return self._end - self._start

    def __getitem__(self, index: int) -> int:
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return int(self._cells[self._start + index if index >= 0 else self._end + index])

    def __setitem__(self, index: int, value: int) -> None:
        self._cells[self._start + index] = value

    def view(self) -> Numbers:
        """Return all values as an array, (n,); writing to it changes the column."""
        return np.frombuffer(
            self._cells, self._dtype, len(self), self._start * self._dtype.itemsize
        )

    def bytes_at(self, start: int, end: int) -> bytes:
        """Return the bytes of the values from index `start` to before `end`."""
        return bytes(self._cells[self._start + start : self._start + end])

    def append(self, value: int) -> None:
        """Append one value."""
        self._make_room(1)
        self._cells[self._end] = value
        self._end += 1

    def extend(self, values: Numbers) -> None:
        """Append values, (n,), which must fit the type."""
        first = self._grow(len(values))
        self.view()[first:] = values

    def extend_bytes(self, data: bytes) -> None:
        """Append values of one byte each."""
        self._make_room(len(data))
        self._cells[self._end : self._end + len(data)] = data
        self._end += len(data)

    def skip(self, count: int) -> None:
        """Append zeros: they take no memory except where they share a page with other values."""
        self._grow(count)

    def drop_front(self, count: int) -> None:
        """Drop the first values; the indices of the others fall by `count`."""
        self._reserve(len(self._memory))  # raises BufferError while a view exists
        before, self._start = self._start, self._start + count
        if self._start == self._end:
            self._give_back(0, self._end)
            self._start = self._end = 0
            return
        # Only whole pages: the rest of the last one is returned with the next values dropped.
        size, page = self._dtype.itemsize, mmap.PAGESIZE
        self._release(before * size // page * page, self._start * size // page * page)

    def _grow(self, count: int) -> int:
        """Lengthen the column by `count` cells; returns the index of the first."""
        first = len(self)
        self._make_room(count)
        self._end += count
        return first

    def _make_room(self, count: int) -> None:
        if self._end + count <= len(self._cells):
            return
        length = len(self)
        # A column at most half full moves to the front instead of growing. At least as many cells
        # are free then as were moved, so moving costs a constant per value.
        if length + max(length, count) <= len(self._cells):
            self._move_to_front()
            return
        needed = (self._end + count) * self._dtype.itemsize
        self._reserve(1 << (needed - 1).bit_length())

    def _reserve(self, size: int) -> None:
        """Reserve `size` bytes; raises BufferError while a view exists."""
        self._cells.release()
        try:
            self._memory = _resized(self._memory, size)
        finally:
            self._cells = self._all_cells()

    def _all_cells(self) -> "memoryview[int]":
        return memoryview(self._memory).cast(self._typecode)

    def _move_to_front(self) -> None:
        self._reserve(len(self._memory))
        size, length, end = self._dtype.itemsize, len(self), self._end
        self._memory.move(0, self._start * size, length * size)
        self._start, self._end = 0, length
        self._give_back(length, end)

    def _give_back(self, start: int, end: int) -> None:
        """Set the cells from `start` to before `end` to zero and return their whole pages."""
        size, page = self._dtype.itemsize, mmap.PAGESIZE
        first, last = start * size, end * size
        inner = min(-(-first // page) * page, last)
        outer = max(last // page * page, inner)
        self._memory[first:inner] = bytes(inner - first)
        self._memory[outer:last] = bytes(last - outer)
        if not self._release(inner, outer):
            self._memory[inner:outer] = bytes(outer - inner)

    def _release(self, first: int, last: int) -> bool:
        """Return whole pages to the system, which reads zeros there from then on. False where the
        system cannot do that."""
        if sys.platform != "linux":
            return False
        if last > first:
            self._memory.madvise(mmap.MADV_DONTNEED, first, last - first)
        return True


class Codes(Column):
    """Ids of table entries, from 0, in as many bytes as the largest id so far needs: tables are
    small, so most ids take one byte instead of four. Do not write a larger id through a view."""

    _WIDER: Final[dict[Typecode, Typecode]] = {"B": "H", "H": "i"}
    _LARGEST: Final = {code: int(np.iinfo(dtype).max) for code, dtype in DTYPES.items()}

    def __init__(self) -> None:
        super().__init__("B")

    def append(self, value: int) -> None:
        """Append one id."""
        self._fit(value)
        super().append(value)

    def extend(self, values: Numbers) -> None:
        """Append ids, (n,)."""
        self._fit(int(values.max(initial=0)))
        super().extend(values)

    def __setitem__(self, index: int, value: int) -> None:
        self._fit(value)
        super().__setitem__(index, value)

    def put(self, indices: NDArray[np.int64], values: Numbers) -> None:
        """Replace the ids at these indices, (n,) of each."""
        self._fit(int(values.max(initial=0)))
        self.view()[indices] = values

    def _fit(self, largest: int) -> None:
        while largest > self._LARGEST[self._typecode]:
            before = self.view()
            super().__init__(self._WIDER[self._typecode])
            super().extend(before)


def _resized(memory: mmap.mmap, size: int) -> mmap.mmap:
    """Return the same bytes with zeros after them: moved by the system on Linux, else copied."""
    if sys.platform == "linux":
        memory.resize(size)  # also to the same size: raises BufferError while there are views
    else:
        before, memory = memory, reserved(size)
        memory[: len(before)] = before[:]
    return memory


def new_column(values: "array[int] | Column") -> NDArray[Any]:
    """Return the values as an array, (n,), that must be gone before more are appended."""
    if isinstance(values, Column):
        return values.view()
    return np.frombuffer(values, {"q": np.int64, "i": np.int32}[values.typecode])


def grouped(keys: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Yield each distinct key, ascending, with the mask, (n,), of where it occurs. For few distinct
    keys: each costs a pass over all."""
    for key in sorted(set(keys.tolist())):
        yield key, keys == key


ROUND: Final = 1 << 32
"""Where integers of four bytes wrap."""
NARROW_BYTES: Final = ROUND
"""With this many bytes of text or more, ends are stored in eight bytes."""


class Ends:
    """Ends of texts by index from 0, counted from where the first text begins."""

    def __init__(self) -> None:
        self._count = 0
        self._size = 0
        """The bytes of each text while all have the same length."""
        self._ends: Column | None = None
        """Where the first text begins, then where each ends; None while all have the same length.

        Counted from the first text that was ever stored, modulo 2^32 while narrow. So nothing is
        rewritten when texts are dropped at the front: a difference modulo 2^32 is exact while there
        are fewer than NARROW_BYTES bytes."""
        self._is_narrow = True

    def __len__(self) -> int:
        return self._count

    def before(self, index: int) -> int:
        """Return how many bytes the texts before this one have."""
        if self._ends is None:
            return index * self._size
        length = self._ends[index] - self._ends[0]
        return length % ROUND if self._is_narrow else length

    def spans(self, indices: Integers) -> tuple[Integers, Integers]:
        """Return where texts begin and end, (n,) of each."""
        if self._ends is None:
            starts = indices * self._size
            return starts, starts + self._size
        # uint32 where narrow: differences wrap at 2^32, as `before` computes them
        view = self._ends.view()
        starts, ends = view[indices] - view[0], view[indices + 1] - view[0]
        return starts.astype(np.int64), ends.astype(np.int64)

    def append(self, length: int) -> None:
        """Append one text of `length` bytes."""
        self.extend(np.array([length]))

    def extend(self, lengths: Integers) -> None:
        """Append texts: the bytes of each, (n,)."""
        if not len(lengths):
            return
        if not self._count and self._ends is None:
            self._size = int(lengths[0])
        if self._ends is not None or not (lengths == self._size).all():
            self._store_ends(lengths)
        self._count += len(lengths)

    def drop_front(self, count: int) -> None:
        """Drop the first texts; the indices of the others fall by `count`."""
        self._count -= count
        if not self._count:
            self._ends, self._is_narrow = None, True
        elif self._ends is not None:
            self._ends.drop_front(count)

    def _store_ends(self, lengths: Integers) -> None:
        """Append the ends of texts of these lengths, after those of the texts before them."""
        ends, bytes_before = np.cumsum(lengths), self.before(self._count)
        is_narrow = self._is_narrow and bytes_before + int(ends[-1]) < NARROW_BYTES
        if self._ends is None or is_narrow != self._is_narrow:
            ends_before = self.spans(np.arange(self._count))[1]
            self._ends, self._is_narrow = Column("I" if is_narrow else "q"), is_narrow
            self._ends.append(0)
            self._ends.extend(ends_before)
        ends += self._ends[-1]
        self._ends.extend(ends & (ROUND - 1) if is_narrow else ends)


NO_PLACE: Final = -1


class SortedMap:
    """An integer, at least 0, for each of many keys."""

    def __init__(self) -> None:
        self._keys: Integers = np.zeros(0, np.int64)
        self._values: Integers = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, keys: Integers) -> Integers:
        """Return the value of each key, (n,); MISSING for keys that were not added."""
        if not len(self._keys):
            return np.full(len(keys), NO_PLACE)
        indices = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[indices] == keys, self._values[indices], NO_PLACE)

    def add(self, keys: Integers, values: Integers) -> None:
        """Add new keys, each once, with their values: (n,) of each."""
        order = np.argsort(keys)
        indices = np.searchsorted(self._keys, keys[order])
        self._keys = np.insert(self._keys, indices, keys[order])
        self._values = np.insert(self._values, indices, values[order])
