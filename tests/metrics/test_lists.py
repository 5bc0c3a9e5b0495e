"""`Lists.of`: padding, and errors for invalid values."""

import math
from typing import Any

import numpy as np
import pytest

from relevanced.metrics import Lists, by_column, parse


def test_lists_are_padded_to_the_longest() -> None:
    lists = Lists.of([[1, None, 2], [], [0.5]])
    np.testing.assert_array_equal(lists.gains, [[1, 0, 2], [0, 0, 0], [0.5, 0, 0]])
    np.testing.assert_array_equal(lists.judged, [[1, 0, 1], [0, 0, 0], [1, 0, 0]])
    assert lists.lengths.tolist() == [3, 0, 1]


def test_array_is_cut_to_its_lengths() -> None:
    lists = Lists.of(np.array([[1.0, 2.0], [3.0, np.nan]]), lengths=[1, 2])
    np.testing.assert_array_equal(lists.gains, [[1, 0], [3, 0]])
    assert lists.judged.tolist() == [[True, False], [True, False]]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "one-dimensional": ({"grades": np.zeros(3)}, "shape (3,): must be two-dimensional"),
    "infinite": ({"grades": [[1, float("inf")]]}, "grades[0][1]=inf: must be finite"),
    "text": ({"grades": [["high"]]}, "grades[0]=['high']: must be a sequence of numbers"),
    "nested": ({"grades": [[[1]]]}, "must be a flat sequence"),
    "too long": ({"grades": [[1]], "lengths": [2]}, "lengths[0]=2: must be from 0 to 1 ranks"),
    "fraction": ({"grades": [[1]], "lengths": [0.5]}, "must be whole numbers"),
    "count": ({"grades": [[1]], "collection_size": [1, 2]}, "one value for each list, (1,)"),
    "negative": ({"grades": [[1]], "known_relevant": [-1]}, "the lowest is -1, must be >= 0"),
    "pool": ({"grades": [[1]], "pool": []}, "pool of 0 queries: must be one for each list, 1"),
    "known": ({"grades": [[1]], "known": [[True, True]]}, "known[0] of 2 ranks: must be at most 1"),
    "known rows": ({"grades": [[1]], "known": []}, "known of 0 rows: must be one for each list, 1"),
    "weights": ({"grades": [[1, 2]], "weights": [[1.0]]}, "must be (1, at least 2)"),
    "no weight": ({"grades": [[]], "weights": [[]]}, "must be (1, at least 1)"),
    "weight of 0": ({"grades": [[1]], "weights": [[0.0]]}, "the lowest is 0.0, must be finite"),
    "half known": ({"grades": [[1, 1]], "weights": [[1.0, math.nan]]}, "or NaN at every one"),
    "seconds": ({"grades": [[1]], "first_feedback_s": []}, "must be one for each list, (1,)"),
}


@pytest.mark.parametrize(("given", "message"), REFUSED.values(), ids=REFUSED)
def test_error_names_the_invalid_value_and_the_rule(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        Lists.of(**given)
    assert message in str(error.value)


def test_layout_changes_no_value(rng: np.random.Generator) -> None:
    grades = rng.integers(0, 4, (20, 6)).astype(np.float64)
    by_rows = Lists(
        gains=np.ascontiguousarray(grades),
        lengths=np.full(20, 6, dtype=np.int64),
        judged=grades > 0,
    )
    metric = parse("nDCG@3")
    np.testing.assert_array_equal(metric.values(by_rows), metric.values(Lists.of(grades)))


def test_blocks_are_the_lists_again(rng: np.random.Generator) -> None:
    lists = Lists.of(rng.integers(0, 4, (10, 3)), pool=rng.integers(0, 4, (10, 5)))
    blocks = list(lists.blocks(4))
    assert [len(block) for block in blocks] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate([block.gains for block in blocks]), lists.gains)
    assert all(block.pool is not None and len(block.pool) == len(block) for block in blocks)


def test_contiguous_columns_are_not_copied() -> None:
    columns = np.zeros((8, 3), order="F")
    assert np.shares_memory(by_column(columns[2:5]), columns)
