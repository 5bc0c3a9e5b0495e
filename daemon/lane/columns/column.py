"""Columns of numbers that grow at the end and give memory back at the front.

Each has memory of its own, straight from the system. What is reserved beyond the numbers costs
nothing before it is written, so growing needs no slack, copies nothing and leaves no holes between
other pieces; and what was dropped at the front goes back at once, while the others stay where they
are.
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
"""Reserved for an empty column; always a power of two, and whole pages."""

Numbers: TypeAlias = NDArray[Any]


def reserved(size: int) -> mmap.mmap:
    """So many bytes of zeros, of which a page takes memory when it is first written to."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if sys.platform == "linux":
        try:
            # many columns end within a page each, and huge ones would cost 2 MiB each
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        except OSError:
            pass  # a kernel without huge pages
    return memory


def zeros(count: int) -> NDArray[np.int32]:
    """An array of so many, in memory of its own that goes back with it."""
    return np.frombuffer(reserved(max(4 * count, mmap.PAGESIZE)), np.int32, count)


class Column:
    """Numbers of one type by place from 0, appended at the end and dropped at the front.

    Views of it must be gone before it changes its length.
    """

    def __init__(self, typecode: Typecode) -> None:
        self._typecode = typecode
        self._dtype = np.dtype(DTYPES[typecode])
        self._memory = reserved(SMALLEST_BYTES)
        self._cells = self._all_cells()
        self._start = self._end = 0
        """The cells that hold the numbers. Those behind them hold zeros."""

    @property
    def reserved_bytes(self) -> int:
        """Of addresses; what is held of it in memory is about the numbers."""
        return len(self._memory)

    def __len__(self) -> int:
        return self._end - self._start

    def __getitem__(self, place: int) -> int:
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        return int(self._cells[self._start + place if place >= 0 else self._end + place])

    def __setitem__(self, place: int, number: int) -> None:
        self._cells[self._start + place] = number

    def view(self) -> Numbers:
        """All of them, (n,); writing to it changes the column."""
        return np.frombuffer(
            self._cells, self._dtype, len(self), self._start * self._dtype.itemsize
        )

    def bytes_at(self, start: int, end: int) -> bytes:
        """The bytes of the numbers from `start` to before `end`."""
        return bytes(self._cells[self._start + start : self._start + end])

    def append(self, number: int) -> None:
        """One more number."""
        self._make_room(1)
        self._cells[self._end] = number
        self._end += 1

    def extend(self, numbers: Numbers) -> None:
        """More numbers, (n,), which must fit the type."""
        first = self._grow(len(numbers))
        self.view()[first:] = numbers

    def extend_bytes(self, data: bytes) -> None:
        """More numbers of one byte."""
        self._make_room(len(data))
        self._cells[self._end : self._end + len(data)] = data
        self._end += len(data)

    def skip(self, count: int) -> None:
        """As many zeros: they take no memory but where their pages hold other numbers."""
        self._grow(count)

    def drop_front(self, count: int) -> None:
        """Forget the first numbers; the others move up."""
        self._reserve(len(self._memory))
        before, self._start = self._start, self._start + count
        if self._start == self._end:
            self._give_back(0, self._end)
            self._start = self._end = 0
            return
        # whole pages only: the rest of the last goes with what is dropped next
        size, page = self._dtype.itemsize, mmap.PAGESIZE
        self._release(before * size // page * page, self._start * size // page * page)

    def _grow(self, count: int) -> int:
        """Take in that many cells; the place of the first."""
        first = len(self)
        self._make_room(count)
        self._end += count
        return first

    def _make_room(self, count: int) -> None:
        if self._end + count <= len(self._cells):
            return
        held = len(self)
        if held + max(held, count) <= len(self._cells):
            self._move_to_front()
            return
        needed = (self._end + count) * self._dtype.itemsize
        self._reserve(1 << (needed - 1).bit_length())

    def _reserve(self, size: int) -> None:
        """Reserve so many bytes; raises BufferError where somebody has a view."""
        self._cells.release()
        try:
            self._memory = _resized(self._memory, size)
        finally:
            self._cells = self._all_cells()

    def _all_cells(self) -> "memoryview[int]":
        return memoryview(self._memory).cast(self._typecode)

    def _move_to_front(self) -> None:
        self._reserve(len(self._memory))
        size, held, end = self._dtype.itemsize, len(self), self._end
        self._memory.move(0, self._start * size, held * size)
        self._start, self._end = 0, held
        self._give_back(held, end)

    def _give_back(self, start: int, end: int) -> None:
        """Let the cells from `start` to before `end` hold zeros, without memory if may be."""
        size, page = self._dtype.itemsize, mmap.PAGESIZE
        first, last = start * size, end * size
        inner = min(-(-first // page) * page, last)
        outer = max(last // page * page, inner)
        self._memory[first:inner] = bytes(inner - first)
        self._memory[outer:last] = bytes(last - outer)
        if not self._release(inner, outer):
            self._memory[inner:outer] = bytes(outer - inner)

    def _release(self, first: int, last: int) -> bool:
        """Give whole pages back to the system, which has zeros there from then on. False where it
        does not do that."""
        if sys.platform != "linux":
            return False
        if last > first:
            self._memory.madvise(mmap.MADV_DONTNEED, first, last - first)
        return True


class Codes(Column):
    """Numbers out of a table, from 0: as wide as the largest that was ever among them needs. A view
    must not be given a larger one."""

    _WIDER: Final[dict[Typecode, Typecode]] = {"B": "H", "H": "i"}
    _LARGEST: Final = {code: int(np.iinfo(dtype).max) for code, dtype in DTYPES.items()}

    def __init__(self) -> None:
        super().__init__("B")

    def append(self, number: int) -> None:
        """One more number."""
        self._fit(number)
        super().append(number)

    def extend(self, numbers: Numbers) -> None:
        """More numbers, (n,)."""
        self._fit(int(numbers.max(initial=0)))
        super().extend(numbers)

    def __setitem__(self, place: int, number: int) -> None:
        self._fit(number)
        super().__setitem__(place, number)

    def put(self, places: NDArray[np.int64], numbers: Numbers) -> None:
        """Other numbers at these places, (n,) of each."""
        self._fit(int(numbers.max(initial=0)))
        self.view()[places] = numbers

    def _fit(self, largest: int) -> None:
        while largest > self._LARGEST[self._typecode]:
            held = self.view()
            super().__init__(self._WIDER[self._typecode])
            super().extend(held)


def _resized(memory: mmap.mmap, size: int) -> mmap.mmap:
    """The same bytes with zeros behind them; copied only where the system cannot do otherwise."""
    if sys.platform == "linux":
        memory.resize(size)  # to the same size too: it sees whether there are views
    else:
        before, memory = memory, reserved(size)
        memory[: len(before)] = before[:]
    return memory


def column(numbers: "array[int] | Column") -> NDArray[Any]:
    """The numbers as an array that must be gone before they are appended to."""
    if isinstance(numbers, Column):
        return numbers.view()
    return np.frombuffer(numbers, {"q": np.int64, "i": np.int32}[numbers.typecode])


def grouped(keys: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Each of a few distinct keys with where it stands, ascending."""
    for key in sorted(set(keys.tolist())):
        yield key, keys == key
