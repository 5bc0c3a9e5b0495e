"""A model of how workers claim and commit a lane: every state that two of them, one store and a few
faults can bring about. Pure: states are frozen values, and what may happen next is a function.

What is not in the model changes nothing of what it shows: the idle mark, names, unlinked keys, the
exporter, and the steps of one script, which the server takes at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple, TypeAlias

from tests.chaos.protocol_store import (
    Call,
    Claim,
    Commit,
    Head,
    Offsets,
    Redis,
    Rules,
    Stage,
    Sums,
    executed,
    fold,
    still_held,
)


@dataclass(frozen=True)
class World:
    """How long the logs are, and where `start` may put the beginning: another place at each try."""

    ends: Offsets = (2, 1)
    starts: tuple[Offsets, ...] = ((0, 0), (1, 1))
    rules: Rules = Rules()


class Held(NamedTuple):
    """A lane in a worker's memory. `sums` are None until they are loaded."""

    token: int
    sequence: int
    offsets: Offsets
    sums: Sums | None = None


class Worker(NamedTuple):
    belief: str = "out"
    """in, out, or stale: it has not heard yet that the group moved on."""
    doubt: bool = False
    """The store took the lane away: the group must confirm this worker before it claims again."""
    held: Held | None = None
    commit: Commit | None = None
    """What it insists on until it is answered."""
    staged: bool = False
    claiming: int = 0
    """The token of a claim without an answer; used only where claims are sent again."""


class State(NamedTuple):
    redis: Redis
    workers: tuple[Worker, Worker]
    """First the one to whom the group gave the lane: two workers differ in nothing else."""
    late: frozenset[Call] = frozenset()
    """Calls that are still under way."""


NAMES: Final = ("owner", "other")
NEW: Final = -1
"""A token that nobody knows yet; whoever looks through the states gives it a number of its own."""
BEGINNING: Final = State(Redis(), (Worker("in"), Worker()))


# The worker: what it makes of answers, and does next


def heard(worker: Worker, call: Call, answer: Head | str | None, rules: Rules) -> Worker:
    """The worker after the answer to its call; None: none came in time."""
    if isinstance(call, Claim):
        if not isinstance(answer, Head):
            return worker._replace(claiming=0 if rules.new_token_per_claim else call.token)
        held = Held(*answer[:2], call.start if answer.offsets is None else answer.offsets)
        return worker._replace(held=held, claiming=0)
    if answer is None or answer == "error":
        return worker._replace(staged=False)
    if isinstance(call, Stage):
        return worker._replace(staged=True)
    if answer == "lost":
        return gave_up(worker)
    assert worker.held is not None
    held = worker.held._replace(sequence=call.sequence + 1)
    return worker._replace(held=held, commit=None, staged=False)


def gave_up(worker: Worker) -> Worker:
    return Worker(worker.belief, doubt=True)


def with_batch(worker: Worker, offsets: Offsets) -> Worker:
    """The worker that has read up to these offsets, and what it commits."""
    held = worker.held
    assert held is not None and held.sums is not None
    spans = zip(held.sums, held.offsets, offsets, strict=True)
    sums = tuple(total + fold(begin, end) for total, begin, end in spans)
    changed = [topic for topic in range(len(sums)) if offsets[topic] > held.offsets[topic]]
    parts = tuple((topic, sums[topic]) for topic in changed)
    commit = Commit(held.token, held.sequence, offsets, parts)
    return worker._replace(held=held._replace(offsets=offsets, sums=sums), commit=commit)


def next_calls(state: State, worker: Worker, world: World) -> Iterator[Call]:
    """What a worker may send now."""
    if worker.belief == "out":
        return
    if worker.commit is not None:
        yield worker.commit if worker.staged else Stage(worker.commit)
    elif worker.held is None and not worker.doubt:
        # Where the lane has begun, the place to begin is not used.
        for start in world.starts[: 1 if state.redis.head else None]:
            yield Claim(worker.claiming or NEW, start)


# What may happen

Step: TypeAlias = tuple[str, State]


def progress(state: State, world: World) -> Iterator[Step]:
    """What happens without a fault."""
    for number, worker in enumerate(state.workers):
        name = NAMES[number]
        for call in next_calls(state, worker, world):
            redis, answer = executed(state.redis, call, world.rules)
            changed = heard(worker, call, answer, world.rules)
            outcome = answer if isinstance(answer, str) else "ok"
            yield f"{name} {told(call)}: {outcome}", with_worker(state, number, changed, redis)
        for what, changed in alone(state, worker, number, world):
            yield f"{name} {what}", with_worker(state, number, changed)


def alone(state: State, worker: Worker, number: int, world: World) -> Iterator[tuple[str, Worker]]:
    """What a worker does that changes nothing but itself."""
    held = worker.held
    if worker.belief == "stale":
        belief = "out" if number else "in"
        yield f"hears of the rebalance and is {belief}", Worker(belief, doubt=worker.doubt)
    if worker.belief == "in" and worker.doubt:
        yield "is confirmed by the group", worker._replace(doubt=False)
    if held is None or worker.commit is not None:
        return
    if held.sums is None:
        if world.rules.compare_when_loading and not still_held(state.redis, *held[:2]):
            yield "loads: lost", Worker(worker.belief, doubt=worker.doubt)
        else:
            yield "loads", worker._replace(held=held._replace(sums=state.redis.sums))
        return
    if world.rules.compare_when_idle and not still_held(state.redis, *held[:2]):
        yield "compares while idle: lost", gave_up(worker)
    for offsets in product(*map(range, held.offsets, (end + 1 for end in world.ends))):
        if offsets != held.offsets:
            yield f"reads up to {offsets}", with_batch(worker, offsets)


def deliveries(state: State, world: World) -> Iterator[Step]:
    """Calls that nobody waits for any more reach the store."""
    for call in state.late:
        redis, _ = executed(state.redis, call, world.rules)
        yield f"late: {told(call)}", state._replace(redis=redis, late=state.late - {call})


def faults(state: State, world: World) -> Iterator[Step]:
    """What a fault may do, roll-backs apart."""
    first, second = state.workers
    yield "the group gives the lane to its owner anew", state._replace(
        workers=(told_later(first, True), told_later(second, False))
    )
    yield "the group gives the lane to the other", moved(state)
    yield "owner crashes and comes back", with_worker(state, 0, Worker("in"))
    yield "owner crashes, the lane moves", moved(with_worker(state, 0, Worker()))
    yield "other crashes", with_worker(state, 1, Worker())
    for number, worker in enumerate(state.workers):
        for call in next_calls(state, worker, world):
            yield from misfortunes(state, number, call, world.rules)
    for part in state.redis.staged:
        left = state.redis._replace(staged=state.redis.staged - {part})
        yield f"a staged part expires: {part}", state._replace(redis=left)
    for call in state.late:
        redis, _ = executed(state.redis, call, world.rules)
        yield f"late, and will come again: {told(call)}", state._replace(redis=redis)


def misfortunes(state: State, number: int, call: Call, rules: Rules) -> Iterator[Step]:
    """What the network may do to a call."""
    name, worker = f"{NAMES[number]} {told(call)}", state.workers[number]
    redis, answer = executed(state.redis, call, rules)
    unanswered, kept = heard(worker, call, None, rules), state.late | {call}
    yield f"{name}: the answer is lost", with_worker(state, number, unanswered, redis)
    yield f"{name}: is delayed", with_worker(state._replace(late=kept), number, unanswered)
    if not isinstance(call, Claim):  # which is never sent again
        answered = heard(worker, call, answer, rules)
        again = with_worker(state._replace(late=kept), number, answered, redis)
        yield f"{name}: comes now, and again later", again


def moved(state: State) -> State:
    """The group gives the lane to the other worker."""
    first, second = state.workers
    return state._replace(workers=(told_later(second, True), told_later(first, False)))


def told_later(worker: Worker, owns: bool) -> Worker:
    """A worker after a rebalance: who thought to have the lane hears of it some time."""
    if worker.belief != "out":
        return worker._replace(belief="stale")
    return worker._replace(belief="in") if owns else worker


def with_worker(state: State, number: int, worker: Worker, redis: Redis | None = None) -> State:
    first, second = state.workers
    workers = (first, worker) if number else (worker, second)
    return State(redis or state.redis, workers, state.late)


def told(call: Call) -> str:
    if isinstance(call, Claim):
        return f"claims from {call.start}"
    commit = call.commit if isinstance(call, Stage) else call
    verb = "stages" if isinstance(call, Stage) else "commits"
    return f"{verb} {commit.token}/{commit.sequence} up to {commit.offsets}"
