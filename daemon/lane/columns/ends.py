"""Where texts end that stand one behind the other.

Ids mostly have one length: then that is all there is to hold. Else it is four bytes for each, or
eight where there are more bytes than four can count.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from .column import Column

Integers = NDArray[np.int64]

ROUND: Final = 1 << 32
"""Where numbers of four bytes begin anew."""
NARROW_BYTES: Final = ROUND
"""So many bytes and more take wide numbers."""


class Ends:
    """Ends by number from 0, counted from where the first text begins."""

    def __init__(self) -> None:
        self._count = 0
        self._size = 0
        """The bytes of each text while all have as many."""
        self._told: Column | None = None
        """Where the first begins, and where each ends, counted from the first that was ever held,
        without what four bytes do not hold: right as a difference while there are fewer bytes than
        NARROW_BYTES. None while all texts have as many bytes."""
        self._is_narrow = True

    def __len__(self) -> int:
        return self._count

    def before(self, number: int) -> int:
        """How many bytes the texts before this one have."""
        if self._told is None:
            return number * self._size
        length = self._told[number] - self._told[0]
        return length % ROUND if self._is_narrow else length

    def spans(self, numbers: Integers) -> tuple[Integers, Integers]:
        """Where texts begin and end, (n,) of each."""
        if self._told is None:
            starts = numbers * self._size
            return starts, starts + self._size
        told = self._told.view()
        starts, ends = told[numbers] - told[0], told[numbers + 1] - told[0]
        return starts.astype(np.int64), ends.astype(np.int64)

    def append(self, length: int) -> None:
        """One more text of so many bytes."""
        self.extend(np.array([length]))

    def extend(self, lengths: Integers) -> None:
        """More texts: the bytes of each, (n,)."""
        if not len(lengths):
            return
        if not self._count and self._told is None:
            self._size = int(lengths[0])
        if self._told is not None or not (lengths == self._size).all():
            self._tell(lengths)
        self._count += len(lengths)

    def drop_front(self, count: int) -> None:
        """Forget the first ones."""
        self._count -= count
        if not self._count:
            self._told, self._is_narrow = None, True
        elif self._told is not None:
            self._told.drop_front(count)

    def _tell(self, lengths: Integers) -> None:
        """Hold the ends of these too."""
        ends, known = np.cumsum(lengths), self.before(self._count)
        is_narrow = self._is_narrow and known + int(ends[-1]) < NARROW_BYTES
        if self._told is None or is_narrow != self._is_narrow:
            known_ends = self.spans(np.arange(self._count))[1]
            self._told, self._is_narrow = Column("I" if is_narrow else "q"), is_narrow
            self._told.append(0)
            self._told.extend(known_ends)
        ends += self._told[-1]
        self._told.extend(ends & (ROUND - 1) if is_narrow else ends)
