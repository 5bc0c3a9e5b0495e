"""The table finds what a dictionary finds."""

import numpy as np

from relevanced.daemon.lane import NO_PLACE, SortedMap


def test_it_finds_what_a_dictionary_finds(rng: np.random.Generator) -> None:
    table, by_key = SortedMap(), dict[int, int]()
    for size in (0, 1, 3, 200, 0, 1000):
        drawn = rng.permutation(np.unique(rng.integers(-5000, 2**62, size)))
        keys = drawn[[key not in by_key for key in drawn.tolist()]]
        values = rng.integers(0, 2**31, len(keys))
        table.add(keys, values)
        by_key.update(zip(keys.tolist(), values.tolist(), strict=True))
        wanted = np.concatenate((rng.permutation(list(by_key) or [0]), rng.integers(0, 2**62, 50)))
        expected = [by_key.get(key, NO_PLACE) for key in wanted.tolist()]
        assert table.find(wanted).tolist() == expected
        assert len(table) == len(by_key)
