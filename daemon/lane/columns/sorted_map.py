"""Numbers by number, looked up for a whole batch at once: sorted keys that are searched. Pure.

A dictionary asks for a Python object of each key; a batch has thousands of keys, nearly all of
which were there before.
"""

from typing import Final

import numpy as np
from relevanced.metrics.lists import Integers

MISSING: Final = -1


class SortedMap:
    """A number, at least 0, of each of many keys."""

    def __init__(self) -> None:
        self._keys: Integers = np.zeros(0, np.int64)
        self._numbers: Integers = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, keys: Integers) -> Integers:
        """The number of each key, (n,); MISSING where it has none."""
        if not len(self._keys):
            return np.full(len(keys), MISSING)
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[places] == keys, self._numbers[places], MISSING)

    def add(self, keys: Integers, numbers: Integers) -> None:
        """New keys, each once, with their numbers: (n,) of each."""
        order = np.argsort(keys)
        places = np.searchsorted(self._keys, keys[order])
        self._keys = np.insert(self._keys, places, keys[order])
        self._numbers = np.insert(self._numbers, places, numbers[order])
