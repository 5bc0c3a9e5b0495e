"""Searches all states of the protocol model, breadth first, so that a counterexample is as short as
possible.

States that differ in nothing that matters are made equal, or the search would not end: tokens are
numbered in the order of their occurrence; staged parts that no commit can use any more are removed;
and, while the store compares tokens, so are calls and memories whose token can never be that of the
lane again.
"""

import gc
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tests.chaos.protocol_model import (
    BEGINNING,
    LaneMemory,
    State,
    Worker,
    World,
    deliveries,
    faults,
    progress,
)
from tests.chaos.protocol_store import (
    Anew,
    Call,
    Claim,
    Commit,
    Redis,
    Rules,
    Stage,
    fold,
    is_whole,
    visible,
)


class Node(NamedTuple):
    """A state, the states to which the store may be rolled back, and the number of faults left."""

    state: State
    saved: tuple[Redis, ...]
    """Oldest first. Which states are on disk is decided as they are written; all choices are
    searched."""
    left: int


Found: TypeAlias = dict[Node, tuple[str, Node] | None]
"""Node → the first step that led to it, in the order of discovery."""


@dataclass(frozen=True)
class Search:
    """The result of searching a world."""

    found: Found
    broken: str | None
    """Shortest path to a state that is wrong, or from which the lane makes no progress; else
    None."""


def search(world: World, most_faults: int) -> Search:
    """All states that this world can reach with at most `most_faults` faults, up to a wrong one."""
    first = Node(BEGINNING, (), most_faults)
    found: Found = {first: None}
    queue = deque([first])
    gc.disable()  # there are no cycles, but millions of objects to scan for them
    try:
        while queue:
            node = queue.popleft()
            for label, after in steps(node, world):
                if after in found:
                    continue
                found[after] = (label, node)
                if not is_exact(after.state):
                    return Search(found, path_to(after, found, f"wrong: {after.state.redis}"))
                queue.append(after)
        stuck = first_stuck(found, world)
    finally:
        gc.enable()
    ends = None if stuck is None else path_to(stuck, found, f"stuck: {stuck.state.redis}")
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
        # At most as many saved states can be used as there are faults left.
        for kept in {saved[: left - 1], saved[-left + 1 :] if left > 1 else ()}:
            yield label, essential(Node(after, kept, left - 1), world.rules)
    for age, redis in enumerate(saved):
        fallen = Node(state._replace(redis=redis), saved[:age], left - 1)
        yield "the store is rolled back to a state on disk", essential(fallen, world.rules)


def is_exact(state: State) -> bool:
    """Whether exactly the records between the promised and the stored offsets are counted, each
    once, as far as a reader finds the lane whole."""
    head = state.redis.head
    if head is None or not is_whole(state.redis):
        return True
    ends = head.promised if head.offsets is None else head.offsets
    return visible(state.redis) == tuple(map(fold, head.promised, ends))


def first_stuck(found: Found, world: World) -> Node | None:
    """The first node from which, without further faults, not all records can get counted; else
    None."""
    # Under fairness, a step that stays possible is taken at last: so it is enough that a path to
    # the end always exists.
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
    head = state.redis.head
    return head is not None and head.offsets == world.ends and is_whole(state.redis)


def path_to(node: Node, found: Found, end: str) -> str:
    labels = [end]
    while (step := found[node]) is not None:
        label, node = step
        labels.append(label)
    return "\n".join(reversed(labels))


# What makes no difference


def essential(node: Node, rules: Rules) -> Node:
    """The representative of all nodes that differ in nothing that matters."""
    state, saved, left = node
    saved = saved if left else ()
    if rules == Rules():
        state = without_futile(state, saved)
    used = {commit[:2] for commit in commits_of(state)}
    redis, *saved_now = (without_parts(redis, used) for redis in (state.redis, *saved))
    state = state._replace(redis=redis)
    saved = tuple(dict.fromkeys(saved_now))
    numbers = {token: number for number, token in enumerate(tokens_of(state, saved), 1)}
    if all(token == number for token, number in numbers.items()):
        return Node(state, saved, left)
    saved = tuple(renamed_redis(redis, numbers) for redis in saved)
    return Node(renamed_state(state, numbers), saved, left)


def without_futile(state: State, saved: tuple[Redis, ...]) -> State:
    """The state without calls that will be refused in any case and memories that will be
    dropped."""
    redis, workers, late = state
    alive = {store.head.token for store in (redis, *saved) if store.head is not None}
    alive |= {call.token for call in late if isinstance(call, Claim | Anew)}
    first, second = (
        worker if worker.memory is None or worker.memory.token in alive else in_vain(worker)
        for worker in workers
    )
    state = State(redis, (first, second), frozenset(c for c in late if token_of(c) in alive))
    used = {commit[:2] for commit in commits_of(state)}
    late = frozenset(
        call for call in state.late if not isinstance(call, Stage) or call.commit[:2] in used
    )
    return state._replace(late=late)


def in_vain(worker: Worker) -> Worker:
    """A worker whose memory will be dropped: its content does not matter, only that it exists."""
    memory = worker.memory
    assert memory is not None
    loaded = None if memory.sums is None else (0, 0)
    return Worker(worker.belief, worker.doubt, LaneMemory(memory.token, 0, (0, 0), loaded))


def commits_of(state: State) -> list[Commit]:
    mine = [worker.commit for worker in state.workers if worker.commit is not None]
    return mine + [call for call in state.late if isinstance(call, Commit)]


def without_parts(redis: Redis, used: set[tuple[int, int]]) -> Redis:
    if not redis.staged:
        return redis
    return redis._replace(staged=frozenset(part for part in redis.staged if part[:2] in used))


def token_of(call: Call) -> int:
    return call.commit.token if isinstance(call, Stage) else call.token


def found_by(state: State) -> list[int]:
    """The tokens under which workers found the lane damaged."""
    found = [worker.anew[0] for worker in state.workers if worker.anew is not None]
    return found + sorted(call.found for call in state.late if isinstance(call, Anew))


def tokens_of(state: State, saved: tuple[Redis, ...]) -> dict[int, None]:
    """All tokens, each once, in an order that does not depend on their values."""
    tokens = [store.head.token for store in (state.redis,) if store.head is not None]
    for worker in state.workers:
        tokens += [] if worker.memory is None else [worker.memory.token]
        tokens += [worker.claiming] if worker.claiming else []
        tokens += [] if worker.commit is None else [worker.commit.token]
    tokens += map(token_of, sorted(state.late, key=repr) if len(state.late) > 1 else state.late)
    tokens += [store.head.token for store in saved if store.head is not None]
    tokens += filter(None, found_by(state))
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
    return redis._replace(head=head, staged=staged)


def renamed_worker(worker: Worker, numbers: Mapping[int, int]) -> Worker:
    memory, commit, anew = worker.memory, worker.commit, worker.anew
    return worker._replace(
        memory=memory and memory._replace(token=numbers[memory.token]),
        commit=commit and commit._replace(token=numbers[commit.token]),
        claiming=numbers[worker.claiming] if worker.claiming else 0,
        anew=anew and (numbers.get(anew[0], 0), anew[1]),
    )


def renamed_call(call: Call, numbers: Mapping[int, int]) -> Call:
    if isinstance(call, Stage):
        return Stage(call.commit._replace(token=numbers[call.commit.token]))
    if isinstance(call, Anew):
        return Anew(numbers[call.token], numbers.get(call.found, 0), call.start)
    return call._replace(token=numbers[call.token])
