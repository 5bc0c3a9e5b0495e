"""Columns of integers that grow at the end and return memory at the front.

Why not `array` or numpy arrays: the columns of a lane are its largest objects, and in the heap each
left a hole as large as itself whenever it grew and moved. Here each column is an anonymous mapping
of its own. Addresses beyond its values are reserved, but cost no memory before they are written, so
a column grows without slack, without a copy and without holes; and pages whose values were dropped
at the front are returned to the system at once, while the other values stay where they are.
"""

import mmap
import sys
from array import array
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

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


def column(values: "array[int] | Column") -> NDArray[Any]:
    """Return the values as an array, (n,), that must be gone before more are appended."""
    if isinstance(values, Column):
        return values.view()
    return np.frombuffer(values, {"q": np.int64, "i": np.int32}[values.typecode])


def grouped(keys: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Yield each distinct key, ascending, with the mask, (n,), of where it occurs. For few distinct
    keys: each costs a pass over all."""
    for key in sorted(set(keys.tolist())):
        yield key, keys == key
