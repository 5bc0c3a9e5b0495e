"""Tables of queries of several lanes and hours, merged, and how exact a merged count is. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from relevanced.metrics import Booleans, Integers

from .keys import without_segment
from .table import NO_QUERY
from .users import Searchers, Users, has_enough_users


@dataclass(frozen=True, eq=False)
class Page:
    """The stored table of one lane and hour: n rows of c columns."""

    day: int
    """The UTC day of the hour: hashes of users are those of a day."""
    keys: Sequence[str]
    sums: Integers
    """(n, c)."""
    missing: Integers
    """(n,)."""
    users: Sequence[Users]
    min_users: int
    """Under which the users were counted; 0: they were not."""
    other: Integers
    """(c,)."""
    bound: int


@dataclass(frozen=True, eq=False)
class MergedTables:
    """Queries of several tables, q of them: rows of one query are summed."""

    keys: Sequence[str]
    sums: Integers
    """(q, c)."""
    missing: Integers
    """(q,): so many of the ranking count may be missing at most: the sum of what may be missing in
    the tables that list the query, and of the bounds of those that do not."""
    is_shown: Booleans
    """(q,): whether enough users searched for the query for its text to be shown."""
    other: Integers
    """(c,): what the tables do not list."""
    bound: int
    """The most that any query that no table lists can have of the ranking count."""

    @property
    def rare(self) -> Integers:
        """(c,): the sums of the queries whose text is not shown."""
        rare: Integers = self.sums[~self.is_shown].sum(axis=0)
        return rare

    @property
    def total(self) -> Integers:
        """(c,): everything."""
        total: Integers = self.sums.sum(axis=0) + self.other
        return total

    def index(self) -> Mapping[str, int]:
        """Key → its index."""
        return {key: index for index, key in enumerate(self.keys)}


def merge_tables(pages: Sequence[Page], columns: int, min_users: int) -> MergedTables:
    """Merge tables of so many columns. A text is shown where at least `min_users` users of one day
    searched for it; sets of users are joined over the lanes and hours of a day."""
    index: dict[str, int] = {}
    ids = [[index.setdefault(key, len(index)) for key in page.keys] for page in pages]
    sums, missing = np.zeros((len(index), columns), np.int64), np.zeros(len(index), np.int64)
    other, bound = np.zeros(columns, np.int64), 0
    for page, at in zip(pages, ids, strict=True):
        sums[at] += page.sums
        missing[at] += page.missing - page.bound
        other += page.other
        bound += page.bound
    counted = (Searchers(p.day, p.min_users, at, p.users) for p, at in zip(pages, ids, strict=True))
    is_shown = has_enough_users(counted, len(index), min_users)
    missing += bound
    if (none := index.get(NO_QUERY)) is not None:
        is_shown[none], missing[none] = True, 0  # no table drops it
    return MergedTables(list(index), sums, missing, is_shown, other, bound)


def page_of_segment(page: Page, segment: str) -> Page:
    """The rows of a table by (query, segment) that are of one segment, under their queries. The
    rest of the table is of all segments, so nothing is known of that of this one."""
    pairs = [without_segment(key) for key in page.keys]
    rows = [row for row, (_, of) in enumerate(pairs) if of == segment]
    return Page(
        day=page.day,
        keys=[pairs[row][0] for row in rows],
        sums=page.sums[rows],
        missing=page.missing[rows],
        users=[page.users[row] for row in rows],
        min_users=page.min_users,
        other=np.zeros_like(page.other),
        bound=page.bound,
    )
