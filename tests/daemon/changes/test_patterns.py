"""What a drop looks like: every fault of the table is named rightly, and nothing else is."""

import math
from dataclasses import replace
from itertools import product
from typing import Final

import numpy as np
import pytest

from relevanced.daemon.changes import (
    NAMES,
    NUMBERS,
    PATTERNS,
    UNKNOWN,
    Compare,
    Condition,
    Either,
    Every,
    Noise,
    Side,
    evidence,
    holds,
    largest_mix_share,
    pattern_of,
)
from relevanced.daemon.tools.traffic import expected_reciprocal_rank
from tests.daemon.changes.faults import (
    BY_JUDGEMENTS,
    EMPTY,
    FAULTS,
    NOISE,
    PERIODS,
    RANKS,
    TOO_SMALL,
    Searches,
    clicked,
    said,
    sides,
    usual,
)

MANY: Final = 20_000
FEW: Final = 3_000


def numbers_of(condition: Condition) -> set[str]:
    if isinstance(condition, Compare):
        return {condition.number}
    but = condition.but if isinstance(condition, Every) else ()
    return set().union(*map(numbers_of, (*condition.of, *but)))


def name_of(recent: Side, baseline: Side, **more: float) -> str:
    found = pattern_of(evidence(recent, baseline, PERIODS, NOISE, **more))
    return TOO_SMALL if found is None else found.name


@pytest.mark.parametrize(("fault", "seed"), list(product(FAULTS, (1, 2))))
def test_fault_in_many_searches_is_named(fault: str, seed: int) -> None:
    play, name, _ = FAULTS[fault]
    assert said(play, MANY, seed) == name


@pytest.mark.parametrize(("fault", "seed"), list(product(FAULTS, (1, 2, 3, 4, 5))))
def test_fault_in_few_searches_is_never_named_wrongly(fault: str, seed: int) -> None:
    play, name, others = FAULTS[fault]
    assert said(play, FEW, seed) in {name, *others}


@pytest.mark.parametrize(("fault", "seed"), list(product(FAULTS, (1, 2))))
def test_judgements_tell_lost_clicks_from_lost_items(fault: str, seed: int) -> None:
    play, of_many, of_few = FAULTS[fault][0], *BY_JUDGEMENTS[fault]
    assert said(play, MANY, seed, judged=True) == of_many
    few = {said(play, FEW, seed + more, judged=True) for more in range(3)}
    assert few <= {of_many, *of_few} - {"TRACKING or RETRIEVAL"} | {TOO_SMALL}


def test_distances_are_in_errors_of_sampling_and_of_drift() -> None:
    """Sampling alone and drift alone, of the share with feedback and of Success."""
    recent = Side(10_000, 4_000, 5_000, 0, success=0.4, success_stderr=0.004)
    before = replace(recent, with_feedback=5_000, success=0.5, success_stderr=0.003)
    for periods in (1, 3):
        sampled = evidence(recent, before, periods, Noise(2.0, 0.0, 0.0))
        error = math.sqrt(2 * (1 / 10_000 + 1 / (10_000 * periods)) * 0.45 * 0.55)
        assert sampled["feedback_z"] == pytest.approx(-0.1 / error)
        error = math.sqrt(2 * ((0.004 / 0.4) ** 2 + (0.003 / 0.5) ** 2))
        assert sampled["success_z"] == pytest.approx(math.log(0.8) / error)
        drifted = evidence(
            *(replace(side, success_stderr=0.0) for side in (recent, before)),
            periods,
            Noise(0.0, 0.05, 0.02),
        )
        assert drifted["feedback_z"] == pytest.approx(-0.1 / (0.02 * 0.5))
        error = 0.05 * math.sqrt(1 + 1 / periods)
        assert drifted["success_z"] == pytest.approx(math.log(0.8) / error)


def test_judgements_of_other_queries_say_nothing() -> None:
    recent, before, _ = sides(FAULTS["banner, 40 % of users"][0], MANY, 1)
    assert name_of(recent, before) == "TRACKING"
    fewer = replace(recent, judged_impressions=0.7 * recent.judged_impressions)
    assert name_of(fewer, before) == "TRACKING or RETRIEVAL"


def test_judgements_that_could_not_show_a_fall_say_nothing() -> None:
    recent, before, _ = sides(FAULTS["banner, 40 % of users"][0], MANY, 1)
    few = (replace(one, judged=((one.judged[0][0], 0.2),)) for one in (recent, before))
    assert name_of(*few) == "TRACKING or RETRIEVAL"


def test_every_pattern_is_what_some_fault_looks_like_or_may_look_like() -> None:
    seen = {name for _, name, others in FAULTS.values() for name in (name, *others)}
    assert seen == {*NAMES, TOO_SMALL}


def test_every_number_of_a_condition_is_in_the_evidence_and_explained() -> None:
    side = Side(100, 50, 60, 2)
    used = set[str]().union(*(numbers_of(pattern.when) for pattern in PATTERNS))
    assert used <= evidence(side, side, 1, NOISE).keys()
    assert used == set(NUMBERS)


def test_the_cascade_is_that_of_the_simulator() -> None:
    random = np.random.default_rng(5)
    some = usual(1, random).candidates
    exact = expected_reciprocal_rank(some[0, : len(RANKS)])
    count = 40_000
    searches = Searches(
        np.repeat(some, count, axis=0), np.full(count, len(RANKS)), np.zeros(count, bool)
    )
    rr = (clicked(searches, random) / RANKS).max(axis=1)
    assert rr.mean() == pytest.approx(exact, abs=5 * rr.std() / math.sqrt(count))
    empty = usual(count, random).lengths == 0
    assert empty.mean() == pytest.approx(EMPTY, abs=5 * math.sqrt(EMPTY / count))


def test_empty_lists_are_retrieval_and_not_lost_clicks() -> None:
    """Nobody clicks on an empty list."""
    before = Side(1000, 700, 800, 20, 0.7, 0.0145, 0.5, 0.014, 9.8, 0.04)
    recent = Side(1000, 0, 0, 1000, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    assert name_of(recent, before) == "RETRIEVAL"


def test_share_with_feedback_stands_in_for_success() -> None:
    for fault in ("shuffled", "10 % of searches empty", "20 % of clicks lost"):
        play, name, _ = FAULTS[fault]
        recent, before, _ = sides(play, MANY, 1)
        without = [
            Side(**{**vars(one), "success": UNKNOWN, "success_stderr": UNKNOWN})
            for one in (recent, before)
        ]
        assert name_of(without[0], without[1]) == name


def test_without_a_metric_rr_lists_alone_are_judged() -> None:
    names = {}
    for fault in ("shuffled", "10 % of searches empty", "20 % of clicks lost"):
        recent, before, _ = sides(FAULTS[fault][0], MANY, 1)
        without = [
            Side(**{**vars(one), "rr": UNKNOWN, "rr_stderr": UNKNOWN, "judged": ()})
            for one in (recent, before)
        ]
        names[fault] = name_of(without[0], without[1])
    assert names == {
        "shuffled": TOO_SMALL,
        "10 % of searches empty": "RETRIEVAL",
        "20 % of clicks lost": TOO_SMALL,
    }


def test_nothing_known_is_nothing_said() -> None:
    nothing = Side(0, 0, 0, 0)
    assert name_of(nothing, nothing) == TOO_SMALL


def test_mix_counts_only_where_the_whole_is_low() -> None:
    assert largest_mix_share([(-5.0, -0.09, -0.01), (-2.0, -0.1, 0.0)]) == pytest.approx(0.9)
    assert math.isnan(largest_mix_share([(-2.0, -0.1, 0.0)]))


def test_patterns_are_said_in_order() -> None:
    """A condition further down does not count where one above it holds."""
    recent, before, _ = sides(FAULTS["shuffled"][0], MANY, 1)
    assert name_of(recent, before, mix_share=0.7) == "MIX"
    assert name_of(recent, before, mix_share=0.5) == "RANKING"


def test_either_and_every() -> None:
    low, high = Compare("a", "<", 0), Compare("b", ">", 0)
    known = {"a": -1.0, "b": UNKNOWN}
    assert holds(Either((low, high)), known) and not holds(Every((low, high)), known)
    assert holds(Every((low,), but=(high,)), known) and not holds(Every((low,), but=(low,)), known)
