"""A fresh namespace that catches up with its logs. Pure apart from what it keeps from look to look.

It begins in the past: its windows are hours old, and grow to the present within minutes. Until then
an exporter of it must not replace one that serves the present. A namespace catches up once, until
another one takes over: where it falls behind in between, an alert says so.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..events import span_text

WITHIN_MS: Final = 600_000
"""A namespace has caught up once every lane is complete up to so long ago: by its events, or
because its owner has seen the end of its logs. It is the distance from which on windows are late
(`changes.late_seconds`): one that stays nearer would never catch up, and nobody would know."""
MEASURED_OVER_MS: Final = 60_000
"""The speed is that of the last minute."""
LEAST_MEASURED_MS: Final = 3_000
"""No speed is stated that was measured for a shorter time."""


@dataclass(frozen=True)
class CatchUpProgress:
    """How far a namespace is that has not caught up."""

    behind_ms: int | None
    """From the lane furthest behind to the clock; None while a lane has read nothing yet."""
    remaining_ms: int | None
    """Until it has caught up, at the speed of the last minute; None where that is not known, or
    nothing moves."""
    waiting: tuple[int, ...] = ()
    """Lanes that were not claimed yet, or have read nothing."""

    def words(self) -> str:
        """One sentence for people."""
        if self.behind_ms is None:
            named = ", ".join(map(str, self.waiting[:5])) + (", …" if self.waiting[5:] else "")
            return f"nothing has been read yet of lanes {named}" if named else "no lane has begun"
        behind = f"{span_text(self.behind_ms)} behind"
        if self.remaining_ms is None:
            return f"{behind}, no speed known yet, or none"
        return f"{behind}, done in about {span_text(self.remaining_ms)}"


class CatchUp:
    """What was seen of one namespace in the last minute."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int]] = deque()

    def progress(self, times_ms: Sequence[int | None], now_ms: int) -> CatchUpProgress | None:
        """Note how far the lanes are complete now (None: nothing read yet); returns the progress,
        or None where the namespace has caught up."""
        reached = [time_ms for time_ms in times_ms if time_ms is not None]
        if len(reached) < len(times_ms) or not reached:
            self._seen.clear()
            waiting = tuple(lane for lane, time_ms in enumerate(times_ms) if time_ms is None)
            return CatchUpProgress(None, None, waiting)
        behind_ms = max(now_ms - min(reached), 0)
        if behind_ms <= WITHIN_MS:
            self._seen.clear()
            return None
        self._seen.append((now_ms, behind_ms))
        while now_ms - self._seen[0][0] > MEASURED_OVER_MS:
            self._seen.popleft()
        return CatchUpProgress(behind_ms, self._remaining_ms(behind_ms))

    def _remaining_ms(self, behind_ms: int) -> int | None:
        (first_ms, before_ms), (last_ms, _) = self._seen[0], self._seen[-1]
        took_ms, gained_ms = last_ms - first_ms, before_ms - behind_ms
        if took_ms < LEAST_MEASURED_MS or gained_ms <= 0:
            return None
        return round((behind_ms - WITHIN_MS) * took_ms / gained_ms)
