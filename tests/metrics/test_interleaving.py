"""Interleaved lists: the team whose items have more gain gets the credit."""

import math

import numpy as np
import pytest

from relevanced.metrics import Design, UserBuckets, credits, preference


def test_credit_equals_the_definition(rng: np.random.Generator) -> None:
    gains = rng.integers(0, 4, (200, 8)).astype(np.float64)
    teams = rng.integers(-1, 2, (200, 8)).astype(np.int8)
    for k in (1, 5, 20):
        found = credits(gains, teams, k)
        for row in range(len(gains)):
            sides = [gains[row, :k][teams[row, :k] == side].sum() for side in (1, -1)]
            assert found[row] == np.sign(sides[0] - sides[1])


def test_swapped_teams_swap_the_credit(rng: np.random.Generator) -> None:
    gains, teams = rng.random((50, 5)), rng.integers(-1, 2, (50, 5)).astype(np.int8)
    assert (credits(gains, -teams, 5) == -credits(gains, teams, 5)).all()


def test_equal_gains_are_a_tie_in_any_order() -> None:
    """0.1 + 0.2 is not 0.3 in floating point, but as a gain it is."""
    gains = np.array([[0.1, 0.3, 0.2], [0.0, 0.0, 0.0]])
    teams = np.array([[1, -1, 1], [1, -1, 1]], dtype=np.int8)
    assert credits(gains, teams, 3).tolist() == [0.0, 0.0]


def test_counts_are_recovered_from_buckets(rng: np.random.Generator) -> None:
    credit = rng.choice([1.0, 0.0, -1.0], 5_000, p=[0.3, 0.5, 0.2])
    found = preference(UserBuckets.of(credit, rng.integers(0, 64, 5_000)), Design(5_000))
    assert (found.wins, found.losses) == ((credit > 0).sum(), (credit < 0).sum())
    assert found.ties == (credit == 0).sum()
    assert found.delta == pytest.approx(credit.mean() / 2)
    assert found.credit.verdict == "better"


def test_few_buckets_no_spread_and_no_impressions_are_undefined() -> None:
    few = preference(UserBuckets.of(np.ones(100), np.arange(100) % 15), Design(100))
    assert few.wins == 100 and math.isnan(few.credit.estimate.value)
    alike = preference(UserBuckets.of(np.ones(640), np.arange(640) % 64), Design(100))
    assert alike.wins == 640 and alike.credit.verdict == "undecided"
    nothing = preference(UserBuckets.empty(), Design(100))
    assert math.isnan(nothing.delta) and math.isnan(nothing.win_share)
    assert nothing.sign_test_p == 1.0 and nothing.credit.verdict == "undecided"
