"""Averages besides the mean, and metrics that need more than judgements and runs."""

import csv
import io
import math
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from click.testing import CliRunner, Result

from relevanced.daemon.commands.cli import cli

QRELS = "q1 0 d1 2\nq1 0 d2 1\nq2 0 d5 1\nq3 0 d5 1\n"
RUN = "q1 Q0 d1 1 3.0 a\nq1 Q0 d9 2 2.0 a\nq2 Q0 d5 1 1.0 a\nq3 Q0 d7 1 1.0 a\n"


def run(folder: Path, *arguments: str, qrels: str = QRELS, results: str = RUN) -> Result:
    (folder / "qrels").write_text(qrels)
    (folder / "run").write_text(results)
    files = [str(folder / "qrels"), str(folder / "run")]
    return CliRunner().invoke(cli, ["eval", *files, *arguments])


def values(folder: Path, *arguments: str, **files: str) -> dict[tuple[str, str], float]:
    """(metric, query or label) → value."""
    result = run(folder, *arguments, "--output", "csv", **files)
    assert result.exit_code == 0, result.output
    rows = csv.DictReader(io.StringIO(result.stdout))
    return {(row["metric"], row["query"]): float(row["value"] or "nan") for row in rows}


def random_files(rng: np.random.Generator) -> tuple[str, str]:
    """Judgements and a run of thirty queries over forty items."""
    qrels, results = [], []
    for query in range(30):
        judged, shown = rng.permutation(40)[:15], rng.permutation(40)[:10]
        qrels += [f"q{query} 0 d{item} {rng.integers(0, 3)}\n" for item in judged]
        results += [f"q{query} Q0 d{item} 0 {-rank} x\n" for rank, item in enumerate(shown)]
    return "".join(qrels), "".join(results)


def test_gmap_is_that_of_trec_eval(tmp_path: Path, rng: np.random.Generator) -> None:
    qrels, results = random_files(rng)
    ours = values(tmp_path, "-m", "GMAP", "-q", qrels=qrels, results=results)
    by_query, ranked = dict[str, dict[str, int]](), dict[str, dict[str, float]]()
    for line in qrels.splitlines():
        query, _, item, grade = line.split()
        by_query.setdefault(query, {})[item] = int(grade)
    for line in results.splitlines():
        query, _, item, _, score, _ = line.split()
        ranked.setdefault(query, {})[item] = float(score)
    found = pytrec_eval.RelevanceEvaluator(by_query, {"gm_map"}).evaluate(ranked)
    theirs = pytrec_eval.compute_aggregated_measure(
        "gm_map", [of_query["gm_map"] for of_query in found.values()]
    )
    assert ours["GMAP", "all"] == pytest.approx(theirs, rel=1e-6)


def test_micro_averages_are_of_the_counts_added_up(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    qrels, results = random_files(rng)
    names = "SetP,SetR,SetAccuracy,Fallout,Generality"
    asked = ("-m", names, "--micro", "--collection-size", "40")
    ours = values(tmp_path, *asked, qrels=qrels, results=results)
    grades = {tuple(line.split()[:3:2]): int(line.split()[3]) for line in qrels.splitlines()}
    shown = {tuple(line.split()[:3:2]) for line in results.splitlines()}
    relevant = {pair for pair, grade in grades.items() if grade > 0}
    both, all_pairs = len(shown & relevant), 30 * 40
    rest = all_pairs - len(shown | relevant)
    assert {name: ours[name, "micro"] for name in names.split(",")} == pytest.approx(
        {
            "SetP": both / len(shown),
            "SetR": both / len(relevant),
            "SetAccuracy": (both + rest) / all_pairs,
            "Fallout": (len(shown) - both) / (all_pairs - len(relevant)),
            "Generality": len(relevant) / all_pairs,
        }
    )


def test_what_is_undefined_is_never_the_best_value(tmp_path: Path) -> None:
    """No query of the run has a click at any rank: that is no rank of 0."""
    found = values(tmp_path, "-m", "FirstClickRank", results="q1 Q0 d9 1 3.0 a\n")
    assert math.isnan(found["FirstClickRank", "all"])
    text = run(tmp_path, "-m", "FirstClickRank").stdout
    assert "FirstClickRank  all     1.0000" in text and "FirstClickRank  scored       2" in text


def test_known_items_make_coverage_and_novelty(tmp_path: Path) -> None:
    (tmp_path / "known").write_text("q1 d1\nq1 d2\nq1 d7\nq2 d4\n")
    asked = ("-m", "Coverage,Novelty,Coverage(rel=2)", "-q", "--known", str(tmp_path / "known"))
    found = values(tmp_path, *asked)
    of_first = {name: value for (name, query), value in found.items() if query == "q1"}
    assert of_first == {"Coverage": 0.5, "Novelty": 0.0, "Coverage(rel=2)": 1.0}
    assert math.isnan(found["Coverage", "q2"]) and found["Novelty", "q2"] == 1


def test_what_a_metric_needs_is_said_with_its_option(tmp_path: Path) -> None:
    refused = run(tmp_path, "-m", "Fallout,Coverage")
    assert refused.exit_code == 2
    assert "give --collection-size" in refused.stderr and "give --known" in refused.stderr
    assert "only of metrics of sets" in run(tmp_path, "-m", "RR", "--micro").stderr
    (tmp_path / "known").write_text("q1 0 d1 1\n")
    refused = run(tmp_path, "-m", "Novelty", "--known", str(tmp_path / "known"))
    assert "known:1: 4 fields: must be 2, query item" in refused.stderr


DIVERSE = "0 a A 1\n0 b B 1\n0 b D 1\n0 c C 1\n"
NOVEL = "".join(f"0 Q0 {item} 0 {-rank} t\n" for rank, item in enumerate("ADEB"))


def test_metrics_of_subtopics_are_those_of_ndeval(tmp_path: Path) -> None:
    """The example of pyndeval's own test."""
    asked = ("-m", "ERR_IA@5,ERR_IA@10,ERR_IA@20,alpha_nDCG@5,alpha_nDCG@20")
    found = values(tmp_path, *asked, qrels=DIVERSE, results=NOVEL)
    expected = (0.3933, 0.3907, 0.3907, 0.7868, 0.7868)
    assert [*found.values()] == pytest.approx(expected, abs=1e-4)


def test_other_metrics_take_the_highest_grade_of_all_subtopics(tmp_path: Path) -> None:
    qrels = DIVERSE + "0 c A 0\n0 c D 3\n"
    found = values(tmp_path, "-m", "P@5,CG@5", qrels=qrels, results=NOVEL)
    assert found == {("P@5", "all"): 0.6, ("CG@5", "all"): 5.0}


def test_judgements_without_subtopics_are_refused_for_metrics_of_them(tmp_path: Path) -> None:
    refused = run(tmp_path, "-m", "alpha_nDCG@10")
    assert refused.exit_code == 2
    assert "has no subtopics: its second column" in refused.stderr


def test_the_residual_stands_beside_every_rbp(tmp_path: Path) -> None:
    found = values(tmp_path, "-m", "RBP(p=0.5)@2,P@1,RBP,RBP(p=0.5,rel=2)@2")
    names = ["RBP(p=0.5)@2", "RBPResidual(p=0.5)@2", "P@1", "RBP", "RBPResidual"]
    assert [name for name, _ in found] == [*names, "RBP(p=0.5,rel=2)@2"]
    assert found["RBPResidual(p=0.5)@2", "all"] == pytest.approx((0.5 + 0.5 + 1) / 3)
