"""How fast a registry may be asked. Pure."""

from typing import Final

BURST: Final = 200
"""So many questions may be asked at once after a while of silence: more than a process meets at its
start."""
A_SECOND: Final = 100.0
"""So many may be asked in a second from then on."""


class Rate:
    """A bound on how often something is done: a burst, and then so many a second."""

    def __init__(self, burst: int = BURST, a_second: float = A_SECOND) -> None:
        self._burst, self._a_second = float(burst), a_second
        self._left, self._seen_s = float(burst), 0.0

    def take(self, now_s: float) -> float:
        """Take one turn, and return for how many seconds to wait before it. `now_s` never goes
        back."""
        gained = (now_s - self._seen_s) * self._a_second
        self._left = min(self._burst, self._left + max(gained, 0.0)) - 1.0
        self._seen_s = now_s
        return max(-self._left / self._a_second, 0.0)
