"""A healthy lane is equal, whatever it has: no combination is a false alarm."""

import random
from dataclasses import replace

import numpy as np
import pytest

from relevanced.daemon.recompute.proof import ADMITTED_OTHERWISE, Outcome, as_text
from relevanced.daemon.storage import head_of
from relevanced.daemon.timing import timing
from tests.daemon.recompute.verify.whole_lanes import TRAFFIC, WholeLane, proof_of, random_parts
from tests.seeds import seeds
from tests.streams import START_MS


def proven(rng: random.Random) -> Outcome:
    machine = WholeLane(rng, random_parts(rng), rng.choice((1, 2)))
    machine.run(crashes=True)
    begin = None
    if rng.random() < 0.3:
        begin = {topic: len(log) // 4 for topic, log in machine.logs.items()}
    return proof_of(machine, begin)


def relaid(rng: random.Random) -> Outcome:
    """A lane that goes to other layouts twice."""
    parts = random_parts(rng)
    machine = WholeLane(rng, parts, rng.choice((1, 2)))
    for unread in (300, 150, 0):
        machine.run(crashes=True, unread=unread)
        other = random_parts(rng)
        judged = other.judged and (other.queries is None or other.queries.by in (None, "country"))
        if unread and (other.queries is None or other.queries.by != TRAFFIC):
            changed = replace(parts, queries=other.queries, judged=judged)
            machine.relay_to(replace(changed, missing=judged and changed.queries is not None))
    return proof_of(machine)


def begun_anew(rng: random.Random) -> tuple[WholeLane, Outcome]:
    """A lane that began anew while its log had lost what came before an instant."""
    parts = random_parts(rng)
    machine = WholeLane(rng, parts, rng.choice((1, 2)))
    token, begin = machine.claimed.token, machine.store.fields["offsets"]
    since_ms = START_MS + rng.randrange(1_800_000)
    machine.store.begin_anew(token, "anew", begin, since_ms=since_ms)
    machine.claimed = machine.claim()
    return machine.run(crashes=True), proof_of(machine)


@pytest.mark.parametrize("seed", seeds(6))
def test_lane_that_began_anew_is_equal_and_all_of_its_parts_begin_there(seed: int) -> None:
    machine, found = begun_anew(random.Random(seed))
    assert not found.differences, as_text([found])
    head = head_of(machine.store.fields)
    whole_ms = head.whole_from(machine.plan.timing.base_ms)
    assert whole_ms is not None
    hour = -(-whole_ms // machine.plan.hour_ms) * machine.plan.hour_ms
    assert head.judged is None or head.judged.since_ms == hour
    assert head.queries is None or head.queries.since_ms == hour
    assert all(entry.since_ms == whole_ms for entry in head.state.experiments)


@pytest.mark.parametrize("seed", seeds(12))
def test_lane_that_went_to_other_layouts_is_equal(seed: int) -> None:
    found = relaid(random.Random(seed))
    assert not found.differences, as_text([found])


@pytest.mark.parametrize("changed", ["a longer window", "more values", "fewer values"])
@pytest.mark.parametrize("seed", seeds(4))
def test_lane_that_admitted_values_otherwise_is_equal_and_says_so(seed: int, changed: str) -> None:
    """For a while, within one hour, or from an instant on."""
    rng = random.Random(seed)
    machine = WholeLane(rng, random_parts(rng), rng.choice((1, 2)))
    most = {"more values": 2, "fewer values": 6}.get(changed)
    machine.plan = former = replace(machine.plan, max_values=most)
    machine.store = type(machine.store)()
    machine.claimed = machine.claim()
    machine.run(crashes=True, unread=200)
    if most is None:
        windows = [(span.name, span.length_ms // 1000) for span in former.timing.windows]
        longer = timing([*windows, ("100m", 6000)], 60, 5)
        for machine.plan in (replace(former, timing=longer), former):
            machine.relay()
    else:
        machine.plan = replace(former, max_values=8 - most)
        machine.relay()
        machine.run(crashes=True)
    found = proof_of(machine)
    assert not found.differences, as_text([found])
    assert ADMITTED_OTHERWISE in found.notes
    machine.plan = replace(machine.plan, history_hours=47)  # no hour needs the first layout
    machine.relay()
    assert ADMITTED_OTHERWISE in proof_of(machine).notes


@pytest.mark.parametrize("seed", seeds(20))
def test_any_combination_is_equal(seed: int) -> None:
    found = proven(random.Random(seed))
    assert found.result in ("equal", "not provable") and not found.differences, as_text([found])


def test_combination_not_seen_before_is_equal(rng: np.random.Generator) -> None:
    found = proven(random.Random(int(rng.integers(2**63))))
    assert found.result in ("equal", "not provable") and not found.differences, as_text([found])
