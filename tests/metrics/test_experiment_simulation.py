"""Small runs of the simulations of experiments; `make bench-experiments` has the large ones.

Each also holds a method that is wrong, so that it is known to detect one.
"""

import numpy as np
import pytest

from tests.bench.experiment_simulation import SEED, WORLDS, World, outcomes
from tests.bench.few_buckets import SCORES, SPLITS, rates as few_rates
from tests.bench.looks import (
    ALIKE,
    CLUSTERED,
    MAX_MISLEADING,
    Outcomes,
    Schedule,
    equal,
    share_text,
    unequal,
)
from tests.bench.other_statements import (
    CLICKED,
    MORE_CLICKS,
    credit_rates,
    undefined_rates,
    weighted_rates,
)
from tests.bench.rare_outcomes import Case, rates as rare_rates
from tests.bench.sample_ratios import MAX_FALSE_ALARMS, PLANS, users_until_alarm
from tests.bench.uneven_strata import (
    SCORES as STRATA_SCORES,
    SHAPES,
    rates as strata_rates,
    schedule_of,
)

IMPRESSIONS = 20_000
RUNS = 300
SMALL = Schedule(10_000, looks=40)
RARE = Schedule(20_000, looks=40, first=400)


def rarely(name: str, hits: list[bool]) -> None:
    print(f"seed {SEED}, {len(hits)} runs, {name}: {share_text(hits)}")
    assert np.mean(hits) <= MAX_MISLEADING


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: f"{world.design_effect}")
def test_a_look_at_every_pane_rarely_misleads(world: World) -> None:
    seen = outcomes(world, impressions=IMPRESSIONS, runs=RUNS, effect=0.0, seed=SEED)
    rarely("sequence", [run.ever for run in seen])
    rarely("guardrail", [run.guardrail for run in seen])
    # A test for a single look, at the same looks: the simulation does detect a wrong method.
    assert np.mean([run.peeking for run in seen]) > 4 * MAX_MISLEADING


def test_true_effect_is_found() -> None:
    seen = outcomes(WORLDS[0], impressions=IMPRESSIONS, runs=60, effect=0.1, seed=SEED)
    assert np.mean([run.ever for run in seen]) > 0.9


@pytest.mark.parametrize("treated", SPLITS)
@pytest.mark.parametrize("shape", [equal(17), unequal(17)], ids=["equal", "unequal"])
def test_few_buckets_rarely_mislead_up_to_ten_times_the_plan(
    shape: np.ndarray, treated: float
) -> None:
    found = few_rates(shape, treated, ALIKE, 2 * RUNS, SEED, SMALL)
    rarely("sequence", found["sequence"])
    rarely("guardrail", found["guardrail"])
    assert np.sum(found["normal"]) > 1.3 * np.sum(found["sequence"])


@pytest.mark.parametrize("rate", [0.0005, 0.005, 0.05])
@pytest.mark.parametrize("lift, treated", [(0.0, 0.5), (0.5, 0.1), (-0.5, 0.5)])
def test_relative_intervals_of_rare_outcomes_hold_the_truth(
    rate: float, lift: float, treated: float
) -> None:
    found = rare_rates(Case(rate, lift, treated), RUNS, SEED, RARE)
    rarely("absolute", found["absolute misses"])
    rarely("relative", found["relative misses"])
    assert not any(found["contradicts"])
    if rate <= 0.005:
        assert np.mean(found["delta method misses"]) > 3 * MAX_MISLEADING


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", STRATA_SCORES)
def test_strata_of_all_shapes_rarely_mislead(shape: str, kind: str) -> None:
    schedule = schedule_of(SHAPES[shape], looks=15)
    found = strata_rates(SHAPES[shape], STRATA_SCORES[kind], CLUSTERED, 60, SEED, schedule)
    rarely(shape, found["misleads"])


def test_treatment_that_only_adds_clicks_is_never_called_worse() -> None:
    """Over defined lists it would be: which lists are defined is its own doing."""
    found = undefined_rates(MORE_CLICKS, 100, SEED, SMALL)
    assert not any(found["worse"]) and np.mean(found["better"]) > 0.9
    assert np.mean(found["defined worse"]) > 0.9
    rarely("undefined lists", undefined_rates(CLICKED, RUNS, SEED, SMALL)["either"])


def test_interleaving_and_weighted_metrics_rarely_mislead() -> None:
    rarely("interleaving", credit_rates(RUNS, SEED, SMALL)["misleads"])
    for treated in SPLITS:
        rarely("IPS-DCG", weighted_rates(treated, RUNS, SEED, SMALL)["misleads"])


@pytest.mark.parametrize("planned", PLANS)
def test_users_assigned_as_planned_raise_no_alarm(planned: float) -> None:
    fair = users_until_alarm(planned, planned, users=IMPRESSIONS, runs=4_000, seed=SEED)
    print(f"seed {SEED}: {share_text((fair < np.inf).tolist(), 2)} false")
    assert (fair < np.inf).mean() <= MAX_FALSE_ALARMS


@pytest.mark.parametrize("share, users", [(0.49, 200_000), (0.4, 2_500), (0.05, 50)])
def test_users_assigned_otherwise_raise_an_alarm(share: float, users: int) -> None:
    skewed = users_until_alarm(share, 0.5, users=max(users, 600), runs=50, seed=SEED)
    assert (skewed <= users).all()


def test_simulated_outcomes_have_their_mean_and_unequal_buckets_their_number() -> None:
    few = unequal(17)
    assert 1.0 / (few**2).sum() == pytest.approx(17) and SCORES.scaled(0.5) == Outcomes(
        SCORES.values, [0.15, 0.1, 0.15]
    )
