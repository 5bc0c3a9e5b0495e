"""What open impressions searched for, and who searched: columns beside those of their state.

A query is its key (`queries.keys`). Keys repeat, so each is interned and an impression has its
number; numbers exist in one process's memory only. Of users there is a hash that changes with the
day.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np

from relevanced.metrics.arithmetic import distinct
from relevanced.metrics.lists import Integers

from ..queries.keys import NO_QUERY, hashed, key_steps, keys_of
from ..queries.plan import HASHED, QueryPlan
from ..queries.users import NO_USER, user_hashes
from .columns.column import Codes, Column, Numbers
from .query_keys import QueryKeys


@dataclass(frozen=True)
class Searches:
    """Numbers of keys, (n,), and hashes of users, (n,), of new impressions."""

    numbers: Integers
    users: Integers

    def distinct_numbers(self) -> tuple[Integers, Integers]:
        """The distinct numbers, ascending, and for each search the index of its own, (n,)."""
        table = distinct(self.numbers)
        which = np.zeros(int(table[-1]) + 1 if len(table) else 0, np.int32)
        which[table] = np.arange(len(table))
        return table, which[self.numbers].astype(np.int64)

    def part(self, start: int, stop: int) -> "Searches":
        """Those from `start` to before `stop`."""
        return Searches(self.numbers[start:stop], self.users[start:stop])


def searches_of(
    keys: QueryKeys,
    plan: QueryPlan,
    queries: Sequence[str | None],
    users: Sequence[str | None],
    times_ms: Integers,
) -> Searches:
    """The columns of new impressions with these queries, users and times, (n,) of each."""
    steps = search_steps(keys, plan, queries, users, times_ms)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: Searches = done.value
            return found


def search_steps(
    keys: QueryKeys,
    plan: QueryPlan,
    queries: Sequence[str | None],
    users: Sequence[str | None],
    times_ms: Integers,
) -> Generator[None, None, Searches]:
    """The same, in steps of a bounded time."""
    texts = [query or NO_QUERY for query in queries]
    if plan.text != HASHED and all(map(str.isascii, texts)):
        of_query = keys.numbers_of(keys_of(texts))
    else:  # normalising and hashing take long: each text once
        distinct_texts = list(dict.fromkeys(texts))
        found = yield from key_steps(distinct_texts)
        if plan.text == HASHED:
            found = hashed(found, plan.key)
        numbers = dict(zip(distinct_texts, keys.numbers_of(found).tolist(), strict=True))
        of_query = np.fromiter(map(numbers.__getitem__, texts), np.int64, len(texts))
    if not plan.min_users:
        return Searches(of_query, np.full(len(queries), NO_USER, np.int64))
    return Searches(of_query, user_hashes(users, times_ms, plan.salt))


class SearchColumns:
    """The searches of open impressions, by the same index as their other columns."""

    def __init__(self) -> None:
        self._numbers = Codes()
        self._users = Column("I")

    def extend(self, new: Searches | None, count: int) -> None:
        """Append the searches of `count` impressions; None: nothing is known of them."""
        if new is None:
            self._numbers.skip(count)
            self._users.skip(count)
        else:
            self._numbers.extend(new.numbers)
            self._users.extend(new.users)

    def drop_front(self, count: int) -> None:
        """Drop the first ones."""
        self._numbers.drop_front(count)
        self._users.drop_front(count)

    def numbers(self) -> Numbers:
        """A view of the numbers, (n,): it must be gone before any are appended."""
        return self._numbers.view()

    def at(self, indices: Integers) -> Searches:
        """Those of the impressions at these indices."""
        numbers, users = self._numbers.view()[indices], self._users.view()[indices]
        return Searches(numbers.astype(np.int64), users.astype(np.int64))
