"""The table of the queries of one lane and hour. Pure.

Panes are merged in ascending order, each once. A row that is kept is exact since it has a row; a
row that is dropped goes whole into `other`, and no row takes over the count of another. `bound` is
the most that any query without a row can have in `other`. This is the merge of Agarwal et al. 2012,
"Mergeable Summaries", with its counters read as count + missing - bound.

The rows of searches without a query come first, and are never dropped.

Promises: the rows and `other` sum to the whole, integer for integer, in every column. With n the
ranking count of a listed query, n <= its true count <= n + missing; of any other query, true count
<= bound. bound <= N / (kept + 1), N the sum of all ranking counts. Of searches without a query the
count is exact, and 0 where no row says otherwise. A cut depends on the table
alone and happens between panes only: so the table follows from the log.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Final
from zlib import crc32

import numpy as np

from relevanced.metrics import Booleans, Integers

from .users import RowUsers

NO_QUERY: Final = ""
"""The key of a search without a query."""
SEGMENT_MARK: Final = "\x1f"
"""Between a key and a segment, or an item. It is white space, so no key contains it."""


def is_no_query(key: str) -> bool:
    """Whether this is the key of searches without a query, in a segment or at all."""
    return key[:1] in (NO_QUERY, SEGMENT_MARK)


MOST_ROWS: Final = 8
CUT_TO: Final = 4
"""A table of more than MOST_ROWS times the kept rows is cut to CUT_TO times as many. One that was
cut to the kept rows after each pane would have four fifths of the most frequent queries exactly."""
INITIAL_ROWS: Final = 64
LARGEST_SUM: Final = 2**62
_NO_ROW: Final = -1
NO_INDICES: Final[Integers] = np.zeros(0, np.int64)


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


class QueryTable:
    """The queries of one lane and hour, ranked by one of `columns` columns."""

    def __init__(self, columns: int, kept: int, min_users: int, rank: int = 0) -> None:
        self.kept, self.min_users, self.rank = kept, min_users, rank
        self.keys: list[str] = []
        """Of the rows."""
        self.users = RowUsers(min_users)
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
        self._sums = np.zeros((INITIAL_ROWS, columns), np.int64)
        self._missing = np.zeros(INITIAL_ROWS, np.int64)
        self._marks = np.zeros(INITIAL_ROWS, np.int64)
        """Of each row CRC-32 of its key in UTF-8: worked out while the key is in the cache."""
        self._is_none = np.zeros(INITIAL_ROWS, np.bool_)
        """Of each row whether it is of searches without a query."""

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
        rows = self.rows_of(pane.keys)
        sums = self._sums.take(rows, axis=0) + pane.sums
        if len(rows) and max(sums.max(), -sums.min()) >= LARGEST_SUM:
            raise OverflowError("a sum of a table of queries: must stay below 2^62")
        self._sums[rows] = sums
        if self.min_users and len(pane.users):
            self.users.add(rows[pane.searched], pane.users)
        self.changed.update(rows.tolist())
        if len(self) - self._none > MOST_ROWS * self.kept:
            self._cut(CUT_TO * self.kept)

    def rows_of(self, keys: Sequence[str], missing: Integers | None = None) -> Integers:
        """The rows of distinct keys, (n,); rows of zeros are appended for those that have none. So
        much of the query of each may be missing, (n,): where it is not given, all that the bound
        allows, and nothing of searches without a query."""
        rows = np.fromiter(map(self._rows.get, keys, repeat(_NO_ROW)), np.int64, len(keys))
        new = np.flatnonzero(rows == _NO_ROW)
        if len(new):
            rows[new] = np.arange(len(self), len(self) + len(new))
            appended = [keys[n] for n in new.tolist()]
            self._append(appended, None if missing is None else missing[new])
        return rows

    def _append(self, keys: Sequence[str], missing: Integers | None) -> None:
        first, end = len(self), len(self) + len(keys)
        more = max(end, 2 * len(self._missing)) - len(self._missing)
        if end > len(self._missing):
            self._sums = np.pad(self._sums, ((0, more), (0, 0)))
            self._missing = np.pad(self._missing, (0, more))
            self._marks = np.pad(self._marks, (0, more))
            self._is_none = np.pad(self._is_none, (0, more))
        self._sums[first:end] = 0
        is_none = np.fromiter(map(is_no_query, keys), np.bool_, len(keys))
        self._is_none[first:end] = is_none
        self._missing[first:end] = np.where(is_none, 0, self.bound) if missing is None else missing
        self._marks[first:end] = np.fromiter(map(crc32, _encoded(keys)), np.int64, len(keys))
        self.users.append(len(keys))
        self.keys += keys
        self._rows.update(zip(keys, range(first, end), strict=True))

    def close(self) -> None:
        """Settling has reached the end of the hour: keep what is stored, the first rows first."""
        self._cut(self.kept)
        self._arrange(self.ordered())

    def _arrange(self, rows: Sequence[int]) -> None:
        """Keep these rows only, in this order."""
        at = np.array(rows, np.int64)
        self._sums[: len(at)] = self._sums.take(at, axis=0)
        self._missing[: len(at)] = self._missing[at]
        self._marks[: len(at)] = self._marks[at]
        self._is_none[: len(at)] = self._is_none[at]
        self.users.keep(at)
        self.keys = [self.keys[row] for row in rows]
        self._rows = dict(zip(self.keys, range(len(at)), strict=True))

    def _cut(self, count: int) -> None:
        kept, dropped = self.first(count + self._none), np.ones(len(self), np.bool_)
        dropped[kept] = False
        if dropped.any():
            self.other = self.other + self.sums[dropped].sum(axis=0)
            self.bound = max(self.bound, int(self._at_most()[dropped].max()))
        self._arrange(kept)
        self.changed, self.is_cut = set(), True

    def ordered(self) -> list[int]:
        """The rows: those without a query, then those whose queries may have the greatest counts
        first."""
        return self._sorted(range(len(self)))

    def first(self, count: int) -> list[int]:
        """The first so many of the ordered rows, in any order."""
        above, equal = self._around(count)
        return [*above.tolist(), *self._first_by_text(equal, count - len(above))]

    def first_wanted(self, count: int, wanted: Booleans) -> list[int]:
        """Those of the first so many rows that are wanted, (rows,) of all, in any order."""
        if not wanted.any():
            return []
        above, equal = self._around(count)
        rows: list[int] = above[wanted[above]].tolist()
        if wanted[equal].any():  # mostly none is, and then their order does not matter
            others = self._first_by_text(equal, count - len(above))
            rows += [row for row in others if wanted[row]]
        return rows

    def _around(self, count: int) -> tuple[Integers, Integers]:
        """The rows that are surely among the first so many, and those of which only some are: they
        are equal but for their texts."""
        if count >= len(self):
            return np.arange(len(self)), NO_INDICES
        at_most = self._at_most()
        least = np.partition(at_most, -count)[-count]
        return np.flatnonzero(at_most > least), np.flatnonzero(at_most == least)

    def _first_by_text(self, rows: Integers, count: int) -> list[int]:
        """The first so many of rows that are equal but for their texts, in any order."""
        marks = self._marks[rows]
        order = np.argsort(marks, kind="stable")
        if count < len(rows) and marks[order[count - 1]] == marks[order[count]]:
            return self._sorted(rows.tolist())[:count]
        first: list[int] = rows[order[:count]].tolist()
        return first

    def _sorted(self, rows: Sequence[int]) -> list[int]:
        at_most, marks = self._at_most().tolist(), self._marks.tolist()
        texts = dict(zip(rows, _encoded([self.keys[n] for n in rows]), strict=True))
        return sorted(texts, key=lambda n: (-at_most[n], marks[n], texts[n]))

    @property
    def _none(self) -> int:
        """How many rows are of searches without a query."""
        return int(np.count_nonzero(self._is_none[: len(self)]))

    def _at_most(self) -> Integers:
        """(rows,) the most of the ranking count; LARGEST_SUM of rows that come first."""
        at_most = self.sums[:, self.rank] + self.missing
        at_most[self._is_none[: len(self)]] = LARGEST_SUM
        return at_most

    def written(self) -> None:
        """Note that the table is stored as it is."""
        self.changed, self.is_cut = set(), False


def _encoded(keys: Sequence[str]) -> list[bytes]:
    try:
        return [key.encode() for key in keys]
    except UnicodeEncodeError:
        return [key.encode(errors="surrogatepass") for key in keys]


def grouped_sums(keys: Integers, sums: Integers) -> tuple[Integers, Integers, Integers]:
    """Return the distinct keys of n lines, ascending, (k,), the sums of their rows, (k, columns),
    and for each line the index of its key, (n,)."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    is_first = np.ones(len(keys), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    first, which = np.flatnonzero(is_first), np.empty(len(keys), np.int64)
    which[order] = np.cumsum(is_first) - 1
    return ordered[first], np.add.reduceat(sums.take(order, axis=0), first, axis=0), which
