"""The table finds what a dictionary finds."""

import numpy as np

from relevanced.daemon.lane.columns.sorted_map import MISSING, SortedMap


def test_it_finds_what_a_dictionary_finds(rng: np.random.Generator) -> None:
    table, known = SortedMap(), dict[int, int]()
    for size in (0, 1, 3, 200, 0, 1000):
        drawn = rng.permutation(np.unique(rng.integers(-5000, 2**62, size)))
        keys = drawn[[key not in known for key in drawn.tolist()]]
        numbers = rng.integers(0, 2**31, len(keys))
        table.add(keys, numbers)
        known.update(zip(keys.tolist(), numbers.tolist(), strict=True))
        asked = np.concatenate((rng.permutation(list(known) or [0]), rng.integers(0, 2**62, 50)))
        expected = [known.get(key, MISSING) for key in asked.tolist()]
        assert table.find(asked).tolist() == expected
        assert len(table) == len(known)
