"""A column of short texts in one piece of memory.

A short Python string takes about five times the bytes of its text. A million of them are one column
of bytes here, with where each ends (`ends`). Texts are compared for a whole batch at once: as rows
of eight bytes, an eighth as many elements as single bytes.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics.lists import Integers

from .column import Column
from .ends import Ends

Joined: TypeAlias = tuple[bytes, Integers]
"""The bytes of texts, one after the other, and the length of each in bytes, (n,)."""
Rows: TypeAlias = tuple[NDArray[np.uint8], Integers]
"""Texts as rows of bytes, (n, width), and the length of each, (n,). What follows a text in its row
is arbitrary."""

_WORD_BYTES: Final = 8
_FIRST_BYTES: Final = np.frombuffer(
    b"".join(bytes([0xFF] * count + [0] * (_WORD_BYTES - count)) for count in range(9)), np.uint64
)
"""(9,) masks: the first n bytes of a word are set in entry n."""


class Texts:
    """Texts by index from 0, appended at the end and dropped at the front."""

    def __init__(self) -> None:
        self._bytes = Column("B")
        self._ends = Ends()

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> bytes:
        if index >= len(self):
            raise IndexError(index)
        return self._bytes.bytes_at(self._ends.before(index), self._ends.before(index + 1))

    def spans(self, indices: Integers) -> tuple[Integers, Integers]:
        """Return where in all bytes the texts begin and end, (n,) of each."""
        return self._ends.spans(indices)

    def equal(self, indices: Integers, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Whether the text at each index equals the one of `texts`, (n,)."""
        starts, ends = self.spans(indices)
        expected = joined_texts(texts)
        return equal_at(self._bytes.view(), starts, ends - starts == expected[1], expected)

    def widest(self, indices: Integers) -> int:
        """Return the bytes of the longest text at these indices, (n,)."""
        starts, ends = self.spans(indices)
        return int((ends - starts).max(initial=0))

    def rows(self, indices: Integers) -> Rows:
        """Return the texts at these indices, (n,), as rows."""
        starts, ends = self.spans(indices)
        return rows_of(self._bytes.view(), starts, ends - starts)

    def append(self, text: bytes) -> None:
        """Append one text."""
        self._bytes.extend_bytes(text)
        self._ends.append(len(text))

    def extend(self, joined: bytes, lengths: Integers) -> None:
        """Append texts: their bytes, one after the other, and the bytes of each, (n,)."""
        self._bytes.extend_bytes(joined)
        self._ends.extend(lengths)

    def skip(self, count: int) -> None:
        """Append empty texts."""
        self._ends.extend(np.zeros(count, np.int64))

    def joined(self, first: int, end: int) -> Joined:
        """Return the texts from index `first` to before `end`, as `extend` takes them."""
        starts, ends = self.spans(np.arange(first, end))
        return self._bytes.bytes_at(self._ends.before(first), self._ends.before(end)), ends - starts

    def drop_front(self, count: int) -> None:
        """Drop the first texts; the indices of the others fall by `count`."""
        self._bytes.drop_front(self._ends.before(count))
        self._ends.drop_front(count)


def rows_of(data: NDArray[np.uint8], starts: Integers, sizes: Integers, unit: int = 1) -> Rows:
    """Return the bytes from each start, (n,), as rows: as wide as the largest size, rounded up to
    whole `unit`s."""
    width = -(-max(int(sizes.max(initial=1)), 1) // unit) * unit
    if len(data) < width:
        data = np.pad(data, (0, width - len(data)))
    last_start = len(data) - width
    # One overlapping void element per start: numpy gathers whole rows, instead of bytes by a 2-D
    # index.
    elements = np.ndarray((last_start + 1,), np.dtype((np.void, width)), data, strides=(1,))
    rows = elements[np.minimum(starts, last_start)].view(np.uint8).reshape(-1, width)
    for row in np.flatnonzero(starts > last_start).tolist():
        rest = data[starts[row] :]
        rows[row, : len(rest)] = rest
    return rows, sizes


def equal_at(
    data: NDArray[np.uint8], starts: Integers, fits: NDArray[np.bool_], expected: Joined
) -> NDArray[np.bool_]:
    """Whether the bytes from each start are the expected text, (n,); False where `fits` is."""
    together, sizes = expected
    begins = np.cumsum(sizes) - sizes
    expected_words = _words_of(np.frombuffer(together, np.uint8), begins, sizes)
    words = _words_of(data, starts, sizes)
    equal = fits.copy()
    for word in range(expected_words.shape[1]):
        mask = _FIRST_BYTES[np.clip(sizes - word * _WORD_BYTES, 0, _WORD_BYTES)]
        equal &= (expected_words[:, word] ^ words[:, word]) & mask == 0
    return equal


def _words_of(data: NDArray[np.uint8], starts: Integers, sizes: Integers) -> NDArray[np.uint64]:
    """Return the rows of `rows_of` as words of eight bytes, (n, words)."""
    rows, _ = rows_of(data, starts, sizes, _WORD_BYTES)
    return rows.view(np.uint64)


def joined(texts: Sequence[bytes]) -> Joined:
    """Return texts as `Texts.extend` takes them."""
    return b"".join(texts), np.fromiter(map(len, texts), np.int64, len(texts))


def joined_texts(texts: Sequence[str]) -> Joined:
    """Return strings as `Texts.extend` takes them, in UTF-8."""
    together = "".join(texts)
    if together.isascii():
        return together.encode(), np.fromiter(map(len, texts), np.int64, len(texts))
    return joined([text.encode() for text in texts])


def cut(joined: bytes, lengths: Integers) -> list[bytes]:
    """Return the single texts of joined ones."""
    ends = np.cumsum(lengths).tolist()
    return [joined[end - size : end] for end, size in zip(ends, lengths.tolist(), strict=True)]


def piece(texts: Joined, start: int, stop: int) -> Joined:
    """Return the texts from `start` to before `stop`."""
    together, lengths = texts
    before, size = int(lengths[:start].sum()), int(lengths[start:stop].sum())
    return together[before : before + size], lengths[start:stop]
