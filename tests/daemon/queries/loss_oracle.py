"""Slow and obvious: what each query lost and what carries a change, one query at a time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Query:
    """Scored searches and the sum of their scores, now and on each usual day."""

    scored: int
    total: Fraction
    days: Sequence[tuple[int, Fraction]]

    @property
    def usual_scored(self) -> int:
        return sum(scored for scored, _ in self.days)

    @property
    def usual_total(self) -> Fraction:
        return sum((total for _, total in self.days), Fraction(0))


def prior(queries: Sequence[Query]) -> tuple[float, float] | None:
    """(mean, strength), by Kleinman's moments in two steps."""
    searched = [query for query in queries if query.usual_scored]
    if not searched:
        return None
    n = [query.usual_scored for query in searched]
    means = [float(query.usual_total / query.usual_scored) for query in searched]
    weights = [float(each) for each in n]
    margin = 0.5 / (sum(n) + 1)
    for _ in range(2):
        whole = sum(weights)
        mean = sum(w * p for w, p in zip(weights, means, strict=True)) / whole
        mean = min(max(mean, margin), 1 - margin)
        if len(searched) < 2:
            return mean, 0.5
        spread = sum(w * (p - mean) ** 2 for w, p in zip(weights, means, strict=True))
        free = [w * (1 - w / whole) for w in weights]
        chance = sum(each / count for each, count in zip(free, n, strict=True))
        possible = mean * (1 - mean) * (sum(free) - chance)
        between = (spread - mean * (1 - mean) * chance) / possible if possible > 0 else 1.0
        correlation = min(max(between, 0.0), 1.0)
        weights = [each / (1 + correlation * (each - 1)) for each in n]
    strength = 200.0 if correlation == 0 else (1 - correlation) / correlation
    return mean, min(max(strength, 0.5), 200.0)


def variation(queries: Sequence[Query]) -> float:
    """η of the table."""
    found = []
    for query in queries:
        days = [(n, total) for n, total in query.days if n]
        whole = query.usual_scored
        if whole < 100 or len(days) < 3:
            continue
        p = (float(query.usual_total) + 0.5) / (whole + 1)
        w = max(p * (1 - p), 0.001)
        excess = sum((float(total) - n * p) ** 2 / (n * w) for n, total in days) - (len(days) - 1)
        found.append((excess, w * (whole - sum(n * n for n, _ in days) / whole)))
    if len(found) < 20:
        return 0.02
    found.sort(key=lambda each: -each[0])
    kept = found[int(0.05 * len(found)) :]
    return max(0.0, sum(excess for excess, _ in kept) / sum(weight for _, weight in kept))


def lost(query: Query, mean: float, strength: float, eta: float) -> tuple[float, float]:
    """(lost, lost at least)."""
    theta = (mean * strength + float(query.usual_total)) / (strength + query.usual_scored)
    v = theta * (1 - theta) / (strength + query.usual_scored + 1)
    n = query.scored
    searches = n * theta - float(query.total)
    variance = n * theta * (1 - theta) + n**2 * (v + eta * (theta * (1 - theta)) ** 2)
    return searches, searches - 0.5 - 2.5 * math.sqrt(max(variance, 0.0))


def parts(queries: Sequence[Query]) -> tuple[Fraction, list[Fraction], list[Fraction]] | None:
    """(change of the whole, within of each query, mix of each), as fractions."""
    scored, usual_scored = (
        sum(query.scored for query in queries),
        sum(query.usual_scored for query in queries),
    )
    if not scored or not usual_scored:
        return None
    now = sum((query.total for query in queries), Fraction(0)) / scored
    usual = sum((query.usual_total for query in queries), Fraction(0)) / usual_scored
    within, mix = [], []
    for query in queries:
        u = query.usual_total / query.usual_scored if query.usual_scored else usual
        x = query.total / query.scored if query.scored else u
        share, before = Fraction(query.scored, scored), Fraction(query.usual_scored, usual_scored)
        within.append(share * (x - u))
        mix.append((share - before) * (u - usual))
    return now - usual, within, mix
