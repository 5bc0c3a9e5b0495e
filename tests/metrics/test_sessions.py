"""A real search log with clicks and human grades: values that were computed independently."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest

from relevanced.metrics import Lists, macro, parse


@pytest.fixture(scope="module")
def log(shared: Path) -> tuple[Lists, Lists, dict[str, float]]:
    """The human grades, the clicks, and the expected values."""
    folder = shared / "data" / "tiangong-st-demo"
    lines = (folder / "human_label_for_GraphCM_per_query_quid.txt").read_text().splitlines()
    columns = [line.split("\t") for line in lines]
    grades = [ast.literal_eval(row[5]) for row in columns]
    clicks = [ast.literal_eval(row[4]) for row in columns]
    expected = json.loads((folder / "expected_metrics.json").read_text())
    return Lists.of(grades), Lists.of(clicks), expected


@pytest.mark.parametrize("k", [1, 3, 5, 10])
def test_graded_metrics_of_the_log(k: int, log: tuple[Lists, Lists, dict[str, float]]) -> None:
    grades, _, expected = log
    ndcg = parse(f"nDCG@{k}").values(grades)
    linear = parse(f"nDCG(gain=linear)@{k}").values(grades)
    err = parse(f"ERR@{k}", max_grade=4).values(grades)
    assert macro(ndcg).value == pytest.approx(expected[f"nDCG@{k} exp, undefined left out"])
    assert macro(ndcg, "zero").value == pytest.approx(expected[f"nDCG@{k} exp, undefined as 0"])
    assert macro(linear).value == pytest.approx(expected[f"nDCG@{k} linear, undefined left out"])
    assert macro(err).value == pytest.approx(expected[f"ERR@{k} gmax 4"])


@pytest.mark.parametrize("k", [1, 3, 5, 10])
def test_binary_and_click_metrics_of_the_log(
    k: int, log: tuple[Lists, Lists, dict[str, float]]
) -> None:
    grades, clicks, expected = log
    found = {
        f"P@{k} grade>=1": parse(f"P@{k}").values(grades),
        f"P@{k} grade>=2": parse(f"P(rel=2)@{k}").values(grades),
        f"CTR@{k}": parse(f"Success@{k}").values(clicks),
        f"click P@{k}": parse(f"P@{k}").values(clicks),
        f"click nDCG@{k}, lists with a click only": parse(f"nDCG@{k}").values(clicks),
    }
    means = {name: macro(values).value for name, values in found.items()}
    assert means == pytest.approx({name: expected[name] for name in found})


def test_behaviour_of_the_log(log: tuple[Lists, Lists, dict[str, float]]) -> None:
    grades, clicks, expected = log
    assert len(grades) == expected["n"]
    assert macro(parse("Abandonment").values(clicks)).value == pytest.approx(
        expected["abandonment"]
    )
    assert macro(parse("RR").values(clicks)).value == pytest.approx(
        expected["MRR first click by rank"]
    )
    unscored = int(np.isnan(parse("nDCG@10").values(grades)).sum())
    assert unscored == expected["lists with no positive grade"]
