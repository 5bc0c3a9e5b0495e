"""Classes of queries by how often they are searched for."""

import random

import pytest

from relevanced.daemon.queries import OutOfReach, Share, classed_queries, shares_of
from tests.seeds import seeds

COUNTS = [("a", 40), ("b", 30), ("c", 20), ("d", 5)]
"""Of 100 searches: five are of queries that nobody knows."""


def test_a_class_has_the_fewest_queries_that_reach_its_share() -> None:
    assert list(classed_queries(COUNTS, 100, [Share("head", 0.4)])) == [("a", "head")]
    both = [Share("head", 0.41), Share("torso", 0.9)]
    assert dict(classed_queries(COUNTS, 100, both)) == {"a": "head", "b": "head", "c": "torso"}
    same = [Share("head", 0.3), Share("torso", 0.35), Share("rest", 0.6)]
    assert dict(classed_queries(COUNTS, 100, same)) == {"a": "head", "b": "rest"}


def test_what_is_out_of_reach_is_refused_with_how_far_it_gets() -> None:
    with pytest.raises(OutOfReach) as raised:
        list(classed_queries(COUNTS, 100, [Share("head", 0.5), Share("torso", 0.96)]))
    assert (raised.value.name, raised.value.asked, raised.value.reached) == ("torso", 0.96, 0.95)


@pytest.mark.parametrize("seed", seeds(20))
def test_classes_carry_what_they_ask_for_and_no_query_too_many(seed: int) -> None:
    print(f"seed {seed}")
    dice = random.Random(seed)
    counts = sorted((dice.randint(1, 50) for _ in range(30)), reverse=True)
    queries = [(str(n), count) for n, count in enumerate(counts)]
    parts = sorted({round(dice.random(), 3) or 0.5 for _ in range(3)})
    shares = [Share(f"c{n}", part) for n, part in enumerate(parts)]
    found = list(classed_queries(queries, sum(counts), shares))
    assert [query for query, _ in found] == [query for query, _ in queries[: len(found)]]
    until = 0
    for share in shares:
        of_class = [int(query) for query, name in found if name == share.name]
        until += sum(counts[n] for n in of_class)
        assert until >= share.part * sum(counts)
        if of_class:
            assert until - counts[of_class[-1]] < share.part * sum(counts)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("head", "must be class=share, such as head=0.3"),
        ("=0.3", "must be a name, and a share above 0 and at most 1"),
        ("head=0", "above 0"),
        ("head=nan", "above 0"),
        ("head=1.5", "at most 1"),
        ("head=0.3,torso=0.3", "shares must ascend"),
        ("head=0.3,head=0.4", "each class must be named once"),
    ],
)
def test_faulty_shares_are_refused_with_the_rule(text: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        shares_of(text)
