"""Random judgements and runs: the values of pytrec_eval, gdeval and ir_measures."""

import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import ir_measures
import numpy as np
import pytest
import pytrec_eval

from relevanced.metrics import Lists, evaluate, judged_lists, parse
from tests.bench.metrics_speed import every_family, frozen_lists

PYTREC_EVAL: Final = {
    "P@5": "P_5",
    "P@200": "P_200",
    "R@5": "recall_5",
    "RR": "recip_rank",
    "AP": "map",
    "AP@5": "map_cut_5",
    "Rprec": "Rprec",
    "Bpref": "bpref",
    "Success@5": "success_5",
    "SetP": "set_P",
    "SetR": "set_recall",
    "SetF": "set_F",
    "nDCG(gain=linear,ideal=pool)": "ndcg",
    "nDCG(gain=linear,ideal=pool)@5": "ndcg_cut_5",
}
QUERIES: Final = 40
GDEVAL: Final = Path(ir_measures.__file__).parent / "bin" / "gdeval.pl"

Judgements = dict[str, dict[str, int]]
Shown = dict[str, list[str]]


def random_judgements(rng: np.random.Generator) -> Judgements:
    """Grades -1…4 for some of 30 items; for some queries nothing is relevant."""
    judgements: Judgements = {}
    for query in range(1, QUERIES + 1):
        judged = rng.choice(30, int(rng.integers(1, 25)), replace=False)
        top = int(rng.choice([0, 1, 4]))
        judgements[str(query)] = {
            f"d{item:02}": int(rng.integers(-1 if top == 4 else 0, top + 1)) for item in judged
        }
    return judgements


def random_shown(rng: np.random.Generator) -> Shown:
    """Lists of 0 to 30 items for most queries, and for one without judgements."""
    return {
        str(query): [f"d{item:02}" for item in rng.permutation(30)[: int(rng.integers(0, 31))]]
        for query in range(1, QUERIES + 2)
        if rng.random() < 0.9
    }


def unjudged_below_zero(judgements: Judgements) -> Judgements:
    """Without negative grades, which trec_eval treats as unjudged."""
    return {
        query: {item: grade for item, grade in judged.items() if grade >= 0}
        for query, judged in judgements.items()
    }


def as_run(shown: Shown) -> dict[str, dict[str, float]]:
    """Scores that give the shown order; small, since pytrec_eval has single precision."""
    return {
        query: {item: float(100 - rank) for rank, item in enumerate(items)}
        for query, items in shown.items()
        if items
    }


@pytest.mark.parametrize("round_", range(5))
def test_metrics_equal_pytrec_eval(round_: int, rng: np.random.Generator) -> None:
    judgements, shown = random_judgements(rng), random_shown(rng)
    evaluator = pytrec_eval.RelevanceEvaluator(judgements, set(PYTREC_EVAL.values()))
    theirs = evaluator.evaluate(as_run(shown))
    lists = judged_lists(shown, unjudged_below_zero(judgements))
    for name, measure in PYTREC_EVAL.items():
        ours = dict(zip(judgements, np.nan_to_num(parse(name).values(lists), nan=0.0)))
        for query, values in theirs.items():
            assert ours[query] == pytest.approx(values[measure], abs=1e-9), (name, query)


@pytest.mark.parametrize("k", [3, 10])
def test_exponential_ndcg_equals_pytrec_eval_on_mapped_grades(
    k: int, rng: np.random.Generator
) -> None:
    judgements = unjudged_below_zero(random_judgements(rng))
    mapped = {q: {item: 2**grade - 1 for item, grade in g.items()} for q, g in judgements.items()}
    shown = random_shown(rng)
    theirs = pytrec_eval.RelevanceEvaluator(mapped, {f"ndcg_cut_{k}"}).evaluate(as_run(shown))
    metric = parse(f"nDCG(ideal=pool)@{k}")
    ours = dict(zip(judgements, np.nan_to_num(metric.values(judged_lists(shown, judgements)))))
    for query, values in theirs.items():
        assert ours[query] == pytest.approx(values[f"ndcg_cut_{k}"], abs=1e-12)


@pytest.mark.parametrize("rel", [1, 2, 4])
def test_relevance_threshold_equals_pytrec_eval(rel: int, rng: np.random.Generator) -> None:
    judgements, shown = random_judgements(rng), random_shown(rng)
    evaluator = pytrec_eval.RelevanceEvaluator(
        judgements, {"P_5", "map", "recip_rank", "bpref"}, relevance_level=rel
    )
    theirs = evaluator.evaluate(as_run(shown))
    lists = judged_lists(shown, unjudged_below_zero(judgements))
    for name, measure in (("P@5", "P_5"), ("AP", "map"), ("RR", "recip_rank"), ("Bpref", "bpref")):
        ours = dict(zip(judgements, parse(name, relevant_from=rel).values(lists)))
        for query, values in theirs.items():
            assert ours[query] == pytest.approx(values[measure], abs=1e-9), (name, query)


def gdeval(tmp_path: Path, judgements: Judgements, shown: Shown, k: int) -> dict[str, list[float]]:
    """Query -> nDCG@k and ERR@k of gdeval, five decimals."""
    qrels, run = tmp_path / "qrels", tmp_path / "run"
    qrels.write_text(
        "".join(f"{q} 0 {d} {g}\n" for q, judged in judgements.items() for d, g in judged.items())
    )
    run.write_text(
        "".join(
            f"{query} Q0 {item} {rank} {100 - rank} x\n"
            for query, items in shown.items()
            for rank, item in enumerate(items)
        )
    )
    command = ["perl", str(GDEVAL), str(qrels), str(run), str(k)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows: list[list[Any]] = [line.split(",") for line in printed.splitlines()[1:]]
    return {row[1]: [float(row[2]), float(row[3])] for row in rows}


@pytest.mark.parametrize("k", [2, 20])
def test_err_and_exponential_ndcg_equal_gdeval(
    k: int, tmp_path: Path, rng: np.random.Generator
) -> None:
    if shutil.which("perl") is None:
        pytest.skip("gdeval needs perl")
    judgements, shown = unjudged_below_zero(random_judgements(rng)), random_shown(rng)
    theirs = gdeval(tmp_path, judgements, shown, k)
    names = [f"nDCG(ideal=pool)@{k}", f"ERR@{k}"]
    scores = evaluate(shown, names, judgements=judgements, max_grade=4)
    ours = dict(zip(judgements, np.stack([scores[name].values for name in names], axis=1)))
    assert theirs
    for query, values in theirs.items():
        np.testing.assert_allclose(ours[query], values, atol=6e-6)


def test_judged_share_equals_ir_measures(rng: np.random.Generator) -> None:
    judgements, shown = random_judgements(rng), random_shown(rng)
    measure = ir_measures.Judged @ 5
    run = as_run(shown)
    theirs = ir_measures.iter_calc([measure], judgements, run)
    ours = dict(zip(judgements, parse("Judged@5").values(judged_lists(shown, judgements))))
    # It counts a query that was not answered as 0; here an empty list has no share.
    found = {row.query_id: row.value for row in theirs if row.query_id in run}
    assert found
    assert all(ours[query] == pytest.approx(value) for query, value in found.items())


def test_short_array_lists_equal_pytrec_eval() -> None:
    """The example in which the two libraries differ: one relevant item, third of three."""
    lists = Lists.of([[0, 0, 1]], pool=[[0, 0, 1]])
    theirs = pytrec_eval.RelevanceEvaluator({"q": {"c": 1}}, {"P_10", "map"}).evaluate(
        {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}
    )["q"]
    assert parse("P@10").values(lists).tolist() == [theirs["P_10"]]
    assert parse("AP").values(lists).tolist() == [theirs["map"]]


def test_lists_of_the_speed_benchmark_have_what_every_metric_needs() -> None:
    lists = frozen_lists(20, 10)
    for _, metric in every_family():
        assert len(metric.values(lists)) == 20
