"""`evaluate`: lists, dictionaries and arrays give the same values."""

import math

import numpy as np
import pytest

from relevanced.metrics import Lists, Mean, evaluate, geometric, judged_lists, macro

NAMES = ["P@2", "RR", "nDCG@2"]


def test_lists_arrays_and_batches_agree() -> None:
    plain = [[1, 0, 2], [0, 1, 0]]
    batches = (plain, np.array(plain), np.array(plain, dtype=float), Lists.of(plain))
    means = [
        {name: scores.mean for name, scores in evaluate(batch, NAMES, max_grade=2).items()}
        for batch in batches
    ]
    assert means.count(means[0]) == 4
    assert means[0]["RR"].value == 0.75


def test_judgements_grade_rankings_and_make_the_pool() -> None:
    shown = {"q1": ["a", "b", "a"], "q9": ["a"]}
    judgements = {"q1": {"a": 1, "c": 2}, "q2": {"a": 1}}
    lists = judged_lists(shown, judgements)
    np.testing.assert_array_equal(lists.gains, [[1, 0, 0], [0, 0, 0]])
    scores = evaluate(shown, ["R@5"], judgements=judgements)["R@5"]
    assert scores.values.tolist() == [0.5, 0.0]


def test_undefined_is_left_out_of_the_mean_and_counted() -> None:
    scores = evaluate([[1], [0]], ["nDCG@1"])["nDCG@1"]
    assert scores.mean == Mean(1.0, 1, 2)
    assert macro(scores.values, undefined="zero") == Mean(0.5, 2, 2)


def test_mean_of_nothing_is_undefined() -> None:
    assert math.isnan(macro(np.array([np.nan])).value)
    assert math.isnan(geometric(np.array([])).value)


def test_geometric_mean_has_a_floor() -> None:
    assert geometric(np.array([0.0, 1.0])).value == pytest.approx(1e-5**0.5)


def test_rankings_without_judgements_are_refused() -> None:
    with pytest.raises(ValueError, match="judgements must be given"):
        evaluate({"q": ["a"]}, ["P@1"])
    with pytest.raises(ValueError, match="lists must be a mapping"):
        evaluate([[1]], ["P@1"], judgements={"q": {"a": 1}})
