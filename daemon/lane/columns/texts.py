"""A column of short texts in one piece of memory. Pure.

A short Python string takes about five times the bytes of its text. A million of them are one column
of bytes here, with where each ends (`ends`). Texts are compared for a whole batch at once: as rows
of eight bytes, an eighth as many elements as single bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import Booleans, Integers

from .arrays import Column, Ends

Joined: TypeAlias = tuple[bytes, Integers]
"""The bytes of texts, one after the other, and the length of each in bytes, (n,)."""
TextRows: TypeAlias = tuple[NDArray[np.uint8], Integers]
"""Texts as rows of bytes, (n, width), and the length of each, (n,). What follows a text in its row
is arbitrary."""

_WORD_BYTES: Final = 8
_GATHERED: Final = 8192
"""So many texts are gathered at once: each of their bytes takes 16 more meanwhile."""
_FIRST_BYTES: Final = np.frombuffer(
    b"".join(bytes([0xFF] * count + [0] * (_WORD_BYTES - count)) for count in range(9)), np.uint64
)
"""(9,) masks: the first n bytes of a word are set in entry n."""


@dataclass(frozen=True)
class Spans:
    """Texts, n of them, anywhere in some bytes: to select or to order them moves none of the
    bytes."""

    data: bytes
    starts: Integers
    """Where each of them begins, (n,)."""
    sizes: Integers
    """The bytes of each, (n,)."""

    @staticmethod
    def of(texts: Joined) -> "Spans":
        """Texts that stand one after the other."""
        data, sizes = texts
        return Spans(data, np.cumsum(sizes) - sizes, sizes)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> bytes:
        start = int(self.starts[index])
        return self.data[start : start + int(self.sizes[index])]

    def text(self, index: int) -> str:
        """Return one of the texts as a string."""
        return self[index].decode()

    def part(self, start: int, stop: int) -> "Spans":
        """Return the texts from `start` to before `stop`."""
        return Spans(self.data, self.starts[start:stop], self.sizes[start:stop])

    def at(self, indices: Integers | Booleans) -> "Spans":
        """Return the texts at these indices, (k,), or where (n,) a mask is set."""
        return Spans(self.data, self.starts[indices], self.sizes[indices])

    def joined(self) -> Joined:
        """Return the texts as `Texts.extend` takes them."""
        if not len(self):
            return b"", self.sizes
        ends = self.starts + self.sizes
        if (self.starts[1:] == ends[:-1]).all():
            return self.data[self.starts[0] : ends[-1]], self.sizes
        pairs = zip(self.starts.tolist(), ends.tolist(), strict=True)
        return b"".join([self.data[start:end] for start, end in pairs]), self.sizes


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

    def at(self, indices: Integers) -> list[bytes]:
        """Return the texts at these indices, (n,)."""
        return cut(*self.gathered(indices))

    def gathered(self, indices: Integers) -> Joined:
        """Return the texts at these indices, (n,), as `extend` takes them."""
        parts = [indices[n : n + _GATHERED] for n in range(0, len(indices), _GATHERED)]
        return chained([self._gathered(part) for part in parts])

    def _gathered(self, indices: Integers) -> Joined:
        starts, ends = self.spans(indices)
        sizes = ends - starts
        shifts = np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
        return self._bytes.view().take(np.arange(len(shifts)) + shifts).tobytes(), sizes

    def equal(self, indices: Integers, texts: "Spans") -> NDArray[np.bool_]:
        """Whether the text at each index equals the one of `texts`, (n,)."""
        starts, ends = self.spans(indices)
        return equal_at(self._bytes.view(), starts, ends - starts == texts.sizes, texts)

    def widest(self, indices: Integers) -> int:
        """Return the bytes of the longest text at these indices, (n,)."""
        starts, ends = self.spans(indices)
        return int((ends - starts).max(initial=0))

    def rows(self, indices: Integers) -> TextRows:
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


def rows_of(data: NDArray[np.uint8], starts: Integers, sizes: Integers, unit: int = 1) -> TextRows:
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
    data: NDArray[np.uint8], starts: Integers, fits: NDArray[np.bool_], expected: Spans
) -> NDArray[np.bool_]:
    """Whether the bytes from each start are the expected text, (n,); False where `fits` is."""
    sizes = expected.sizes
    expected_words = _words_of(np.frombuffer(expected.data, np.uint8), expected.starts, sizes)
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


def chained(parts: Sequence[Joined]) -> Joined:
    """Return the texts of all parts."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return b"", np.zeros(0, np.int64)
    data, sizes = zip(*parts, strict=True)
    return b"".join(data), np.concatenate(sizes)


def joined_texts(texts: Sequence[str]) -> Joined:
    """Return strings as `Texts.extend` takes them, in UTF-8; half a surrogate pair is encoded by
    itself."""
    together = "".join(texts)
    if together.isascii():
        return together.encode(), np.fromiter(map(len, texts), np.int64, len(texts))
    try:
        return joined([text.encode() for text in texts])
    except UnicodeEncodeError:
        return joined([text.encode(errors="surrogatepass") for text in texts])


def merged(count: int, parts: Sequence[tuple[Integers, Spans]]) -> Spans:
    """Return `count` texts: those of each part at its indices, (k,), instead of those of earlier
    parts; the others are empty."""
    starts, sizes, before = np.zeros(count, np.int64), np.zeros(count, np.int64), 0
    for indices, texts in parts:
        starts[indices], sizes[indices] = texts.starts + before, texts.sizes
        before += len(texts.data)
    return Spans(b"".join([texts.data for _, texts in parts]), starts, sizes)


def cut(joined: bytes, lengths: Integers) -> list[bytes]:
    """Return the single texts of joined ones."""
    ends = np.cumsum(lengths).tolist()
    return [joined[end - size : end] for end, size in zip(ends, lengths.tolist(), strict=True)]


def piece(texts: Joined, start: int, stop: int) -> Joined:
    """Return the texts from `start` to before `stop`."""
    together, lengths = texts
    before, size = int(lengths[:start].sum()), int(lengths[start:stop].sum())
    return together[before : before + size], lengths[start:stop]
