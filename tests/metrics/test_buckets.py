"""Tallies in buckets of users: they add up exactly, and their variance is that over users."""

import numpy as np
import pytest

from relevanced.metrics import (
    BUCKETS,
    LARGEST_SUM,
    UserBuckets,
    design_effect,
    effective_buckets,
    estimate,
    independent_variance,
    mean,
    mean_variance,
    post_stratified,
    post_stratified_rows,
    rests_on_few,
)
from tests.metrics.arms import stacked


def traffic(rng: np.random.Generator, impressions: int = 2_000) -> tuple[np.ndarray, np.ndarray]:
    """Scores, some undefined, and their buckets."""
    scores = rng.random(impressions)
    scores[rng.random(impressions) < 0.1] = np.nan
    return scores, rng.integers(0, BUCKETS, impressions)


def of_many_outcomes(rng: np.random.Generator) -> UserBuckets:
    """An arm that keeps its own variance. One in some 400 draws looks as if it rested on few
    outcomes, and each of its segments gets more for itself."""
    arm = UserBuckets.of(*traffic(rng))
    return of_many_outcomes(rng) if rests_on_few(arm) else arm


def test_lanes_add_up_to_the_whole(rng: np.random.Generator) -> None:
    scores, buckets = traffic(rng)
    lanes = rng.integers(0, 3, len(scores))
    parts = [UserBuckets.of(scores[lanes == lane], buckets[lanes == lane]) for lane in range(3)]
    together, whole = parts[2] + parts[0] + parts[1], UserBuckets.of(scores, buckets)
    for name in ("counts", "sums", "squares"):
        assert (getattr(together, name) == getattr(whole, name)).all()


def test_tallies_of_other_units_do_not_add_up() -> None:
    with pytest.raises(ValueError, match="units 1000000 and 1000"):
        UserBuckets.empty() + UserBuckets.empty(unit=1_000)


def test_tally_that_could_wrap_is_an_error() -> None:
    high = np.full(BUCKETS, LARGEST_SUM - 1)
    with pytest.raises(OverflowError, match=str(LARGEST_SUM)):
        UserBuckets(high, high, high) + UserBuckets(high, high, high)


def test_variance_of_independent_impressions_is_the_textbook_one(rng: np.random.Generator) -> None:
    scores, buckets = traffic(rng)
    defined = scores[~np.isnan(scores)]
    found = independent_variance(UserBuckets.of(scores, buckets))
    assert found == pytest.approx(defined.var(ddof=1) / len(defined), rel=1e-5)


def test_one_user_a_bucket_gives_the_delta_method_over_users(rng: np.random.Generator) -> None:
    scores, users = rng.random(900), rng.integers(0, BUCKETS, 900)
    searches, sums = (np.bincount(users, w, BUCKETS) for w in (None, scores))
    ratio = sums.sum() / searches.sum()
    expected = (sums - ratio * searches).var(ddof=1) / BUCKETS / searches.mean() ** 2
    assert mean_variance(UserBuckets.of(scores, users)) == pytest.approx(expected, rel=1e-5)


def test_empty_buckets_do_not_count(rng: np.random.Generator) -> None:
    """Three users have the same variance, with or without 61 more buckets that are empty."""
    scores, users = rng.random(30), rng.integers(0, 3, 30)
    few, many = UserBuckets.of(scores, users, buckets=3), UserBuckets.of(scores, users)
    assert mean_variance(few) == pytest.approx(float(mean_variance(many)))
    assert effective_buckets(few) == effective_buckets(many) <= 3


@pytest.mark.parametrize("score", [0.0, 1 / 3, 0.7, 1.0])
def test_equal_scores_have_no_variance(rng: np.random.Generator, score: float) -> None:
    """Not even one from rounding."""
    users = rng.integers(0, BUCKETS, 9_999)
    assert mean_variance(UserBuckets.of(np.full(9_999, score), users)) == 0.0


def test_many_tallies_at_once_equal_one_by_one(rng: np.random.Generator) -> None:
    arms = [UserBuckets.of(*traffic(rng, impressions)) for impressions in (0, 1, 300)]
    for number in (mean, mean_variance, independent_variance, design_effect, effective_buckets):
        expected = [float(number(arm)) for arm in arms]
        np.testing.assert_array_equal(number(stacked(*arms)), expected)


def test_arm_without_traffic_is_undefined() -> None:
    found = estimate(UserBuckets.empty())
    assert np.isnan([found.value, found.variance, found.z]).all()
    assert found.n == 0


def test_one_segment_is_the_plain_difference(rng: np.random.Generator) -> None:
    control, treatment = (of_many_outcomes(rng) for _ in range(2))
    found = post_stratified(stacked(control), stacked(treatment)).estimate
    arms = estimate(control), estimate(treatment)
    assert found.value == pytest.approx(arms[1].value - arms[0].value)
    assert found.variance == pytest.approx(arms[0].variance + arms[1].variance)
    assert found.n == arms[0].n + arms[1].n


def test_another_mix_of_segments_is_no_effect(rng: np.random.Generator) -> None:
    """Scores depend on the segment only, and the treatment has more impressions of the poor one."""
    users = rng.integers(0, BUCKETS, 4_000)
    high, low = np.full(4_000, 0.8), np.full(4_000, 0.2)
    control = stacked(UserBuckets.of(high, users), UserBuckets.of(low[:1_000], users[:1_000]))
    treatment = stacked(UserBuckets.of(high[:1_000], users[:1_000]), UserBuckets.of(low, users))
    assert post_stratified(control, treatment).estimate.value == pytest.approx(0.0, abs=1e-12)


def test_user_in_two_segments_counts_once(rng: np.random.Generator) -> None:
    """The same users with the same scores in two segments are no more evidence than in one."""
    control, treatment = (of_many_outcomes(rng) for _ in range(2))
    once = post_stratified(stacked(control), stacked(treatment)).estimate
    twice = post_stratified(stacked(control, control), stacked(treatment, treatment)).estimate
    assert twice.variance == pytest.approx(once.variance)


def test_segment_of_one_arm_only_is_left_out(rng: np.random.Generator) -> None:
    control, treatment = (UserBuckets.of(*traffic(rng)) for _ in range(2))
    found = post_stratified(stacked(control, control), stacked(treatment, UserBuckets.empty()))
    only = post_stratified(stacked(control), stacked(treatment))
    assert found.estimate == only.estimate
    assert 0.6 < found.covered < 0.7 and only.covered == 1.0
    nothing = post_stratified(stacked(control), stacked(UserBuckets.empty()))
    assert np.isnan(nothing.estimate.value) and nothing.covered == 0.0


def test_segment_with_too_few_buckets_in_an_arm_is_not_covered(rng: np.random.Generator) -> None:
    """A single impression has no deviation from its own mean: it would be taken for certain."""
    control, treatment = (UserBuckets.of(*traffic(rng)) for _ in range(2))
    for few in (1, 15):
        single = UserBuckets.of(np.zeros(few), np.arange(few))
        found = post_stratified(stacked(control, control), stacked(treatment, single))
        only = post_stratified(stacked(control), stacked(treatment))
        assert found.estimate == only.estimate and found.covered < 0.7
    enough = UserBuckets.of(np.zeros(16), np.arange(16))
    found = post_stratified(stacked(control, control), stacked(treatment, enough))
    assert found.covered == 1.0 and found.estimate.variance > only.estimate.variance


def test_with_less_than_half_covered_there_is_no_statement(rng: np.random.Generator) -> None:
    control, treatment = (UserBuckets.of(*traffic(rng)) for _ in range(2))
    nobody = UserBuckets.empty()
    sides = [control, control, nobody, nobody], [treatment, nobody, treatment, treatment]
    found = post_stratified(*(stacked(*side) for side in sides))
    assert np.isnan(found.estimate.value) and np.isnan(found.estimate.variance)
    assert 0.3 < found.covered < 0.5


def test_strata_of_many_pairs_equal_each_alone(rng: np.random.Generator) -> None:
    arms = [stacked(*(UserBuckets.of(*traffic(rng)) for _ in range(3))) for _ in range(4)]
    sides = (stacked(*of)[..., None, :] for of in (arms[:2], arms[2:]))
    change, covered = post_stratified_rows(*sides)
    for row, pair in enumerate(zip(arms[:2], arms[2:], strict=True)):
        alone = post_stratified(*pair)
        assert change.estimates()[row] == alone.estimate and covered[row] == alone.covered
