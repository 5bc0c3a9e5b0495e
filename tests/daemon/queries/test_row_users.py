"""Rows know their users as sets with a ceiling would."""

import random

import numpy as np

from relevanced.daemon.queries import (
    ENOUGH,
    NO_USER,
    NOBODY,
    RowUsers,
    Users,
    joined_users,
    users_of,
)


def test_rows_have_the_users_of_sets_with_a_ceiling() -> None:
    for seed in range(500):
        rng = random.Random(seed)
        ceiling, expected = rng.randrange(1, 6), list[Users]()
        found = RowUsers(ceiling)
        for _ in range(rng.randrange(1, 8)):
            new = rng.randrange(5)
            found.append(new)
            expected += [NOBODY] * new
            if expected:
                _add(rng, found, expected, ceiling)
            if rng.random() < 0.3:
                kept = rng.sample(range(len(expected)), rng.randrange(len(expected) + 1))
                found.keep(np.array(kept, np.int64))
                expected = [expected[row] for row in kept]
            _check(rng, found, expected, seed)


def _add(rng: random.Random, found: RowUsers, expected: list[Users], ceiling: int) -> None:
    """Add some searches, or replace the users of some rows."""
    if rng.random() < 0.2:
        others = RowUsers(ceiling)
        others.append(len(expected))
        rows = rng.sample(range(len(expected)), rng.randrange(len(expected) + 1))
        for row in rows:
            expected[row] = NOBODY
        _search(rng, others, expected, ceiling, rows)
        at = np.array(rows, np.int64)
        found.put(at, *others.packed(at))
    else:
        _search(rng, found, expected, ceiling, range(len(expected)))


def _search(
    rng: random.Random,
    found: RowUsers,
    expected: list[Users],
    ceiling: int,
    rows: "range | list[int]",
) -> None:
    searches = [(rng.choice(rows), rng.choice((NO_USER, 1, 2, 7, 2**32 - 1))) for _ in rows]
    of_rows, hashes = np.array(searches, np.int64).reshape(-1, 2).T
    found.add(of_rows, hashes)
    for row, user in searches:
        if user != NO_USER:
            expected[row] = joined_users((expected[row], {user}), ceiling)


def _check(rng: random.Random, found: RowUsers, expected: list[Users], seed: int) -> None:
    assert list(found) == expected == [found[row] for row in range(len(found))], seed
    rows = np.array(rng.sample(range(len(expected)), len(expected) // 2), np.int64)
    assert users_of(*found.packed(rows)) == [expected[row] for row in rows.tolist()], seed
    enough = [users is ENOUGH for users in expected]
    assert found.has_enough(range(len(expected))).tolist() == enough, seed


def test_without_a_ceiling_no_user_is_kept() -> None:
    found = RowUsers(0)
    found.append(1)
    found.add(np.zeros(2, np.int64), np.array([5, 6]))
    assert list(found) == [NOBODY]
