"""Hashes and sketches of users: the same counts whatever lanes the users are in."""

import math

import numpy as np
import pytest
from scipy import stats

from relevanced.metrics import (
    ALARM_LOG_EVALUE,
    ALL_HASHES,
    BUCKETS,
    Hashes,
    Sketch,
    bucket_indices,
    crossover_count,
    merged,
    sample_ratio_log_evalue,
    sampled_users,
    user_count,
    user_hashes,
    users_sample_ratio_log_evalue,
)

K = 1_024


def users(first: int, last: int) -> Hashes:
    return user_hashes(f"user-{number}" for number in range(first, last))


def test_hash_never_changes() -> None:
    """Stored sketches and buckets depend on it."""
    assert user_hashes(["", "u1", "ü"]).tolist() == [
        13358181304811224649,
        674649323544730751,
        13608115923974742460,
    ]
    assert user_hashes([]).dtype == np.uint64


def test_buckets_are_filled_evenly() -> None:
    tally = np.bincount(bucket_indices(users(0, 64_000)), minlength=BUCKETS)
    assert stats.chisquare(tally).pvalue > 1e-4


def test_buckets_do_not_depend_on_the_order_in_the_sketch() -> None:
    """Users with the lowest hashes fall into buckets as evenly as all others."""
    sample = Sketch.of(users(0, 64_000), capacity=6_400).hashes
    assert stats.chisquare(np.bincount(bucket_indices(sample), minlength=BUCKETS)).pvalue > 1e-4


@pytest.mark.parametrize("count", [0, 10, K - 1, K, 20 * K])
def test_lanes_merge_to_the_sketch_of_all(rng: np.random.Generator, count: int) -> None:
    visits = rng.permutation(np.tile(users(0, count), 2))
    lanes = np.array_split(visits, 5)
    one_by_one = Sketch.of(lanes[0], K)
    for lane in lanes[1:]:
        one_by_one = one_by_one | Sketch.of(lane, K)
    whole = Sketch.of(users(0, count), K)
    for found in (one_by_one, merged([Sketch.of(lane, K) for lane in reversed(lanes)])):
        assert found.hashes.tolist() == whole.hashes.tolist()


def test_sketches_of_other_capacities_do_not_merge() -> None:
    with pytest.raises(ValueError, match="capacities 1024 and 65536"):
        Sketch.of(users(0, 9), K) | Sketch.of(users(0, 9))


@pytest.mark.parametrize("count", [0, 1, K - 1])
def test_few_users_are_counted_exactly(count: int) -> None:
    found = user_count(Sketch.of(users(0, count), K))
    assert (found.value, found.stderr) == (count, 0.0)


@pytest.mark.parametrize("count", [K, 3 * K, 100 * K])
def test_many_users_are_counted_within_the_error(count: int) -> None:
    found = user_count(Sketch.of(users(0, count), K))
    assert abs(found.value - count) <= 5 * max(found.stderr, 1.0)
    assert found.stderr <= found.value / math.sqrt(K - 1)


def test_standard_error_is_right(rng: np.random.Generator) -> None:
    counts = [
        user_count(Sketch.of(rng.integers(0, 2**64, 5_000, dtype=np.uint64), 256))
        for _ in range(300)
    ]
    values = np.array([found.value for found in counts])
    expected = float(np.mean([found.stderr for found in counts]))
    assert values.std() == pytest.approx(expected, rel=0.25)
    assert abs(values.mean() - 5_000) <= 5 * expected / math.sqrt(len(values))


def test_crossover_is_exact_while_the_arms_are() -> None:
    arms = [Sketch.of(users(*span), K) for span in ((0, 300), (250, 500), (490, 700), (0, 0))]
    assert crossover_count(arms).value == 60
    assert sampled_users(arms, ALL_HASHES) == [250, 190, 200, 0]


def test_crossover_of_many_is_estimated(rng: np.random.Generator) -> None:
    """One sketch full and one not: the sample is where both are complete."""
    for other in (500, 40_000):
        arms = [Sketch.of(users(0, 20_000), K), Sketch.of(users(20_000 - 400, 20_000 + other), K)]
        found = crossover_count(arms)
        assert abs(found.value - 400) <= 5 * found.stderr
    nobody = crossover_count([Sketch.of(users(0, 5_000), K), Sketch.of(users(5_000, 10_000), K)])
    assert nobody.value == 0.0 < nobody.stderr


def test_planned_split_of_any_size_raises_no_alarm() -> None:
    for count in (0, 100, 1_000, 10_000, 100_000):
        arms = [Sketch.of(part, K) for part in np.array_split(users(0, count), 2)]
        assert users_sample_ratio_log_evalue(arms, [1.0, 1.0]) < 1.0


def test_looks_at_shrinking_samples_rarely_mislead(rng: np.random.Generator) -> None:
    """At most one run in twenty reaches ln 20, though the sample is halved six times on the way.

    Counts estimated from the same sketches mislead most of the time.
    """
    sampled, estimated = 0, 0
    for _ in range(100):
        hashes = rng.integers(0, 2**64, 6_000, dtype=np.uint64)
        sides = rng.integers(0, 2, len(hashes))
        looks = [
            [Sketch.of(hashes[:seen][sides[:seen] == side], 64) for side in (0, 1)]
            for seen in np.geomspace(20, len(hashes), 20).astype(int)
        ]
        evidence = [users_sample_ratio_log_evalue(arms, [1.0, 1.0], [30.0]) for arms in looks]
        counts = [[round(user_count(arm).value) for arm in arms] for arms in looks]
        naive = [sample_ratio_log_evalue(users, [1.0, 1.0], [30.0]) for users in counts]
        sampled += max(evidence) >= math.log(20)
        estimated += max(naive) >= math.log(20)
    assert sampled <= 5 < 50 < estimated


def test_skewed_split_raises_the_alarm_beyond_the_capacity() -> None:
    arms = [Sketch.of(part, 8 * K) for part in (users(0, 60_000), users(60_000, 100_000))]
    assert users_sample_ratio_log_evalue(arms, [1.0, 1.0]) > ALARM_LOG_EVALUE
    assert users_sample_ratio_log_evalue(arms, [0.6, 0.4]) < 1.0


def test_evidence_below_the_capacity_is_that_of_all_users() -> None:
    arms = [Sketch.of(users(0, 600), K), Sketch.of(users(600, 1_000), K)]
    exact = sample_ratio_log_evalue([600, 400], [1.0, 1.0])
    assert users_sample_ratio_log_evalue(arms, [1.0, 1.0]) == pytest.approx(exact - math.log(2))


def test_sample_is_the_users_below_its_limit() -> None:
    everybody = users(0, 10_000)
    arms = [Sketch.of(everybody[:4_000], K), Sketch.of(everybody[4_000:], K)]
    limit = ALL_HASHES >> 4
    assert min(arm.limit for arm in arms) >= limit
    below = everybody < limit
    assert sampled_users(arms, limit) == [int(below[:4_000].sum()), int(below[4_000:].sum())]
