"""Log lines that are written at most once a minute for each key. Pure: time is an argument."""

import math
from collections import Counter
from typing import Final, Generic, TypeVar

K = TypeVar("K")

LOG_AGAIN_AFTER_S: Final = 60.0


class RateLimit(Generic[K]):
    """When each key was last logged, and how often it occurred since."""

    def __init__(self) -> None:
        self._logged_s: dict[K, float] = {}
        self._since: Counter[K] = Counter()

    def due(self, key: K, count: int, now_s: float) -> int | None:
        """Count `count` more occurrences. Returns how many there were since the last line where it
        is time for another, else None."""
        self._since[key] += count
        if now_s - self._logged_s.get(key, -math.inf) < LOG_AGAIN_AFTER_S:
            return None
        self._logged_s[key] = now_s
        return self._since.pop(key)
