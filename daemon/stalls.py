"""The longest stall of the last minute. Pure: time is an argument."""

from collections import deque
from typing import Final

WINDOW_S: Final = 60.0


class LongestStall:
    """The greatest of what was noted within the last minute."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, float]] = deque()
        """(when, how long): older ones are longer, for a shorter one that is older never counts."""

    def note(self, now_s: float, stall_s: float) -> None:
        """A stall ended now."""
        while self._kept and self._kept[-1][1] <= stall_s:
            self._kept.pop()
        self._kept.append((now_s, stall_s))
        self._forget(now_s)

    def seconds(self, now_s: float) -> float:
        """The longest; 0 where nothing was noted."""
        self._forget(now_s)
        return self._kept[0][1] if self._kept else 0.0

    def _forget(self, now_s: float) -> None:
        while self._kept and self._kept[0][0] <= now_s - WINDOW_S:
            self._kept.popleft()
