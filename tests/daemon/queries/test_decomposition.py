"""The parts of a change add up to it, and queries are said to carry it only where there is one."""

from fractions import Fraction

import numpy as np
import pytest

from relevanced.daemon.queries import (
    Carried,
    Prior,
    Searches,
    Usual,
    Variation,
    decompose_change,
    share_carried,
)
from tests.daemon.queries import loss_oracle
from tests.daemon.queries.query_traffic import Traffic, claims
from tests.daemon.queries.random_searches import as_queries, random_searches, taken

NOTHING = Searches(*(np.zeros(shape) for shape in (1, 1, (5, 1), (5, 1))))


def test_parts_add_up_and_equal_the_slow_definition(rng: np.random.Generator) -> None:
    for _ in range(200):
        listed = random_searches(rng, days=7)
        other = random_searches(rng, queries=1, days=7)
        searches = Searches.joined([listed, other])
        found, expected = decompose_change(searches), loss_oracle.parts(as_queries(searches))
        if found is None or expected is None:
            assert found is None and expected is None
            continue
        change, within, mix = expected
        assert sum(within) + sum(mix) == change
        assert found.change == pytest.approx(float(change), abs=1e-12)
        assert found.within.sum() + found.mix.sum() == pytest.approx(found.change, abs=1e-12)
        assert found.within == pytest.approx(np.array([float(each) for each in within]), abs=1e-12)
        assert found.mix == pytest.approx(np.array([float(each) for each in mix]), abs=1e-12)


def test_queries_in_other_count_once(rng: np.random.Generator) -> None:
    """What a cut moves into (other) changes no sum of the whole."""
    searches = random_searches(rng, queries=60, days=7)
    listed, rest = taken(searches, np.arange(20)), taken(searches, np.arange(20, 60))
    other = Searches(
        rest.scored.sum(keepdims=True),
        rest.total.sum(keepdims=True),
        rest.daily_scored.sum(axis=1, keepdims=True),
        rest.daily_total.sum(axis=1, keepdims=True),
    )
    every, cut = decompose_change(searches), decompose_change(Searches.joined([listed, other]))
    assert every is not None and cut is not None
    assert cut.change == pytest.approx(every.change, abs=1e-12)
    assert cut.error == pytest.approx(every.error)
    assert cut.within[:20] == pytest.approx(every.within[:20], abs=1e-12)


def table(*queries: tuple[int, float, int, float], days: int = 5) -> Searches:
    """Queries of (scored, mean) now and on each usual day."""
    scored, mean, usual, usual_mean = (np.array(column) for column in zip(*queries, strict=True))
    return Searches(
        scored,
        scored * mean,
        np.tile(usual, (days, 1)),
        np.tile(usual * usual_mean, (days, 1)),
    )


def carried(searches: Searches, queries: tuple[int, ...] = (0,)) -> Carried | None:
    """What these queries carry, where all are listed."""
    usual = Usual(Prior(0.5, 2.0), Variation(1.0, 0.0))
    return share_carried(searches, NOTHING, usual, np.array(queries))


def test_one_broken_query_carries_everything() -> None:
    searches = table((1_000, 0.0, 1_000, 0.6), *[(3_000, 0.6, 3_000, 0.6)] * 3)
    found = carried(searches)
    assert found is not None and found.least < 1 < found.most
    assert found.share == pytest.approx(1.0, abs=0.02)
    rest = carried(searches, (1, 2, 3))
    assert rest is not None and rest.least < 0 < rest.most


def test_more_than_all_is_carried_where_the_rest_got_better() -> None:
    found = carried(table((1_000, 0.0, 1_000, 0.6), *[(3_000, 0.63, 3_000, 0.6)] * 3))
    assert found is not None and found.least > 1
    assert found.share == pytest.approx(0.06 / 0.033, rel=0.05)


@pytest.mark.parametrize(
    "traffic",
    [
        Traffic(10_000, memory=12.0, whole=0.9, in_a_row=3),
        Traffic(3_000, hours=24, memory=12.0, whole=0.9),
        Traffic(10_000, memory=12.0, whole=0.9, broken_searches=30),
        Traffic(10_000, memory=12.0, broken_searches=100, left=0.5),
    ],
    ids=["all", "all, day", "all and ten", "ten"],
)
def test_range_of_what_the_first_ten_carry_contains_it(traffic: Traffic) -> None:
    """Though they are the first ten because they had bad luck, too."""
    found = claims(traffic, 20, np.random.default_rng(20_261_127))
    true, said, _, _ = found.carried.T
    assert len(true) >= 10 and found.covered >= 0.8
    assert np.median(said) == pytest.approx(np.median(true), rel=0.15)


def test_shares_alone_are_the_mix() -> None:
    searches = table((5_000, 0.2, 1_000, 0.2), (5_000, 0.6, 9_000, 0.6))
    found = decompose_change(searches)
    assert found is not None and not found.within.any()
    assert found.mix.sum() == pytest.approx(-0.16)
    assert found.is_beyond_error and carried(searches) is None


def test_nothing_is_carried_where_the_mix_hides_it() -> None:
    """The whole rose though each query fell: no query carries the rise."""
    searches = table((1_000, 0.15, 5_000, 0.2), (9_000, 0.55, 5_000, 0.6))
    found = decompose_change(searches)
    assert found is not None and found.change > 0 > found.within.sum()
    assert found.is_beyond_error and carried(searches) is None


def test_nothing_is_carried_within_the_error() -> None:
    searches = table((10, 0.0, 10, 0.6), (990, 0.6, 990, 0.6))
    found = decompose_change(searches)
    assert found is not None and found.change == pytest.approx(-0.006)
    assert found.error == pytest.approx((0.24 / 1_000 + 0.24 / 5_000) ** 0.5, rel=0.02)
    assert carried(searches) is None


def test_days_that_differ_widen_the_error() -> None:
    daily = np.full((7, 1), 10_000)
    means = np.array([[0.5], [0.6], [0.55], [0.65], [0.45], [0.6], [0.5]])
    found = decompose_change(
        Searches(np.array([10_000]), np.array([5_000.0]), daily, daily * means)
    )
    assert found is not None
    assert found.error == pytest.approx(means.std(ddof=1) * (1 + 1 / 7) ** 0.5, rel=0.01)
    assert not found.is_beyond_error


def test_query_that_is_new_or_gone() -> None:
    new = (100, 0.1, 0, 0.0)
    gone = (0, 0.0, 100, 0.9)
    found = decompose_change(table(new, gone, (1_000, 0.5, 1_000, 0.5)))
    assert found is not None
    usual = Fraction(100 * 9 + 1_000 * 5, 10 * 1_100)
    assert found.within[0] == pytest.approx(float((Fraction(1, 10) - usual) / 11))
    assert (found.mix[0], found.within[1]) == (0, 0)
    assert found.within.sum() + found.mix.sum() == pytest.approx(found.change)


def test_without_searches_there_is_no_change() -> None:
    assert decompose_change(table((0, 0.0, 10, 0.5))) is None
    assert decompose_change(table((10, 0.5, 0, 0.0))) is None
