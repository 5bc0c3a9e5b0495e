"""One fault as it is told: what fell, where, how far, by what it is explained. Pure.

Sizes and shares are told in bands; the word that was told last stays a little longer.
"""

from bisect import bisect
from dataclasses import dataclass
from math import inf
from typing import Final

from .evidence import STANDS_Z
from .ledger import Fall, FaultName, Series
from .patterns import Explanation, Pattern
from .settings import WHOLE

FINDS_CLICK: Final = "Success@"
"""Metrics that people understand: so many of 100 searches find a click."""


@dataclass(frozen=True)
class MeasuredChange:
    """A mean score."""

    mean: float | None
    stderr: float | None
    scored: int


@dataclass(frozen=True)
class Moved:
    """A score of one segment across the fault."""

    series: Series
    before: MeasuredChange
    now: MeasuredChange
    error: float
    """Standard error of the difference."""
    impressions: tuple[int, int]
    """Before and now."""
    best_case: tuple[float | None, float | None] = (None, None)
    """Of a judged score: what it was before and is now if the items without a judgement were as
    good as judged ones."""
    judged_shares: tuple[float | None, float | None] = (None, None)
    """Of a judged score: how much of the first places was judged before and is now."""
    usual: float | None = None
    """What earlier weeks have at the hours of `now`; None where no week is known."""

    @property
    def is_known(self) -> bool:
        """Whether any level is known: none is where the segment has no series any more."""
        return self.before.mean is not None or self.now.mean is not None

    @property
    def change_ratio(self) -> float | None:
        """The change as a share of what was before."""
        if self.before.mean is None or self.now.mean is None or not self.before.mean:
            return None
        return self.now.mean / self.before.mean - 1


@dataclass(frozen=True)
class LiveRise:
    """What has not settled yet is back: a level that feedback can only raise."""

    since_ms: int
    mean: float
    settled_ms: int
    """End of what has settled, by which the score had not recovered."""


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
    fell: tuple[Series, ...] = ()
    """The series of all falls that it tells."""
    live: LiveRise | None = None
    """None where what has not settled is low as well, or tells nothing yet."""
    name: FaultName | None = None
    """Under which it is told; None where nothing is known of it."""
    first: tuple[Series, int] | None = None
    """Series and first onset of the fall that keeps the name."""
    best_case_z: float | None = None
    """The change of the best case in standard errors."""

    @property
    def is_undecided(self) -> bool:
        """Whether the best case is not low, so that nobody knows whether the score is."""
        return self.best_case_z is not None and self.best_case_z > STANDS_Z

    @property
    def understood(self) -> Moved:
        """The share of searches that find a click, where it fell too; else what tells it."""
        if self.fall.graded is None:
            where = self.own.series[:2]
            for moved in (self.own, *self.also):
                if moved.series[:2] == where and moved.series[2].startswith(FINDS_CLICK):
                    return moved
        return self.own

    @property
    def size(self) -> str:
        """The word of SIZES; empty where the level before is not known."""
        ratio = self.understood.change_ratio
        return "" if ratio is None else SIZES.word(abs(ratio), self.name.size if self.name else "")

    @property
    def share(self) -> str:
        """The word of SHARES; empty where nothing explains the fall of the whole."""
        last = self.name.share if self.name else ""
        return "" if self.explanation is None else SHARES.word(self.explanation.carried, last)

    @property
    def diluted(self) -> tuple[Moved, ...]:
        """The segments that share traffic with the named ones, by the metric that tells it."""
        metric = self.fall.series[2]
        return tuple(
            each for each in self.shares if each.series[2] == metric and each.series[:2] != WHOLE
        )

    @property
    def identity(self) -> str:
        """The same while the change is open."""
        first = (self.fall.first_ms, *self.fall.series[:2])
        first_ms, grouping, segment = first if self.name is None else self.name.first
        kind = "c" if self.fall.graded is None else "j"
        return f"{kind}-{first_ms // 1000}-{grouping}-{segment}"


@dataclass(frozen=True)
class Bands:
    """Words for the bands of a value, the lowest first."""

    words: tuple[str, ...]
    bounds: tuple[float, ...]
    """Between two words each: a value at a bound has the higher word."""
    margin: float
    """A word that was told stays until the value is so far beyond its band."""

    def word(self, value: float, last: str = "") -> str:
        """The word of a value. `last`: the one told before, if any."""
        if last in self.words:
            at = self.words.index(last)
            lower, upper = (-inf, *self.bounds)[at], (*self.bounds, inf)[at]
            if lower - self.margin <= value < upper + self.margin:
                return last
        return self.words[bisect(self.bounds, value)]


SIZES: Final = Bands(("slightly", "clearly", "much"), (0.1, 0.3), 0.03)
"""Of a change, as a share of the level before."""
SHARES: Final = Bands(("a part", "about half", "most", "nearly all"), (0.4, 0.6, 0.9), 0.04)
"""Of the fall of the whole, that of the segments which are named."""
