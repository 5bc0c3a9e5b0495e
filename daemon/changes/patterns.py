"""What a drop looks like, and which segments carry it. Pure.

Patterns are one table, with the conditions on the evidence: `pattern_of` decides by it, and `python
-m deploy.prometheus` makes the runbook's table of it.

A change of the whole is the sum, over the segments of a grouping, of a part from their own scores
and a part from their shares of the traffic: an exact decomposition. Where one segment is broken,
every segment of every other grouping that shares traffic with it is low as well. So a segment is
named only where its grouping explains the change through it: where all others of the grouping stand
without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, TypeAlias

import numpy as np

from relevanced.metrics import Booleans, Floats

Operator: TypeAlias = Literal["<", ">", "=="]


@dataclass(frozen=True)
class Compare:
    """One number of the evidence beside a limit; untrue where the number is unknown."""

    number: str
    operator: Operator
    limit: float


@dataclass(frozen=True)
class Every:
    """All of these, and none of `but`."""

    of: "tuple[Condition, ...]"
    but: "tuple[Condition, ...]" = ()


@dataclass(frozen=True)
class Either:
    """At least one of these."""

    of: "tuple[Condition, ...]"


Condition: TypeAlias = Compare | Every | Either


@dataclass(frozen=True)
class Pattern:
    """One row of the table."""

    name: str
    when: Condition
    words: str
    """What is seen, as the second half of "Looks like NAME: …"."""
    look_at: str


NUMBERS: Final[Mapping[str, str]] = {
    "mix_share": "the part of the change of the whole that comes from the segments' shares of the "
    "traffic, where the whole is more than 3 errors low",
    "feedback_z": "share of impressions with feedback, in errors",
    "feedback_loss": "the part of that share that is gone",
    "empty_z": "share of impressions without results, in errors",
    "empty_explains": "the part of the fall that lists which are empty now explain alone",
    "length": "logarithm of the mean number of items of a list, recent / baseline",
    "length_z": "the same in errors",
    "success_z": "logarithm of Success, recent / baseline, in errors",
    "shape_z": "logarithm of RR / Success, recent / baseline, in errors: at which rank the first "
    "click is, if there is one",
    "shape_share": "the part of the fall of RR that comes from the rank of the first click",
    "shape_of_success": "the change of RR / Success, as a part of the fall of Success",
    "clicks_z": "logarithm of the items with feedback per impression with feedback, recent / "
    "baseline, in errors",
    "clicks_of_success": "the same change, as a part of the fall of Success",
    "judged_z": "judged score, recent less baseline, in errors: of the judged metric that fell "
    "most",
    "judged_expected_z": "what that would be if judged scores had fallen as Success did",
    "judged_share": "logarithm of the share of searches whose query is judged, recent / baseline",
}
"""Name of a number of the evidence that a condition reads → what it says."""

FELL: Final = Compare("success_z", "<", -4)
"""Fewer searches succeed."""
STEADY_EMPTY: Final = (Compare("empty_z", ">", 3),)
"""Excluded: that more lists are empty."""

SAME_QUERIES: Final = (Compare("judged_share", ">", -0.1), Compare("judged_share", "<", 0.1))
"""The share of searches whose query is judged held: judged scores are of the same queries."""

PATTERNS: Final = (
    Pattern(
        "MIX",
        Compare("mix_share", ">", 0.6),
        "every segment scores about as before, but traffic moved to segments that score lower",
        "campaigns, bots, a new market; not the ranker",
    ),
    Pattern(
        "TRACKING",
        Every(
            (
                Compare("feedback_z", "<", -3),
                Compare("feedback_loss", ">", 0.8),
            ),
            but=STEADY_EMPTY,
        ),
        "searches return results, but their clicks do not arrive or do not join",
        "click collection, consent banner, producers",
    ),
    Pattern(
        "RETRIEVAL",
        Either(
            (
                Every((Compare("empty_z", ">", 4), Compare("empty_explains", ">", 0.5))),
                Every((Compare("length_z", "<", -4), Compare("length", "<", -0.01))),
            )
        ),
        "more result lists are empty, or lists are shorter",
        "index, filters, query rewriting, catalogue",
    ),
    Pattern(
        "RANKING",
        Every((Compare("shape_z", "<", -4), Compare("shape_share", ">", 0.35))),
        "relevant items stand at lower ranks",
        "ranker release, features, boosts",
    ),
    Pattern(
        "RANKING or RETRIEVAL",
        Every((Compare("judged_z", "<", -4), *SAME_QUERIES)),
        "by the judgements, too, the results are worse: worse items are shown, or good ones at "
        "lower ranks",
        "ranker release, features, boosts; then index, filters and catalogue",
    ),
    Pattern(
        "TRACKING",
        Every(
            (
                FELL,
                Compare("shape_share", "<", 0.2),
                Compare("clicks_z", "<", -3),
                Compare("clicks_of_success", ">", 0.1),
                Compare("shape_of_success", ">", 0.04),
            )
        ),
        "single clicks are missing: fewer searches get a click, and those that do get fewer",
        "click collection, consent banner, producers",
    ),
    Pattern(
        "TRACKING",
        Every(
            (
                FELL,
                Compare("shape_share", "<", 0.2),
                Compare("judged_z", ">", -2),
                Compare("judged_expected_z", "<", -6),
                *SAME_QUERIES,
            )
        ),
        "fewer searches get a click, but by the judgements their results are as good as before",
        "click collection, consent banner, producers",
    ),
    Pattern(
        "TRACKING or RETRIEVAL",
        Every((FELL, Compare("shape_share", "<", 0.2))),
        "fewer searches get a click, on the same ranks, and lists are as long as before: clicks of "
        "whole users are missing, or good items are",
        "the number of users in the click log: if it fell, click collection and consent banner, "
        "else index, filters and catalogue",
    ),
    Pattern(
        "RANKING or RETRIEVAL",
        Every((Either((FELL, Compare("shape_z", "<", -4))), Compare("shape_share", ">", 0))),
        "fewer searches get a click, partly on lower ranks",
        "ranker release, features, boosts; then index, filters and catalogue",
    ),
)
"""The first row whose condition holds is said; none: too small to say."""

NAMES: Final = tuple(dict.fromkeys(pattern.name for pattern in PATTERNS))


def pattern_of(evidence: Mapping[str, float]) -> Pattern | None:
    """The first pattern whose condition holds; None where the evidence is too small to say.

    `evidence` maps the names of numbers to numbers, NaN where one is unknown.
    """
    return next((pattern for pattern in PATTERNS if holds(pattern.when, evidence)), None)


def holds(condition: Condition, evidence: Mapping[str, float]) -> bool:
    """Whether the condition is met by this evidence."""
    if isinstance(condition, Either):
        return any(holds(part, evidence) for part in condition.of)
    if isinstance(condition, Every):
        return all(holds(part, evidence) for part in condition.of) and not any(
            holds(part, evidence) for part in condition.but
        )
    number = evidence[condition.number]
    if condition.operator == "==":
        return number == condition.limit
    return number < condition.limit if condition.operator == "<" else number > condition.limit


OUT_Z: Final = -3.0
"""A segment that is taken out is at least so many errors low, by itself and against the rest."""
PART_STANDS_Z: Final = -2.5
"""Each segment of those that stand is less low than this."""
TOGETHER_Z: Final = -2.0
"""All that stand, at a constant mix, are less low than this."""
LEAST_CARRIED: Final = 0.7
"""The least share of the change that is carried by the segments that explain it."""


@dataclass(frozen=True, eq=False)
class CarriedChange:
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


def explained(groupings: Mapping[str, CarriedChange]) -> Explanation | None:
    """Return the grouping that explains why the whole got worse, and its segments that do: of
    several groupings the one whose segments have the least traffic. A country is not told by its
    devices: of `country` and `country,device` the one with fewer segments counts. None: it is
    everywhere, or too small to say."""
    found = [
        explanation
        for name, change in groupings.items()
        if (explanation := _explained_by(name, change)) is not None
    ]
    told = [each for each in found if not any(_is_told_by(each, other) for other in found)]
    return min(told, key=lambda explanation: explanation.traffic, default=None)


def _is_told_by(cells: Explanation, other: Explanation) -> bool:
    """Whether the other names fewer segments, of which these are parts."""
    fewer = len(other.segments) < len(cells.segments)
    return fewer and set(other.grouping.split(",")) < set(cells.grouping.split(","))


def _explained_by(grouping: str, change: CarriedChange) -> Explanation | None:
    out = _taken_out(change)
    stand = change.both & ~out
    if not out.any() or not stand.any() or change.whole == 0:
        return None
    carried = float(change.within[out].sum()) / change.whole
    if carried <= LEAST_CARRIED or not all(
        _differs(change, index, stand) for index in np.flatnonzero(out)
    ):
        return None
    return carried_by(grouping, change, [change.segments[int(at)] for at in np.flatnonzero(out)])


def carried_by(grouping: str, change: CarriedChange, segments: Sequence[str]) -> Explanation | None:
    """What these segments explain of the change of the whole; None where that has not changed."""
    out = np.array([name in segments for name in change.segments], np.bool_)
    if change.whole == 0:
        return None
    within = float(change.within[out].sum())
    return Explanation(
        grouping,
        tuple(segments),
        within / change.whole,
        within,
        float(change.mix.sum()),
        change.whole,
        float(change.weight[out].sum()),
    )


def _taken_out(change: CarriedChange) -> Booleans:
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


def _stand(change: CarriedChange, which: Booleans) -> bool:
    if (change.z[which] <= PART_STANDS_Z).any():
        return False
    together, error = change.together(which)
    return together > TOGETHER_Z * error or error == 0


def _differs(change: CarriedChange, index: np.intp, stand: Booleans) -> bool:
    own = np.arange(len(change.segments)) == index
    (changed, error), (rest, rest_error) = change.together(own), change.together(stand)
    return changed - rest < OUT_Z * float(np.hypot(error, rest_error))


def _shares(scored: Floats) -> Floats:
    total = scored.sum()
    return scored / total if total > 0 else np.zeros_like(scored)
