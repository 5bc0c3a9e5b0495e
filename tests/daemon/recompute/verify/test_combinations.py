"""A healthy lane is equal, whatever it has: no combination is a false alarm."""

import random
from dataclasses import replace

import numpy as np
import pytest

from relevanced.daemon.recompute.proof import Outcome, as_text
from tests.daemon.recompute.verify.whole_lanes import TRAFFIC, WholeLane, proof_of, random_parts
from tests.seeds import seeds


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


@pytest.mark.parametrize("seed", seeds(20))
def test_lane_that_went_to_other_layouts_is_equal(seed: int) -> None:
    found = relaid(random.Random(seed))
    assert not found.differences, as_text([found])


@pytest.mark.parametrize("seed", seeds(40))
def test_any_combination_is_equal(seed: int) -> None:
    found = proven(random.Random(seed))
    assert found.result in ("equal", "not provable") and not found.differences, as_text([found])


def test_combination_not_seen_before_is_equal(rng: np.random.Generator) -> None:
    found = proven(random.Random(int(rng.integers(2**63))))
    assert found.result in ("equal", "not provable") and not found.differences, as_text([found])
