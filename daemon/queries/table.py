"""The table of the queries of one lane and hour. Pure.

Panes are merged in ascending order, each once. A row that is kept is exact since it has a row; a
row that is dropped goes whole into `other`, and no row takes over the count of another. `bound` is
the most that any query without a row can have in `other`. This is the merge of Agarwal et al. 2012,
"Mergeable Summaries", with its counters read as count + missing - bound.

Promises: the rows and `other` sum to the whole, integer for integer, in every column. With n the
ranking count of a listed query, n <= its true count <= n + missing; of any other query, true count
<= bound. bound <= N / (kept + 1), N the sum of all ranking counts. A cut depends on the table
alone and happens between panes only: so the table follows from the log.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

import numpy as np

from relevanced.metrics.arithmetic import distinct
from relevanced.metrics.lists import Integers

from . import users as query_users
from .users import ENOUGH, NO_USER, NOBODY, Users

MOST_ROWS: Final = 8
CUT_TO: Final = 4
"""A table of more than MOST_ROWS times the kept rows is cut to CUT_TO times as many. One that was
cut to the kept rows after each pane would have four fifths of the most frequent queries exactly."""
FIRST_ROWS: Final = 64
LARGEST_SUM: Final = 2**62
NO_INDICES: Final[Integers] = np.zeros(0, np.int64)
_MOST_HASHES: Final = 2**32


@dataclass(frozen=True)
class PaneSums:
    """The exact sums of one pane by query, (k,) distinct keys in any order."""

    keys: Sequence[str]
    sums: Integers
    """(k, columns)."""
    searched: Integers = field(default_factory=lambda: NO_INDICES)
    """For each of n searches, the index of its key."""
    users: Integers = field(default_factory=lambda: NO_INDICES)
    """(n,) the hash of its user, or NO_USER."""


class Table:
    """The queries of one lane and hour, ranked by one of `columns` columns."""

    def __init__(self, columns: int, kept: int, min_users: int, rank: int = 0) -> None:
        self.kept, self.min_users, self.rank = kept, min_users, rank
        self.keys: list[str] = []
        """Of the rows."""
        self.users: list[Users] = []
        """Of each row, who searched for it."""
        self.other: Integers = np.zeros(columns, np.int64)
        """(columns,) the sums of all that was dropped."""
        self.bound = 0
        """The most that any query without a row has of the ranking count."""
        self.changed: set[int] = set()
        """Rows that changed since the table was stored."""
        self.is_cut = False
        """Whether rows were dropped since the table was stored."""
        self._rows: dict[str, int] = {}
        self._sums = np.zeros((FIRST_ROWS, columns), np.int64)
        self._missing = np.zeros(FIRST_ROWS, np.int64)
        self._has_enough = np.zeros(FIRST_ROWS, np.bool_)
        """Of each row, whether it has enough users."""

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def sums(self) -> Integers:
        """(rows, columns)."""
        return self._sums[: len(self)]

    @property
    def missing(self) -> Integers:
        """(rows,): so much of the ranking count of each row may be in `other` at most."""
        return self._missing[: len(self)]

    @property
    def total(self) -> Integers:
        """(columns,): the sums of everything that was added."""
        total: Integers = self.sums.sum(axis=0) + self.other
        return total

    def row_of(self, key: str) -> int | None:
        """The row of a key, if it is listed."""
        return self._rows.get(key)

    def settle(self, pane: PaneSums) -> None:
        """Add the sums of the next pane. Raises OverflowError where a sum could reach 2^62."""
        rows = [self._row(key) for key in pane.keys]
        self._sums[rows] += pane.sums
        if rows and np.abs(self._sums[rows]).max() >= LARGEST_SUM:
            raise OverflowError("a sum of a table of queries: must stay below 2^62")
        if self.min_users and len(pane.users):
            self._add_users(np.array(rows)[pane.searched], pane.users)
        self.changed.update(rows)
        if len(self) > MOST_ROWS * self.kept:
            self._cut(CUT_TO * self.kept)

    def _add_users(self, rows: Integers, hashes: Integers) -> None:
        """Add who searched, (n,) rows and hashes of users, where there are not enough yet."""
        waits = ~self._has_enough[rows] & (hashes != NO_USER)
        if not waits.any():
            return
        for pair in distinct(rows[waits] * _MOST_HASHES + hashes[waits]).tolist():
            row, found = divmod(pair, _MOST_HASHES)
            self.set_users(row, query_users.joined((self.users[row], {found}), self.min_users))

    def set_users(self, row: int, users: Users) -> None:
        """Replace who searched for the query of a row."""
        self.users[row] = users
        self._has_enough[row] = users is ENOUGH

    def _row(self, key: str) -> int:
        row = self._rows.get(key)
        if row is None:
            row = self.put(key, self.bound)
        return row

    def put(self, key: str, missing: int) -> int:
        """Append a row of zeros, from whose query so much is missing at most; returns it."""
        row = self._rows[key] = len(self)
        if row == len(self._missing):
            self._sums = np.concatenate((self._sums, np.zeros_like(self._sums)))
            self._missing = np.concatenate((self._missing, np.zeros_like(self._missing)))
            enough = (self._has_enough, np.zeros_like(self._has_enough))
            self._has_enough = np.concatenate(enough)
        self.keys.append(key)
        self.users.append(NOBODY)
        self._sums[row] = 0
        self._missing[row] = missing
        self._has_enough[row] = False
        return row

    def close(self) -> None:
        """Settling has reached the end of the hour: keep what is stored, the first rows first."""
        self._cut(self.kept)

    def _cut(self, count: int) -> None:
        ordered = self.ordered()
        dropped = ordered[count:]
        if dropped:
            self.other = self.other + self.sums[dropped].sum(axis=0)
            self.bound = max(self.bound, int(self._at_most()[dropped].max()))
        kept = ordered[:count]
        self._sums[: len(kept)] = self._sums[kept]
        self._missing[: len(kept)] = self._missing[kept]
        self._has_enough[: len(kept)] = self._has_enough[kept]
        self.keys = [self.keys[row] for row in kept]
        self.users = [self.users[row] for row in kept]
        self._rows = {key: row for row, key in enumerate(self.keys)}
        self.changed, self.is_cut = set(), True

    def ordered(self) -> list[int]:
        """The rows: those whose queries may have the greatest counts first."""
        at_most = self._at_most().tolist()
        texts = [key.encode(errors="surrogatepass") for key in self.keys]
        return sorted(range(len(self)), key=lambda n: (-at_most[n], crc32(texts[n]), texts[n]))

    def _at_most(self) -> Integers:
        at_most: Integers = self.sums[:, self.rank] + self.missing
        return at_most

    def written(self) -> None:
        """Note that the table is stored as it is."""
        self.changed, self.is_cut = set(), False


def grouped(keys: Integers, sums: Integers) -> tuple[Integers, Integers]:
    """Return the distinct keys of n lines, ascending, (k,), and the sums of their rows, (k,
    columns)."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    return ordered[first], np.add.reduceat(sums[order], first, axis=0)
