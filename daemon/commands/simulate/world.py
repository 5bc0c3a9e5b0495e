"""The hidden side of simulated search: users, queries, what attracts clicks, three rankers.

Pure: everything follows from the seed. The reciprocal rank that a ranker will get is known exactly,
which is what lets an experiment have a true effect of a given size.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Final

SHOWN: Final = 10
"""Items of an impression."""
CANDIDATES: Final = 20
"""Items that match a query: a shuffled ranking shows any ten of them."""
RANKINGS_PER_QUERY: Final = 8
QUERIES: Final = 400
USERS: Final = 20_000
PATIENCE: Final = 0.88
"""Probability of looking at the next rank after one that was not clicked."""
SATISFIED: Final = 0.65
"""Probability of stopping after a click."""
RANKER_NOISE: Final = 0.20
"""Standard deviation of what the ordinary ranker believes of an item's attraction."""
ATTRACTIONS: Final = ((3, 0.30, 0.60), (5, 0.05, 0.15), (12, 0.005, 0.03))
"""(candidates, lowest, highest probability of a click once looked at)"""
ADJECTIVES: Final = (
    "red blue light warm small large cheap new used soft wide long dry fast quiet old".split()
)
NOUNS: Final = (
    "shoes lamp tent jacket desk chair phone kettle bag bike watch rug drill pan sofa".split()
)
KINDS: Final = ("running", "kids", "outdoor", "office", "travel")


@dataclass(frozen=True)
class Ranking:
    """Items in shown order and how attractive each is."""

    items: tuple[str, ...]
    attractions: tuple[float, ...]


@dataclass(frozen=True)
class Query:
    """One query with what each ranker makes of it."""

    text: str
    candidates: tuple[tuple[str, float], ...]
    ordinary: tuple[Ranking, ...]
    ideal: Ranking


@dataclass(frozen=True)
class User:
    """One user: everything that stays the same over all of a user's searches."""

    user_id: str
    attributes: dict[str, str]
    experiments: dict[str, str]


@dataclass(frozen=True)
class World:
    """Everything hidden, with the running totals that draws by weight go by."""

    queries: tuple[Query, ...]
    query_weights: tuple[float, ...]
    users: tuple[User, ...]
    user_weights: tuple[float, ...]


def world(
    seed: int,
    shares: dict[str, dict[str, float]],
    experiment: str,
    variants: Sequence[str],
) -> World:
    """The world of a seed. `shares`: attribute name → value → share of the users."""
    random = Random(f"world {seed}")
    queries = tuple(_query(random, number) for number in range(QUERIES))
    users = tuple(_user(random, number, shares, experiment, variants) for number in range(USERS))
    return World(
        queries=queries,
        query_weights=_heavy_tail(QUERIES, 5),
        users=users,
        user_weights=_heavy_tail(USERS, 20),
    )


def variant_of(user_id: str, experiment: str, variants: Sequence[str]) -> str:
    """The variant that a user sees: by hash, so that it never changes."""
    digest = hashlib.sha256(f"{experiment}:{user_id}".encode()).digest()
    return variants[int.from_bytes(digest[:8]) % len(variants)]


def shuffled(random: Random, query: Query) -> Ranking:
    """Any ten of the candidates in any order: a ranker that knows nothing."""
    return _ranking(random.sample(query.candidates, SHOWN))


def clicked_ranks(random: Random, attractions: Sequence[float]) -> list[int]:
    """Ranks (from 1) that one user clicks: a cascade, downwards until satisfied or tired."""
    draw = random.random
    ranks = []
    for rank, attraction in enumerate(attractions, 1):
        if draw() < attraction:
            ranks.append(rank)
            if draw() < SATISFIED:
                break
        elif draw() >= PATIENCE:
            break
    return ranks


def expected_reciprocal_rank(attractions: Sequence[float]) -> float:
    """Mean of 1 / rank of the first click, 0 where there is none."""
    reached, total = 1.0, 0.0
    for rank, attraction in enumerate(attractions, 1):
        total += reached * attraction / rank
        reached *= (1 - attraction) * PATIENCE
    return total


def ordinary_quality(place: World) -> float:
    """Mean reciprocal rank of the ordinary ranker over the traffic."""
    return _mean_over_traffic(
        place,
        [
            sum(expected_reciprocal_rank(ranking.attractions) for ranking in query.ordinary)
            / len(query.ordinary)
            for query in place.queries
        ],
    )


def ideal_quality(place: World) -> float:
    """Mean reciprocal rank of the ranker that knows every attraction."""
    values = [expected_reciprocal_rank(query.ideal.attractions) for query in place.queries]
    return _mean_over_traffic(place, values)


def shuffled_quality(place: World) -> float:
    """Mean reciprocal rank of the ranker that knows nothing.

    Exact: the mean chance that r different candidates all go unclicked is an elementary symmetric
    sum of theirs, over the number of choices.
    """
    return _mean_over_traffic(place, [_shuffled_quality(query) for query in place.queries])


def _shuffled_quality(query: Query) -> float:
    misses = [1 - attraction for _, attraction in query.candidates]
    # products[r]: the mean product of misses over all choices of r different candidates
    sums = [1.0] + [0.0] * SHOWN
    for miss in misses:
        for size in range(SHOWN, 0, -1):
            sums[size] += sums[size - 1] * miss
    products, choices = [], 1.0
    for size, total in enumerate(sums):
        products.append(total / choices)
        choices *= (len(misses) - size) / (size + 1)
    return sum(
        PATIENCE ** (rank - 1) * (products[rank - 1] - products[rank]) / rank
        for rank in range(1, SHOWN + 1)
    )


def _mean_over_traffic(place: World, values: Sequence[float]) -> float:
    total, before = 0.0, 0.0
    for value, until in zip(values, place.query_weights, strict=True):
        total += value * (until - before)
        before = until
    return total / before


def _query(random: Random, number: int) -> Query:
    words = (number % len(KINDS), number // len(KINDS))
    noun, adjective = NOUNS[words[1] % len(NOUNS)], ADJECTIVES[words[1] // len(NOUNS)]
    attractions = [
        random.uniform(low, high) for count, low, high in ATTRACTIONS for _ in range(count)
    ]
    candidates = tuple((f"q{number}d{place}", value) for place, value in enumerate(attractions))
    best_first = sorted(candidates, key=_attraction, reverse=True)
    return Query(
        text=f"{adjective} {KINDS[words[0]]} {noun}",
        candidates=candidates,
        ordinary=tuple(_ordinary(random, candidates) for _ in range(RANKINGS_PER_QUERY)),
        ideal=_ranking(best_first[:SHOWN]),
    )


def _ordinary(random: Random, candidates: Sequence[tuple[str, float]]) -> Ranking:
    believed = [(value + random.gauss(0, RANKER_NOISE), item, value) for item, value in candidates]
    believed.sort(reverse=True)
    return _ranking([(item, value) for _, item, value in believed[:SHOWN]])


def _ranking(pairs: Sequence[tuple[str, float]]) -> Ranking:
    return Ranking(tuple(item for item, _ in pairs), tuple(value for _, value in pairs))


def _user(
    random: Random,
    number: int,
    shares: dict[str, dict[str, float]],
    experiment: str,
    variants: Sequence[str],
) -> User:
    user_id = f"u{number}"
    attributes = {
        name: random.choices(list(values), list(values.values()))[0]
        for name, values in shares.items()
    }
    return User(user_id, attributes, {experiment: variant_of(user_id, experiment, variants)})


def _heavy_tail(count: int, flat: int) -> tuple[float, ...]:
    """Running totals of weights 1 / (place + flat): a few are busy, most are rare."""
    return tuple(accumulate(1 / (place + flat) for place in range(count)))


def _attraction(candidate: tuple[str, float]) -> float:
    return candidate[1]
