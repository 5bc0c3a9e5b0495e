"""Gain states: one id for each state, and the row of integers that it counts for."""

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from relevanced.daemon.lane import (
    NO_STATE,
    GainState,
    GainStates,
    lists_of,
    scaled,
    score_states,
    with_cell,
)
from relevanced.metrics import parse
from tests.builders import PLAN, plan_with

EMPTY_LIST: Final[GainState] = (0, ())


def floats(*values: float) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.array(values, np.float64)


# Ids


def test_a_state_has_one_id() -> None:
    states = GainStates(PLAN)
    assert states.id_of((3, ())) == states.id_of((3, ())) == 1
    assert states.id_of((3, ((0, 1.0),))) == 2
    assert (len(states), states[2]) == (3, (3, ((0, 1.0),)))


def test_an_empty_list_is_not_the_state_of_no_impression() -> None:
    states = GainStates(PLAN)
    assert states.id_of(EMPTY_LIST) != NO_STATE
    assert states.rows()[NO_STATE].tolist() == [0] * PLAN.row_width
    assert states.rows()[states.id_of(EMPTY_LIST), :4].tolist() == [1, 0, 1, 0]


def test_the_same_cells_are_one_state_whatever_their_order() -> None:
    states = GainStates(PLAN)
    bare = states.id_of((3, ()))
    forth = states.with_gain(states.with_gain(bare, 0, 1.0), 2, 3.0)
    back = states.with_gain(states.with_gain(bare, 2, 3.0), 0, 1.0)
    assert forth == back
    assert states[forth] == (3, ((0, 1.0), (2, 3.0)))


def test_a_gain_replaces_the_one_before() -> None:
    states = GainStates(PLAN)
    clicked = states.with_gain(states.id_of((3, ())), 1, 3.0)
    assert states[states.with_gain(clicked, 1, 0.0)] == (3, ((1, 0.0),))
    assert states[clicked] == (3, ((1, 3.0),))


def test_no_feedback_is_not_a_gain_of_0() -> None:
    states = GainStates(PLAN)
    judged = states.with_gain(states.id_of((3, ())), 1, 0.0)
    assert states.gain_at(judged, 1) == 0.0
    assert states.gain_at(judged, 0) is None
    assert judged != states.id_of((3, ()))


def test_cells_stay_sorted_by_rank() -> None:
    assert with_cell(((1, 1.0), (3, 2.0)), 2, 0.5) == ((1, 1.0), (2, 0.5), (3, 2.0))
    assert with_cell(((1, 1.0), (3, 2.0)), 3, 0.0) == ((1, 1.0), (3, 0.0))


def test_gains_raised_at_once_are_raised_one_by_one(rng: np.random.Generator) -> None:
    states, gains = GainStates(PLAN), list(PLAN.grades.values())
    ids = np.array([states.id_of((length, ())) for length in rng.integers(1, 6, 300)])
    for _ in range(6):
        lengths = [states[state_id][0] for state_id in ids.tolist()]
        ranks0, raised_to = rng.integers(0, lengths), rng.choice(gains, len(ids))
        after = states.raised(ids, ranks0, raised_to)
        singly = [
            raised(states[state_id], rank0, gain)
            for state_id, rank0, gain in zip(ids.tolist(), ranks0.tolist(), raised_to.tolist())
        ]
        assert [states[state_id] for state_id in after.tolist()] == singly
        ids = after


def raised(state: GainState, rank0: int, gain: float) -> GainState:
    """The slow twin."""
    before = dict(state[1])
    return state[0], tuple(sorted((before | {rank0: max(before.get(rank0, gain), gain)}).items()))


# Rows


def test_rows_grow_with_the_states_and_stay() -> None:
    states = GainStates(PLAN)
    first = states.id_of((2, ((0, 1.0),)))
    before = states.rows()[first].tolist()
    second = states.id_of((2, ((1, 1.0),)))
    assert states.rows()[first].tolist() == before != states.rows()[second].tolist()
    assert states.rows().shape == (3, PLAN.row_width)


def test_a_row_holds_counts_and_scaled_values() -> None:
    plan = plan_with(metrics=(parse("P@2"), parse("RR")))
    [row] = score_states([(3, ((0, 0.0), (2, 1.0)))], plan).tolist()
    assert row[:6] == [1, 1, 0, 2, 3, 9]
    assert row[6:] == [1, 0, 0, 1, 333_333, 111_111]


def test_an_undefined_metric_is_not_scored_and_a_zero_is() -> None:
    plan = plan_with(metrics=(parse("nDCG@5"), parse("RR")))
    [row] = score_states([(3, ((1, 0.0),))], plan).tolist()
    assert row[6:] == [0, 0, 0, 1, 0, 0]


def test_a_state_scores_the_same_in_any_batch() -> None:
    rng = np.random.default_rng(3)
    states: list[GainState] = [
        (n, tuple((p, float(rng.choice([0, 0.5, 1, 3]))) for p in range(n) if rng.random() < 0.4))
        for n in rng.integers(0, 6, 200).tolist()
    ]
    alone = np.concatenate([score_states([state], PLAN) for state in states])
    np.testing.assert_array_equal(score_states(states, PLAN), alone)


def test_ranks_without_feedback_are_not_judged() -> None:
    lists = lists_of([(2, ((1, 0.0),)), EMPTY_LIST, (3, ())])
    assert lists.judged.tolist() == [[False, True, False], [False] * 3, [False] * 3]
    assert lists.lengths.tolist() == [2, 0, 3]
    assert not lists.gains.any()


# Integers


@pytest.mark.parametrize(
    ("value", "whole"),
    [(0.0, 0), (4.998e-7, 0), (4.9995e-7, 1), (5e-7, 1), (1.4998e-6, 1), (1.5e-6, 2), (1.0, 10**6)],
)
def test_values_are_rounded_up_just_below_a_half(value: float, whole: int) -> None:
    assert scaled(floats(value), 1_000_000).tolist() == [whole]


def test_float_noise_at_a_tie_does_not_matter() -> None:
    tie = 0.1234565
    noisy = floats(np.nextafter(tie, 0), tie, np.nextafter(tie, 1))
    assert set(scaled(noisy, 1_000_000).tolist()) == {123_457}


def test_a_metric_counts_in_its_own_unit() -> None:
    plan = plan_with(metrics=(parse("DCG(gain=linear)@5"),))
    [row] = score_states([(1, ((0, 2.5),))], plan).tolist()
    assert plan.metrics[0].unit == 1_000
    assert row[6:] == [1, 2_500, 6_250]


def test_negative_values_are_floored_too() -> None:
    assert scaled(floats(-1.5, -0.0004), 1_000).tolist() == [-1_500, 0]


@pytest.mark.parametrize("value", [2.0**52, -(2.0**52), math.inf, -math.inf])
def test_a_value_too_large_to_be_exact_is_an_error(value: float) -> None:
    with pytest.raises(OverflowError) as error:
        scaled(floats(0.5, value), 1_000)
    assert str(error.value) == f"metric value {value}: too large for units of 1/1000"


def test_the_largest_exact_value_is_kept() -> None:
    largest = 2**52 - 1
    assert scaled(floats(largest, -largest), 1).tolist() == [largest, -largest]
    assert scaled(floats(), 1).tolist() == []


def test_an_infinite_metric_is_an_error_and_not_undefined() -> None:
    plan = plan_with(metrics=(parse("DCG@5"),))
    with np.errstate(over="ignore"), pytest.raises(OverflowError):
        score_states([(1, ((0, 2_000.0),))], plan)


# Worked examples


def name_of(example: dict[str, Any]) -> str | None:
    """The metric that the example computes, where an impression's own gains are enough for it."""
    inputs, metric, variant = example["inputs"], example["metric"], example["variant"]
    if metric == "precision@k":
        return f"P@{inputs['k']}"
    if metric == "precision" and "gains" in inputs:
        return "P"
    if metric == "ERR":
        return f"ERR@{inputs['k']}" if "k" in inputs else "ERR"
    if metric == "nDCG" and not variant.startswith("J&K") and is_own_ideal(inputs):
        gain = "(gain=linear)" if variant.startswith("linear") else ""
        return f"nDCG{gain}@{inputs['k']}"
    return None


def is_own_ideal(inputs: dict[str, Any]) -> bool:
    """True where the judged pool has no better list than the one that was shown."""
    pool, own = (sorted(inputs[name], reverse=True)[: inputs["k"]] for name in ("pool", "gains"))
    return [g for g in pool if g] == [g for g in own if g]


def exactly(example: dict[str, Any]) -> Fraction:
    try:
        return Fraction(str(example["exact"]))
    except ValueError:
        return Fraction(example["exact_float"])


def stored_sum(name: str, gains: list[float], max_grade: float) -> int:
    plan = plan_with(metrics=(parse(name, max_grade=max_grade),), depth=100)
    cells = tuple((rank0, float(gain)) for rank0, gain in enumerate(gains))
    return int(score_states([(len(gains), cells)], plan)[0, plan.metric_column(0) + 1])


def millionths(value: Fraction) -> int:
    return math.floor(10**6 * value + Fraction(5001, 10_000))


def examples(shared: Path) -> list[dict[str, Any]]:
    files = ("worked_examples.json", "more_examples.json")
    return [one for file in files for one in json.loads((shared / "golden" / file).read_text())]


def test_worked_examples_are_stored_to_the_millionth(shared: Path) -> None:
    wrong, families = {}, set()
    for example in examples(shared):
        if (name := name_of(example)) is not None:
            inputs = example["inputs"]
            ours = stored_sum(name, inputs["gains"], inputs.get("gmax", 3))
            families.add(example["metric"])
            if ours != millionths(exactly(example)):
                wrong[example["id"]] = (name, ours, exactly(example))
    assert not wrong
    assert families == {"precision@k", "precision", "ERR", "nDCG"}


def test_success_is_whether_precision_is_more_than_0(shared: Path) -> None:
    for example in examples(shared):
        if example["metric"] == "precision@k":
            k, gains = example["inputs"]["k"], example["inputs"]["gains"]
            found = int(exactly(example) > 0)
            assert stored_sum(f"Success@{k}", gains, 1) == 1_000_000 * found, example["id"]
            assert stored_sum(f"Success@{k}", [0.0] * k + gains, 1) == 0


def test_reciprocal_ranks_are_stored_to_the_millionth(shared: Path) -> None:
    ranks = {
        rank
        for example in examples(shared)
        if example["metric"] == "MRR"
        for rank in next(iter(example["inputs"].values()))
    }
    for rank in ranks - {None}:
        assert stored_sum("RR", [0.0] * (rank - 1) + [1.0], 1) == millionths(Fraction(1, rank))
    assert stored_sum("RR", [0.0, 0.0], 1) == 0
    assert None in ranks
