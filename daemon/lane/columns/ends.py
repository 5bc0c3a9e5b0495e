"""Where texts end that are stored one after the other.

Ids mostly have one length: then that length is all that is stored. Otherwise an end takes four
bytes, or eight once there are more bytes than four bytes can count.
"""

from typing import Final

import numpy as np

from relevanced.metrics.lists import Integers

from .column import Column

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
