"""A column of short texts in one piece of memory.

A Python string costs five times what it says; a million of them are kept here as one array of bytes
and where each ends (`ends`).
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .column import Column
from .ends import Ends

Joined: TypeAlias = tuple[bytes, NDArray[np.int64]]
"""Texts one behind the other, and the bytes of each, (n,)."""
Rows: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""Texts below each other, (n, width), and the bytes of each, (n,); behind them stands anything."""

_WORD_BYTES: Final = 8
_FIRST_BYTES: Final = np.frombuffer(
    b"".join(bytes([0xFF] * count + [0] * (_WORD_BYTES - count)) for count in range(9)), np.uint64
)
"""Words in which the first so many bytes are set, 0 to 8."""


class Texts:
    """Texts by number from 0. Appended at the end, dropped at the front."""

    def __init__(self) -> None:
        self._bytes = Column("B")
        self._ends = Ends()

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, number: int) -> bytes:
        if number >= len(self):
            raise IndexError(number)
        return self._bytes.bytes_at(self._ends.before(number), self._ends.before(number + 1))

    def spans(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where in all bytes texts begin and end, (n,) of each."""
        return self._ends.spans(numbers)

    def equal(self, numbers: NDArray[np.int64], texts: Sequence[str]) -> NDArray[np.bool_]:
        """Whether each text of a number, (n,), is the one of `texts`."""
        starts, ends = self.spans(numbers)
        told = joined_texts(texts)
        return equal_at(self._bytes.view(), starts, ends - starts == told[1], told)

    def widest(self, numbers: NDArray[np.int64]) -> int:
        """The bytes of the longest text of these numbers, (n,)."""
        starts, ends = self.spans(numbers)
        return int((ends - starts).max(initial=0))

    def rows(self, numbers: NDArray[np.int64]) -> Rows:
        """The texts of these numbers, (n,), as rows."""
        starts, ends = self.spans(numbers)
        return rows_of(self._bytes.view(), starts, ends - starts)

    def append(self, text: bytes) -> None:
        """One more text."""
        self._bytes.extend_bytes(text)
        self._ends.append(len(text))

    def extend(self, joined: bytes, lengths: NDArray[np.int64]) -> None:
        """More texts: their bytes, one behind the other, and the bytes of each, (n,)."""
        self._bytes.extend_bytes(joined)
        self._ends.extend(lengths)

    def skip(self, count: int) -> None:
        """As many empty texts."""
        self._ends.extend(np.zeros(count, np.int64))

    def joined(self, first: int, end: int) -> Joined:
        """The texts from `first` to before `end`, as `extend` takes them."""
        starts, ends = self.spans(np.arange(first, end))
        return self._bytes.bytes_at(self._ends.before(first), self._ends.before(end)), ends - starts

    def drop_front(self, count: int) -> None:
        """Forget the first texts; the others move up."""
        self._bytes.drop_front(self._ends.before(count))
        self._ends.drop_front(count)


def rows_of(
    here: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64], unit: int = 1
) -> Rows:
    """The bytes from each start on, (n,), in rows as wide as the longest asks for, in `unit`s."""
    width = -(-max(int(sizes.max(initial=1)), 1) // unit) * unit
    if len(here) < width:
        here = np.pad(here, (0, width - len(here)))
    latest = len(here) - width
    # one number names a whole row: it is moved at once, wherever it begins
    pieces = np.ndarray((latest + 1,), np.dtype((np.void, width)), here, strides=(1,))
    rows = pieces[np.minimum(starts, latest)].view(np.uint8).reshape(-1, width)
    for number in np.flatnonzero(starts > latest).tolist():
        rest = here[starts[number] :]
        rows[number, : len(rest)] = rest
    return rows, sizes


def equal_at(
    here: NDArray[np.uint8], starts: NDArray[np.int64], fits: NDArray[np.bool_], told: Joined
) -> NDArray[np.bool_]:
    """Whether the bytes from each start on are the text told, (n,); false where it does not fit."""
    together, sizes = told
    begins = np.cumsum(sizes) - sizes
    asked = _words_of(np.frombuffer(together, np.uint8), begins, sizes)
    found = _words_of(here, starts, sizes)
    equal = fits.copy()
    for number in range(asked.shape[1]):
        counts = _FIRST_BYTES[np.clip(sizes - number * _WORD_BYTES, 0, _WORD_BYTES)]
        equal &= (asked[:, number] ^ found[:, number]) & counts == 0
    return equal


def _words_of(
    here: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """The same as `rows_of`, eight bytes in a number: an eighth as many things to compare."""
    rows, _ = rows_of(here, starts, sizes, _WORD_BYTES)
    return rows.view(np.uint64)


def joined(texts: Sequence[bytes]) -> Joined:
    """Texts as `Texts.extend` takes them."""
    return b"".join(texts), np.fromiter(map(len, texts), np.int64, len(texts))


def joined_texts(texts: Sequence[str]) -> Joined:
    """The same of strings."""
    together = "".join(texts)
    if together.isascii():
        return together.encode(), np.fromiter(map(len, texts), np.int64, len(texts))
    return joined([text.encode() for text in texts])


def cut(joined: bytes, lengths: NDArray[np.int64]) -> list[bytes]:
    """The single texts again."""
    ends = np.cumsum(lengths).tolist()
    return [joined[end - size : end] for end, size in zip(ends, lengths.tolist(), strict=True)]


def piece(texts: Joined, start: int, stop: int) -> Joined:
    """The texts from `start` to before `stop`."""
    together, lengths = texts
    before, size = int(lengths[:start].sum()), int(lengths[start:stop].sum())
    return together[before : before + size], lengths[start:stop]
