"""Judged scores: equal to `relevanced eval` on the same lists, in any batch."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from click.testing import CliRunner

from relevanced.daemon.judgements import JudgedPlan, judged_plan, read, score, scoring
from relevanced.daemon.tools.evaluate import eval_command

METRICS: Final = ("nDCG@10", "P@5", "Judged@10", "RR@10", "ERR@10", "AP@10", "R@10", "nDCG@3")
Lists = dict[str, list[str]]
Grades = dict[str, dict[str, float]]


def plan(*names: str, unjudged: scoring.Unjudged = "zero") -> JudgedPlan:
    return judged_plan(names or METRICS, relevant_from=2, max_grade=3, unjudged=unjudged)


def random_judgements(rng: np.random.Generator, queries: int) -> tuple[Grades, Lists]:
    """Grades of each query, some all 0 or below 0, and a list of it, which may be short."""
    grades: Grades = {}
    lists: Lists = {}
    for number in range(queries):
        items = [f"d{item}" for item in rng.permutation(60).tolist()]
        judged = items[: int(rng.integers(1, 40))]
        values = rng.integers(-1, int(rng.integers(1, 5)), len(judged)).tolist()
        grades[f"q{number}"] = dict(zip(judged, map(float, values), strict=True))
        shown = rng.permutation(items).tolist()
        lists[f"q{number}"] = shown[: int(rng.integers(1, 30))]
    return grades, lists


def evaluated(grades: Grades, lists: Lists, folder: Path) -> dict[str, dict[str, float | None]]:
    """Query → metric → value, by the command."""
    qrels, run = folder / "qrels", folder / "run"
    qrels.write_text(
        "".join(
            f"{query} 0 {item} {grade:g}\n"
            for query, items in grades.items()
            for item, grade in items.items()
        )
    )
    run.write_text(
        "".join(
            f"{query} Q0 {item} {rank} {-rank} run\n"
            for query, items in lists.items()
            for rank, item in enumerate(items, 1)
        )
    )
    names = [option for name in METRICS for option in ("-m", name)]
    options = ["-q", "--output", "json", "-l", "2", "--max-grade", "3", "--undefined", "skip"]
    result = CliRunner().invoke(eval_command, [str(qrels), str(run), *names, *options])
    assert result.exit_code == 0, result.output
    metrics = json.loads(result.stdout)["runs"][0]["metrics"]
    return {
        query: {metric["metric"]: metric["per_query"][query] for metric in metrics}
        for query in grades
    }


def test_scores_are_those_of_eval(rng: np.random.Generator, tmp_path: Path) -> None:
    grades, lists = random_judgements(rng, 200)
    expected = evaluated(grades, lists, tmp_path)
    judgements = read((tmp_path / "qrels").read_bytes().splitlines(keepends=True), "qrels")
    found = score(
        [lists[query] for query in lists], [judgements.by_query[q] for q in lists], plan()
    )
    for row, query in zip(found.scores, lists, strict=True):
        values = [expected[query][name] for name in METRICS]
        assert row.tolist() == pytest.approx(
            [np.nan if value is None else value for value in values], nan_ok=True, abs=1e-12
        )


def test_score_of_a_list_is_the_same_in_any_batch(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    grades, lists = random_judgements(rng, 60)
    queries = rng.choice([*lists], 300).tolist()
    shown = [lists[query][: int(rng.integers(0, 30))] for query in queries]
    of_each = [grades[query] for query in queries]
    at_once = score(shown, of_each, plan())
    one_by_one = [score([items], [judged], plan()) for items, judged in zip(shown, of_each)]
    assert_equal(at_once, one_by_one)
    monkeypatch.setattr(scoring, "MOST_CELLS", 200)
    assert_equal(score(shown, of_each, plan()), one_by_one)


def assert_equal(found: scoring.JudgedLists, parts: Sequence[scoring.JudgedLists]) -> None:
    """To the last bit, NaN included."""
    for name in ("scores", "best_case", "places", "judged_places"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        assert getattr(found, name).tobytes() == joined.tobytes()


def test_ideal_is_of_all_judged_items() -> None:
    found = score([["a", "x"]], [{"a": 1.0, "b": 3.0}], plan("nDCG@2"))
    ideal = 7 + 1 / np.log2(3)
    assert found.scores[0, 0] == pytest.approx(1 / ideal)


def test_empty_list_of_a_judged_query_scores_0() -> None:
    found = score([[]], [{"a": 2.0}], plan("nDCG@10", "P@5", "RR@10"))
    assert found.scores.tolist() == [[0.0, 0.0, 0.0]]
    assert (found.places[0], found.judged_places[0]) == (0, 0)


def test_nothing_relevant_leaves_ndcg_undefined() -> None:
    found = score([["a"]], [{"a": 0.0}], plan("nDCG@10", "P@5", "Judged@10"))
    assert np.isnan(found.scores[0, 0]) and found.scores[0, 1] == 0
    assert found.judged_places[0] == 1


def test_item_shown_twice_counts_once() -> None:
    found = score([["a", "a", "b"]], [{"a": 3.0, "b": 2.0}], plan("P@3", "Judged@3"))
    assert found.scores[0].tolist() == pytest.approx([2 / 3, 2 / 3])


def best_case(shown: list[str], grades: dict[str, float], *names: str) -> list[float]:
    found: list[float] = score([shown], [grades], plan(*names)).best_case[0].tolist()
    return found


def test_best_case_fills_a_place_with_the_ideal_one() -> None:
    grades = {"a": 3.0, "b": 2.0, "c": 0.0}
    shown = ["c", "x", "a", "y"]
    filled = 3 / np.log2(3) + 7 / 2  # x is as good as b, the second best; y as the third, c
    assert best_case(shown, grades, "nDCG@4") == pytest.approx([filled / (7 + 3 / np.log2(3))])
    assert best_case(shown, grades, "P@2", "RR@4", "Judged@4") == pytest.approx([0.5, 0.5, 0.5])


def test_best_case_is_no_better_than_the_ideal() -> None:
    assert best_case(["x", "a"], {"a": 3.0}, "nDCG@2", "R@2") == [1.0, 1.0]


def test_best_case_is_the_score_where_all_is_judged() -> None:
    found = score([["b", "a", "b"], []], [{"a": 3.0, "b": 1.0}] * 2, plan())
    assert found.best_case.tobytes() == found.scores.tobytes(), "what is shown again is no item"


def test_best_case_is_never_below_the_score(rng: np.random.Generator) -> None:
    grades, lists = random_judgements(rng, 300)
    found = score([*lists.values()], [*grades.values()], plan("nDCG@10", "P@5", "ERR@10", "AP@10"))
    assert (found.best_case >= found.scores - 1e-12)[~np.isnan(found.scores)].all()


def test_skip_scores_condensed_lists_and_still_says_how_much_is_judged() -> None:
    shown, grades = [["x", "a", "y", "b"]], [{"a": 2.0, "b": 0.0}]
    names = ("P@1", "RR@10", "Judged@4")
    assert score(shown, grades, plan(*names)).scores[0].tolist() == [0.0, 0.5, 0.5]
    skipped = score(shown, grades, plan(*names, unjudged="skip"))
    assert skipped.scores[0].tolist() == [1.0, 1.0, 0.5]
    assert (skipped.places[0], skipped.judged_places[0]) == (4, 2)


def test_places_are_those_within_the_deepest_cut_off() -> None:
    found = score([["a", "x", "b", "c"]], [{"a": 1.0, "b": -1.0, "c": 2.0}], plan("P@1", "P@3"))
    assert (found.places[0], found.judged_places[0]) == (3, 2), "a grade below 0 is a judgement"


def test_nothing_to_score() -> None:
    assert score([], [], plan()).scores.shape == (0, len(METRICS))


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("nDGC@10", "nDCG"),
        ("FirstFeedbackSeconds", "needs the time of the first feedback"),
        ("IPS-DCG@10", "IPS"),
        ("P(rel=2)@5", "is named twice"),
    ],
)
def test_metric_that_judgements_cannot_give_is_refused(name: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        plan("P@5", name)
