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


def user_hashes(users: Sequence[str | None], times_ms: Integers, salt: bytes) -> Integers:
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
    for user in _encoded(users):
        one = start()
        one.update(user)
        digests.append(one.digest())
    hashes = np.frombuffer(b"".join(digests), ">u4").astype(np.int64)
    hashes[hashes == NO_USER] = _IN_PLACE_OF_NO_USER
    if None in users:
        hashes[[n for n, user in enumerate(users) if user is None]] = NO_USER
    return hashes


def _encoded(users: Sequence[str | None]) -> list[bytes]:
    try:
        together = _BETWEEN.join(users)  # type: ignore[arg-type]
        if together.count(_BETWEEN) == len(users) - 1:
            # To encode them one by one takes three times as long.
            return together.encode().split(_BETWEEN.encode())
    except (TypeError, UnicodeEncodeError):  # None, or half a surrogate pair
        pass
    return [(user or "").encode(errors="surrogatepass") for user in users]


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
