"""What open impressions searched for, and who searched: columns beside those of their state.

A query is its key (`queries.keys`). Keys repeat, so each is interned and an impression has its
number; numbers exist in one process's memory only. Of users there is a hash that changes with the
day.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from relevanced.metrics.lists import Integers

from ..queries.keys import NO_QUERY, hashed, keys_of
from ..queries.plan import HASHED, QueryPlan
from ..queries.users import NO_USER, user_hashes
from .columns.column import Codes, Column, Numbers

MOST_KEYS: Final = 100_000
"""A table beyond this is built anew from the keys of open impressions."""


@dataclass(frozen=True)
class Searches:
    """Numbers of keys, (n,), and hashes of users, (n,), of new impressions."""

    numbers: Integers
    users: Integers

    def part(self, start: int, stop: int) -> "Searches":
        """Those from `start` to before `stop`."""
        return Searches(self.numbers[start:stop], self.users[start:stop])


class QueryKeys:
    """The keys of one lane: key ↔ number; 0 is that of no query."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {NO_QUERY: 0}
        self._keys: list[str] = [NO_QUERY]
        self._capacity = MOST_KEYS

    @property
    def is_full(self) -> bool:
        """True where there are so many that most must be those of closed impressions."""
        return len(self._keys) > self._capacity

    def reserve(self) -> None:
        """Let the table grow to at least twice its size before it is full."""
        self._capacity = max(MOST_KEYS, 2 * len(self._keys))

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, number: int) -> str:
        return self._keys[number]

    def number_of(self, key: str) -> int:
        """The number of a key, a new one if it has none yet."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return number

    def searches_of(
        self,
        plan: QueryPlan,
        queries: Sequence[str | None],
        users: Sequence[str | None],
        times_ms: Integers,
    ) -> Searches:
        """The columns of new impressions with these queries, users and times, (n,) of each."""
        texts = list(dict.fromkeys(query for query in queries if query))
        keys = keys_of(texts)
        if plan.text == HASHED:
            keys = hashed(keys, plan.key)
        numbers = dict(zip(texts, map(self.number_of, keys), strict=True))
        of_query = [numbers[query] if query else 0 for query in queries]
        hashes = np.full(len(queries), NO_USER, np.int64)
        if plan.min_users:
            hashes = user_hashes(users, times_ms, plan.salt)
        return Searches(np.array(of_query, np.int64), hashes)


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
