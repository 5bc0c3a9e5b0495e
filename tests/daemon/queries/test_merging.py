"""Tables of many lanes and hours: sums, bounds, and who may be shown."""

import random
from collections import Counter

import numpy as np
import pytest

from relevanced.daemon.queries import (
    ENOUGH,
    NO_QUERY,
    Page,
    PaneSums,
    QueryTable,
    Users,
    merge_tables,
    page_of_segment,
    with_segment,
)
from tests.seeds import seeds

SEEDS = seeds(100)


def page(keys: dict[str, tuple[int, int, Users]], *, day: int = 0, min_users: int = 3) -> Page:
    """A page of rows of (count, missing, users)."""
    return Page(
        day=day,
        keys=list(keys),
        sums=np.array([[n] for n, _, _ in keys.values()], np.int64).reshape(-1, 1),
        missing=np.array([m for _, m, _ in keys.values()], np.int64),
        users=[users for _, _, users in keys.values()],
        min_users=min_users,
        other=np.array([7]),
        bound=2,
    )


def page_of(table: QueryTable) -> Page:
    return Page(
        0,
        table.keys,
        table.sums,
        table.missing,
        table.users,
        table.min_users,
        table.other,
        table.bound,
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_counts_of_many_tables_lie_within_the_bounds(seed: int) -> None:
    rng = random.Random(seed)
    true, tables = Counter[str](), list[QueryTable]()
    for _ in range(rng.randrange(1, 6)):
        table = QueryTable(1, kept=rng.choice((1, 3)), min_users=0)
        for _ in range(rng.randrange(8)):
            pane = Counter(f"q{int(60 * rng.random() ** 2)}" for _ in range(30))
            pane[NO_QUERY] += rng.randrange(2)
            pane = +pane
            true.update(pane)
            table.settle(PaneSums([*pane], np.array([[n] for n in pane.values()])))
        table.close()
        tables.append(table)
    merged = merge_tables([page_of(table) for table in tables], 1, 0)
    index = merged.index()
    for key, count in true.items():
        if key in index:
            listed = int(merged.sums[index[key], 0])
            assert listed <= count <= listed + int(merged.missing[index[key]])
            assert key != NO_QUERY or listed == count == listed + int(merged.missing[index[key]])
        else:
            assert count <= merged.bound and key != NO_QUERY
    assert merged.total.tolist() == [true.total()]


def test_users_are_joined_over_lanes_and_hours_of_a_day_and_not_over_days() -> None:
    one, two = frozenset({1, 2}), frozenset({2, 3})
    (same_day,) = merge_tables([page({"a": (1, 0, one)}), page({"a": (1, 0, two)})], 1, 3).is_shown
    (other_day,) = merge_tables(
        [page({"a": (1, 0, one)}), page({"a": (1, 0, two)}, day=1)], 1, 3
    ).is_shown
    assert same_day and not other_day


def test_raised_limit_hides_what_reached_a_lower_one() -> None:
    reached = page({"a": (1, 0, ENOUGH)}, min_users=3)
    assert [merge_tables([reached], 1, least).is_shown.tolist() for least in (0, 2, 3, 4)] == [
        [True],
        [True],
        [True],
        [False],
    ]
    assert not merge_tables([page({"a": (9, 0, frozenset())}, min_users=0)], 1, 2).is_shown.any()


def test_rare_queries_and_no_query_and_the_rest_are_the_whole() -> None:
    merged = merge_tables(
        [page({"a": (1, 0, frozenset({1})), NO_QUERY: (5, 0, frozenset())})], 1, 2
    )
    assert merged.is_shown.tolist() == [False, True]
    assert (merged.rare.tolist(), merged.total.tolist()) == ([1], [13])


def test_nothing_merges_to_nothing() -> None:
    merged = merge_tables([], 2, 5)
    assert (len(merged.keys), merged.total.tolist(), merged.bound) == (0, [0, 0], 0)


def test_segment_has_its_own_queries() -> None:
    whole = page({with_segment("a", "US"): (3, 1, ENOUGH), with_segment("a", "DE"): (4, 0, ENOUGH)})
    part = page_of_segment(whole, "US")
    assert (part.keys, part.sums.tolist(), part.bound) == (["a"], [[3]], 2)
