"""Rows in pages are the rows of one large matrix, and cost only the pages that were touched."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from relevanced.daemon.lane import LARGEST_SUM, PAGE_ROWS, PagedRows, Rows, summed, take
from tests.lane_views import pages_of

WIDTH = 2
MOST = 6 * PAGE_ROWS
SEGMENTS = st.lists(st.integers(0, MOST - 1), max_size=20, unique=True)
PAGE = st.integers(0, MOST // PAGE_ROWS - 1)
STEPS = st.lists(st.tuples(st.sampled_from(["add", "add_page", "set_page"]), SEGMENTS, PAGE))


def numbered(segments: list[int], more: int = 0) -> Rows:
    """A row of its own for each segment."""
    return np.array([[segment + 1, -segment - more] for segment in segments], np.int64)


@given(STEPS)
def test_any_steps_equal_those_on_a_matrix(steps: list[tuple[str, list[int], int]]) -> None:
    rows, matrix, touched = PagedRows(WIDTH), np.zeros((MOST, WIDTH), np.int64), set[int]()
    for number, (step, segments, page) in enumerate(steps):
        of_page, values = slice(page * PAGE_ROWS, (page + 1) * PAGE_ROWS), numbered(segments)
        if step == "add":
            ids = np.array(segments, np.int64)
            pages = rows.add(ids, values.reshape(-1, WIDTH))
            assert pages == {segment // PAGE_ROWS for segment in segments}
            np.add.at(matrix, ids, values.reshape(-1, WIDTH))
            touched |= pages
            continue
        whole = numbered(list(range(PAGE_ROWS)), number)
        getattr(rows, step)(page, whole)
        matrix[of_page] = whole + (matrix[of_page] if step == "add_page" else 0)
        touched.add(page)
    assert set(rows.page_numbers) == rows.pages.keys() == touched
    for page, view in rows.pages.items():
        np.testing.assert_array_equal(view, matrix[page * PAGE_ROWS :][:PAGE_ROWS])
        assert np.shares_memory(view, rows.page(page))
    np.testing.assert_array_equal(take(rows.pages, np.arange(MOST), WIDTH), matrix)


@given(st.lists(SEGMENTS, max_size=5))
def test_pages_sum_like_matrices(parts: list[list[int]]) -> None:
    matrices = [np.zeros((MOST, WIDTH), np.int64) for _ in parts]
    for matrix, segments in zip(matrices, parts, strict=True):
        matrix[segments] = numbered(segments).reshape(-1, WIDTH)
    total, bound = summed(pages_of(matrix) for matrix in matrices)
    expected = np.sum(matrices, axis=0) if parts else np.zeros((MOST, WIDTH), np.int64)
    np.testing.assert_array_equal(take(total, np.arange(MOST), WIDTH), expected)
    assert bound >= np.abs(expected).max()
    assert bound <= sum(int(np.abs(matrix).max()) for matrix in matrices)


def test_a_high_segment_costs_one_page() -> None:
    rows = PagedRows(25)
    rows.add(np.array([0, 10**7]), np.ones((2, 25), np.int64))
    assert rows.page_numbers == (0, 10**7 // PAGE_ROWS)
    assert sum(page.nbytes for page in rows.pages.values()) == 2 * PAGE_ROWS * 25 * 8


def test_growing_costs_little() -> None:
    """An eighth more than needed is allocated, so that each row is moved a few times at most."""
    rows, moves, room = PagedRows(1), 0, None
    for page in range(400):
        rows.add(np.array([page * PAGE_ROWS]), np.ones((1, 1), np.int64))
        base = rows.page(0).base
        moves, room = moves + (base is not room), base
    assert moves < 45


@pytest.mark.parametrize("page", [0, 9])
def test_a_page_that_was_never_touched_is_an_error(page: int) -> None:
    rows = PagedRows(WIDTH)
    rows.add(np.array([3 * PAGE_ROWS]), np.ones((1, WIDTH), np.int64))
    with pytest.raises(LookupError):
        rows.page(page)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_counter_that_reaches_the_limit_is_an_error(sign: int) -> None:
    almost = np.full((PAGE_ROWS, WIDTH), sign * (LARGEST_SUM - 1), np.int64)
    rows, one = PagedRows(WIDTH), np.full((1, WIDTH), sign, np.int64)
    rows.add_page(0, almost)
    for add in (lambda: rows.add(np.array([5]), one), lambda: rows.add_page(0, one)):
        with pytest.raises(OverflowError, match=f"a counter of {LARGEST_SUM}: must stay below"):
            add()
