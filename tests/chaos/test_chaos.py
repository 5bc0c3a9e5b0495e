"""Whatever breaks, the numbers are those of a run without faults; `make chaos` plays more."""

from pathlib import Path
from typing import Final

import pytest

from tests.chaos.faults import ACTS
from tests.chaos.play import play
from tests.chaos.schedule import KINDS, plan
from tests.chaos.stage import Stage

ROUNDS_IN_CI: Final = 20
SEEDS: Final = (5, 9)


async def test_numbers_survive_what_breaks(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        for seed in SEEDS:
            account = await play(stage, plan(seed), tmp_path / f"round-{seed}")
            assert account.good, (plan(seed), account)
            assert account.records > 1000 and account.faults > 0


def test_seed_gives_the_same_round() -> None:
    assert plan(7) == plan(7)
    assert plan(7) != plan(8)


@pytest.mark.parametrize("first", [0, 1, 2, 123_456])
def test_consecutive_rounds_meet_every_kind_of_fault(first: int) -> None:
    rounds = [plan(seed) for seed in range(first, first + ROUNDS_IN_CI)]
    assert {fault.kind for one in rounds for fault in one.faults} == set(KINDS)
    assert {one.topics for one in rounds} == {1, 2}


def test_every_kind_of_fault_can_be_done() -> None:
    assert ACTS.keys() == KINDS.keys()
