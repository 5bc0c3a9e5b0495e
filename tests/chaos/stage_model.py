"""A model of the stage of `lanes = "rekey"` over one source: its runs, old ones of which may go on,
what is lost, late and doubled between them and the topic, and what lanes take of it. An exhaustive
search of it. Pure.

A lane reads its log in order and stores what it took with its numbers: how far it was when a
message came does not matter, and its own faults are those of `protocol_model`. So the model has no
log.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from relevanced.daemon.events import NOTHING, Of, Place
from relevanced.daemon.lane import chain

TARGETS: Final = (0, 0, 1, 0)
"""The partition of the topic to which the record of each offset goes."""
LANES: Final = 2
MOST_ZOMBIES: Final = 2

Verdict: TypeAlias = Callable[[Place, Of], str]


class Run(NamedTuple):
    """One run of the stage."""

    offset: int
    """Of the next record."""
    prev: tuple[Place, ...] = (NOTHING,) * LANES
    """What it sent last to each partition."""
    failed: bool = False
    """Whether it will hear that something was not taken. Until then it goes on."""


class Taken(NamedTuple):
    """What a lane has."""

    last: Place = NOTHING
    counted: int = 0
    """Of a record, ten to the power of its offset."""


class State(NamedTuple):
    committed: int = 0
    run: Run = Run(0)
    """That of the process which has the source."""
    zombies: tuple[Run, ...] = ()
    """Those of processes that do not know that they have lost it, the latest last."""
    late: frozenset[tuple[int, Of]] = frozenset()
    """(partition, message): what the network still delivers later."""
    lanes: tuple[Taken, ...] = (Taken(),) * LANES


def message_of(run: Run) -> tuple[int, Of]:
    """What a run sends next, and where."""
    target = TARGETS[run.offset]
    return target, Of("", 0, run.offset, 0, None, run.prev[target])


def after_sending(run: Run, *, failed: bool = False) -> Run:
    target, of = message_of(run)
    prev = tuple(of.place if n == target else place for n, place in enumerate(run.prev))
    return Run(run.offset + 1, prev, run.failed or failed)


def with_run(state: State, number: int, run: Run) -> State:
    """The state with another run of the process that has the source (0), or of a zombie."""
    if not number:
        return state._replace(run=run)
    zombies = tuple(run if n == number else old for n, old in enumerate(state.zombies, 1))
    return state._replace(zombies=zombies)


def delivered(state: State, target: int, of: Of, verdict: Verdict) -> State:
    lane = state.lanes[target]
    if verdict(lane.last, of) != chain.TAKEN:
        return state
    lane = Taken(of.place, lane.counted + 10**of.offset)
    lanes = tuple(lane if n == target else other for n, other in enumerate(state.lanes))
    return state._replace(lanes=lanes)


Step: TypeAlias = tuple[str, State]


def progress(state: State, verdict: Verdict) -> Iterator[Step]:
    """The steps that are no faults."""
    for number, run in enumerate((state.run, *state.zombies)):
        name = f"zombie {number}" if number else "owner"
        if run.offset < len(TARGETS):
            sent = with_run(state, number, after_sending(run))
            yield f"{name} sends {run.offset}", delivered(sent, *message_of(run), verdict)
        if not run.failed and run.offset != state.committed:
            yield f"{name} commits {run.offset}", state._replace(committed=run.offset)
        if run.failed:
            yield f"{name} begins anew", with_run(state, number, Run(state.committed))
    for target, of in state.late:
        left = state._replace(late=state.late - {(target, of)})
        yield f"late: {of.offset}", delivered(left, target, of, verdict)


def faults(state: State, verdict: Verdict) -> Iterator[Step]:
    """The steps that are faults."""
    zombies = (*state.zombies, state.run)[-MOST_ZOMBIES:]
    yield "the source moves", state._replace(run=Run(state.committed), zombies=zombies)
    for number, run in enumerate((state.run, *state.zombies)):
        if run.offset == len(TARGETS):
            continue
        message, kept = message_of(run), state.late | {message_of(run)}
        unheard = with_run(state, number, after_sending(run, failed=True))
        sent = delivered(with_run(state, number, after_sending(run)), *message, verdict)
        name = f"{run.offset} of {number}"
        yield f"{name} is lost", unheard
        yield f"{name} is delayed", unheard._replace(late=kept)
        yield f"the answer to {name} is lost", delivered(unheard, *message, verdict)
        yield f"{name} comes now, and again later", sent._replace(late=kept)


def is_exact(state: State) -> bool:
    """Whether each lane has counted its records up to the last once each, and no others."""
    return all(
        lane.counted == sum(10**offset for offset in own_of(n) if (offset, 0) <= lane.last)
        for n, lane in enumerate(state.lanes)
    )


def own_of(lane: int) -> Iterable[int]:
    return (offset for offset, target in enumerate(TARGETS) if target == lane)


def is_done(state: State) -> bool:
    return all(
        lane.counted == sum(10**offset for offset in own_of(n))
        for n, lane in enumerate(state.lanes)
    )


Node: TypeAlias = tuple[State, int]
"""A state, and the number of faults left."""
Found: TypeAlias = dict[Node, tuple[str, Node] | None]
"""Node → the first step that led to it."""


def search(verdict: Verdict, most_faults: int) -> tuple[int, str | None]:
    """The number of states that so many faults can reach, and the shortest path to one that is
    wrong, or from which not all is taken without another fault; None if there is none."""
    found: Found = {(State(), most_faults): None}
    queue = deque(found)
    before: dict[State, list[State]] = {}
    while queue:
        state, left = node = queue.popleft()
        calm = [*progress(state, verdict)]
        for _, after in calm:
            before.setdefault(after, []).append(state)
        steps = [(label, (after, left)) for label, after in calm]
        if left:
            steps += [(label, (after, left - 1)) for label, after in faults(state, verdict)]
        for label, reached in steps:
            if reached in found:
                continue
            found[reached] = label, node
            if not is_exact(reached[0]):
                return len(found), path_to(reached, found, "wrong")
            queue.append(reached)
    good = all_before({state for state, _ in found if is_done(state)}, before)
    stuck = next((node for node in found if node[0] not in good), None)
    return len(found), None if stuck is None else path_to(stuck, found, "stuck")


def all_before(states: set[State], before: Mapping[State, Sequence[State]]) -> set[State]:
    """These states, and all that lead to them."""
    found, queue = {*states}, deque(states)
    while queue:
        new = set(before.get(queue.popleft(), ())) - found
        found |= new
        queue.extend(new)
    return found


def path_to(node: Node, found: Found, end: str) -> str:
    labels = [f"{end}: {node[0].lanes}"]
    while (step := found[node]) is not None:
        label, node = step
        labels.append(label)
    return "\n".join(reversed(labels))
