"""What the log says at most once a minute of each kind. Pure: time is an argument."""

import math
from collections import Counter
from typing import Final, Generic, TypeVar

K = TypeVar("K")

SAY_AGAIN_AFTER_S: Final = 60.0


class Sayings(Generic[K]):
    """What was said, by what it was of."""

    def __init__(self) -> None:
        self._said_s: dict[K, float] = {}
        self._unsaid: Counter[K] = Counter()

    def due(self, of: K, count: int, now_s: float) -> int | None:
        """So many more: how many there were since the last time, where it is time to say so; else
        None."""
        self._unsaid[of] += count
        if now_s - self._said_s.get(of, -math.inf) < SAY_AGAIN_AFTER_S:
            return None
        self._said_s[of] = now_s
        return self._unsaid.pop(of)
