"""Keys have numbers as a dictionary would give them."""

import random

import numpy as np
import pytest

from relevanced.daemon.lane import NO_NUMBER, QueryKeys, impression_columns
from relevanced.daemon.queries import NO_QUERY

TEXTS = ("", "a", "shoes", "schöne schuhe", "靴", "x" * 128, "\ud800")


def some_keys(rng: random.Random) -> list[str]:
    """Few or many keys, some of them several times."""
    count = rng.choice((0, 1, 5, 40, 400))
    return [rng.choice((*TEXTS, f"q{rng.randrange(2 * count + 1)}")) for _ in range(count)]


@pytest.mark.parametrize("clashing", [False, True], ids=["", "clashing hashes"])
def test_each_key_has_one_number(clashing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if clashing:
        monkeypatch.setattr(impression_columns, "hash_of", lambda key: hash(key) & 7)
        hashes_of = impression_columns.hashes_of
        monkeypatch.setattr(
            impression_columns, "hashes_of", lambda keys, count: hashes_of(keys, count) & 7
        )
    for seed in range(40):
        rng, keys = random.Random(seed), QueryKeys()
        expected = {NO_QUERY: NO_NUMBER}
        for _ in range(rng.randrange(1, 12)):
            wanted = some_keys(rng)
            for key in wanted:
                expected.setdefault(key, len(expected))
            numbers = keys.numbers_of(wanted)
            assert keys.keys_of(numbers) == wanted, seed
            assert len(keys) == len(expected), seed
        every = keys.numbers_of(list(expected))
        assert sorted(every.tolist()) == list(range(len(expected))), seed
        assert [keys[number] for number in every.tolist()] == list(expected), seed


def test_keys_that_are_taken_from_another_table_stay_what_they_are() -> None:
    for seed in range(40):
        rng, old, new = random.Random(seed), QueryKeys(), QueryKeys()
        old.numbers_of(some_keys(rng))
        old.numbers_of(some_keys(rng))
        used = np.array([n for n in range(len(old)) if rng.random() < 0.5], np.int64)
        numbers = new.take(old, used)
        assert new.keys_of(numbers) == old.keys_of(used), seed
        assert (new.numbers_of(old.keys_of(used)) == numbers).all(), seed
        assert len(new) == len({NO_QUERY, *old.keys_of(used)}), seed
