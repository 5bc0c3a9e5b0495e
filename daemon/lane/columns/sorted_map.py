"""Integers by integer key, looked up for a whole batch at once in sorted arrays. Pure.

A dictionary needs a Python object and a look-up for each key of a batch. Nearly all keys of a batch
were seen before: one binary search answers them together, and inserting is rare.
"""

from typing import Final

import numpy as np

from relevanced.metrics.lists import Integers

MISSING: Final = -1


class SortedMap:
    """An integer, at least 0, for each of many keys."""

    def __init__(self) -> None:
        self._keys: Integers = np.zeros(0, np.int64)
        self._values: Integers = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, keys: Integers) -> Integers:
        """Return the value of each key, (n,); MISSING for keys that were not added."""
        if not len(self._keys):
            return np.full(len(keys), MISSING)
        indices = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[indices] == keys, self._values[indices], MISSING)

    def add(self, keys: Integers, values: Integers) -> None:
        """Add new keys, each once, with their values: (n,) of each."""
        order = np.argsort(keys)
        indices = np.searchsorted(self._keys, keys[order])
        self._keys = np.insert(self._keys, indices, keys[order])
        self._values = np.insert(self._values, indices, values[order])
