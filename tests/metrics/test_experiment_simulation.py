"""A small run of the simulation of experiments; `make bench-experiments` is the large one."""

import numpy as np
import pytest

from tests.bench.experiment_simulation import (
    MAX_FALSE_ALARMS,
    MAX_MISLEADING,
    SEED,
    SKEWED,
    WORLDS,
    World,
    outcomes,
    share_text,
    users_until_alarm,
)

IMPRESSIONS = 20_000
RUNS = 300


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: f"{world.design_effect}")
def test_a_look_at_every_pane_rarely_misleads(world: World) -> None:
    seen = outcomes(world, impressions=IMPRESSIONS, runs=RUNS, effect=0.0, seed=SEED)
    ever = [run.ever for run in seen]
    guardrail = [run.guardrail for run in seen]
    print(f"seed {SEED}, {RUNS} runs: {share_text(ever)}, guardrail {share_text(guardrail)}")
    assert max(np.mean(ever), np.mean(guardrail)) <= MAX_MISLEADING
    # A test for a single look, at the same looks: the simulation does detect a wrong method.
    assert np.mean([run.peeking for run in seen]) > 4 * MAX_MISLEADING


def test_true_effect_is_found() -> None:
    seen = outcomes(WORLDS[0], impressions=IMPRESSIONS, runs=60, effect=0.1, seed=SEED)
    assert np.mean([run.ever for run in seen]) > 0.9


def test_users_assigned_as_planned_raise_no_alarm() -> None:
    fair = users_until_alarm(0.5, users=IMPRESSIONS, runs=2_000, seed=SEED)
    skewed = users_until_alarm(SKEWED, users=10 * IMPRESSIONS, runs=50, seed=SEED)
    print(
        f"seed {SEED}: {share_text((fair < np.inf).tolist(), 2)} false, found by {skewed.max():,}"
    )
    assert (fair < np.inf).mean() <= MAX_FALSE_ALARMS
    assert (skewed < np.inf).all()
