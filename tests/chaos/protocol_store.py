"""A model of the store of one lane: the stored state and the scripts, rule for rule. Pure.

The lane has two topics. A record counts ten to the power of its offset, so that the sum of a topic
shows which records were counted: 11 is offsets 0 and 1, 2 is offset 0 twice. A commit publishes the
sums of the topics that it changed, as parts that are staged before; the head contains the offsets.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

Offsets: TypeAlias = tuple[int, ...]
Sums: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Rules:
    """The comparisons of the scripts and of the worker. Each can be turned off, to test its
    effect."""

    compare_token: bool = True
    compare_sequence: bool = True
    compare_when_idle: bool = True
    compare_when_loading: bool = True
    check_parts: bool = True
    start_in_claim: bool = True
    new_token_per_claim: bool = True
    compare_counts: bool = True
    check_keys: bool = True
    verify_when_running: bool = True
    know_beginning: bool = True


class Head(NamedTuple):
    token: int
    sequence: int
    offsets: Offsets | None
    promised: Offsets
    """Starting offsets of the lane at its first claim: for the check, and for beginning anew."""
    keys: int = 0
    """How many keys the lane must list."""


class Redis(NamedTuple):
    head: Head | None = None
    sums: Sums = (0, 0)
    staged: frozenset[tuple[int, int, int, int]] = frozenset()
    """(token, sequence, topic, sum)."""
    listed: frozenset[int] = frozenset()
    """Topics whose sums the lane lists. The value of a listed sum may be missing, and is 0 then."""
    began: Offsets | None = None
    """Where the lane began, as the namespace notes it. In the model that is one step with the
    claim; in fact it follows, and a lane that is lost between the two has no commit yet."""


class Commit(NamedTuple):
    token: int
    sequence: int
    offsets: Offsets
    parts: tuple[tuple[int, int], ...]
    """(topic, sum) of the topics with records in the batch; in a repair, of all that have a sum."""
    repair: bool = False

    def staged(self) -> frozenset[tuple[int, int, int, int]]:
        return frozenset((self.token, self.sequence, topic, total) for topic, total in self.parts)


class Claim(NamedTuple):
    token: int
    start: Offsets


class Stage(NamedTuple):
    commit: Commit


class Anew(NamedTuple):
    """Begin anew a lane that was found damaged under a token; 0: without a head."""

    token: int
    found: int
    start: Offsets


class Gone(NamedTuple):
    """The answer to a claim of a lane that lost its head."""

    start: Offsets


Call: TypeAlias = Claim | Stage | Commit | Anew
Answer: TypeAlias = Head | Gone | str


# The scripts


def claim(redis: Redis, call: Claim, rules: Rules) -> tuple[Redis, Head | Gone]:
    former = redis.head
    if former is None:
        if rules.know_beginning and redis.began is not None:
            return redis, Gone(redis.began)
        offsets = call.start if rules.start_in_claim else None
        promised = redis.began or call.start
        head = Head(call.token, 0, offsets, promised)
        return Redis(head, staged=redis.staged, began=promised), head
    head = former._replace(token=call.token)
    staged = frozenset(part for part in redis.staged if part[:2] != former[:2])
    return redis._replace(head=head, staged=staged), head


def begin_anew(redis: Redis, call: Anew) -> tuple[Redis, Head | str]:
    found = 0 if redis.head is None else redis.head.token
    if found != call.found:  # else a late call would remove what Kafka may not have any more
        return redis, "lost"
    head = Head(call.token, 0, call.start, redis.began or call.start)
    return Redis(head, staged=redis.staged, began=redis.began or call.start), head


def stage(redis: Redis, commit: Commit) -> Redis:
    same = {part[:3] for part in commit.staged()}
    kept = frozenset(part for part in redis.staged if part[:3] not in same)
    return redis._replace(staged=kept | commit.staged())


def run(redis: Redis, commit: Commit, rules: Rules) -> tuple[Redis, str]:
    """The store after the commit script, and its answer; `error` leaves the outcome unknown."""
    head = redis.head
    if head is None:
        return redis, "lost"
    if rules.compare_token and head.token != commit.token:
        return redis, "lost"
    if rules.compare_sequence and head.sequence == commit.sequence + 1:
        return redis, "already"
    if rules.compare_sequence and head.sequence != commit.sequence:
        return redis, "lost"
    if rules.compare_counts and not commit.repair and len(redis.listed) != head.keys:
        return redis, "damaged"
    sums, staged = list(redis.sums), set(redis.staged)
    listed = set() if commit.repair else set(redis.listed)
    missing = commit.staged() - redis.staged
    if missing and rules.check_parts:
        return redis, "lost"
    for topic, total in commit.parts:
        part = (commit.token, commit.sequence, topic, total)
        if part in missing:  # RENAME fails, and earlier writes of the script stay
            left = redis._replace(sums=tuple(sums), staged=frozenset(staged))
            return left, "error"
        sums[topic] = total
        listed.add(topic)
        staged.discard(part)
    head = Head(head.token, commit.sequence + 1, commit.offsets, head.promised, len(listed))
    return Redis(head, tuple(sums), frozenset(staged), frozenset(listed), redis.began), "applied"


def is_whole(redis: Redis) -> bool:
    """Whether a reader, or a claim, finds the lane whole."""
    head, listed = redis.head, redis.listed
    return head is not None and len(listed) == head.keys and all(redis.sums[t] for t in listed)


def visible(redis: Redis) -> Sums:
    """The sums that a reader or a new owner sees."""
    return tuple(total if t in redis.listed else 0 for t, total in enumerate(redis.sums))


def is_current(redis: Redis, token: int, sequence: int) -> bool:
    """Whether token and sequence are those of the head: the check of idle owners and of loading."""
    return redis.head is not None and redis.head[:2] == (token, sequence)


def executed(redis: Redis, call: Call, rules: Rules) -> tuple[Redis, Answer]:
    if isinstance(call, Anew):
        return begin_anew(redis, call)
    if isinstance(call, Claim):
        return claim(redis, call, rules)
    if isinstance(call, Stage):
        return stage(redis, call.commit), "ok"
    return run(redis, call, rules)


def fold(begin: int, end: int) -> int:
    """The sum of a topic whose records from one offset up to another were counted once."""
    return sum(10**offset for offset in range(begin, end))
