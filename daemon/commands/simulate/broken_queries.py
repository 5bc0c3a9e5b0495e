"""Queries whose results become irrelevant in the simulated search. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from random import Random

from ...queries.keys import NO_QUERY, key_of
from .world import Query, Ranking

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


def irrelevant(random: Random, query: Query, others: Collection[Query]) -> Ranking:
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
