"""Users count up to a ceiling, and cannot be followed from day to day."""

import random

import numpy as np

from relevanced.daemon.queries import DAY_MS, ENOUGH, NO_USER, joined_users, query_user_hashes


def test_users_have_other_hashes_on_other_days_and_under_other_salts() -> None:
    times = np.array([0, DAY_MS - 1, DAY_MS, 0])
    one, same, other_day, nobody = query_user_hashes(["u", "u", "u", None], times, b"s").tolist()
    assert one == same != other_day and nobody == NO_USER != one
    assert query_user_hashes(["u"], times[:1], b"t").tolist() != [one]


def test_hashes_of_a_batch_are_those_of_each_user() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        among = rng.sample((None, "", "u", "ü😀", "\ud800", "a\0b", "x" * 300, "v", "w"), k=4)
        users = rng.choices(among, k=9)
        times = np.array([rng.randrange(3) * DAY_MS + rng.randrange(9) for _ in users])
        each = [
            int(query_user_hashes([user], times[n : n + 1], b"s")[0])
            for n, user in enumerate(users)
        ]
        assert query_user_hashes(users, times, b"s").tolist() == each, seed
        assert [found == NO_USER for found in each] == [user is None for user in users], seed


def test_union_does_not_depend_on_order_or_grouping() -> None:
    for seed in range(300):
        rng = random.Random(seed)
        ceiling = rng.randrange(1, 8)
        sets = [frozenset(rng.choices(range(1, 20), k=rng.randrange(4))) for _ in range(6)]
        expected = frozenset().union(*sets)
        whole = joined_users(sets, ceiling)
        cut = rng.randrange(6)
        rng.shuffle(sets)
        parts = joined_users(sets[:cut], ceiling), joined_users(sets[cut:], ceiling)
        assert (
            whole
            == joined_users(parts, ceiling)
            == (ENOUGH if len(expected) >= ceiling else expected)
        )
