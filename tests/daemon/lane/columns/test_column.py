"""A column equals a list of integers, whatever was moved, returned to the system or reserved."""

import mmap
import sys

import numpy as np
import pytest

from relevanced.daemon.lane import DTYPES, SMALLEST_BYTES, Codes, Column, zeros
from relevanced.daemon.worker import resident_bytes


def column_of(numbers: list[int], typecode: str = "q") -> Column:
    column = Column(typecode)
    column.extend(np.array(numbers, np.int64))
    return column


@pytest.mark.parametrize("typecode", DTYPES)
def test_a_column_is_a_list(rng: np.random.Generator, typecode: str) -> None:
    column, twin = Column(typecode), list[int]()
    bounds = np.iinfo(DTYPES[typecode])
    for _ in range(200):
        count = int(rng.integers(0, 9000))
        match rng.integers(0, 5):
            case 0 | 1:
                numbers = rng.integers(bounds.min, bounds.max, count, DTYPES[typecode])
                column.extend(numbers)
                twin += numbers.tolist()
            case 2:
                column.append(7)
                twin.append(7)
            case 3:
                column.skip(count)
                twin += [0] * count
            case _:
                count = len(twin) if rng.random() < 0.05 else min(len(twin), 3 * count)
                column.drop_front(count)
                del twin[:count]
        assert len(column) == len(twin)
        assert np.array_equal(column.view(), twin)


def test_single_values_are_read_and_written_by_index() -> None:
    column = column_of([1, 2, 3])
    column.drop_front(1)
    column[0] = 5
    assert (column[0], column[-1], list(column)) == (5, 3, [5, 3])
    with pytest.raises(IndexError):
        column[2]


def test_bytes_are_appended_and_returned() -> None:
    column = Column("B")
    column.extend_bytes(b"abcdef")
    column.drop_front(2)
    assert (column.bytes_at(0, 3), len(column)) == (b"cde", 4)


def test_a_view_writes_to_the_column() -> None:
    column = column_of([1, 2])
    column.view()[1] = 9
    assert list(column) == [1, 9]


def test_a_column_with_a_view_does_not_move() -> None:
    column = column_of([1])
    view = column.view()
    with pytest.raises(BufferError):
        column.skip(SMALLEST_BYTES)
    assert view.tolist() == [1]
    with pytest.raises(BufferError):
        column.drop_front(1)


def test_space_dropped_at_the_front_is_used_again() -> None:
    column = column_of([1] * 1000)
    for _ in range(1000):
        column.extend(np.ones(1000, np.int64))
        column.drop_front(1000)
    assert len(column._memory) == SMALLEST_BYTES


def test_a_growing_column_reserves_at_most_four_times_its_values() -> None:
    column = column_of([1] * 100_000)
    column.drop_front(10)
    column.skip(100_000)
    assert len(column._memory) <= 4 * 8 * 200_000


@pytest.mark.skipif(sys.platform != "linux", reason="reports resident memory there only")
def test_dropped_and_skipped_values_take_no_memory() -> None:
    many = 1 << 26
    before = resident_bytes() or 0
    column = Column("B")
    column.extend(np.broadcast_to(np.uint8(1), many))
    filled = resident_bytes() or 0
    column.drop_front(many - mmap.PAGESIZE)
    column.skip(many)
    after = resident_bytes() or 0
    assert filled - before > many // 2 > after - before


@pytest.mark.parametrize("largest", [(255, 255), (255, 256), (7, 65_536), (65_535, 2**31 - 1)])
def test_codes_are_as_wide_as_the_largest_needs(largest: tuple[int, int]) -> None:
    codes = Codes()
    for number in largest:
        codes.append(number)
        codes.extend(np.array([0, number], np.int64))
    codes.extend(np.zeros(0, np.int64))
    assert list(codes) == [code for number in largest for code in (number, 0, number)]
    assert codes.view().itemsize == (1 if largest[1] < 256 else 2 if largest[1] < 65_536 else 4)


@pytest.mark.parametrize("larger", [9, 256, 65_536])
def test_codes_widen_for_larger_replacements(larger: int) -> None:
    codes = Codes()
    codes.extend(np.arange(4))
    codes[1] = larger
    codes.put(np.array([3, 0]), np.array([larger + 1, 5]))
    codes.put(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert list(codes) == [5, larger, 2, larger + 1]


def test_zeros_are_writable() -> None:
    numbers = zeros(3)
    numbers[1] = 2
    assert numbers.tolist() == [0, 2, 0]
