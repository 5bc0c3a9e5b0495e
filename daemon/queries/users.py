"""Who searched for a query, as far as it must be known: whether there were enough of them. Pure.

A row has the set of hashes of its users while they are fewer than a ceiling, and then only that
there were as many. The union of such sets is commutative and associative, so it follows from the
log.
"""

from collections.abc import Iterable, Sequence, Set
from hashlib import blake2b
from typing import Final, TypeAlias

import numpy as np

from relevanced.metrics.arithmetic import distinct
from relevanced.metrics.lists import Integers

NO_USER: Final = 0
"""The hash of nobody: it counts no one."""
DAY_MS: Final = 86_400_000
ENOUGH: Final = None
"""In the place of a set of users that has reached the ceiling."""
Users: TypeAlias = frozenset[int] | None
"""Hashes of users, fewer than the ceiling; or ENOUGH."""
NOBODY: Final[frozenset[int]] = frozenset()


def user_hashes(users: Sequence[str | None], times_ms: Integers, salt: bytes) -> Integers:
    """Return a 32-bit hash of each user, (n,), keyed with the salt and the UTC day of each time, so
    that nobody can be followed from day to day; NO_USER for none."""
    days, hashes = times_ms // DAY_MS, np.full(len(users), NO_USER, np.int64)
    for day in distinct(days).tolist():
        indices = np.flatnonzero(days == day)
        of_day = [users[n] for n in indices.tolist()]
        found = _hashes_of(dict.fromkeys(of_day), day, salt)
        hashes[indices] = [found[user] for user in of_day]
    return hashes


def _hashes_of(users: Iterable[str | None], day: int, salt: bytes) -> dict[str | None, int]:
    key = blake2b(salt + day.to_bytes(8, "big", signed=True), digest_size=32).digest()
    keyed, found = blake2b(key=key, digest_size=4), dict[str | None, int]()
    for user in users:
        if user is None:
            found[user] = NO_USER
            continue
        one = keyed.copy()
        one.update(user.encode(errors="surrogatepass"))
        found[user] = int.from_bytes(one.digest(), "big") or 1
    return found


def joined(sets: Iterable[Set[int] | None], ceiling: int) -> Users:
    """Return the union of sets of one day, ENOUGH where it reaches the ceiling."""
    union: set[int] = set()
    for users in sets:
        if users is ENOUGH:
            return ENOUGH
        union |= users
        if len(union) >= ceiling:
            return ENOUGH
    return frozenset(union) if len(union) < ceiling else ENOUGH
