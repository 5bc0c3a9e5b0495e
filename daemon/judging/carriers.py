"""Which segments carry a change of the whole: the exact decomposition, and what it explains.

A change of the whole is the sum, over the segments of a grouping, of a part from their own scores
and a part from their shares of the traffic. Where one segment is broken, every segment of every
other grouping that shares traffic with it is low as well. So a segment is named only where its
grouping explains the change through it: where all others of the grouping stand without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from relevanced.metrics.lists import Booleans, Floats

OUT_Z: Final = -3.0
"""A segment that is taken out is at least so many errors low, by itself and against the rest."""
STANDS_Z: Final = -2.5
"""Each segment of those that stand is less low than this."""
TOGETHER_Z: Final = -2.0
"""All that stand, at a constant mix, are less low than this."""
LEAST_CARRIED: Final = 0.7
"""The least share of the change that is carried by the segments that explain it."""


@dataclass(frozen=True, eq=False)
class Change:
    """The segments of one grouping before and after; every array is (segments,)."""

    segments: Sequence[str]
    before: Floats
    """Means; any finite value where nothing was scored."""
    after: Floats
    scored_before: Floats
    """Scored impressions, from which the shares of the traffic follow."""
    scored_after: Floats
    error: Floats
    """Standard error of `after - before`, greater than 0."""
    lower_is_better: bool = False

    @cached_property
    def z(self) -> Floats:
        """The change of each segment in errors, negative where it got worse."""
        return self._sign * (self.after - self.before) / self.error

    @cached_property
    def within(self) -> Floats:
        """The part of the whole's change that comes from each segment's own score."""
        return self.weight * (self._after - self._before)

    @cached_property
    def mix(self) -> Floats:
        """The part that comes from its share of the traffic."""
        shares = _shares(self.scored_after) - _shares(self.scored_before)
        return shares * (self._after + self._before) / 2

    @cached_property
    def weight(self) -> Floats:
        """The mean of both shares of the traffic."""
        return (_shares(self.scored_after) + _shares(self.scored_before)) / 2

    @property
    def whole(self) -> float:
        """The change of the whole: the sum of all parts."""
        return float(self.within.sum() + self.mix.sum())

    @property
    def _sign(self) -> float:
        return -1.0 if self.lower_is_better else 1.0

    @cached_property
    def _after(self) -> Floats:
        """A segment without traffic on one side has the mean of the other side there."""
        return np.where(self.scored_after > 0, self.after, self.before)

    @cached_property
    def _before(self) -> Floats:
        return np.where(self.scored_before > 0, self.before, self.after)

    @cached_property
    def both(self) -> Booleans:
        """Whether a segment has traffic on both sides; without, it can neither fall nor stand."""
        return (self.scored_before > 0) & (self.scored_after > 0)

    def together(self, which: Booleans) -> tuple[float, float]:
        """(change, its standard error) of these segments at a constant mix; (0, 0) of none."""
        total = self.weight[which].sum()
        if total <= 0:
            return 0.0, 0.0
        weight = self.weight[which] / total
        change = self._sign * float(weight @ (self.after - self.before)[which])
        return change, float(np.sqrt(weight**2 @ self.error[which] ** 2))


@dataclass(frozen=True)
class Explanation:
    """The segments of one grouping that carry a change of the whole."""

    grouping: str
    segments: tuple[str, ...]
    carried: float
    """Their share of the change of the whole; above 1 where the others rose."""
    within: float
    """Their part of the change, from their own scores."""
    mix: float
    """The part of the whole's change that comes from all shares of the traffic."""
    whole: float
    traffic: float
    """Their share of the traffic."""


def explained(groupings: Mapping[str, Change]) -> Explanation | None:
    """Return the grouping that explains why the whole got worse, and its segments that do: of
    several groupings the one whose segments have the least traffic. None: it is everywhere, or too
    small to say."""
    found = [
        explanation
        for name, change in groupings.items()
        if (explanation := _explained_by(name, change)) is not None
    ]
    return min(found, key=lambda explanation: explanation.traffic, default=None)


def _explained_by(grouping: str, change: Change) -> Explanation | None:
    out = _taken_out(change)
    stand = change.both & ~out
    if not out.any() or not stand.any() or change.whole == 0:
        return None
    carried = float(change.within[out].sum()) / change.whole
    if carried <= LEAST_CARRIED or not all(
        _differs(change, index, stand) for index in np.flatnonzero(out)
    ):
        return None
    return Explanation(
        grouping,
        tuple(change.segments[int(index)] for index in np.flatnonzero(out)),
        carried,
        float(change.within[out].sum()),
        float(change.mix.sum()),
        change.whole,
        float(change.weight[out].sum()),
    )


def _taken_out(change: Change) -> Booleans:
    """(segments,) those to take out, lowest first, until all others stand; none where one that does
    not stand is not low enough to be taken out."""
    out = np.zeros(len(change.segments), np.bool_)
    lowest_first = np.argsort(np.where(change.both, change.z, np.inf), kind="stable")
    for index in lowest_first[: int(change.both.sum())]:
        if _stand(change, change.both & ~out):
            return out
        if change.z[index] >= OUT_Z:
            return np.zeros_like(out)
        out[index] = True
    return out


def _stand(change: Change, which: Booleans) -> bool:
    if (change.z[which] <= STANDS_Z).any():
        return False
    together, error = change.together(which)
    return together > TOGETHER_Z * error or error == 0


def _differs(change: Change, index: np.intp, stand: Booleans) -> bool:
    own = np.arange(len(change.segments)) == index
    (changed, error), (rest, rest_error) = change.together(own), change.together(stand)
    return changed - rest < OUT_Z * float(np.hypot(error, rest_error))


def _shares(scored: Floats) -> Floats:
    total = scored.sum()
    return scored / total if total > 0 else np.zeros_like(scored)
