"""A model of how workers claim and commit a lane, with two workers, one store and a few faults.
Pure: states are frozen values, and functions give the possible next states.

The model leaves out what does not affect its results: the idle mark, names, unlinked keys, and the
steps inside a script, which the server executes atomically. The exporter is any reader at any time:
what it finds whole must be right. In a world where the store loses keys, the log has all records.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple, TypeAlias

from tests.chaos.protocol_store import (
    Anew,
    Answer,
    Call,
    Claim,
    Commit,
    Gone,
    Head,
    Offsets,
    Redis,
    Rules,
    Stage,
    Sums,
    executed,
    fold,
    is_current,
    is_whole,
    visible,
)


@dataclass(frozen=True)
class World:
    """End offsets of the topics, and the starting offsets that `start` may give, one at each
    try."""

    ends: Offsets = (2, 1)
    starts: tuple[Offsets, ...] = ((0, 0), (1, 1))
    rules: Rules = Rules()
    loses_keys: bool = False


class LaneMemory(NamedTuple):
    """The state of a lane in the memory of a worker. `sums` is None until it is loaded."""

    token: int
    sequence: int
    offsets: Offsets
    sums: Sums | None = None


class Worker(NamedTuple):
    belief: str = "out"
    """in, out, or stale: it has not learnt yet that the group moved on."""
    doubt: bool = False
    """The store answered `lost`: the group must confirm this worker before it claims again."""
    memory: LaneMemory | None = None
    commit: Commit | None = None
    """The commit that it retries until it is answered."""
    staged: bool = False
    claiming: int = 0
    """Token of a claim without an answer; used only where claims are sent again."""
    anew: tuple[int, Offsets] | None = None
    """The token under which it found the lane damaged, and where the lane began."""


class State(NamedTuple):
    redis: Redis
    workers: tuple[Worker, Worker]
    """First the worker to which the group assigned the lane: the two differ in nothing else."""
    late: frozenset[Call] = frozenset()
    """Calls that the network still delivers later."""


NAMES: Final = ("owner", "other")
NEW: Final = -1
"""Placeholder of a new token; the search replaces it by an unused number."""
BEGINNING: Final = State(Redis(), (Worker("in"), Worker()))


# The worker: its reaction to answers, and its next calls


def after_answer(worker: Worker, call: Call, answer: Answer | None, rules: Rules) -> Worker:
    """The worker after the answer to its call; None where no answer came in time."""
    if isinstance(answer, Gone):
        return worker._replace(claiming=0, anew=(0, answer.start))
    if isinstance(call, Anew):
        if not isinstance(answer, Head):
            return worker._replace(anew=None)  # it claims again, under a new token
        return worker._replace(memory=LaneMemory(*answer[:2], call.start), anew=None)
    if isinstance(call, Claim):
        if not isinstance(answer, Head):
            return worker._replace(claiming=0 if rules.new_token_per_claim else call.token)
        memory = LaneMemory(*answer[:2], call.start if answer.offsets is None else answer.offsets)
        return worker._replace(memory=memory, claiming=0)
    if answer is None or answer == "error":
        return worker._replace(staged=False)
    if isinstance(call, Stage):
        return worker._replace(staged=True)
    if answer == "lost":
        return without_lane(worker)
    assert worker.memory is not None
    if answer == "damaged":
        return repairing(worker)
    memory = worker.memory._replace(sequence=call.sequence + 1)
    return worker._replace(memory=memory, commit=None, staged=False)


def without_lane(worker: Worker) -> Worker:
    return Worker(worker.belief, doubt=True)


def repairing(worker: Worker) -> Worker:
    """The worker with a commit of all that it has in memory."""
    memory = worker.memory
    assert memory is not None and memory.sums is not None
    parts = tuple((topic, total) for topic, total in enumerate(memory.sums) if total)
    commit = Commit(memory.token, memory.sequence, memory.offsets, parts, True)
    return worker._replace(commit=commit, staged=False)


def with_batch(worker: Worker, offsets: Offsets) -> Worker:
    """The worker after reading up to these offsets, with the commit of the batch."""
    memory = worker.memory
    assert memory is not None and memory.sums is not None
    spans = zip(memory.sums, memory.offsets, offsets, strict=True)
    sums = tuple(total + fold(begin, end) for total, begin, end in spans)
    changed = [topic for topic in range(len(sums)) if offsets[topic] > memory.offsets[topic]]
    parts = tuple((topic, sums[topic]) for topic in changed)
    commit = Commit(memory.token, memory.sequence, offsets, parts)
    return worker._replace(memory=memory._replace(offsets=offsets, sums=sums), commit=commit)


def next_calls(state: State, worker: Worker, world: World) -> Iterator[Call]:
    """The calls that a worker may send now."""
    if worker.belief == "out":
        return
    if worker.commit is not None:
        yield worker.commit if worker.staged else Stage(worker.commit)
    elif worker.memory is None and worker.anew is not None:
        yield Anew(NEW, *worker.anew)
    elif worker.memory is None and not worker.doubt:
        # The starting offsets of a lane that exists are not used.
        for start in world.starts[: 1 if state.redis.head else None]:
            yield Claim(worker.claiming or NEW, start)


# The possible next steps

Step: TypeAlias = tuple[str, State]


def progress(state: State, world: World) -> Iterator[Step]:
    """The steps that are no faults."""
    for number, worker in enumerate(state.workers):
        name = NAMES[number]
        for call in next_calls(state, worker, world):
            redis, answer = executed(state.redis, call, world.rules)
            changed = after_answer(worker, call, answer, world.rules)
            outcome = answer if isinstance(answer, str) else "ok"
            yield f"{name} {describe(call)}: {outcome}", with_worker(state, number, changed, redis)
        for what, changed in local_steps(state, worker, number, world):
            yield f"{name} {what}", with_worker(state, number, changed)


def local_steps(
    state: State, worker: Worker, number: int, world: World
) -> Iterator[tuple[str, Worker]]:
    """The steps of a worker that change only its own state."""
    memory = worker.memory
    if worker.belief == "stale":
        belief = "out" if number else "in"
        yield f"learns of the rebalance and is {belief}", Worker(belief, doubt=worker.doubt)
    if worker.belief == "in" and worker.doubt:
        yield "is confirmed by the group", worker._replace(doubt=False)
    if memory is None or worker.commit is not None:
        return
    if memory.sums is None:
        yield loading(state.redis, worker, memory, world.rules)
        return
    if world.rules.verify_when_running and is_current(state.redis, *memory[:2]):
        if not is_whole(state.redis):
            yield "finds keys missing", repairing(worker)
    if world.rules.compare_when_idle and not is_current(state.redis, *memory[:2]):
        yield "compares while idle: lost", without_lane(worker)
    for offsets in product(*map(range, memory.offsets, (end + 1 for end in world.ends))):
        if offsets != memory.offsets:
            yield f"reads up to {offsets}", with_batch(worker, offsets)


def loading(redis: Redis, worker: Worker, memory: LaneMemory, rules: Rules) -> tuple[str, Worker]:
    """The step of a worker that has claimed the lane."""
    if rules.compare_when_loading and not is_current(redis, *memory[:2]):
        return "loads: lost", Worker(worker.belief, doubt=worker.doubt)
    if rules.check_keys and redis.head and not is_whole(redis):
        anew = (memory.token, redis.head.promised)
        return "loads: damaged", Worker(worker.belief, worker.doubt, anew=anew)
    return "loads", worker._replace(memory=memory._replace(sums=visible(redis)))


def deliveries(state: State, world: World) -> Iterator[Step]:
    """The steps in which late calls reach the store."""
    for call in state.late:
        redis, _ = executed(state.redis, call, world.rules)
        yield f"late: {describe(call)}", state._replace(redis=redis, late=state.late - {call})


def faults(state: State, world: World) -> Iterator[Step]:
    """The steps that are faults, without roll-backs."""
    first, second = state.workers
    yield "the group gives the lane to its owner again", state._replace(
        workers=(after_rebalance(first, True), after_rebalance(second, False))
    )
    yield "the group gives the lane to the other", moved(state)
    yield "owner crashes and comes back", with_worker(state, 0, Worker("in"))
    yield "owner crashes, the lane moves", moved(with_worker(state, 0, Worker()))
    yield "other crashes", with_worker(state, 1, Worker())
    for number, worker in enumerate(state.workers):
        for call in next_calls(state, worker, world):
            yield from network_faults(state, number, call, world.rules)
    for part in state.redis.staged:
        left = state.redis._replace(staged=state.redis.staged - {part})
        yield f"a staged part expires: {part}", state._replace(redis=left)
    if world.loses_keys:
        yield from losses(state)
    for call in state.late:
        redis, _ = executed(state.redis, call, world.rules)
        yield f"late, and will come again: {describe(call)}", state._replace(redis=redis)


def losses(state: State) -> Iterator[Step]:
    """The store loses one key: the head, the list, or a value."""
    redis = state.redis
    if redis.head is not None:
        yield "the head is lost", state._replace(redis=redis._replace(head=None))
    if redis.listed:
        unlisted = redis._replace(listed=frozenset())
        yield "the list of keys is lost", state._replace(redis=unlisted)
    for topic in sorted(redis.listed):
        sums = tuple(0 if n == topic else total for n, total in enumerate(redis.sums))
        if sums != redis.sums:
            yield f"sum {topic} is lost", state._replace(redis=redis._replace(sums=sums))


def network_faults(state: State, number: int, call: Call, rules: Rules) -> Iterator[Step]:
    """The faults of the network that may affect a call."""
    name, worker = f"{NAMES[number]} {describe(call)}", state.workers[number]
    redis, answer = executed(state.redis, call, rules)
    unanswered, kept = after_answer(worker, call, None, rules), state.late | {call}
    yield f"{name}: the answer is lost", with_worker(state, number, unanswered, redis)
    yield f"{name}: is delayed", with_worker(state._replace(late=kept), number, unanswered)
    if not isinstance(call, Claim | Anew):  # a claim is never sent again
        answered = after_answer(worker, call, answer, rules)
        again = with_worker(state._replace(late=kept), number, answered, redis)
        yield f"{name}: comes now, and again later", again


def moved(state: State) -> State:
    """The group gives the lane to the other worker."""
    first, second = state.workers
    return state._replace(workers=(after_rebalance(second, True), after_rebalance(first, False)))


def after_rebalance(worker: Worker, owns: bool) -> Worker:
    """A worker after a rebalance: one that believes to own the lane learns of it later."""
    if worker.belief != "out":
        return worker._replace(belief="stale")
    return worker._replace(belief="in") if owns else worker


def with_worker(state: State, number: int, worker: Worker, redis: Redis | None = None) -> State:
    first, second = state.workers
    workers = (first, worker) if number else (worker, second)
    return State(redis or state.redis, workers, state.late)


def describe(call: Call) -> str:
    if isinstance(call, Claim):
        return f"claims from {call.start}"
    if isinstance(call, Anew):
        return f"begins {call.found} anew from {call.start}"
    commit = call.commit if isinstance(call, Stage) else call
    verb = "stages" if isinstance(call, Stage) else "repairs" if commit.repair else "commits"
    return f"{verb} {commit.token}/{commit.sequence} up to {commit.offsets}"
