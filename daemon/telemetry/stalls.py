"""How long the event loop kept others waiting: heartbeats, scrapes and commits of other lanes.

A gauge of the longest stall of the last minute, not a histogram of delays: the question is whether
one piece of work blocked the loop, and among hundreds of wake-ups between two scrapes a single
long one moves no quantile. The value does not reset when it is read, so every Prometheus server
sees it, at any scrape interval up to a minute.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

WINDOW_S: Final = 60.0
INTERVAL_S: Final = 0.1


class LongestStall:
    """The longest stall of the last minute. Safe to read from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stalls: deque[tuple[float, float]] = deque()
        """(when, how long), the longest first: a stall goes as soon as a later one is as long."""

    def note(self, now_s: float, stall_s: float) -> None:
        """Note a stall that ended now."""
        with self._lock:
            while self._stalls and self._stalls[-1][1] <= stall_s:
                self._stalls.pop()
            self._stalls.append((now_s, stall_s))
            self._forget(now_s)

    def seconds(self, now_s: float) -> float:
        """The longest stall in seconds; 0 where none was noted."""
        with self._lock:
            self._forget(now_s)
            return self._stalls[0][1] if self._stalls else 0.0

    def _forget(self, now_s: float) -> None:
        while self._stalls and self._stalls[0][0] <= now_s - WINDOW_S:
            self._stalls.popleft()


async def watch_stalls(note: Callable[[float], None], interval_s: float = INTERVAL_S) -> None:
    """Note by how many seconds the event loop wakes this task too late, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due_s = loop.time() + interval_s
        await asyncio.sleep(interval_s)
        note(max(0.0, loop.time() - due_s))
