"""What is written down is read back, to the last bit."""

import msgspec
import numpy as np
import pytest

from relevanced.daemon.lane import PAGE_ROWS
from relevanced.daemon.storage import (
    pack,
    pack_integers,
    pack_page,
    unpack,
    unpack_integers,
    unpack_page,
)

EXTREMES = np.iinfo(np.int64)
INTEGERS = {
    "none": [],
    "one": [0],
    "negative": [-1, -2, 1],
    "extremes": [EXTREMES.min, EXTREMES.max, 0],
    "every byte": [0x0102030405060708, 255, 256],
}


@pytest.mark.parametrize("values", INTEGERS.values(), ids=INTEGERS)
def test_integers_come_back(values: list[int]) -> None:
    back = unpack_integers(pack_integers(np.array(values, np.int64)))
    assert back.dtype == np.int64
    assert back.tolist() == values


def test_integers_are_stored_by_byte_lowest_first() -> None:
    assert pack_integers(np.array([1, 2, 256], np.int64))[:6] == bytes([1, 2, 0, 0, 0, 1])


def test_integers_read_back_may_be_changed() -> None:
    back = unpack_integers(pack_integers(np.array([1, 2], np.int64)))
    back += 1
    assert back.tolist() == [2, 3]


def test_a_page_comes_back(rng: np.random.Generator) -> None:
    rows = rng.integers(EXTREMES.min, EXTREMES.max, (PAGE_ROWS, 13), endpoint=True)
    back = unpack_page(pack_page(rows))
    np.testing.assert_array_equal(back, rows)
    assert back.shape == (PAGE_ROWS, 13)


def test_a_page_cut_out_of_larger_rows_comes_back() -> None:
    rows = np.arange(3 * PAGE_ROWS * 4, dtype=np.int64).reshape(-1, 4)
    page = rows[PAGE_ROWS : 2 * PAGE_ROWS]
    np.testing.assert_array_equal(unpack_page(pack_page(page)), page)


def test_a_page_of_small_counters_is_small() -> None:
    rows = np.zeros((PAGE_ROWS, 25), np.int64)
    rows[:3] = 7
    assert len(pack_page(rows)) < 100


def test_values_come_back_as_their_type() -> None:
    value = {"events": [{"US": 5}, {}]}
    assert unpack(pack(value), dict[str, list[dict[str, int]]]) == value
    assert pack(value) == pack(value)


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        unpack(pack(["text"]), list[int])
