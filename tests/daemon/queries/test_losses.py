"""What queries lost: equal to the slow definition, and what the page promises of lists."""

from typing import Final

import numpy as np
import pytest

from relevanced.daemon.queries import (
    ASSUMED_VARIATION,
    STRENGTHS,
    Losses,
    Prior,
    Searches,
    Usual,
    Variation,
    compare_with_usual,
    fit_prior,
    fit_variation,
    order_gained,
    order_lost,
    usual_of,
)
from tests.daemon.queries import loss_oracle
from tests.daemon.queries.query_traffic import Traffic, claims, simulate
from tests.daemon.queries.random_searches import as_queries, random_searches, taken

SEED: Final = 20_261_125
HALF: Final = Usual(Prior(0.5, 10.0), Variation(1.0, 0.02))
STEADY: Final = Usual(HALF.prior, Variation(1.0, 0.0))


def one(
    scored: int, total: float, usual: int = 0, usual_total: float = 0.0, days: int = 1
) -> Searches:
    """One query, its usual spread evenly over the days."""
    return Searches(
        np.array([scored]),
        np.array([total]),
        np.full((days, 1), usual // days),
        np.full((days, 1), usual_total / days),
    )


def test_losses_equal_the_slow_definition(rng: np.random.Generator) -> None:
    for _ in range(200):
        searches = random_searches(rng)
        queries = as_queries(searches)
        variation = fit_variation(searches.daily_scored, searches.daily_total)
        effect, of_days = loss_oracle.variation(queries)
        assert (variation.design_effect, variation.of_days) == pytest.approx((effect, of_days))
        usual, expected = usual_of(searches), loss_oracle.prior(
            loss_oracle.effective(queries, effect)
        )
        if expected is None or usual is None:
            assert usual is None and expected is None
            continue
        assert (usual.prior.mean, usual.prior.strength) == pytest.approx(expected)
        losses = compare_with_usual(searches, usual)
        lost = [loss_oracle.lost(query, *expected, effect, of_days) for query in queries]
        assert losses.lost == pytest.approx(np.array([each for each, _ in lost]), abs=1e-6)
        assert losses.lost_at_least == pytest.approx(np.array([least for _, least in lost]))


def test_losses_by_hand() -> None:
    losses = compare_with_usual(one(100, 30.0, 90, 55.0), STEADY)
    assert losses.expected[0] == 0.6
    assert losses.lost[0] == pytest.approx(30)
    assert losses.error[0] ** 2 == pytest.approx(100 * 0.24 + 100**2 * 0.24 / 101)
    assert losses.lost_at_least[0] == pytest.approx(30 - 0.5 - 2.5 * losses.error[0])
    assert losses.surely_lost[0] and not losses.surely_gained[0]


def test_query_without_a_usual_is_as_its_segment() -> None:
    losses = compare_with_usual(one(40, 0.0), Usual(Prior(0.5, 2.0), STEADY.variation))
    assert losses.expected[0] == 0.5
    assert losses.error[0] ** 2 == pytest.approx(40 * 0.25 + 40**2 * 0.25 / 3)
    assert losses.lost_at_least[0] < 0, "the prior is wide: such a query may just be a bad one"


def test_variation_keeps_frequent_queries_from_leading() -> None:
    searches = one(10_000, 5_700.0, 70_000, 42_000.0, days=7)
    assert compare_with_usual(searches, STEADY).surely_lost[0]
    assert compare_with_usual(searches, HALF).lost_at_least[0] < 0


def test_searches_that_resemble_one_another_tell_less() -> None:
    searches = one(100, 30.0, 90, 55.0)
    losses = compare_with_usual(searches, Usual(HALF.prior, Variation(3.0, 0.0)))
    assert losses.expected[0] == pytest.approx((5 + 55 / 3) / 40)
    of_score = losses.expected[0] * (1 - losses.expected[0])
    assert losses.error[0] ** 2 == pytest.approx(of_score * (300 + 100**2 / 41))


def test_nothing_searched_is_nothing_lost(rng: np.random.Generator) -> None:
    searches = random_searches(rng, queries=50)
    losses = compare_with_usual(searches, HALF)
    nothing = searches.scored == 0
    assert not losses.lost[nothing].any() and (losses.lost_at_least[nothing] == -0.5).all()


def test_lower_is_better_swaps_losses_and_gains(rng: np.random.Generator) -> None:
    searches = random_searches(rng)
    up, down = (
        compare_with_usual(searches, HALF, lower_is_better=lower) for lower in (False, True)
    )
    assert (up.lost == down.gained).all() and (up.gained_at_least == down.lost_at_least).all()
    assert (up.surely_lost == down.surely_gained).all()


def test_a_score_is_as_good_as_its_complement_is_bad(rng: np.random.Generator) -> None:
    for _ in range(50):
        searches = random_searches(rng)
        opposite = Searches(
            searches.scored,
            searches.scored - searches.total,
            searches.daily_scored,
            searches.daily_scored - searches.daily_total,
        )
        losses = [_fitted(each) for each in (searches, opposite)]
        if losses[0] is not None and losses[1] is not None:
            assert losses[0].lost_at_least == pytest.approx(losses[1].gained_at_least, abs=1e-6)


def test_direction_of_time_and_order_of_queries_do_not_matter(rng: np.random.Generator) -> None:
    searches = random_searches(rng, queries=80, days=7)
    by_query, by_day = rng.permutation(80), np.arange(7)[::-1]
    shuffled = taken(searches, by_query)
    shuffled = Searches(
        shuffled.scored,
        shuffled.total,
        shuffled.daily_scored[by_day],
        shuffled.daily_total[by_day],
    )
    before, after = _fitted(searches), _fitted(shuffled)
    assert before is not None and after is not None
    assert after.lost_at_least == pytest.approx(before.lost_at_least[by_query])


def test_order_is_by_what_was_lost_at_least() -> None:
    searches = Searches(
        np.array([10, 400, 100, 100]),
        np.array([1.0, 160.0, 20.0, 20.0]),
        np.array([[100, 4_000, 1_000, 1_000]]),
        np.array([[50.0, 2_000.0, 500.0, 500.0]]),
    )
    usual = Usual(HALF.prior, Variation(1.0, 0.1))
    losses = compare_with_usual(searches, usual)
    assert losses.lost.round().tolist() == [4, 40, 30, 30]
    assert order_lost(losses).tolist() == [2, 3, 0, 1], "40 of 400 are less certain than 30 of 100"
    falls = compare_with_usual(searches, usual, lower_is_better=True)
    assert order_gained(falls).tolist() == [2, 3, 0, 1]


def test_prior_stays_in_its_bounds(rng: np.random.Generator) -> None:
    for _ in range(200):
        searches = random_searches(rng)
        prior = fit_prior(searches.usual_scored, searches.usual_total)
        assert prior is None or (
            0 < prior.mean < 1 and STRENGTHS[0] <= prior.strength <= STRENGTHS[1]
        )


@pytest.mark.parametrize(
    ("scored", "total", "expected"),
    [
        ([0, 0], [0.0, 0.0], None),
        ([10], [4.0], Prior(0.4, 0.5)),
        ([50, 50], [0.0, 0.0], Prior(0.5 / 101, 200.0)),
        ([50, 50], [50.0, 50.0], Prior(1 - 0.5 / 101, 200.0)),
        ([100, 100], [100.0, 0.0], Prior(0.5, 0.5)),
        ([100, 100], [50.0, 50.0], Prior(0.5, 200.0)),
    ],
    ids=["nothing", "one query", "all bad", "all good", "opposite", "alike"],
)
def test_prior_of_few_queries(
    scored: list[int], total: list[float], expected: Prior | None
) -> None:
    assert fit_prior(np.array(scored), np.array(total)) == expected


def test_prior_is_that_of_the_queries(rng: np.random.Generator) -> None:
    rates = rng.beta(3.0, 2.0, 3_000)
    scored = rng.choice([5, 40, 300], 3_000)
    prior = fit_prior(scored, rng.binomial(scored, rates).astype(np.float64))
    assert prior is not None
    assert prior.mean == pytest.approx(0.6, abs=0.02)
    assert prior.strength == pytest.approx(5, rel=0.12)


@pytest.mark.parametrize("drift", [0.0, 0.15, 0.3])
@pytest.mark.parametrize("in_a_row", [1, 3])
def test_variation_is_that_of_the_logits_beside_that_of_users(
    rng: np.random.Generator, drift: float, in_a_row: int
) -> None:
    odds = 1.5 * np.exp(drift * rng.standard_normal((7, 2_000)))
    users = rng.poisson(rng.choice([20, 1_000], 2_000), (7, 2_000))
    total = in_a_row * rng.binomial(users, odds / (1 + odds)).astype(np.float64)
    found = fit_variation(in_a_row * users, total)
    # A day against six others.
    assert found.of_days == pytest.approx(7 / 6 * drift**2, rel=0.35, abs=0.002)
    assert found.design_effect == pytest.approx(in_a_row, rel=0.25)


def test_variation_is_that_of_days_as_far_apart_as_a_window_and_its_usual(
    rng: np.random.Generator,
) -> None:
    """Days that resemble their neighbours vary little among themselves."""
    drift = np.cumsum(0.1 * rng.standard_normal((7, 2_000)), axis=0)
    odds = 1.5 * np.exp(drift)
    scored = rng.poisson(rng.choice([20, 2_000], 2_000), (7, 2_000))
    found = fit_variation(scored, rng.binomial(scored, odds / (1 + odds)).astype(np.float64))
    assert found.of_days == pytest.approx(0.1**2 * 91 / 36, rel=0.3)


def test_queries_that_broke_within_the_week_do_not_widen_the_rest(
    rng: np.random.Generator,
) -> None:
    scored = rng.poisson(1_000, (7, 200))
    total = rng.binomial(scored, 0.6).astype(np.float64)
    quiet = fit_variation(scored, total).of_days
    total[3, :10] = 0
    assert fit_variation(scored, total).of_days == pytest.approx(quiet, abs=0.002)
    total[3, :40] = 0
    assert fit_variation(scored, total).of_days > 0.02, "more of them than are trimmed do"


def test_variation_is_assumed_where_few_queries_tell(rng: np.random.Generator) -> None:
    scored = np.full((7, 20), 100)
    total = rng.binomial(scored, 0.5).astype(np.float64)
    assert fit_variation(scored[:, :19], total[:, :19]) == ASSUMED_VARIATION
    assert fit_variation(scored[:2], total[:2]) == ASSUMED_VARIATION
    assert fit_variation(scored // 25, total // 25) == ASSUMED_VARIATION
    assert fit_variation(scored, total) != ASSUMED_VARIATION


@pytest.mark.parametrize(
    "traffic",
    [
        Traffic(50_000),
        Traffic(10_000, memory=12.0, in_a_row=3),
        Traffic(3_000, hours=24, memory=12.0, in_a_row=3),
        Traffic(5_000, hours=24, memory=48.0, zipf=1.1, drift=0.3, rate_deviation=0.25),
    ],
    ids=["hour", "hour, users", "day, users", "day, drift"],
)
def test_undisturbed_traffic_lists_few_queries(traffic: Traffic) -> None:
    found = claims(traffic, 10, np.random.default_rng(SEED))
    assert found.quiet <= 0.01 and found.sure <= 0.002, found


@pytest.mark.parametrize("searches", [10_000, 50_000])
def test_broken_queries_are_named_first(searches: int) -> None:
    traffic = Traffic(searches, broken_searches=100)
    found = claims(traffic, 20, np.random.default_rng(SEED))
    assert found.runs_with_nine >= 0.95, found
    assert found.quiet <= 0.01, "what is broken makes no other query look worse"


@pytest.mark.parametrize("searches", [10_000, 50_000])
def test_half_broken_queries_are_named_first(searches: int) -> None:
    traffic = Traffic(searches, broken_searches=300, left=0.5)
    found = claims(traffic, 20, np.random.default_rng(SEED))
    assert found.runs_with_nine >= 0.9, found


def test_tail_has_its_own_usual_and_says_when_it_lost() -> None:
    """(other) is a line like a query, by the prior and the variation of the listed ones."""
    simulated = simulate(Traffic(50_000), np.random.default_rng(SEED))
    listed, other = simulated.listed, simulated.other
    usual = usual_of(listed)
    assert usual is not None
    broken = Searches(other.scored, 0.7 * other.total, other.daily_scored, other.daily_total)
    quiet_loss, loss = (compare_with_usual(each, usual) for each in (other, broken))
    assert other.scored[0] > 10_000 and quiet_loss.lost_at_least[0] < 0
    assert loss.surely_lost[0] and loss.lost[0] == pytest.approx(0.3 * other.total[0], rel=0.1)


def _fitted(searches: Searches) -> Losses | None:
    usual = usual_of(searches)
    return None if usual is None else compare_with_usual(searches, usual)
