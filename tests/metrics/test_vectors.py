"""Curves and vectors: each point is the value at its rank or level."""

from fractions import Fraction

import numpy as np
import pytest

from relevanced.metrics import (
    ELEVEN_LEVELS,
    Lists,
    curve_points,
    eleven_point_average,
    graded,
    interpolated_curve,
    interpolated_precision,
    parse,
)


@pytest.mark.parametrize(
    "discount", [graded.no_discount, graded.log2_discount, graded.base_discount(2)]
)
def test_vector_has_the_value_at_every_rank(
    discount: graded.Discount, rng: np.random.Generator
) -> None:
    gains = rng.integers(0, 4, (30, 8)).astype(np.float64)
    pool = np.concatenate([gains, rng.integers(0, 4, (30, 4))], axis=1)
    sums = graded.dcg_vector(gains, graded.linear_gain, discount)
    shares = graded.ndcg_vector(gains, pool, graded.linear_gain, discount)
    for k in range(1, 9):
        actual = graded.dcg(gains, k, graded.linear_gain, discount)
        ideal = graded.best_dcg(pool, k, graded.linear_gain, discount)
        np.testing.assert_allclose(sums[:, k - 1], actual, rtol=1e-12)
        np.testing.assert_allclose(shares[:, k - 1], graded.ndcg(actual, ideal), rtol=1e-12)


def test_vector_of_a_pool_smaller_than_the_list() -> None:
    vector = graded.ndcg_vector(np.array([[0.0, 1.0, 0.0]]), np.array([[1.0]]), graded.linear_gain)
    np.testing.assert_allclose(vector, [[0.0, 1 / np.log2(3), 1 / np.log2(3)]])


def test_curve_has_a_point_at_every_relevant_rank() -> None:
    gains = [1, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1]
    points = curve_points(np.array(gains, dtype=np.bool_), 10)
    assert points == [(0.1, 1.0), (0.2, 2 / 3), (0.3, 0.5), (0.4, 0.4), (0.5, 1 / 3)]


def test_interpolated_precision_never_rises_with_recall(rng: np.random.Generator) -> None:
    relevant = rng.random((50, 12)) < 0.4
    known = relevant.sum(axis=1) + rng.integers(0, 3, 50)
    curve = interpolated_curve(relevant, known)
    assert (np.diff(curve, axis=1) <= 0).all()
    np.testing.assert_allclose(curve.mean(axis=1), eleven_point_average(relevant, known, 12))


@pytest.mark.parametrize("known", [1, 3, 7, 10, 49, 999])
def test_recall_test_is_exact_at_every_level(known: int) -> None:
    """A list with just enough relevant items for a level reaches it; with one less, it does not."""
    for level in ELEVEN_LEVELS:
        needed = -(-level.numerator * known // level.denominator)
        relevant = np.ones((1, max(needed, 1)), dtype=np.bool_)
        reached = interpolated_precision(relevant, np.array([known]), level, needed)
        short = interpolated_precision(relevant, np.array([known]), level, needed - 1)
        assert (reached > 0) == (needed > 0)
        assert not short.any()


def test_level_of_a_name_is_an_exact_decimal() -> None:
    lists = Lists.of([[1] * 7 + [0]], pool=[[1] * 10])
    assert Fraction(parse("IPrec@0.70").word("recall")) == Fraction(7, 10)
    assert parse("IPrec@0.7").values(lists).tolist() == [1.0]
    assert parse("IPrec@0.71").values(lists).tolist() == [0.0]
