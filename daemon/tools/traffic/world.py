"""What is behind simulated search: users, queries, click probabilities of items, three rankers,
judgements, and what may break.

Everything follows from the seed. The mean reciprocal rank of each ranker is computed exactly,
not drawn, so that an experiment can be given a true effect of a stated size.
"""

import csv
import hashlib
import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from random import Random
from typing import Final, Literal, TypeAlias
from zlib import crc32

from ...queries import NO_QUERY, key_of

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
    best_first = sorted(candidates, key=itemgetter(1), reverse=True)
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


MOST_BYTES = 1_000_000
"""A file of queries has at most so many."""


@dataclass(frozen=True)
class BrokenQueries:
    """From `after_s` on, lists of these queries show what belongs to other queries."""

    keys: frozenset[str]
    """Keys of the queries, as tables have them."""
    after_s: float = 0.0
    share: float = 1.0
    """Of their lists, drawn independently."""

    def affects(self, query: Query, random: Random) -> bool:
        """Whether this list of the query is one of those: draws only if the query is listed."""
        return query.text in self.keys and random.random() < self.share


def irrelevant_ranking(random: Random, query: Query, others: Collection[Query]) -> Ranking:
    """What another query would show: nobody who searched for this one clicks any of it."""
    another = random.choice([one for one in others if one is not query])
    items = another.ordinary[0].items
    return Ranking(items, (0.0,) * len(items))


def parse_queries(text: str, known: Collection[str]) -> frozenset[str]:
    """The keys of a text with a query on each line; `known` are those that are searched for. Raises
    ValueError with the line and the rule."""
    lines = [(number, key_of(line)) for number, line in enumerate(text.splitlines(), 1)]
    given = [(number, key) for number, key in lines if key != NO_QUERY]
    if not given:
        raise ValueError("has no query: one on each line is needed")
    for number, key in given:
        if key not in known:
            raise ValueError(
                f"line {number}: {key!r}: must be a query of the simulated traffic, such as"
                f" {min(known)!r}"
            )
    return frozenset(key for _, key in given)


JUDGED_QUERIES: Final = 150
"""Queries that are judged: about two searches in three."""
GRADES: Final = ((0.3, 3), (0.08, 2), (0.05, 1), (0.015, 0))
"""(least attraction, grade); what attracts less was never rated."""


def judged_set(world: World, queries: int = JUDGED_QUERIES) -> bytes:
    """What a rater would say who knows how attractive items are, as a CSV file with the columns
    query, docid and rating. Of the queries that are searched most, and of the items that are worth
    a click at times: so a broken ranker shows in the grades of what it lists, and in how much of it
    is judged."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("query", "docid", "rating"))
    for query in world.queries[:queries]:
        for item, attraction in query.candidates:
            grade = next((grade for least, grade in GRADES if attraction >= least), None)
            if grade is not None:
                rows.writerow((query.text, item, grade))
    return text.getvalue().encode()


Breakage: TypeAlias = Literal["ranking", "index", "tracking", "mix"]
BREAKAGES: Final[tuple[Breakage, ...]] = ("ranking", "index", "tracking", "mix")
"""Lists are ranked at random; an index shard is down, and lists lack its items; clicks are lost;
more of the searches come from a segment whose users have always clicked less."""

SHARDS: Final = 5
CLICKS_LOST: Final = 0.2
LESS_ATTRACTED: Final = 0.6
"""Attraction of an item to users of the segment that grows, as a share of that to others."""
MOVED: Final = 1 / 3
"""Share of the searches of all others that come from the segment that grows instead."""


def without_a_shard(ranking: Ranking) -> Ranking:
    """The ranking without the items of the first of `SHARDS` shards, and so shorter."""
    pairs = zip(ranking.items, ranking.attractions, strict=True)
    kept = [(item, value) for item, value in pairs if crc32(item.encode()) % SHARDS]
    return Ranking(tuple(item for item, _ in kept), tuple(value for _, value in kept))


def less_attractive(ranking: Ranking) -> Ranking:
    """The ranking as users who click less see it."""
    return Ranking(ranking.items, tuple(LESS_ATTRACTED * a for a in ranking.attractions))


def is_lost(random: Random) -> bool:
    """Draw whether a lossy tracker loses a click."""
    return random.random() < CLICKS_LOST
