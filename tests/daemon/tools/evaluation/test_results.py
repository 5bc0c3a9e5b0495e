"""Policies of evaluation for what the files leave open."""

from typing import Any

import pytest

from relevanced.daemon.tools.trec import (
    EvaluationError,
    Policies,
    Result,
    RunFile,
    align_run,
    ordered_items,
    parse_qrels,
    parse_run,
    score_run,
)
from relevanced.metrics import parse

QRELS = parse_qrels(b"1 0 a 1\n1 0 b 0\n1 0 c -1\n2 0 a 2\n3 0 a 0\n", "qrels")
RUN = parse_run(b"1 Q0 c 1 9 x\n1 Q0 a 2 8 x\n3 Q0 a 1 1 x\n9 Q0 a 1 1 x\n", "run")


def scores_of(run: RunFile, name: str, policies: Policies = Policies()) -> dict[str, float]:
    metric = parse(name, max_grade=4)
    scored = score_run(QRELS, run, [metric], policies, name="run", file="run")
    return dict(zip(scored.queries, scored.values[metric.name].tolist()))


@pytest.mark.parametrize(
    ("ties", "order"), [("item", "d c b a"), ("rank", "d a b c"), ("file", "d b a c")]
)
def test_equal_scores_are_ordered_by_the_tie_rule(ties: Any, order: str) -> None:
    results = [
        Result("b", "2", 1.0),
        Result("d", "9", 2.0),
        Result("a", "1", 1.0),
        Result("c", "10", 1.0),
    ]
    assert " ".join(ordered_items(results, Policies(ties=ties))) == order


def test_scores_keep_their_double_precision() -> None:
    results = [Result("b", "1", 16_777_216.0), Result("a", "2", 16_777_217.0)]
    assert ordered_items(results, Policies()) == ["a", "b"]


def test_rank_that_is_not_a_number_cannot_break_ties() -> None:
    with pytest.raises(EvaluationError, match="rank=first of item a: must be a whole number"):
        ordered_items([Result("a", "first", 1.0)], Policies(ties="rank"))


def test_missing_query_is_left_out_or_zero_or_an_error() -> None:
    assert scores_of(RUN, "P@1") == {"1": 0.0, "3": 0.0}
    assert scores_of(RUN, "RR", Policies(missing="zero")) == {"1": 0.5, "2": 0.0, "3": 0.0}
    with pytest.raises(EvaluationError, match=r"no results for 1 of 3 judged queries \(2\)"):
        scores_of(RUN, "P@1", Policies(missing="refuse"))


def test_run_without_any_judged_query_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="has no result for any judged query"):
        scores_of(parse_run(b"9 Q0 a 1 1 x\n", "run"), "P@1")


def test_negative_grade_is_a_judgement_which_only_bpref_may_leave_out() -> None:
    assert scores_of(RUN, "Judged@1")["1"] == 1.0
    assert scores_of(RUN, "Judged@1", Policies(negative="nonrelevant"))["1"] == 1.0
    assert scores_of(RUN, "Bpref")["1"] == 1.0
    assert scores_of(RUN, "Bpref", Policies(negative="nonrelevant"))["1"] == 0.0


def test_undefined_is_zero_or_left_out_of_the_mean() -> None:
    metric = parse("nDCG(ideal=pool)@2")
    policies = (Policies(undefined="zero"), Policies(undefined="skip"))
    means = [
        score_run(QRELS, RUN, [metric], policy, name="", file="").means[metric.name]
        for policy in policies
    ]
    assert [(mean.scored, mean.lists) for mean in means] == [(2, 2), (1, 2)]
    assert means[1].value == pytest.approx(2 * means[0].value)


def test_results_after_the_cut_are_not_scored() -> None:
    _, lists = align_run(QRELS, RUN, Policies(most_results=1))
    assert lists.lengths.tolist() == [1, 1]
    assert scores_of(RUN, "RR", Policies(most_results=1))["1"] == 0.0


def test_grade_above_the_scale_names_the_file() -> None:
    run = parse_run(b"2 Q0 a 1 1 x\n", "run")
    with pytest.raises(EvaluationError, match="runs/b: ERR: grade 2 is above max_grade=1"):
        score_run(QRELS, run, [parse("ERR")], Policies(), name="x", file="runs/b")
