"""How many users searched for each query, as hashes that change with the day, and whether they are
enough for its text to be shown. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from relevanced.metrics import Booleans, Integers, distinct

NO_USER: Final = 0
"""The hash of nobody: it counts no one."""
_IN_PLACE_OF_NO_USER: Final = 1
"""Of a user whose hash it would be."""
_HASH_BYTES: Final = 4
_BETWEEN: Final = "\0"
"""Between users that are encoded together."""
DAY_MS: Final = 86_400_000
ENOUGH: Final = None
"""In the place of a set of users that has reached the ceiling."""
Users: TypeAlias = frozenset[int] | None
"""Hashes of users, fewer than the ceiling; or ENOUGH."""
NOBODY: Final[frozenset[int]] = frozenset()
_HASH_BITS: Final = 32
_ALL_HASHES: Final = 2**_HASH_BITS
ENOUGH_HASHES: Final = -1
"""In the place of how many hashes a row has, where it has enough users."""


def query_user_hashes(users: Sequence[str | None], times_ms: Integers, salt: bytes) -> Integers:
    """Return a 32-bit hash of each user, (n,), salted with `salt` and the UTC day of each time, so
    that nobody can be followed from day to day; NO_USER for none."""
    days = times_ms // DAY_MS
    in_order = distinct(days).tolist()
    if len(in_order) == 1:
        return _hashes_of(users, in_order[0], salt)
    hashes = np.full(len(users), NO_USER, np.int64)
    for day in in_order:
        indices = np.flatnonzero(days == day)
        hashes[indices] = _hashes_of([users[n] for n in indices.tolist()], day, salt)
    return hashes


def _hashes_of(users: Sequence[str | None], day: int, salt: bytes) -> Integers:
    # The parameters of BLAKE2b beside its key: a key is one more block to hash, which takes as long
    # as everything else.
    seed = blake2b(salt + day.to_bytes(8, "big", signed=True), digest_size=32).digest()
    empty = blake2b(digest_size=_HASH_BYTES, salt=seed[:16], person=seed[16:])
    start, digests = empty.copy, list[bytes]()
    for user in _encoded_users(users):
        digest = start()
        digest.update(user)
        digests.append(digest.digest())
    hashes = np.frombuffer(b"".join(digests), ">u4").astype(np.int64)
    hashes[hashes == NO_USER] = _IN_PLACE_OF_NO_USER
    if None in users:
        hashes[[n for n, user in enumerate(users) if user is None]] = NO_USER
    return hashes


def _encoded_users(users: Sequence[str | None]) -> list[bytes]:
    try:
        together = _BETWEEN.join(users)  # type: ignore[arg-type]
        if together.count(_BETWEEN) == len(users) - 1:
            # To encode them one by one takes three times as long.
            return together.encode().split(_BETWEEN.encode())
    except (TypeError, UnicodeEncodeError):  # None, or half a surrogate pair
        pass
    return [(user or "").encode(errors="surrogatepass") for user in users]


def joined_users(sets: Iterable[Set[int] | None], ceiling: int) -> Users:
    """Return the union of sets of one day, ENOUGH where it reaches the ceiling."""
    union: set[int] = set()
    for users in sets:
        if users is ENOUGH:
            return ENOUGH
        union |= users
        if len(union) >= ceiling:
            return ENOUGH
    return frozenset(union) if len(union) < ceiling else ENOUGH


class RowUsers:
    """Who searched for the query of each row, as far as it must be known: the set of the hashes of
    its users while they are fewer than a ceiling, and then only that there were as many. A ceiling
    of 0 keeps none. The union of such sets is commutative and associative, so it follows from the
    log.

    All hashes of a table are one sorted array of pairs, row and hash in one integer: a pane's
    searches are added by a few calls of numpy, however many rows they are of.
    """

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
        self._forget_full(distinct(new >> _HASH_BITS))

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

    def _forget_full(self, rows: Integers) -> None:
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


class Searchers(NamedTuple):
    """Who searched for the queries of one table of one day."""

    day: int
    min_users: int
    """Under which they were counted; 0: they were not."""
    queries: Sequence[int]
    """(n,): the index of each query among those of all tables."""
    users: Sequence[Users]
    """(n,)."""


def has_enough_users(tables: Iterable[Searchers], count: int, min_users: int) -> Booleans:
    """(count,): whether `min_users` different users of one day searched for each of so many
    queries; sets of users are joined over the tables of a day. 0 users are always enough."""
    enough = np.full(count, not min_users, np.bool_)
    if not min_users:
        return enough
    sets: dict[tuple[int, int], set[int]] = {}
    for table in tables:
        for query, users in zip(table.queries, table.users, strict=True):
            if users is ENOUGH:
                # Under a lower ceiling it is not known how many there were.
                enough[query] |= table.min_users >= min_users
            elif users and not enough[query]:
                sets.setdefault((table.day, query), set()).update(users)
    for (_, query), hashes in sets.items():
        enough[query] |= len(hashes) >= min_users
    return enough
