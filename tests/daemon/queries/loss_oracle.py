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
    days: Sequence[tuple[int | Fraction, Fraction]]

    @property
    def usual_scored(self) -> int | Fraction:
        return sum(scored for scored, _ in self.days)

    @property
    def usual_total(self) -> Fraction:
        return sum((total for _, total in self.days), Fraction(0))


def prior(queries: Sequence[Query]) -> tuple[float, float] | None:
    """(mean, strength), by Kleinman's moments in two steps."""
    searched = [query for query in queries if query.usual_scored]
    if not searched:
        return None
    n = [float(query.usual_scored) for query in searched]
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


def variation(queries: Sequence[Query]) -> tuple[float, float]:
    """(design effect, variation of days) of the table."""
    found = []
    for query in queries:
        days = [(n, total) for n, total in query.days if n]
        if query.usual_scored < 30 or len(days) < 3:
            continue
        p = (float(query.usual_total) + 0.5) / (query.usual_scored + 1)
        w = max(p * (1 - p), 0.001)
        pairs = []
        for n, total in (days[0], days[-1]):
            rest, rest_total = query.usual_scored - n, query.usual_total - total
            chance = w * (1 / n + 1 / rest)
            apart = float(total) / n - float(rest_total) / rest
            pairs.append((apart**2 / chance, w**2 / chance))
        found.append(pairs)
    if len(found) < 20:
        return 1.0, 0.02
    trimmed = int(0.05 * len(found))
    part = trimmed / len(found)
    kept_of_mean = 1 + part * math.log(part) / (1 - part) if trimmed else 1.0
    effect, of_days = 1.0, 0.02
    for _ in range(10):
        by_size = sorted(
            found, key=lambda pairs: sum(square / (effect + of_days * x) for square, x in pairs)
        )
        kept = [pair for pairs in by_size[: len(found) - trimmed] for pair in pairs]
        effect, of_days = line([(y / kept_of_mean, x) for y, x in kept], effect, of_days)
    return effect, of_days


def line(points: Sequence[tuple[float, float]], effect: float, slope: float) -> tuple[float, float]:
    """(constant, slope) through (y, x), weighted by what the line before says of them."""
    weighted = [((effect + slope * x) ** -2, x, y) for y, x in points]
    w, x, xx, y, xy = (
        sum(w * x**i * y**j for w, x, y in weighted)
        for i, j in ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1))
    )
    apart = w * xx - x * x
    tells = apart > 1e-6 * w * xx
    if tells and w * xy < x * y:
        return max(y / w, 1.0), 0.0
    if not tells or xx * y - x * xy < apart:
        return 1.0, max((xy - x) / xx, 0.0)
    return (xx * y - x * xy) / apart, (w * xy - x * y) / apart


def effective(queries: Sequence[Query], effect: float) -> list[Query]:
    """The queries as if they had been searched for less often, independently."""
    rate = 1 / Fraction(effect)
    return [
        Query(
            query.scored,
            query.total,
            [(n * rate, total * rate) for n, total in query.days],
        )
        for query in queries
    ]


def lost(
    query: Query, mean: float, strength: float, effect: float, of_days: float
) -> tuple[float, float]:
    """(lost, lost at least)."""
    known = float(query.usual_scored) / effect
    theta = (mean * strength + float(query.usual_total) / effect) / (strength + known)
    v = theta * (1 - theta) / (strength + known + 1)
    n = query.scored
    searches = n * theta - float(query.total)
    variance = effect * n * theta * (1 - theta) + n**2 * (v + of_days * (theta * (1 - theta)) ** 2)
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
