"""Users of the arms: a hash of their ids, and sets of hashes that count them.

One hash of 64 bits serves two ends that must not meddle with each other. Its value orders the users
of a sketch (the high bits decide), its lowest 6 bits are the user's bucket. It is a function of the
id alone, the same in every process and version, and independent of any hash that deals users to
arms.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from hashlib import blake2b
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .arithmetic import distinct
from .buckets import BUCKETS
from .lists import Integers
from .sample_ratio import CONCENTRATION, sample_ratio_log_evalue

Hashes: TypeAlias = NDArray[np.uint64]

CAPACITY: Final = 65_536
"""Users that a sketch counts exactly, but one; beyond, it errs by 0.4 % (one standard error)."""
ALL_HASHES: Final = 2**64
_PERSON: Final = b"relevanced users"
"""Sets this hash apart from every other blake2b of the same ids: 16 bytes, never to be changed."""


def user_hashes(users: Iterable[str]) -> Hashes:
    """blake2b of each id's UTF-8, 8 bytes, little-endian, personalised. (n,) -> (n,).

    Half a µs an id.

    >>> user_hashes(["u9", "u10"]).tolist()
    [14306533916913687445, 5824892575916171865]
    """
    digests = [
        blake2b(user.encode(errors="surrogatepass"), digest_size=8, person=_PERSON).digest()
        for user in users
    ]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def bucket_indices(hashes: Hashes) -> Integers:
    """The bucket of each user: the lowest 6 bits of the hash. (n,) -> (n,), 0…63.

    >>> bucket_indices(np.array([65, 2**63], dtype=np.uint64)).tolist()
    [1, 0]
    """
    return (hashes & np.uint64(BUCKETS - 1)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Sketch:
    """The least hashes of all users seen, at most `capacity`: a sample drawn by the hash alone.

    A function of the set of users, whatever their order, number of visits or way through lanes.

    >>> one, other = Sketch.of(user_hashes(["a", "b"])), Sketch.of(user_hashes(["b", "c"]))
    >>> user_count(one | other)
    Count(value=3.0, stderr=0.0)
    """

    hashes: Hashes
    """(at most capacity,) ascending, each once."""
    capacity: int = CAPACITY

    @classmethod
    def of(cls, hashes: Hashes, capacity: int = CAPACITY) -> "Sketch":
        """Of hashes in any order, any number of times."""
        return cls(distinct(hashes)[:capacity], capacity)

    def __or__(self, other: "Sketch") -> "Sketch":
        """The sketch of everybody in either. Raises ValueError for another capacity."""
        if self.capacity != other.capacity:
            raise ValueError(f"capacities {self.capacity} and {other.capacity}: must be the same")
        return Sketch.of(np.concatenate((self.hashes, other.hashes)), self.capacity)

    @property
    def limit(self) -> int:
        """Every user with a hash below it is in the sketch: 2^64 while it holds everybody."""
        full = len(self.hashes) >= self.capacity
        return int(self.hashes[-1]) if full else ALL_HASHES


@dataclass(frozen=True)
class Count:
    """A number of users, with its standard error: 0 where it is exact."""

    value: float
    stderr: float


def merged(sketches: Sequence[Sketch]) -> Sketch:
    """The sketch of everybody in any of them, as of lanes. At least one sketch.

    >>> user_count(merged([Sketch.of(user_hashes("ab")), Sketch.of(user_hashes("bcd"))])).value
    4.0
    """
    return reduce(lambda one, other: one | other, sketches)


def user_count(sketch: Sketch) -> Count:
    """Different users: exact below the capacity, then (k - 1) / share of hashes below the k-th.

    Source: Bar-Yossef et al. 2002; Beyer et al. 2007 for the estimate without bias.

    >>> user_count(Sketch.of(user_hashes("abracadabra")))
    Count(value=5.0, stderr=0.0)
    """
    return _extrapolated(_below(sketch, sketch.limit).size, sketch.limit)


def crossover_count(arms: Sequence[Sketch]) -> Count:
    """Users seen in two arms or more: exact while every arm is, else from the users below the least
    limit of the arms, where all of them know everybody.

    >>> crossover_count([Sketch.of(user_hashes("abc")), Sketch.of(user_hashes("cd"))])
    Count(value=1.0, stderr=0.0)
    """
    limit = _common_limit(arms)
    _, seen = np.unique(_together(arms, limit), return_counts=True)
    return _extrapolated(int((seen > 1).sum()), limit)


def sampled_users(arms: Sequence[Sketch], limit: int) -> list[int]:
    """Exact users of each arm whose hash is below a limit, without those of two arms or more.

    The limit must be at most the arms' own.

    >>> sampled_users([Sketch.of(user_hashes("abc")), Sketch.of(user_hashes("cd"))], ALL_HASHES)
    [2, 1]
    """
    users, seen = np.unique(_together(arms, limit), return_counts=True)
    shared = users[seen > 1]
    return [int((~np.isin(_below(arm, limit), shared)).sum()) for arm in arms]


def users_sample_ratio_log_evalue(
    arms: Sequence[Sketch], weights: Sequence[float], concentration: float = CONCENTRATION
) -> float:
    """`sample_ratio_log_evalue` of the arms' users, good at every look, however many they are.

    Estimated counts would raise false alarms, exact counts of a sample do not. While no sketch is
    full the sample is everybody; then it is the users with a hash in the least 2^-level of all, for
    the lowest level that all arms know whole. So the sample shrinks and grows again as users come:
    the evidence of level l is divided by (l + 1) (l + 2), the share of one bet that is put on it,
    for all levels together to be good at every look.

    >>> arms = [Sketch.of(np.arange(count, dtype=np.uint64) * 97 + count) for count in (900, 9)]
    >>> users_sample_ratio_log_evalue(arms, [1, 1]) > 10
    True
    """
    level = ALL_HASHES.bit_length() - _common_limit(arms).bit_length()
    counts = sampled_users(arms, ALL_HASHES >> level)
    found = sample_ratio_log_evalue(counts, weights, concentration)
    return found - math.log((level + 1) * (level + 2))


def _common_limit(arms: Sequence[Sketch]) -> int:
    return min((arm.limit for arm in arms), default=ALL_HASHES)


def _below(sketch: Sketch, limit: int) -> Hashes:
    if limit >= ALL_HASHES:
        return sketch.hashes
    return sketch.hashes[: int(np.searchsorted(sketch.hashes, np.uint64(limit)))]


def _together(arms: Sequence[Sketch], limit: int) -> Hashes:
    parts = [_below(arm, limit) for arm in arms]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint64)


def _extrapolated(found: int, limit: int) -> Count:
    """From users below the limit to all of them. Having found none in a sample is no certainty."""
    share = limit / ALL_HASHES
    return Count(found / share, math.sqrt(max(found, 1) * (1.0 - share)) / share)
