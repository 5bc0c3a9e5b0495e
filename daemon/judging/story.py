"""One change for one fault, as it is shown. Pure."""

from dataclasses import dataclass
from typing import Final

from .carriers import Explanation
from .ledger import Fall, Series
from .patterns import Pattern

ALL: Final = ("all", "all")


@dataclass(frozen=True)
class Measured:
    """A mean score."""

    mean: float | None
    stderr: float | None
    scored: int


@dataclass(frozen=True)
class Moved:
    """A score of one segment across the fault."""

    series: Series
    before: Measured
    now: Measured
    error: float
    """Standard error of the difference."""
    impressions: tuple[int, int]
    """Before and now."""

    @property
    def change_ratio(self) -> float | None:
        """The change as a share of what was before."""
        if self.before.mean is None or self.now.mean is None or not self.before.mean:
            return None
        return self.now.mean / self.before.mean - 1


@dataclass(frozen=True)
class Story:
    """One fault."""

    fall: Fall
    """The fall that tells it; its series is that of the segment that is named."""
    segments: tuple[str, ...]
    """The segments that are named, of one grouping: several where they broke together."""
    own: Moved
    by_weeks: bool
    """Whether the level before goes by earlier weeks."""
    z: float | None
    lanes: tuple[str, ...]
    called_ms: int
    explanation: Explanation | None = None
    pattern: Pattern | None = None
    also: tuple[Moved, ...] = ()
    shares: tuple[Moved, ...] = ()
    """What is low, by any metric, because it shares traffic with the segments that are named."""
    judged_shares: tuple[float | None, float | None] | None = None
    """Of a judged score: how much of the first places was judged before and is now."""

    @property
    def diluted(self) -> tuple[Moved, ...]:
        """The segments that share traffic with the named ones, by the metric that tells it."""
        metric = self.fall.series[2]
        return tuple(
            each for each in self.shares if each.series[2] == metric and each.series[:2] != ALL
        )

    @property
    def identity(self) -> str:
        """The same while the change is open."""
        grouping, segment, _ = self.fall.series
        kind = "c" if self.fall.graded is None else "j"
        return f"{kind}-{self.fall.first_ms // 1000}-{grouping}-{segment}"
