"""Who searched for the queries of a table: of each row the hashes of its users while they are fewer
than a ceiling, and then only that there are enough. Pure.

All hashes of a table are one sorted array of pairs, row and hash in one integer: a pane's searches
are added by a few calls of numpy, however many rows they are of.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from relevanced.metrics.arithmetic import distinct
from relevanced.metrics.lists import Booleans, Integers

from .users import ENOUGH, NO_USER, Users

_HASH_BITS: Final = 32
_ALL_HASHES: Final = 2**_HASH_BITS
ENOUGH_HASHES: Final = -1
"""In the place of how many hashes a row has, where it has enough users."""


class RowUsers:
    """The users of each row; a ceiling of 0 keeps none."""

    def __init__(self, ceiling: int) -> None:
        self._ceiling = ceiling
        self._pairs: Integers = np.zeros(0, np.int64)
        """Ascending, of rows that have not enough users."""
        self._enough = np.zeros(0, np.bool_)
        """Of each row."""

    def __len__(self) -> int:
        return len(self._enough)

    def __getitem__(self, row: int) -> Users:
        if self._enough[row]:
            return ENOUGH
        start, stop = self._spans(np.array([row]))
        return frozenset((self._pairs[int(start[0]) : int(stop[0])] % _ALL_HASHES).tolist())

    def __iter__(self) -> Iterator[Users]:
        counts, hashes = self.packed(np.arange(len(self)))
        return iter(users_of(counts, hashes))

    def has_enough(self, rows: Integers | Sequence[int]) -> Booleans:
        """Whether each of the rows, (n,), has enough users."""
        return self._enough[np.asarray(rows, np.int64)]

    def append(self, count: int) -> None:
        """Append rows without users."""
        self._enough = np.concatenate((self._enough, np.zeros(count, np.bool_)))

    def add(self, rows: Integers, hashes: Integers) -> None:
        """Add users, (n,) rows and hashes; NO_USER is none."""
        waits = ~self._enough[rows] & (hashes != NO_USER)
        if not self._ceiling or not waits.any():
            return
        new = distinct((rows[waits] << _HASH_BITS) + hashes[waits])
        at = np.searchsorted(self._pairs, new)
        if len(self._pairs):
            is_new = self._pairs[np.minimum(at, len(self._pairs) - 1)] != new
            new, at = new[is_new], at[is_new]
        self._pairs = np.insert(self._pairs, at, new)
        self._settle(distinct(new >> _HASH_BITS))

    def put(self, rows: Integers, counts: Integers, hashes: Integers) -> None:
        """Replace the users of rows, (n,) distinct ones, as `packed` returns them."""
        self._pairs = self._pairs[~np.isin(self._pairs >> _HASH_BITS, rows)]
        self._enough[rows] = counts == ENOUGH_HASHES
        of_rows = np.repeat(rows, np.maximum(counts, 0))
        self._pairs = np.sort(np.concatenate((self._pairs, (of_rows << _HASH_BITS) + hashes)))

    def keep(self, rows: Integers) -> None:
        """Keep these rows only, (n,), in their order."""
        renumbered = np.full(len(self), -1, np.int64)
        renumbered[rows] = np.arange(len(rows))
        moved = renumbered[self._pairs >> _HASH_BITS]
        pairs = (moved << _HASH_BITS) + self._pairs % _ALL_HASHES
        self._pairs, self._enough = np.sort(pairs[moved >= 0]), self._enough[rows]

    def packed(self, rows: Integers) -> tuple[Integers, Integers]:
        """Return how many hashes each of the rows has, (n,), ENOUGH_HASHES where there are enough
        users; and all these hashes, those of a row ascending."""
        start, stop = self._spans(rows)
        sizes = stop - start
        first = np.cumsum(sizes) - sizes
        index = np.arange(int(sizes.sum())) + np.repeat(start - first, sizes)
        counts = np.where(self._enough[rows], ENOUGH_HASHES, sizes)
        return counts, self._pairs[index] % _ALL_HASHES

    def _spans(self, rows: Integers) -> tuple[Integers, Integers]:
        """Where the pairs of each row begin and end, (n,) of each."""
        start, stop = (np.searchsorted(self._pairs, of << _HASH_BITS) for of in (rows, rows + 1))
        return start, stop

    def _settle(self, rows: Integers) -> None:
        """Forget the hashes of those of the rows, (n,), that have enough by now."""
        start, stop = self._spans(rows)
        full = stop - start >= self._ceiling
        if full.any():
            self._enough[rows[full]] = True
            self._pairs = self._pairs[~self._enough[self._pairs >> _HASH_BITS]]


def users_of(counts: Integers, hashes: Integers) -> list[Users]:
    """Return the users of rows, as `RowUsers.packed` returns them, one by one."""
    ends = np.cumsum(np.maximum(counts, 0)).tolist()
    found, each, start = list[Users](), hashes.tolist(), 0
    for count, end in zip(counts.tolist(), ends, strict=True):
        found.append(ENOUGH if count == ENOUGH_HASHES else frozenset(each[start:end]))
        start = end
    return found
