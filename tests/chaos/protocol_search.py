"""Looks through every state of the protocol's model, breadth first, so that the way to what goes
wrong is as short as can be.

What makes no difference is made equal, or there would be no end: tokens are numbered in the order
in which they stand, staged parts go that no commit can use any more, and, while the store compares
tokens, so do calls and memories whose token can never be that of the lane again.
"""

import gc
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tests.chaos.protocol_model import (
    BEGINNING,
    Held,
    State,
    Worker,
    World,
    deliveries,
    faults,
    progress,
)
from tests.chaos.protocol_store import Call, Claim, Commit, Redis, Rules, Stage, fold


class Node(NamedTuple):
    """A state, what the store may fall back to, and how many faults may still come."""

    state: State
    saved: tuple[Redis, ...]
    """Oldest first. What is on disk is chosen as it is written; every choice is looked through."""
    left: int


Found: TypeAlias = dict[Node, tuple[str, Node] | None]
"""Every node with the step that led to it first, in the order in which they were found."""


@dataclass(frozen=True)
class Search:
    """What came out of looking through a world."""

    found: Found
    broken: str | None
    """The shortest way to a state that is wrong, or from which the lane does not go on."""


def search(world: World, most_faults: int) -> Search:
    """Every state that this world can get into by so many faults, up to the first wrong one."""
    first = Node(BEGINNING, (), most_faults)
    found: Found = {first: None}
    queue = deque([first])
    gc.disable()  # no cycles here, and millions of values to look for them in
    try:
        while queue:
            node = queue.popleft()
            for label, after in steps(node, world):
                if after in found:
                    continue
                found[after] = (label, node)
                if not is_exact(after.state):
                    return Search(found, way_to(after, found, f"wrong: {after.state.redis}"))
                queue.append(after)
        stuck = first_stuck(found, world)
    finally:
        gc.enable()
    ends = None if stuck is None else way_to(stuck, found, f"stands still: {stuck.state.redis}")
    return Search(found, ends)


def steps(node: Node, world: World) -> Iterator[tuple[str, Node]]:
    state, saved, left = node
    for found in (progress(state, world), deliveries(state, world)):
        for label, after in found:
            yield label, essential(Node(after, saved, left), world.rules)
    if not left:
        return
    if len(saved) < left and state.redis not in saved:
        yield "the store is written to disk", node._replace(saved=(*saved, state.redis))
    for label, after in faults(state, world):
        # Of what is on disk, only as much is used as there are faults left.
        for kept in {saved[: left - 1], saved[-left + 1 :] if left > 1 else ()}:
            yield label, essential(Node(after, kept, left - 1), world.rules)
    for age, redis in enumerate(saved):
        fallen = Node(state._replace(redis=redis), saved[:age], left - 1)
        yield "the store falls back to what was on disk", essential(fallen, world.rules)


def is_exact(state: State) -> bool:
    """Whether the records between the claimed and the stored offsets are counted once, and no
    others."""
    head = state.redis.head
    if head is None:
        return True
    ends = head.promised if head.offsets is None else head.offsets
    return state.redis.sums == tuple(map(fold, head.promised, ends))


def first_stuck(found: Found, world: World) -> Node | None:
    """The first node from which, without more faults or late calls, not all records are counted."""
    # Fair is that of steps that can be taken again and again, each is taken at last: so it is
    # enough that there always is a way.
    calm = {node: essential(Node(node.state, (), 0), world.rules) for node in found}
    before: dict[Node, list[Node]] = {}
    queue = deque(dict.fromkeys(calm.values()))
    seen = set(queue)
    while queue:
        node = queue.popleft()
        for _, after in progress(node.state, world):
            reached = essential(Node(after, (), 0), world.rules)
            before.setdefault(reached, []).append(node)
            if reached not in seen:
                seen.add(reached)
                queue.append(reached)
    good = {node for node in seen if is_done(node.state, world)}
    queue.extend(good)
    while queue:
        for node in before.get(queue.popleft(), ()):
            if node not in good:
                good.add(node)
                queue.append(node)
    return next((node for node in found if calm[node] not in good), None)


def is_done(state: State, world: World) -> bool:
    return state.redis.head is not None and state.redis.head.offsets == world.ends


def way_to(node: Node, found: Found, end: str) -> str:
    labels = [end]
    while (step := found[node]) is not None:
        label, node = step
        labels.append(label)
    return "\n".join(reversed(labels))


# What makes no difference


def essential(node: Node, rules: Rules) -> Node:
    """The node that stands for all that differ from it in nothing that matters."""
    state, saved, left = node
    saved = saved if left else ()
    if rules == Rules():
        state = without_doomed(state, saved)
    used = {commit[:2] for commit in commits_of(state)}
    redis, *saved_now = (without_parts(redis, used) for redis in (state.redis, *saved))
    state = state._replace(redis=redis)
    saved = tuple(dict.fromkeys(saved_now))
    numbers = {token: number for number, token in enumerate(tokens_of(state, saved), 1)}
    if all(token == number for token, number in numbers.items()):
        return Node(state, saved, left)
    saved = tuple(renamed_redis(redis, numbers) for redis in saved)
    return Node(renamed_state(state, numbers), saved, left)


def without_doomed(state: State, saved: tuple[Redis, ...]) -> State:
    """Without calls that will be refused whenever they come, and memories that will be dropped."""
    redis, workers, late = state
    alive = {store.head.token for store in (redis, *saved) if store.head is not None}
    alive |= {call.token for call in late if isinstance(call, Claim)}
    first, second = (
        worker if worker.held is None or worker.held.token in alive else doomed(worker)
        for worker in workers
    )
    state = State(redis, (first, second), frozenset(c for c in late if token_of(c) in alive))
    used = {commit[:2] for commit in commits_of(state)}
    late = frozenset(
        call for call in state.late if not isinstance(call, Stage) or call.commit[:2] in used
    )
    return state._replace(late=late)


def doomed(worker: Worker) -> Worker:
    """A worker that holds a lane in vain: what it holds does not matter, only that it does."""
    held = worker.held
    assert held is not None
    loaded = None if held.sums is None else (0, 0)
    return Worker(worker.belief, worker.doubt, Held(held.token, 0, (0, 0), loaded))


def commits_of(state: State) -> list[Commit]:
    mine = [worker.commit for worker in state.workers if worker.commit is not None]
    return mine + [call for call in state.late if isinstance(call, Commit)]


def without_parts(redis: Redis, used: set[tuple[int, int]]) -> Redis:
    if not redis.staged:
        return redis
    return redis._replace(staged=frozenset(part for part in redis.staged if part[:2] in used))


def token_of(call: Call) -> int:
    return call.commit.token if isinstance(call, Stage) else call.token


def tokens_of(state: State, saved: tuple[Redis, ...]) -> dict[int, None]:
    """All tokens, each once, in an order that does not depend on what they are called."""
    tokens = [store.head.token for store in (state.redis,) if store.head is not None]
    for worker in state.workers:
        tokens += [] if worker.held is None else [worker.held.token]
        tokens += [worker.claiming] if worker.claiming else []
        tokens += [] if worker.commit is None else [worker.commit.token]
    tokens += map(token_of, sorted(state.late, key=repr) if len(state.late) > 1 else state.late)
    tokens += [store.head.token for store in saved if store.head is not None]
    for store in (state.redis, *saved):
        tokens += sorted(part[0] for part in store.staged)
    return dict.fromkeys(tokens)


def renamed_state(state: State, numbers: Mapping[int, int]) -> State:
    first, second = (renamed_worker(worker, numbers) for worker in state.workers)
    late = frozenset(renamed_call(call, numbers) for call in state.late)
    return State(renamed_redis(state.redis, numbers), (first, second), late)


def renamed_redis(redis: Redis, numbers: Mapping[int, int]) -> Redis:
    head = redis.head and redis.head._replace(token=numbers[redis.head.token])
    staged = frozenset((numbers[part[0]], *part[1:]) for part in redis.staged)
    return Redis(head, redis.sums, staged)


def renamed_worker(worker: Worker, numbers: Mapping[int, int]) -> Worker:
    held, commit = worker.held, worker.commit
    return worker._replace(
        held=held and held._replace(token=numbers[held.token]),
        commit=commit and commit._replace(token=numbers[commit.token]),
        claiming=numbers[worker.claiming] if worker.claiming else 0,
    )


def renamed_call(call: Call, numbers: Mapping[int, int]) -> Call:
    if isinstance(call, Stage):
        return Stage(call.commit._replace(token=numbers[call.commit.token]))
    return call._replace(token=numbers[call.token])
