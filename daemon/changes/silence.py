"""Whether searches or feedback have stopped, of all partitions or some, by what is usual. Pure."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from .timeline import HOUR_MS, MINUTE_MS

Stream: TypeAlias = Literal["searches", "feedback"]
LEAST_SILENCE_MS: Final = 5 * MINUTE_MS
"""Nothing shorter is silence."""
USUAL_GAPS: Final = 20.0
"""Nor is what lasts less than so many times the usual time between two."""
USUAL_DELAYS: Final = 2.0
"""Nor what lasts less than so many times as long ago as the newest usually was."""


@dataclass(frozen=True)
class Silence:
    """Nothing comes."""

    stream: Stream
    since_ms: int
    usual_per_hour: float
    """0: there has never been any."""
    partitions: tuple[int, ...] = ()
    """Those from which nothing comes; empty: none of all brings any."""
    rejected: int = 0
    """Records that were rejected since then, as far as is known."""


def silence(
    stream: Stream, since_ms: int, now_ms: int, usual_per_hour: float, delay_ms: float = 0.0
) -> Silence | None:
    """Whether nothing since then is news, where so many an hour are usual at this hour. `delay_ms`:
    how long ago the newest usually was."""
    if usual_per_hour <= 0:
        return None
    gap_ms = HOUR_MS / usual_per_hour
    least_ms = max(LEAST_SILENCE_MS, USUAL_GAPS * gap_ms, USUAL_DELAYS * delay_ms)
    is_long = now_ms - since_ms >= least_ms
    return Silence(stream, since_ms, usual_per_hour) if is_long else None
