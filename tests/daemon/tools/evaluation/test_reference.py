"""trec_eval's own test files: its expected output to the last decimal, and full precision."""

import json
import math
import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from relevanced.daemon.tools.trec import (
    Policies,
    Qrels,
    ScoredRun,
    parse_qrels,
    parse_run,
    score_run,
)
from relevanced.metrics import geometric, parse

OURS: Final = (
    (r"map", r"AP"),
    (r"map_cut_(\d+)", r"AP@\1"),
    (r"Rprec", r"Rprec"),
    (r"bpref", r"Bpref"),
    (r"recip_rank", r"RR"),
    (r"P_(\d+)", r"P@\1"),
    (r"recall_(\d+)", r"R@\1"),
    (r"success_(\d+)", r"Success@\1"),
    (r"ndcg", r"nDCG(gain=linear,ideal=pool)"),
    (r"ndcg_cut_(\d+)", r"nDCG(gain=linear,ideal=pool)@\1"),
    (r"ndcg_exp_(\d+)", r"nDCG(ideal=pool)@\1"),
    (r"ERR_(\d+)", r"ERR@\1"),
    (r"set_P", r"SetP"),
    (r"set_recall", r"SetR"),
    (r"set_F", r"SetF"),
    (r"utility", r"Utility"),
    (r"utility_2,-1,0,0", r"T11U"),
    (r"11pt_exact", r"AP(variant=11pt)"),
    (r"gm_map", r"AP"),
    (r"gm_bpref", r"Bpref"),
)
"""trec_eval's measure -> the metric of the same number."""

OTHER_BY_DESIGN: Final = re.compile(
    # Recall levels are compared in whole numbers here; trec_eval rounds them.
    r"iprec_at_recall_.*|11pt_avg.*"
)
NOT_HERE: Final = re.compile(
    # Measures and counts that only trec_eval has, and rbp, which its version 10 computes from
    # uninitialised memory.
    r"runid|relstring.*|num_.*|infAP|Rprec_mult_.*|binG|G|ndcg_rel|Rndcg|relative_P_.*"
    r"|set_relative_P|set_map|rbp.*|unj_.*|ndcg_1=3.*"
)
PRINTED: Final = {
    # expected output -> judgements, run, least relevant grade, policies
    "out.test": ("qrels.test", "results.test", 1, Policies()),
    "out.test.a": ("qrels.test", "results.test", 1, Policies()),
    "out.test.aq": ("qrels.test", "results.test", 1, Policies()),
    "out.test.aqc": ("qrels.test", "results.trunc", 1, Policies(missing="zero")),
    "out.test.aqcM": ("qrels.test", "results.trunc", 1, Policies(missing="zero", most_results=100)),
    "out.test.aql": ("qrels.rel_level", "results.test", 2, Policies()),
    "out.test.meas_params": ("qrels.test", "results.test", 1, Policies()),
}


def ours(measure: str) -> str | None:
    for pattern, name in OURS:
        if re.fullmatch(pattern, measure):
            return re.sub(pattern, name, measure)
    return None


def evaluated(
    folder: Path, qrels: Qrels, run: str, names: set[str], rel: float, policies: Policies
) -> ScoredRun:
    metrics = [parse(name, relevant_from=rel, max_grade=4) for name in sorted(names)]
    read = parse_run((folder / run).read_bytes(), run)
    return score_run(qrels, read, metrics, policies, name=run, file=run)


def value(scored: ScoredRun, measure: str, query: str) -> float:
    name = ours(measure)
    assert name is not None
    if query != "all":
        return float(np.nan_to_num(scored.values[name][scored.queries.index(query)]))
    if measure.startswith("gm_"):
        return geometric(scored.values[name], "zero").value
    return scored.means[name].value


def expected(text: str) -> list[tuple[str, str, str]]:
    """(measure, query, printed value)."""
    rows = [line.split() for line in text.splitlines()]
    return [(row[0], row[1], row[2]) for row in rows]


@pytest.mark.parametrize("file", PRINTED)
def test_printed_output_is_reproduced(shared: Path, file: str) -> None:
    folder = shared / "data" / "trec_eval"
    judgements, run, rel, policies = PRINTED[file]
    rows = expected((folder / file).read_text())
    names = {name for measure, _, _ in rows if (name := ours(measure))}
    qrels = parse_qrels((folder / judgements).read_bytes(), judgements)
    scored = evaluated(folder, qrels, run, names, rel, policies)
    compared = 0
    for measure, query, printed in rows:
        if ours(measure) is None:
            assert OTHER_BY_DESIGN.fullmatch(measure) or NOT_HERE.fullmatch(measure), measure
            continue
        found = value(scored, measure, query)
        assert f"{found:.4f}" == printed.replace("-0.0000", "0.0000"), (measure, query, found)
        compared += 1
    assert compared > 10


def test_interpolated_precision_differs_only_by_rounding_of_levels(shared: Path) -> None:
    """Where trec_eval's rounding of level x R is exact, the numbers agree."""
    folder = shared / "data" / "trec_eval"
    qrels = parse_qrels((folder / "qrels.test").read_bytes(), "qrels.test")
    rows = expected((folder / "out.test.aq.v9.0.8").read_text())
    printed = {(m, q): v for m, q, v in rows if m.startswith("iprec_at_recall") and q != "all"}
    names = {f"IPrec@{level / 10}" for level in range(11)}
    scored = evaluated(folder, qrels, "results.test", names, 1, Policies())
    same = [
        f"{scored.values[metric][row]:.4f}" == printed[f"iprec_at_recall_{level / 10:.2f}", query]
        for level in range(11)
        for row, query in enumerate(scored.queries)
        for metric in [parse(f"IPrec@{level / 10}").name]
    ]
    assert len(same) == 33 and sum(same) >= 30


@pytest.mark.parametrize("judgements", ["qrels.test", "qrels.rel_level"])
def test_full_precision_is_reproduced(shared: Path, judgements: str) -> None:
    folder = shared / "data" / "trec_eval"
    text = (folder / f"expected.full_precision.{judgements}.json").read_text()
    wanted: dict[str, dict[str, float]] = json.loads(text)
    names = {str(ours(measure)) for values in wanted.values() for measure in values}
    qrels = parse_qrels((folder / judgements).read_bytes(), judgements)
    scored = evaluated(folder, qrels, "results.test", names, 1, Policies())
    for query, values in wanted.items():
        for measure, exact in values.items():
            assert math.isclose(value(scored, measure, query), exact, abs_tol=1e-9), measure


def test_own_gains_are_judgements_mapped_beforehand(shared: Path) -> None:
    """trec_eval's `ndcg_1=3,2=9,4=4.5`: map the grades, take the linear gain."""
    folder = shared / "data" / "trec_eval"
    gains = {1: 3, 2: 9, 4: 4.5}
    qrels: Any = {
        query: {item: gains.get(grade, grade) for item, grade in judged.items()}
        for query, judged in parse_qrels((folder / "qrels.test").read_bytes(), "q").items()
    }
    name = "nDCG(gain=linear,ideal=pool)"
    scored = evaluated(folder, qrels, "results.test", {name}, 1, Policies())
    rows = expected((folder / "out.test.meas_params").read_text())
    printed = {query: number for measure, query, number in rows if measure.startswith("ndcg_1=3")}
    assert printed["all"] == f"{scored.means[name].value:.4f}"


def test_small_reference_run_of_ir_measures(shared: Path) -> None:
    folder = shared / "data" / "ir_measures"
    qrels = parse_qrels((folder / "cwl.qrels").read_bytes(), "cwl.qrels")
    names = {"AP", "P@5", "P@10", "P@20", "RR", "RBP(p=0.9)"}
    scored = evaluated(folder, qrels, "cwl.run", names, 1, Policies())
    wanted = {
        "AP": [0.7087, 0.7438, 0.3068],
        "P@5": [0.6, 0.6, 0.0],
        "P@10": [0.5, 0.6, 0.4],
        "P@20": [0.25, 0.3, 0.2],
        "RR": [1.0, 1.0, 0.1667],
        "RBP(p=0.9)": [0.3501, 0.3996, 0.1988],
    }
    for name, values in wanted.items():
        np.testing.assert_allclose(scored.values[name], values, atol=6e-5)
