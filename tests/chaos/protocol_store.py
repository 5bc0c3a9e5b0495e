"""A model of the store of one lane: what a server holds, and its scripts, rule for rule. Pure.

The lane has two topics. A record is worth ten to the power of its offset, so that a topic's sum
tells what was counted: 11 = offsets 0 and 1, 2 = offset 0 twice. A commit publishes the sums of the
topics that it changed, as parts that are staged before; offsets stand in the head.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

Offsets: TypeAlias = tuple[int, ...]
Sums: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Rules:
    """What the scripts and the worker compare. Each may be left out, to see what it is good for."""

    compare_token: bool = True
    compare_sequence: bool = True
    compare_when_idle: bool = True
    compare_when_loading: bool = True
    check_parts: bool = True
    start_in_claim: bool = True
    new_token_per_claim: bool = True


class Head(NamedTuple):
    token: int
    sequence: int
    offsets: Offsets | None
    promised: Offsets
    """Where the lane began when it was first claimed. For the proof only: no script reads it."""


class Redis(NamedTuple):
    head: Head | None = None
    sums: Sums = (0, 0)
    staged: frozenset[tuple[int, int, int, int]] = frozenset()
    """(token, sequence, topic, sum)."""


class Commit(NamedTuple):
    token: int
    sequence: int
    offsets: Offsets
    parts: tuple[tuple[int, int], ...]
    """(topic, sum) of the topics that the batch held."""

    def staged(self) -> frozenset[tuple[int, int, int, int]]:
        return frozenset((self.token, self.sequence, topic, total) for topic, total in self.parts)


class Claim(NamedTuple):
    token: int
    start: Offsets


class Stage(NamedTuple):
    commit: Commit


Call: TypeAlias = Claim | Stage | Commit


# The scripts


def claim(redis: Redis, call: Claim, rules: Rules) -> tuple[Redis, Head]:
    former = redis.head
    if former is None:
        offsets = call.start if rules.start_in_claim else None
        head = Head(call.token, 0, offsets, call.start)
        return Redis(head, staged=redis.staged), head
    head = former._replace(token=call.token)
    staged = frozenset(part for part in redis.staged if part[:2] != former[:2])
    return redis._replace(head=head, staged=staged), head


def stage(redis: Redis, commit: Commit) -> Redis:
    same = {part[:3] for part in commit.staged()}
    kept = frozenset(part for part in redis.staged if part[:3] not in same)
    return redis._replace(staged=kept | commit.staged())


def run(redis: Redis, commit: Commit, rules: Rules) -> tuple[Redis, str]:
    """The store after the script, and its answer; `error` is none to rely on."""
    head = redis.head
    if head is None:
        return redis, "lost"
    if rules.compare_token and head.token != commit.token:
        return redis, "lost"
    if rules.compare_sequence and head.sequence == commit.sequence + 1:
        return redis, "already"
    if rules.compare_sequence and head.sequence != commit.sequence:
        return redis, "lost"
    sums, staged = list(redis.sums), set(redis.staged)
    missing = commit.staged() - redis.staged
    if missing and rules.check_parts:
        return redis, "lost"
    for topic, total in commit.parts:
        part = (commit.token, commit.sequence, topic, total)
        if part in missing:  # renaming it fails, and nothing is taken back
            return redis._replace(sums=tuple(sums), staged=frozenset(staged)), "error"
        sums[topic] = total
        staged.discard(part)
    head = head._replace(sequence=commit.sequence + 1, offsets=commit.offsets)
    return Redis(head, tuple(sums), frozenset(staged)), "applied"


def still_held(redis: Redis, token: int, sequence: int) -> bool:
    """What an idle owner asks, and who loads the lane."""
    return redis.head is not None and redis.head[:2] == (token, sequence)


def executed(redis: Redis, call: Call, rules: Rules) -> tuple[Redis, Head | str]:
    if isinstance(call, Claim):
        return claim(redis, call, rules)
    if isinstance(call, Stage):
        return stage(redis, call.commit), "ok"
    return run(redis, call, rules)


def fold(begin: int, end: int) -> int:
    """The records of a topic from one offset up to another, each once."""
    return sum(10**offset for offset in range(begin, end))
