"""Search-quality metrics of one list at a time, in plain Python, straight from the definitions.

`gains` are the grades of the shown items in shown order: `gains[0]` is that of rank 1. A cut-off
of None means the whole list. nDCG, and IPS metrics without weights, can be undefined (None); all
others are 0 without a relevant item.
"""

import math
import re
from collections.abc import Callable, Sequence

_NAME = re.compile(r"(?P<family>[A-Za-z-]+)(\((?P<parameters>[^()]*)\))?(@(?P<cutoff>[1-9]\d*))?")

Gains = Sequence[float]


def parse(name: str) -> tuple[str, dict[str, str], int | None]:
    """`nDCG(gain=linear)@10` -> ("nDCG", {"gain": "linear"}, 10)."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"metric={name}: must look like P@5, RR or P(rel=2)@5")
    pairs = [pair.split("=") for pair in (match["parameters"] or "").split(",") if pair]
    cutoff = int(match["cutoff"]) if match["cutoff"] else None
    return match["family"], {key.strip(): value.strip() for key, value in pairs}, cutoff


def score(
    name: str,
    gains: Gains,
    *,
    relevant_from: float = 1,
    max_grade: float = 3,
    weights: Sequence[float] | None = None,
) -> float | None:
    """The value of the metric with this name for one list; None where it is undefined.

    `weights`: 1 / propensity by rank; None if propensities are unknown.
    """
    family, parameters, cutoff = parse(name)
    if parameters.pop("undefined", "skip") == "zero":
        plain = name.replace("(undefined=zero)", "")
        settings = {"relevant_from": relevant_from, "max_grade": max_grade}
        return score(plain, gains, weights=weights, **settings) or 0.0
    if family.startswith("IPS"):
        exponential = parameters.get("gain", "exp") != "linear"
        least = float(parameters.get("rel", relevant_from))
        return weighted(family, gains, cutoff, weights, least, exponential)
    if family == "nDCG":
        return ndcg(gains, cutoff, exponential=parameters.get("gain", "exp") != "linear")
    if family == "ERR":
        return expected_reciprocal_rank(gains, cutoff, max_grade)
    return _BINARY[family](gains, cutoff, float(parameters.get("rel", relevant_from)))


def relevant(gains: Gains, relevant_from: float) -> list[bool]:
    return [gain >= relevant_from for gain in gains]


def precision(gains: Gains, cutoff: int | None, relevant_from: float) -> float:
    """Relevant items among the first k, divided by k even if the list is shorter."""
    divisor = len(gains) if cutoff is None else cutoff
    hits = sum(relevant(gains[:cutoff], relevant_from))
    return hits / divisor if divisor else 0.0


def success(gains: Gains, cutoff: int | None, relevant_from: float) -> float:
    return 1.0 if any(relevant(gains[:cutoff], relevant_from)) else 0.0


def recall(gains: Gains, cutoff: int | None, relevant_from: float) -> float:
    """Relevant items among the first k, divided by those of the whole list."""
    total = sum(relevant(gains, relevant_from))
    return sum(relevant(gains[:cutoff], relevant_from)) / total if total else 0.0


def reciprocal_rank(gains: Gains, cutoff: int | None, relevant_from: float) -> float:
    for rank, hit in enumerate(relevant(gains[:cutoff], relevant_from), start=1):
        if hit:
            return 1.0 / rank
    return 0.0


def average_precision(gains: Gains, cutoff: int | None, relevant_from: float) -> float:
    """Sum of the precision at each relevant item of the first k, divided by all relevant items."""
    total = sum(relevant(gains, relevant_from))
    hits = relevant(gains[:cutoff], relevant_from)
    precisions = [sum(hits[:rank]) / rank for rank in range(1, len(hits) + 1) if hits[rank - 1]]
    return sum(precisions) / total if total else 0.0


def expected_reciprocal_rank(gains: Gains, cutoff: int | None, max_grade: float) -> float:
    """Cascade: a user stops at an item of grade g with probability (2^g - 1) / 2^max_grade."""
    total, reached = 0.0, 1.0
    for rank, gain in enumerate(gains[:cutoff], start=1):
        stops = (2.0**gain - 1.0) / 2.0**max_grade
        total += reached * stops / rank
        reached *= 1.0 - stops
    return total


def weighted(
    family: str,
    gains: Gains,
    cutoff: int | None,
    weights: Sequence[float] | None,
    relevant_from: float,
    exponential: bool,
) -> float | None:
    """IPS-P or IPS-DCG: what an item adds, times the weight of its rank."""
    if weights is None:
        return None
    ranks0 = range(len(gains[:cutoff]))
    if family == "IPS-DCG":
        values = [2.0**gain - 1.0 if exponential else gain for gain in gains]
        return sum(values[i] * weights[i] / math.log2(i + 2) for i in ranks0)
    divisor = len(gains) if cutoff is None else cutoff
    weighted_hits = sum(weights[i] for i in ranks0 if gains[i] >= relevant_from)
    return weighted_hits / divisor if divisor else 0.0


def ndcg(gains: Gains, cutoff: int | None, *, exponential: bool = True) -> float | None:
    """DCG divided by that of the list's own gains in descending order; None where that is 0."""
    ideal = discounted_gain(sorted(gains, reverse=True)[:cutoff], exponential)
    return discounted_gain(gains[:cutoff], exponential) / ideal if ideal > 0 else None


def discounted_gain(gains: Gains, exponential: bool) -> float:
    values = [2.0**gain - 1.0 if exponential else gain for gain in gains]
    return sum(value / math.log2(rank + 1) for rank, value in enumerate(values, start=1))


_BINARY: dict[str, Callable[[Gains, int | None, float], float]] = {
    "P": precision,
    "Success": success,
    "R": recall,
    "RR": reciprocal_rank,
    "AP": average_precision,
}
