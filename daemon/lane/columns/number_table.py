"""Numbers by number, looked up for a whole batch at once: sorted keys that are searched. Pure.

A dictionary asks for a Python object of each key; a batch has thousands of keys, nearly all of
which were there before.
"""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.int64]

NOT_THERE: Final = -1


class NumberTable:
    """A number, at least 0, of each of many keys."""

    def __init__(self) -> None:
        self._keys: Integers = np.zeros(0, np.int64)
        self._numbers: Integers = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, keys: Integers) -> Integers:
        """The number of each key, (n,); NOT_THERE where it has none."""
        if not len(self._keys):
            return np.full(len(keys), NOT_THERE)
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[places] == keys, self._numbers[places], NOT_THERE)

    def add(self, keys: Integers, numbers: Integers) -> None:
        """New keys, each once, with their numbers: (n,) of each."""
        order = np.argsort(keys)
        places = np.searchsorted(self._keys, keys[order])
        self._keys = np.insert(self._keys, places, keys[order])
        self._numbers = np.insert(self._numbers, places, numbers[order])
