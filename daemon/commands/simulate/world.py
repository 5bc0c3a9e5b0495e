"""What is behind simulated search: users, queries, click probabilities of items, three rankers.

Pure: everything follows from the seed. The mean reciprocal rank of each ranker is computed exactly,
not drawn, so that an experiment can be given a true effect of a stated size.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Final

SHOWN: Final = 10
"""Items of an impression."""
RANKINGS_PER_QUERY: Final = 8
"""Rankings of the ordinary ranker for one query; each impression shows one of them."""
QUERIES: Final = 400
USERS: Final = 20_000
PATIENCE: Final = 0.88
"""Probability of looking at the next rank after one that was not clicked."""
SATISFIED: Final = 0.65
"""Probability of stopping after a click."""
RANKER_NOISE: Final = 0.20
"""Standard deviation of the ordinary ranker's error in an item's attraction."""
ATTRACTIONS: Final = ((3, 0.30, 0.60), (5, 0.05, 0.15), (12, 0.005, 0.03))
"""(number of candidates, lowest and highest attraction): how likely a click is once the item is
looked at."""
ADJECTIVES: Final = (
    "red blue light warm small large cheap new used soft wide long dry fast quiet old".split()
)
NOUNS: Final = (
    "shoes lamp tent jacket desk chair phone kettle bag bike watch rug drill pan sofa".split()
)
KINDS: Final = ("running", "kids", "outdoor", "office", "travel")


@dataclass(frozen=True)
class Ranking:
    """Items in shown order, and the attraction of each: its click probability once looked at."""

    items: tuple[str, ...]
    attractions: tuple[float, ...]


@dataclass(frozen=True)
class Query:
    """One query, its candidates as (item, attraction), and the rankings of two rankers for it."""

    text: str
    candidates: tuple[tuple[str, float], ...]
    ordinary: tuple[Ranking, ...]
    ideal: Ranking


@dataclass(frozen=True)
class User:
    """One user, with what is the same in all searches of that user."""

    user_id: str
    attributes: dict[str, str]
    experiments: dict[str, str]


@dataclass(frozen=True)
class World:
    """All queries and users, with the cumulative weights with which they are drawn."""

    queries: tuple[Query, ...]
    query_weights: tuple[float, ...]
    users: tuple[User, ...]
    user_weights: tuple[float, ...]


def make_world(
    seed: int,
    shares: dict[str, dict[str, float]],
    experiment: str,
    variants: Sequence[str],
) -> World:
    """Draw the world of a seed. `shares` maps attribute → value → share of the users."""
    random = Random(f"world {seed}")
    queries = tuple(_query(random, index) for index in range(QUERIES))
    users = tuple(_user(random, index, shares, experiment, variants) for index in range(USERS))
    return World(
        queries=queries,
        query_weights=_heavy_tail(QUERIES, 5),
        users=users,
        user_weights=_heavy_tail(USERS, 20),
    )


def variant_of(user_id: str, experiment: str, variants: Sequence[str]) -> str:
    """The variant that a user is assigned: by hash, so that it never changes."""
    digest = hashlib.sha256(f"{experiment}:{user_id}".encode()).digest()
    return variants[int.from_bytes(digest[:8]) % len(variants)]


def shuffled(random: Random, query: Query) -> Ranking:
    """Rank `SHOWN` candidates drawn at random: the ranker that knows nothing."""
    return _ranking(random.sample(query.candidates, SHOWN))


def clicked_ranks(random: Random, attractions: Sequence[float]) -> list[int]:
    """Draw the ranks, from 1, that one user clicks: a cascade that ends when satisfied or tired."""
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
    """Expected 1 / rank of the first click, 0 without one, over users of `clicked_ranks`."""
    reached, total = 1.0, 0.0
    for rank, attraction in enumerate(attractions, 1):
        total += reached * attraction / rank
        reached *= (1 - attraction) * PATIENCE
    return total


def ordinary_quality(world: World) -> float:
    """Mean reciprocal rank of the ordinary ranker over the traffic."""
    return _mean_over_traffic(
        world,
        [
            sum(expected_reciprocal_rank(ranking.attractions) for ranking in query.ordinary)
            / len(query.ordinary)
            for query in world.queries
        ],
    )


def ideal_quality(world: World) -> float:
    """Mean reciprocal rank over the traffic of the ranker that knows every attraction."""
    values = [expected_reciprocal_rank(query.ideal.attractions) for query in world.queries]
    return _mean_over_traffic(world, values)


def shuffled_quality(world: World) -> float:
    """Mean reciprocal rank over the traffic of the ranker that knows nothing.

    Exact: the probability that r distinct candidates drawn at random all go unclicked is the
    elementary symmetric polynomial of degree r of their miss probabilities, divided by the number
    of ways to choose them.
    """
    return _mean_over_traffic(world, [_shuffled_quality(query) for query in world.queries])


def _shuffled_quality(query: Query) -> float:
    misses = [1 - attraction for _, attraction in query.candidates]
    # products[r]: mean over all choices of r distinct candidates of the product of their misses
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


def _mean_over_traffic(world: World, values: Sequence[float]) -> float:
    total, before = 0.0, 0.0
    for value, until in zip(values, world.query_weights, strict=True):
        total += value * (until - before)
        before = until
    return total / before


def _query(random: Random, index: int) -> Query:
    pair, kind = divmod(index, len(KINDS))
    adjective, noun = ADJECTIVES[pair // len(NOUNS)], NOUNS[pair % len(NOUNS)]
    attractions = [
        random.uniform(low, high) for count, low, high in ATTRACTIONS for _ in range(count)
    ]
    candidates = tuple((f"q{index}d{item}", value) for item, value in enumerate(attractions))
    best_first = sorted(candidates, key=_attraction, reverse=True)
    return Query(
        text=f"{adjective} {KINDS[kind]} {noun}",
        candidates=candidates,
        ordinary=tuple(_ordinary(random, candidates) for _ in range(RANKINGS_PER_QUERY)),
        ideal=_ranking(best_first[:SHOWN]),
    )


def _ordinary(random: Random, candidates: Sequence[tuple[str, float]]) -> Ranking:
    estimated = [(value + random.gauss(0, RANKER_NOISE), item, value) for item, value in candidates]
    estimated.sort(reverse=True)
    return _ranking([(item, value) for _, item, value in estimated[:SHOWN]])


def _ranking(pairs: Sequence[tuple[str, float]]) -> Ranking:
    return Ranking(tuple(item for item, _ in pairs), tuple(value for _, value in pairs))


def _user(
    random: Random,
    index: int,
    shares: dict[str, dict[str, float]],
    experiment: str,
    variants: Sequence[str],
) -> User:
    user_id = f"u{index}"
    attributes = {
        name: random.choices(list(values), list(values.values()))[0]
        for name, values in shares.items()
    }
    return User(user_id, attributes, {experiment: variant_of(user_id, experiment, variants)})


def _heavy_tail(count: int, flat: int) -> tuple[float, ...]:
    """Cumulative weights 1 / (index + flat): a few are drawn often, most of them rarely."""
    return tuple(accumulate(1 / (index + flat) for index in range(count)))


def _attraction(candidate: tuple[str, float]) -> float:
    return candidate[1]
