"""After any faults the numbers are those of a run without faults; `make chaos` plays more
rounds."""

from pathlib import Path
from typing import Final

import pytest

from relevanced.daemon.lane import chain
from tests.chaos.faults import ACTS
from tests.chaos.play import play
from tests.chaos.schedule import BESIDE, EVERY, KINDS, MODES, plan
from tests.chaos.stage import Stage

ROUNDS: Final = 28
"""So many in a row hold every kind of fault, whatever the seed of the first."""
SEEDS: Final = (9, 13)
"""All partitions are one lane, whose records name schemas; and a stage divides among lanes."""


async def test_numbers_survive_faults(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        for seed in SEEDS:
            result = await play(stage, plan(seed), tmp_path / f"round-{seed}")
            assert result.passed, (plan(seed), result)
            assert result.records > 1000 and result.faults > 0
    assert result.sent[chain.REPEAT] > 0 and result.sent[chain.EARLY] > 0


def test_plan_depends_on_the_seed_alone() -> None:
    assert plan(7) == plan(7)
    assert plan(7) != plan(8)


@pytest.mark.parametrize("first", [0, 1, 2, 123_456])
def test_consecutive_rounds_contain_every_kind_of_fault(first: int) -> None:
    rounds = [plan(seed) for seed in range(first, first + ROUNDS)]
    assert {fault.kind for planned in rounds for fault in planned.faults} == {*EVERY}
    assert {(planned.topics, planned.lanes) for planned in rounds} == {
        (topics, lanes) for topics in (1, 2) for lanes in MODES
    }


def test_every_kind_of_fault_is_implemented() -> None:
    assert ACTS.keys() == EVERY.keys()
    assert KINDS.keys() >= {*BESIDE}
