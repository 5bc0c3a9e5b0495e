"""The promises of a table of queries, on random logs."""

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from relevanced.daemon.queries import (
    CUT_TO,
    ENOUGH,
    MOST_ROWS,
    NO_QUERY,
    PaneSums,
    QueryTable,
    with_segment,
)
from tests.daemon.queries.oracle import OracleTable, Sums, is_none
from tests.seeds import seeds

Line = tuple[str, Sums, int]
Panes = list[list[Line]]
COLUMNS = 3
SEEDS = seeds(300)


def random_panes(rng: random.Random) -> Panes:
    """Panes of searches for few frequent and many rare queries."""
    texts = rng.choice((3, 30, 400))
    panes: Panes = []
    for _ in range(rng.randrange(1, 25)):
        keys = [f"q{int(texts * rng.random() ** 3)}" for _ in range(rng.randrange(40))]
        keys += rng.choices([NO_QUERY, with_segment(NO_QUERY, "DE")], k=rng.randrange(3))
        panes.append(
            [(key, (1, rng.randrange(2), rng.randrange(-5, 9)), rng.randrange(9)) for key in keys]
        )
    return panes


def as_sums(pane: Sequence[Line], rng: random.Random) -> PaneSums:
    """The sums of a pane, its queries in a random order."""
    keys = list({key for key, _, _ in pane})
    rng.shuffle(keys)
    sums = np.zeros((len(keys), COLUMNS), np.int64)
    for key, line, _ in pane:
        sums[keys.index(key)] += line
    searched = np.array([keys.index(key) for key, _, _ in pane], np.int64)
    return PaneSums(keys, sums, searched, np.array([user for _, _, user in pane], np.int64))


def tables_of(seed: int) -> tuple[QueryTable, OracleTable, Panes]:
    rng = random.Random(seed)
    kept, min_users = rng.choice((1, 2, 5, 20)), rng.choice((0, 1, 4))
    table = QueryTable(COLUMNS, kept, min_users)
    slow = OracleTable(COLUMNS, kept, min_users)
    panes = random_panes(rng)
    for pane in panes:
        table.settle(as_sums(pane, rng))
        slow.settle(pane)
    if rng.random() < 0.7:
        table.close()
        slow.close()
    return table, slow, panes


def decoded(table: QueryTable) -> dict[str, tuple[Sums, int, int]]:
    counts = [table.min_users if users is ENOUGH else len(users) for users in table.users]
    rows = zip(table.sums.tolist(), table.missing.tolist(), counts, strict=True)
    return {
        key: (tuple(sums), missing, users)
        for key, (sums, missing, users) in zip(table.keys, rows, strict=True)
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_table_equals_the_slow_one(seed: int) -> None:
    table, slow, _ = tables_of(seed)
    assert decoded(table) == slow.found()
    assert (tuple(table.other.tolist()), table.bound) == (slow.other, slow.bound)


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_and_other_sum_to_the_whole(seed: int) -> None:
    table, _, panes = tables_of(seed)
    whole = np.zeros(COLUMNS, np.int64)
    for pane in panes:
        for _, line, _ in pane:
            whole += line
    assert table.total.tolist() == whole.tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_true_counts_lie_within_the_bounds(seed: int) -> None:
    table, _, panes = tables_of(seed)
    true = Counter(key for pane in panes for key, _, _ in pane)
    for key, count in true.items():
        row = table.row_of(key)
        if row is None:
            assert count <= table.bound and not is_none(key)
        else:
            listed, missing = int(table.sums[row, 0]), int(table.missing[row])
            assert listed <= count <= listed + missing and not (is_none(key) and missing)
    largest = [count for key, count in true.most_common() if not is_none(key)]
    for above in range(table.kept):
        assert table.bound <= sum(largest[above:]) / (table.kept + 1 - above)


def test_ties_are_broken_by_checksum_and_text() -> None:
    table = QueryTable(1, kept=1, min_users=0)
    keys = ["b", "a", "c"]
    table.settle(PaneSums(keys, np.ones((3, 1), np.int64)))
    table.close()
    assert table.keys == ["c"]  # crc32 of a, b, c: e8b7be43, 71beeff9, 06b9df6f
    assert table.bound == 1


def test_table_is_cut_between_panes_only() -> None:
    table = QueryTable(1, kept=2, min_users=0)
    for number in range(MOST_ROWS * 2):
        table.settle(PaneSums([f"q{number}"], np.ones((1, 1), np.int64)))
    assert (len(table), table.is_cut) == (MOST_ROWS * 2, False)
    table.settle(PaneSums([f"r{n}" for n in range(50)], np.ones((50, 1), np.int64)))
    assert (len(table), table.is_cut) == (CUT_TO * 2, True)


def test_sum_that_could_wrap_around_is_an_error() -> None:
    table = QueryTable(1, kept=2, min_users=0)
    table.settle(PaneSums(["q"], np.array([[2**61]])))
    with pytest.raises(OverflowError, match="2\\^62"):
        table.settle(PaneSums(["q"], np.array([[2**61]])))


@pytest.mark.parametrize("seed", seeds(60))
def test_first_rows_are_those_of_the_order(seed: int) -> None:
    table, _, _ = tables_of(seed)
    for count in (1, 2, 7, 100, 1000):
        first = sorted(table.ordered()[:count])
        assert sorted(table.first(count)) == first
        wanted = np.random.default_rng(seed + count).random(len(table)) < 0.2
        expected = [row for row in first if wanted[row]]
        assert sorted(table.first_wanted(count, wanted)) == expected
