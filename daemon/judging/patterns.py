"""What a drop looks like: the one table of patterns, with the conditions on the evidence.

`python -m deploy.prometheus` makes the recording rules of it and the runbook's table;
`pattern_of` decides by it here. `evidence.py` has the numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

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
    "tracking_fault": "1 where feedback has stopped, or more of it than usual does not join",
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
                Either((Compare("tracking_fault", "==", 1), Compare("feedback_loss", ">", 0.8))),
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
        "relevant items are still found, but at lower ranks",
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
