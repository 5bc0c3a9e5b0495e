"""The spelling of metric names such as `nDCG(gain=linear)@10`: split a name, join its parts.

It does not depend on the catalog.

The error message for an unknown metric name: it suggests the name that was probably meant.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_NAME = re.compile(r"\s*([A-Za-z][A-Za-z0-9_-]*)\s*(?:\(([^()]*)\))?\s*(?:@\s*([0-9.]+))?\s*")

_NAMES = re.compile(r"(?:\([^()\s]*\)|[^,\s])+")


@dataclass(frozen=True)
class Spelling:
    """The parts of a metric name, as text."""

    family: str
    parameters: Mapping[str, str]
    cutoff: str | None


def split(name: str) -> Spelling:
    """Split a name. Raises ValueError if it does not follow the grammar.

    >>> split("nDCG(gain=linear)@10")
    Spelling(family='nDCG', parameters={'gain': 'linear'}, cutoff='10')
    """
    match = _NAME.fullmatch(name)
    if match is None:
        if len(parts := several(name)) > 1 and all(map(_NAME.fullmatch, parts)):
            raise ValueError(f"{name!r} is {len(parts)} names: give each singly: {' '.join(parts)}")
        raise ValueError(
            f"{name!r} is not a metric name: must look like nDCG@10 or nDCG(gain=linear)@10"
        )
    family, inside, cutoff = match.groups()
    parameters: dict[str, str] = {}
    for part in inside.split(",") if inside and inside.strip() else []:
        key, equals, value = part.partition("=")
        key, value = key.strip(), value.strip().strip("'\"")
        if not equals or not key or not value:
            raise ValueError(f"{name!r}: {part.strip()!r} must be parameter=value")
        if key in parameters:
            raise ValueError(f"{name!r}: {key} is given twice")
        parameters[key] = value
    return Spelling(family, parameters, cutoff)


def several(text: str) -> list[str]:
    """The names of a text that separates them by commas or blanks. A comma in brackets is part of
    its name, a blank is not.

    >>> several("P@5,nDCG(gain=linear,ideal=pool)@10 RR")
    ['P@5', 'nDCG(gain=linear,ideal=pool)@10', 'RR']
    """
    return _NAMES.findall(text)


def join(spelling: Spelling) -> str:
    """Join the parts of a name.

    >>> join(Spelling("P", {"rel": "2"}, "5"))
    'P(rel=2)@5'
    """
    inside = ",".join(f"{key}={value}" for key, value in spelling.parameters.items())
    brackets = f"({inside})" if inside else ""
    cutoff = "" if spelling.cutoff is None else f"@{spelling.cutoff}"
    return f"{spelling.family}{brackets}{cutoff}"


def number_text(value: float) -> str:
    """The shortest text that parses as the same number.

    >>> number_text(2.0), number_text(0.5)
    ('2', '0.5')
    """
    return str(int(value)) if value == int(value) else repr(value)


_MEANS: Final = {
    "mrr": ("the mean", "RR"),
    "mean_reciprocal_rank": ("the mean", "RR"),
    "mean_average_precision": ("the mean", "AP"),
    "map": ("the mean", "AP"),
    "gmap": ("the geometric mean", "AP"),
    "gm_map": ("the geometric mean", "AP"),
}
"""Averages over lists that are often used as names of metrics, and the metric they average."""

_ELSEWHERE: Final = {
    "P": ("precision", "prec"),
    "R": ("recall", "rec"),
    "F": ("f1", "f-measure", "f_measure", "f1_score", "f-score"),
    "Success": ("hits", "hit", "hit_rate", "hitrate", "hit_ratio", "hr", "has_hit"),
    "RR": ("reciprocal_rank", "reciprocalrank"),
    "AP": ("average_precision", "averageprecision", "avg_precision", "avep"),
    "ERR": ("expected_reciprocal_rank",),
    "alpha_nDCG": ("alpha-ndcg", "alphandcg", "a-ndcg"),
    "ERR_IA": ("err-ia", "nerr-ia"),
    "Rprec": ("r-precision", "r_precision", "rprecision"),
    "RBP": ("rank_biased_precision",),
    "IPrec": ("interpolated_precision",),
    "Judged": ("coverage_of_judgements", "judged_share"),
    "Abandonment": ("abandonment_rate", "no_click", "no_click_rate"),
    "Clicks": ("clicks_per_search", "click_count"),
    "FirstClickRank": ("first_click_position", "mean_first_click_rank", "click_rank"),
    "FirstFeedbackSeconds": ("time_to_first_click", "time_to_click", "ttfc"),
    "ZeroResults": (
        *("zero_results", "zero_result_rate", "zero_results_rate", "zrr", "no_results"),
        *("no_result_rate", "null_results", "null_result_rate", "empty_results"),
    ),
    "nDCG": ("normalized_discounted_cumulative_gain", "normalised_discounted_cumulative_gain"),
}
"""Family -> the names, in small letters, that other tools have for it."""

_COMPLEMENTS: Final = {
    name: ("the share of searches with results that got a click", "Abandonment")
    for name in ("ctr", "click_through_rate", "clickthrough_rate", "clickthroughrate")
}
"""Names in small letters -> what they mean, and the family of which it is 1 minus the mean."""

_SIMILAR: Final = 0.75
"""Least similarity (by difflib) of an unknown name to a family that is suggested instead."""

_TREC_EVAL: Final = (
    (r"p_(\d+)", r"P@\1"),
    (r"recall_(\d+)", r"R@\1"),
    (r"map_cut_(\d+)", r"AP@\1"),
    (r"success_(\d+)", r"Success@\1"),
    (r"ndcg_cut_(\d+)", r"nDCG(gain=linear,ideal=pool)@\1"),
    (r"ndcg", r"nDCG(gain=linear,ideal=pool)"),
    (r"recip_rank", r"RR"),
    (r"set_p", r"SetP"),
    (r"set_recall", r"SetR"),
    (r"set_f", r"SetF"),
)
"""trec_eval's measure -> the metric with the same value."""


def suggest(name: str, spelling: Spelling, families: Iterable[str]) -> str:
    """The error message for an unknown name, with a name to write instead.

    >>> suggest("MRR@10", Spelling("MRR", {}, "10"), ["RR"])
    "'MRR@10': MRR is the mean of RR@10: name RR@10"
    >>> suggest("hits@10", Spelling("hits", {}, "10"), ["Success"])
    "'hits@10': hits is called Success here: write Success@10"
    >>> suggest("nDGC@5", Spelling("nDGC", {}, "5"), ["RR", "nDCG"])
    "'nDGC@5' is not a known metric: did you mean nDCG@5?"
    >>> suggest("TTFC", Spelling("TTFC", {}, None), ["FirstFeedbackSeconds"])
    "'TTFC': TTFC is called FirstFeedbackSeconds here: write FirstFeedbackSeconds"
    >>> suggest("quality", Spelling("quality", {}, None), ["RR", "nDCG"])
    "'quality' is not a known metric: `relevanced metrics` lists all of them"
    """
    lowered = spelling.family.lower()
    by_lower = {family.lower(): family for family in families}
    if lowered in _MEANS:
        kind, family = _MEANS[lowered]
        single = join(Spelling(family, spelling.parameters, spelling.cutoff))
        return f"{name!r}: {spelling.family} is {kind} of {single}: name {single}"
    if lowered not in by_lower:
        for pattern, replacement in _TREC_EVAL:
            if spelling.cutoff is None and re.fullmatch(pattern, lowered):
                ours = re.sub(pattern, replacement, lowered)
                return f"{name!r} is trec_eval's name: write {ours}"
    for family, names in _ELSEWHERE.items():
        if lowered in names and family in by_lower.values():
            ours = join(Spelling(family, spelling.parameters, spelling.cutoff))
            return f"{name!r}: {spelling.family} is called {family} here: write {ours}"
    if lowered in _COMPLEMENTS:
        meaning, family = _COMPLEMENTS[lowered]
        return f"{name!r}: {meaning} is 1 - {family}: name {family}"
    nearest = difflib.get_close_matches(lowered, by_lower, n=1, cutoff=_SIMILAR)
    if not nearest:
        return f"{name!r} is not a known metric: `relevanced metrics` lists all of them"
    probable = join(Spelling(by_lower[nearest[0]], spelling.parameters, spelling.cutoff))
    return f"{name!r} is not a known metric: did you mean {probable}?"


def other_names(family: str) -> tuple[str, ...]:
    """Names in small letters that other tools have for a family, or for what its mean gives.

    >>> other_names("RR")
    ('reciprocal_rank', 'reciprocalrank', 'mrr', 'mean_reciprocal_rank')
    """
    means = (name for name, (_, averaged) in _MEANS.items() if averaged == family)
    complements = (name for name, (_, source) in _COMPLEMENTS.items() if source == family)
    return (*_ELSEWHERE.get(family, ()), *means, *complements)
