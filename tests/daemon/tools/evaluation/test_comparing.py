"""Runs are compared by the values that their means are over."""

import random
from dataclasses import replace

import numpy as np
import pytest

from relevanced.daemon.tools.trec import (
    Policies,
    RunComparison,
    ScoredRun,
    Undefined,
    compare_runs,
    coverage_remarks,
    parse_qrels,
    parse_run,
    score_run,
)
from relevanced.metrics import Metric, parse
from tests.daemon.tools.evaluation.test_ties import as_lines, random_files
from tests.seeds import seeds

QRELS = b"1 0 a 1\n1 0 b 0\n2 0 a 2\n3 0 a 0\n4 0 a 1\n"
FIRST = b"1 Q0 c 1 9 x\n1 Q0 a 2 8 x\n3 Q0 a 1 1 x\n4 Q0 b 1 1 x\n"
SECOND = b"1 Q0 a 1 1 y\n2 Q0 a 1 1 y\n3 Q0 a 1 1 y\n4 Q0 a 1 1 y\n"


def scored(metrics: list[Metric], policies: Policies, *runs: bytes) -> list[ScoredRun]:
    read = [parse_run(data, "run") for data in runs]
    return [
        score_run(parse_qrels(QRELS, "qrels"), run, metrics, policies, name=run.tag, file="run")
        for run in read
    ]


def compared(
    name: str, undefined: Undefined, missing: str = "skip"
) -> tuple[RunComparison, list[ScoredRun]]:
    metric, policies = parse(name, max_grade=4), Policies(undefined=undefined)
    if missing == "zero":
        policies = Policies(undefined=undefined, missing="zero")
    runs = scored([metric], policies, FIRST, SECOND)
    (found,) = compare_runs(runs, [metric], undefined)
    return found, runs


def test_undefined_values_count_as_zero_or_leave_their_pair_out() -> None:
    """Nothing is relevant for query 3: its nDCG is undefined."""
    as_zero, _ = compared("nDCG(ideal=pool)@1", "zero")
    assert (as_zero.comparison.pairs, as_zero.left_out) == (3, 1)  # query 2: one run alone
    assert (as_zero.comparison.wins, as_zero.comparison.ties) == (2, 1)
    left_out, _ = compared("nDCG(ideal=pool)@1", "skip")
    assert (left_out.comparison.pairs, left_out.left_out) == (2, 1)
    assert (left_out.comparison.wins, left_out.comparison.ties) == (2, 0)


def test_a_query_that_is_undefined_for_one_run_alone_is_left_out() -> None:
    """An empty list has no share of judged items."""
    found, runs = compared("Judged@1", "skip", missing="zero")
    assert [run.means["Judged@1"].scored for run in runs] == [3, 4]
    assert (found.comparison.pairs, found.left_out) == (3, 1)
    found, _ = compared("Judged@1", "zero", missing="zero")
    assert (found.comparison.pairs, found.left_out, found.comparison.wins) == (4, 0, 3)


@pytest.mark.parametrize("undefined", ["zero", "skip"])
@pytest.mark.parametrize("seed", seeds(8))
def test_difference_is_that_of_the_means_where_all_queries_are_pairs(
    seed: int, undefined: Undefined
) -> None:
    rng = random.Random(seed)
    grades, _ = random_files(rng)
    qrels = as_lines([f"{q} 0 {i} {g}" for q, of in grades.items() for i, g in of.items()])
    names = ("AP", "nDCG(ideal=pool)@5", "FalseRate", "Judged@3")
    metrics = [parse(name) for name in names]
    runs = []
    for tag in ("x", "y"):
        _, scores = random_files(rng)
        run = as_lines(
            [f"{q} Q0 {i} 1 {s} {tag}" for q, of in scores.items() for i, s in of.items()]
        )
        policies = Policies(missing="zero", undefined=undefined)
        read = parse_qrels(qrels, "qrels"), parse_run(run, "run")
        runs.append(score_run(*read, metrics, policies, name=tag, file="run"))
    for found in compare_runs(runs, metrics, undefined):
        first, second = (run.means[found.metric.name] for run in runs)
        if found.left_out:
            assert undefined == "skip" or found.better == "lower"
            continue
        assert found.comparison.pairs == first.scored == second.scored
        assert found.comparison.mean_difference == pytest.approx(second.value - first.value)


def test_where_less_is_better_wins_turn_but_the_sign_does_not() -> None:
    found, runs = compared("FalseRate", "zero")
    first, second = (run.means["FalseRate"].value for run in runs)
    assert second < first and found.better == "lower"
    assert found.comparison.mean_difference < 0 and found.comparison.t < 0
    assert (found.comparison.wins, found.comparison.losses) == (2, 0)


def test_where_neither_is_better_the_comparison_says_so() -> None:
    found, _ = compared("Judged@1", "zero")
    assert found.better == "neither" and found.comparison.wins == 2


def test_runs_are_compared_over_their_common_queries() -> None:
    found, _ = compared("RR", "zero")
    assert (found.run, found.against, found.better) == ("y", "x", "higher")
    assert (found.comparison.pairs, found.comparison.wins, found.left_out) == (3, 2, 1)
    assert found.comparison.mean_difference == pytest.approx(0.5)
    assert not np.isnan(found.comparison.t)


def test_a_run_of_whose_items_fewer_are_judged_is_said_to_look_too_low() -> None:
    """By the queries that both have: of query 2 the first has nothing."""
    first, second = scored([parse("RR")], Policies(), FIRST, SECOND)
    runs = [replace(first, file="first.txt"), replace(second, file="second.txt")]
    said = (
        "first.txt: 50 % of the first 10 items are judged, 100 % of those of second.txt: the others"
        " count as irrelevant, so first.txt may be better than it looks."
    )
    for each in (runs, runs[::-1]):
        assert said in coverage_remarks(each, "zero")
    assert not any("judged," in remark for remark in coverage_remarks([first, first], "zero"))
