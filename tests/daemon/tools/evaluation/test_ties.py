"""`relevanced eval` orders and scores random runs, ties and gaps included, as pytrec_eval does."""

import random
from typing import Final

import pytest
import pytrec_eval

from relevanced.daemon.tools.trec import Policies, parse_qrels, parse_run, score_run
from relevanced.metrics import parse
from tests.seeds import seeds

MEASURES: Final = {
    "AP": "map",
    "AP@5": "map_cut_5",
    "P@5": "P_5",
    "R@10": "recall_10",
    "RR": "recip_rank",
    "Rprec": "Rprec",
    "Bpref": "bpref",
    "Success@1": "success_1",
    "nDCG(gain=linear,ideal=pool)@5": "ndcg_cut_5",
}
QUERIES: Final = ("q1", "q2", "q3", "q4")
ITEMS: Final = tuple(f"d{index}" for index in range(30))

Judgements = dict[str, dict[str, int]]
Scores = dict[str, dict[str, float]]


def random_files(generator: random.Random) -> tuple[Judgements, Scores]:
    """Grades from -1 to 3 of some items; few distinct scores, so that most results are tied."""
    grades = {q: {i: generator.randint(-1, 3) for i in sample_items(generator, 1)} for q in QUERIES}
    scores = {
        q: {i: float(generator.randint(0, 4)) for i in sample_items(generator, 1)} for q in QUERIES
    }
    del scores[generator.choice(QUERIES)]
    return grades, scores


def sample_items(generator: random.Random, least: int) -> list[str]:
    return generator.sample(ITEMS, generator.randint(least, len(ITEMS)))


def as_lines(rows: list[str]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


@pytest.mark.parametrize("seed", seeds(25))
def test_tied_runs_score_as_pytrec_eval_scores_them(seed: int) -> None:
    grades, scores = random_files(random.Random(seed))
    qrels = as_lines([f"{q} 0 {i} {g}" for q, of in grades.items() for i, g in of.items()])
    run = as_lines([f"{q} Q0 {i} 1 {s} x" for q, of in scores.items() for i, s in of.items()])
    metrics = [parse(name) for name in MEASURES]
    ours = score_run(
        parse_qrels(qrels, "qrels"),
        parse_run(run, "run"),
        metrics,
        Policies(),
        name="x",
        file="run",
    )
    theirs = pytrec_eval.RelevanceEvaluator(grades, set(MEASURES.values())).evaluate(scores)
    assert set(ours.queries) == set(theirs)
    for metric in metrics:
        for query, value in zip(ours.queries, ours.values[metric.name]):
            expected = theirs[query][MEASURES[metric.name]]
            assert (0.0 if value != value else value) == pytest.approx(expected, abs=1e-12)
