"""The index finds what is in it, whatever hashes collide, and nothing else."""

from collections.abc import Sequence

import numpy as np
import pytest

from relevanced.daemon.lane import NOT_FOUND, SMALLEST, IdIndex


def integers(values: Sequence[int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(values, np.int64)


def filled(hashes: Sequence[int], first: int = 0) -> IdIndex:
    index = IdIndex()
    index.rebuild(np.arange(first, first + len(hashes)), integers(hashes), more=0)
    return index


def test_each_hash_finds_its_slot() -> None:
    hashes = integers([5, -9, 2**62, 0])
    index = filled(hashes.tolist(), first=70)
    found = index.find(integers([0, 5, 6, -9, 2**62]), hashes, base=70)
    assert found.tolist() == [73, 70, NOT_FOUND, 71, 72]


def test_hashes_of_the_same_cell_are_all_found() -> None:
    """Multiples of the size of the table: one cell for all."""
    hashes = integers([SMALLEST * number for number in range(200)])
    index = filled(hashes.tolist())
    assert index.find(hashes, hashes, base=0).tolist() == list(range(200))
    assert set(index.candidates(0)) >= set(range(200))


def test_equal_hashes_are_all_candidates() -> None:
    index = filled([7, 7, 7])
    assert sorted(index.candidates(7)) == [0, 1, 2]
    assert index.candidates(700) == []


def test_slots_below_the_base_are_not_found() -> None:
    hashes = integers([1, 2, 3])
    index = filled(hashes.tolist())
    assert index.find(hashes, hashes[2:], base=2).tolist() == [NOT_FOUND, NOT_FOUND, 2]


def test_it_is_full_before_probing_gets_long() -> None:
    index = filled(list(range(100)))
    assert not index.is_full(1)
    assert index.is_full(SMALLEST)


@pytest.mark.parametrize("spread", [8, 2**62])
def test_it_finds_what_a_dictionary_finds(rng: np.random.Generator, spread: int) -> None:
    hashes = rng.permutation(np.unique(rng.integers(-spread, spread, 3000)))
    index, count = IdIndex(), 0
    for size in (1, 10, 200, len(hashes)):
        new = hashes[count:size]
        if index.is_full(len(new)):
            index.rebuild(np.arange(count), hashes[:count], len(new))
        index.insert(np.arange(count, count + len(new)), new)
        count += len(new)
    slots = {code: slot for slot, code in enumerate(hashes[:count].tolist())}
    wanted = rng.integers(-spread, spread, 3000)
    expected = [slots.get(code, NOT_FOUND) for code in wanted.tolist()]
    assert index.find(wanted, hashes, base=0).tolist() == expected
