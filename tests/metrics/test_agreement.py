"""Agreement of raters, by published values and by definition."""

from itertools import permutations

import numpy as np
import pytest

from relevanced.metrics import cohen_kappa, krippendorff_alpha

X = np.nan
PUBLISHED = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, X, X, X],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, X, 3],
        [X, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, X],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, X],
    ]
).T
"""Krippendorff 2011, section D: four observers of twelve units."""


def test_alpha_is_that_of_the_publication() -> None:
    assert krippendorff_alpha(PUBLISHED) == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(PUBLISHED, interval=True) == pytest.approx(0.849, abs=5e-4)


@pytest.mark.parametrize("squared", [False, True])
def test_both_are_their_definitions(rng: np.random.Generator, squared: bool) -> None:
    def apart(a: float, b: float) -> float:
        return (a - b) ** 2 if squared else float(a != b)

    first = rng.integers(0, 4, 60).astype(float)
    second = np.where(rng.random(60) < 0.6, first, rng.integers(0, 4, 60))
    seen = np.mean([apart(a, b) for a, b in zip(first, second, strict=True)])
    chance = np.mean([apart(a, b) for a in first for b in second])
    assert cohen_kappa(first, second, quadratic=squared) == pytest.approx(1 - seen / chance)
    pairs = np.column_stack([first, second])
    of_all = np.mean([apart(a, b) for a, b in permutations(pairs.ravel().tolist(), 2)])
    assert krippendorff_alpha(pairs, interval=squared) == pytest.approx(1 - seen / of_all)


def test_what_cannot_disagree_is_undefined() -> None:
    same = np.ones(4)
    assert np.isnan(cohen_kappa(same, same)) and np.isnan(cohen_kappa(same[:0], same[:0]))
    assert np.isnan(krippendorff_alpha(np.ones((4, 2)))) and np.isnan(
        krippendorff_alpha(np.array([[1, X], [2, X]]))
    )
