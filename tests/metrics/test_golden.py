"""Worked numbers from lecture notes and papers, at their exact value.

Where the printed number is rounded, truncated or wrong, the id has it beside the exact one.
"""

import json
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from relevanced.metrics import Lists, geometric, graded, macro, parse, relative_increase, sets

TOLERANCE: Final = 1e-12
FILES: Final = {"worked_examples.json": 249, "more_examples.json": 38}
Inputs = dict[str, Any]


def value_of(name: str, inputs: Inputs, max_grade: float = 1) -> float:
    """The metric of the single list that the inputs describe."""
    unjudged = set(inputs.get("unjudged", ()))
    items = inputs.get("ranked", [None] * len(inputs["gains"]))
    grades = [None if item in unjudged else g for item, g in zip(items, inputs["gains"])]
    return float(
        parse(name, max_grade=max_grade).values(Lists.of([grades], pool=[pool(inputs)]))[0]
    )


def pool(inputs: Inputs) -> list[float]:
    """The judged items of the query, as in the example."""
    if "R" in inputs or "relevant" in inputs:
        relevant = inputs.get("R") or len(inputs["relevant"])
        nonrelevant = inputs.get("N", len(inputs.get("judged_nonrelevant", ())))
        return [1.0] * relevant + [0.0] * nonrelevant
    return list(inputs.get("pool") or inputs.get("ideal") or inputs["gains"])


def binary(ranks: list[int], relevant_total: int) -> Inputs:
    """The inputs of a list with hits at these ranks."""
    gains = [int(rank in ranks) for rank in range(1, max(ranks) + 1)]
    return {"gains": gains, "R": relevant_total}


def table(inputs: Inputs) -> sets.Contingency:
    if "a_ret_rel" in inputs:
        cells = ("a_ret_rel", "b_ret_non", "c_miss", "d_rest")
        return sets.Contingency.of(*(inputs[cell] for cell in cells))
    if "returned" in inputs:
        found, relevant = inputs["returned_relevant"], inputs["relevant_total"]
        return sets.Contingency.of(found, inputs["returned"] - found, relevant - found)
    found, shown = sum(inputs["gains"]), len(inputs["gains"])
    return sets.Contingency.of(found, shown - found, len(inputs["relevant"]) - found)


def tables(inputs: Inputs) -> sets.Contingency:
    """One row for each query."""
    rows = [table(query) for query in inputs["queries"]]
    names = ("returned_relevant", "returned_nonrelevant", "missed", "rest")
    return sets.Contingency(*(np.concatenate([getattr(r, name) for r in rows]) for name in names))


def f_measure(inputs: Inputs, beta: float) -> float:
    if "P" in inputs:
        return float(sets.f_measure(np.array([inputs["P"]]), np.array([inputs["R"]]), beta)[0])
    counts = table(inputs)
    return float(sets.f_measure(sets.precision(counts), sets.recall(counts), beta)[0])


def set_metric(formula: Callable[[sets.Contingency], Any], inputs: Inputs) -> float:
    return float(formula(table(inputs))[0])


def e_measure(formula: Callable[[Any, Any, float], Any], inputs: Inputs) -> float:
    counts = table(inputs)
    b = float(Fraction(inputs["b"]))
    return float(formula(sets.precision(counts), sets.recall(counts), b)[0])


def mean_over_queries(name: str, inputs: Inputs) -> float:
    if "AP" in inputs:
        return macro(np.array([float(Fraction(value)) for value in inputs["AP"]])).value
    return macro(np.array([value_of(name, query) for query in inputs["queries"]])).value


def micro(inputs: Inputs, which: str) -> float:
    pooled = tables(inputs).pooled()
    precision, recall = sets.precision(pooled), sets.recall(pooled)
    return float({"P": precision, "R": recall, "F": sets.f_measure(precision, recall)}[which][0])


def mean_reciprocal_rank(ranks: list[int | None]) -> float:
    grades = [[0] * (rank - 1) + [1] if rank else [0] for rank in ranks]
    return macro(parse("RR").values(Lists.of(grades))).value


def cumulated(inputs: Inputs, gain: graded.Gain) -> float:
    gains = np.array([inputs.get("ideal") or inputs["gains"]], dtype=np.float64)
    k = inputs["k"] if "k" in inputs else gains.shape[1]
    return float(graded.dcg(gains, k, gain)[0])


def average_precision(inputs: Inputs, variant: str) -> float:
    if "relevant_positions" in inputs:
        inputs = binary(inputs["relevant_positions"], inputs["relevant_total"])
    return value_of(f"AP(variant={variant})", inputs)


def term(inputs: Inputs) -> float:
    return float(inputs["rel"] / graded.log2_discount(inputs["i"]))


def bpref(inputs: Inputs, variant: str) -> float:
    return value_of(f"Bpref(variant={variant})", inputs)


def undefined_ideals(inputs: Inputs) -> float:
    values = [np.nan if value is None else value for value in inputs["ndcg"]]
    return macro(np.array(values), undefined="zero").value


def known_sets(inputs: Inputs, name: str) -> float:
    known, new = inputs["returned_known"], inputs["returned_unknown_relevant"]
    lists = Lists.of(
        [[1] * (known + new)],
        known=[[True] * known + [False] * new],
        known_relevant=[inputs["known_relevant"] if "known_relevant" in inputs else known],
    )
    return float(parse(name).values(lists)[0])


RULES: Final[list[tuple[str, str, Callable[[Inputs], float]]]] = [
    # metric, beginning of the variant -> value
    ("precision", "set", lambda x: set_metric(sets.precision, x)),
    ("recall", "set", lambda x: set_metric(sets.recall, x)),
    ("accuracy", "", lambda x: set_metric(sets.accuracy, x)),
    ("miss", "", lambda x: set_metric(sets.miss, x)),
    ("false_rate", "", lambda x: set_metric(sets.false_rate, x)),
    ("generality", "", lambda x: set_metric(sets.generality, x)),
    ("fallout", "", lambda x: set_metric(sets.fallout, x)),
    ("T11U", "", lambda x: set_metric(sets.t11u, x)),
    ("T11F", "", lambda x: float(sets.t11f(sets.precision(table(x)), sets.recall(table(x)))[0])),
    ("coverage", "", lambda x: known_sets(x, "Coverage")),
    ("novelty", "", lambda x: known_sets(x, "Novelty")),
    ("F", "beta=1", lambda x: f_measure(x, 1.0)),
    ("F", "beta=0.5", lambda x: f_measure(x, 0.5)),
    ("F", "beta=2", lambda x: f_measure(x, 2.0)),
    ("E", "note 000", lambda x: e_measure(sets.e_precision_weighted, x)),
    ("E", "note 003", lambda x: e_measure(sets.e_recall_weighted, x)),
    ("F@k", "", lambda x: value_of(f"F@{x['k']}", x)),
    ("precision@k", "", lambda x: value_of(f"P@{x['k']}", x)),
    ("recall@k", "", lambda x: value_of(f"R@{x['k']}", x)),
    ("R-Precision", "", lambda x: value_of("Rprec", x)),
    ("break-even point", "", lambda x: value_of("BreakEven", x)),
    ("interpolated precision", "", lambda x: value_of(f"IPrec@{x['level']}", x)),
    ("11-point average", "", lambda x: value_of("AP(variant=11pt)", x)),
    ("AP", "uninterpolated", lambda x: average_precision(x, "standard")),
    ("AP", "relevant returned only", lambda x: average_precision(x, "returned")),
    ("AP", "interpolated", lambda x: average_precision(x, "11pt")),
    ("bpref", "original", lambda x: bpref(x, "original")),
    ("bpref", "bpref-10", lambda x: bpref(x, "10")),
    ("bpref", "bpref10", lambda x: bpref(x, "10")),
    ("bpref", "latest", lambda x: bpref(x, "latest")),
    ("MRR", "rank of the CLICKED", lambda x: mean_reciprocal_rank(x["clicked_ranks"])),
    ("MRR", "", lambda x: mean_reciprocal_rank(x["first_relevant_ranks"])),
    ("MAP", "", lambda x: mean_over_queries("AP", x)),
    ("GMAP", "", lambda x: geometric(np.array(x["AP"])).value),
    ("macro-P", "", lambda x: mean_over_queries("SetP", x)),
    ("macro-R", "", lambda x: mean_over_queries("SetR", x)),
    ("macro-F", "", lambda x: mean_over_queries("SetF", x)),
    ("micro-P", "", lambda x: micro(x, "P")),
    ("micro-R", "", lambda x: micro(x, "R")),
    ("micro-F", "", lambda x: micro(x, "F")),
    ("relative increase", "", lambda x: relative_increase(x["A"], x["B"])),
    ("mean nDCG", "ideal=0", undefined_ideals),
    ("discount", "", lambda x: graded.log2_discount(x["i"])),
    ("DCG term", "", term),
    ("IDCG term", "", term),
    ("CG", "", lambda x: value_of(f"CG@{len(x['gains'])}" if "k" not in x else f"CG@{x['k']}", x)),
    ("ideal CG", "", lambda x: value_of(f"CG@{x['k']}", x)),
    ("nCG", "", lambda x: value_of(f"nCG(ideal=pool)@{x['k']}", x)),
    ("DCG", "J&K", lambda x: value_of(f"DCG(gain=linear,jk={x['b']})@{x['k']}", x)),
    ("ideal DCG", "J&K", lambda x: value_of(f"DCG(gain=linear,jk={x['b']})@{x['k']}", x)),
    ("nDCG", "J&K", lambda x: value_of(f"nDCG(gain=linear,ideal=pool,jk={x['b']})@{x['k']}", x)),
    ("DCG", "linear", lambda x: cumulated(x, graded.linear_gain)),
    ("DCG", "exponential", lambda x: cumulated(x, graded.exponential_gain)),
    ("IDCG", "linear", lambda x: cumulated(x, graded.linear_gain)),
    ("IDCG", "exponential", lambda x: cumulated(x, graded.exponential_gain)),
    ("nDCG", "linear, ideal = retrieved", lambda x: value_of(f"nDCG(gain=linear)@{x['k']}", x)),
    ("nDCG", "linear, pool", lambda x: value_of(f"nDCG(gain=linear,ideal=pool)@{x['k']}", x)),
    ("nDCG", "exponential, pool", lambda x: value_of(f"nDCG(ideal=pool)@{x['k']}", x)),
    ("ERR", "", lambda x: value_of(f"ERR@{x.get('k', 99)}", x, max_grade=x["gmax"])),
    ("generalised ERR", "", lambda x: value_of("ERR(discount=log2)", x, max_grade=x["gmax"])),
]


def examples(shared: Path, file: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((shared / "golden" / file).read_text())
    return found


def computed(example: dict[str, Any]) -> float:
    for metric, variant, rule in RULES:
        if example["metric"] == metric and example["variant"].startswith(variant):
            return rule(example["inputs"])
    raise AssertionError(f"no rule for {example['metric']} ({example['variant']})")


def beside(example: dict[str, Any], value: float) -> str:
    stated = example["stated"] if example["stated"] is not None else "nothing"
    status = example.get("status", "")
    return (
        f"{example['id']}: computed {value!r}, exact {example['exact']}, printed {stated} {status}"
    )


@pytest.mark.parametrize("file", FILES)
def test_every_worked_example_is_exact(shared: Path, file: str) -> None:
    found = examples(shared, file)
    values = [(example, computed(example)) for example in found]
    for example, value in values:
        print(beside(example, value))
    wrong = [
        beside(example, value)
        for example, value in values
        if not abs(value - example["exact_float"]) <= TOLERANCE * max(1.0, abs(value))
    ]
    assert not wrong
    assert len(found) == FILES[file]


def decimals(text: str) -> float | None:
    """Half a unit of the last digit of a printed decimal; None for fractions and expressions."""
    match = re.fullmatch(r"-?\d+(?:\.(\d+))?(%?)", text)
    if match is None:
        return None
    digits = len(match[1] or "") + (2 if match[2] else 0)
    return float(0.5 * 10.0**-digits)


def test_printed_numbers_are_rounded_unless_stated_otherwise(shared: Path) -> None:
    """The printed number is wrong or truncated exactly where the example states it."""
    off = set()
    for example in examples(shared, "worked_examples.json"):
        half = None if example["stated_value"] is None else decimals(str(example["stated"]))
        if half and abs(computed(example) - example["stated_value"]) > half * (1 + 1e-9):
            off.add(example["id"])
    stated = {
        example["id"]
        for example in examples(shared, "worked_examples.json")
        if re.match("truncated|WRONG", example["status"])
    }
    assert off == stated
