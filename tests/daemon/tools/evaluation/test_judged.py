"""Judged@k is what ir_measures counts: an item with a negative grade is judged, too."""

import random
from pathlib import Path
from typing import Any, Final

import ir_measures
import pytest

from relevanced.daemon.tools.trec import (
    Policies,
    Qrels,
    RunFile,
    ordered_items,
    parse_qrels,
    parse_run,
    score_run,
)
from relevanced.metrics import parse
from tests.daemon.tools.evaluation.test_ties import as_lines, random_files
from tests.seeds import seeds

CUTS: Final = (1, 3, 10, 100)


def compared(qrels: Qrels, run: RunFile, policies: Policies) -> int:
    """Assert that both have the same values; returns how many were compared."""
    metrics = [parse(f"Judged@{k}") for k in CUTS]
    ours = score_run(qrels, run, metrics, policies, name="x", file="run")
    # They break ties the other way: the scores say the order.
    best_first = {query: ordered_items(results, policies) for query, results in run.results.items()}
    theirs = ir_measures.iter_calc(
        [ir_measures.Judged @ k for k in CUTS],
        qrels,
        {
            query: {item: float(-rank) for rank, item in enumerate(items)}
            for query, items in best_first.items()
        },
    )
    rows = {query: row for row, query in enumerate(ours.queries)}
    count = 0
    for value in theirs:
        if value.query_id not in rows:  # without results: 0 there, left out here
            continue
        found = ours.values[str(value.measure)][rows[value.query_id]]
        assert found == pytest.approx(value.value, abs=1e-12), value
        count += 1
    return count


@pytest.mark.parametrize("negative", ["unjudged", "nonrelevant"])
@pytest.mark.parametrize("seed", seeds(10))
def test_random_runs_have_the_judged_share_of_ir_measures(seed: int, negative: Any) -> None:
    grades, scores = random_files(random.Random(seed))
    qrels = as_lines([f"{q} 0 {i} {g}" for q, of in grades.items() for i, g in of.items()])
    run = as_lines([f"{q} Q0 {i} 1 {s} x" for q, of in scores.items() for i, s in of.items()])
    assert "-1" in qrels.decode().split()
    read = parse_qrels(qrels, "qrels"), parse_run(run, "run")
    assert compared(*read, Policies(negative=negative)) == len(CUTS) * len(scores)


def test_judgements_of_trec_with_negative_grades_have_it_too(shared: Path) -> None:
    folder = shared / "data" / "trec_eval"
    qrels = parse_qrels((folder / "qrels.rel_level").read_bytes(), "qrels.rel_level")
    assert any(grade < 0 for judged in qrels.values() for grade in judged.values())
    for name in ("results.test", "results.trunc"):
        run = parse_run((folder / name).read_bytes(), name)
        assert compared(qrels, run, Policies()) == len(CUTS) * len(run.results)
