"""Real logs through the replay give the counts and values that are recorded beside them."""

import json
from ast import literal_eval
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli

CHORUS_TOML = """
[events]
format = "ubi"
rank_base = {rank_base}
[attribution]
window = "24h"  # one search was asked again under its id three hours later
[segments]
groupings = [["application"]]
"""
TIANGONG_TOML = """
[attribution.grades]
click = 1
[metrics]
names = {names}
relevant_from = {relevant_from}
max_grade = 4
[segments]
groupings = []
"""

Json = dict[str, Any]


def replay(tmp_path: Path, toml: str, *files: Path, options: Iterable[str] = ()) -> Json:
    config = tmp_path / "replay.toml"
    config.write_text(toml)
    arguments = ["replay", *map(str, files), "--config", str(config), "--output", "json", *options]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def whole(report: Json, segment: str = "all") -> dict[str, Json]:
    """Metric → score over everything in the files."""
    scores: list[Json] = report["scores"]
    return {str(s["metric"]): s for s in scores if (s["window"], s["segment"]) == ("all", segment)}


@pytest.fixture
def chorus(shared: Path) -> Path:
    return shared / "data" / "ubi-chorus" / "ubi_queries_events.ndjson"


def chorus_replay(tmp_path: Path, chorus: Path, rank_base: int) -> Json:
    return replay(tmp_path, CHORUS_TOML.format(rank_base=rank_base), chorus)


def documents(chorus: Path) -> list[Json]:
    lines = map(json.loads, chorus.read_text().splitlines())
    return [line for line in lines if set(line) != {"index"}]


def test_chorus_has_84_impressions_of_which_6_have_no_result(tmp_path: Path, chorus: Path) -> None:
    report = chorus_replay(tmp_path, chorus, 1)
    score = whole(report, "Chorus")["P@10"]
    assert (score["impressions"], score["zero_results"]) == (84, 6)
    assert report["events"]["impressions"] == 273
    assert report["events"]["rejected"]["no_list"] == 200


def test_chorus_outcomes_are_those_of_the_file(tmp_path: Path, chorus: Path) -> None:
    outcomes = chorus_replay(tmp_path, chorus, 1)["events"]["feedback_outcomes"]
    # 12 clicks on documents that the logged list lacks, and as many that went into the cart.
    assert outcomes["off_list"] == 24
    assert outcomes["late"] == 0
    kinds = Counter(d.get("action_name") for d in documents(chorus))
    judged = kinds["click"] + kinds["add_to_cart"] + kinds["purchase"]
    known = ("joined", "off_list", "unjoined", "out_of_window", "beyond_depth")
    assert sum(outcomes[name] for name in known) == judged


def test_chorus_repeated_clicks_count_once(tmp_path: Path, chorus: Path) -> None:
    """97 clicks repeat a (query, document) that was clicked before; those that join add no item."""
    toml = CHORUS_TOML.format(rank_base=1) + "[attribution.grades]\nclick = 1\n"
    report = replay(tmp_path, toml + '[metrics]\nnames = ["P@100"]\n', chorus)
    score = whole(report, "Chorus")["P@100"]
    clicked_items = round(float(str(score["mean"])) * 100 * 84)
    lists = shown_lists(chorus)
    clicks = [
        (query, item)
        for query, item, _ in reactions(chorus, "click")
        if item in lists.get(query, [])
    ]
    joined = report["events"]["feedback_outcomes"]["joined"]
    assert joined == len(clicks)
    assert clicked_items == len(set(clicks)) < joined


def shown_lists(chorus: Path) -> dict[str, list[str]]:
    """Chorus's query id → the first list that is not empty."""
    lists: dict[str, list[str]] = {}
    for document in sorted(documents(chorus), key=lambda d: str(d["timestamp"])):
        items = document.get("query_response_hit_ids")
        if items and document.get("application") == "Chorus":
            lists.setdefault(str(document["query_id"]), items)
    return lists


def reactions(chorus: Path, *kinds: str) -> Iterable[tuple[str, str, int]]:
    """(query id, document, ordinal) of the events of these kinds."""
    for document in documents(chorus):
        if document.get("action_name") in kinds:
            details: dict[str, Json] = document["event_attributes"]
            ordinal = int(str(details["position"]["ordinal"]))
            yield str(document.get("query_id")), str(details["object"]["object_id"]), ordinal


ESCI_TOML = """
[events]
format = "ubi"
rank_base = 0
ubi_lists = "{lists}"
[metrics]
names = ["P@5", "RR"]
[segments]
groupings = [["application"]]
"""


@pytest.fixture
def esci(chorus: Path, tmp_path: Path) -> Path:
    """OpenSearch's own sample: 200 searches, 1,000 items shown, one by one, 60 clicks."""
    lines = [json.dumps(d) for d in documents(chorus) if d["application"] == "esci_ubi_sample"]
    file = tmp_path / "esci.jsonl"
    file.write_text("\n".join(lines))
    return file


@pytest.mark.parametrize("options", [(), ("--as-is",)], ids=["by time", "as is"])
def test_lists_are_made_of_what_was_shown(
    tmp_path: Path, esci: Path, options: tuple[str, ...]
) -> None:
    report = replay(tmp_path, ESCI_TOML.format(lists="shown"), esci, options=options)
    scores = whole(report)
    assert {name: value["impressions"] for name, value in scores.items()} == {"P@5": 200, "RR": 200}
    events = report["events"]
    assert (events["impressions"], events["feedback"]) == (1000, 60)
    assert events["rejected"]["no_list"] == 200
    assert {name: n for name, n in events["feedback_outcomes"].items() if n} == {"joined": 60}
    clicked: dict[str, set[int]] = {}
    for query, _, ordinal in reactions(esci, "click"):
        clicked.setdefault(query, set()).add(ordinal)
    reciprocal = sum(1 / (min(ordinals) + 1) for ordinals in clicked.values()) / 200
    precision = sum(len(ordinals) / 5 for ordinals in clicked.values()) / 200
    assert scores["RR"]["mean"] == pytest.approx(reciprocal, abs=1e-6)
    assert scores["P@5"]["mean"] == pytest.approx(precision, abs=1e-6)
    assert whole(report, "esci_ubi_sample")["RR"]["impressions"] == 200


def test_where_lists_are_logged_none_of_it_counts(tmp_path: Path, esci: Path) -> None:
    config = tmp_path / "replay.toml"
    config.write_text(ESCI_TOML.format(lists="logged"))
    arguments = ["replay", str(esci), "--config", str(config), "--output", "json"]
    events = json.loads(CliRunner().invoke(cli, arguments).stdout)["events"]
    assert (events["impressions"], events["feedback"]) == (0, 1060)
    assert events["feedback_outcomes"]["ignored_kind"] == 1000


def test_where_a_log_has_both_the_setting_says_which_lists_count(
    tmp_path: Path, chorus: Path
) -> None:
    logged, shown = (
        replay(tmp_path, ESCI_TOML.format(lists=lists).replace("= 0", "= 1"), chorus)
        for lists in ("logged", "shown")
    )
    assert (
        whole(logged, "Chorus")["RR"]["impressions"] != whole(shown, "Chorus")["RR"]["impressions"]
    )
    placed = [one for one in reactions(chorus, "impression") if one[0] != "None" and one[2] >= 1]
    assert shown["events"]["impressions"] == len(placed)
    assert logged["events"]["feedback_outcomes"]["ignored_kind"] > len(placed)


@pytest.mark.parametrize("rank_base", [0, 1])
def test_chorus_rank_bases_make_a_difference(tmp_path: Path, chorus: Path, rank_base: int) -> None:
    """Ordinals are 1-based until 4 Feb 2025 and mostly 0-based from then on."""
    outcomes = chorus_replay(tmp_path, chorus, rank_base)["events"]["feedback_outcomes"]
    lists = shown_lists(chorus)
    expected = sum(
        ordinal != lists[query].index(item) + rank_base
        for query, item, ordinal in reactions(chorus, "click", "add_to_cart")
        if item in lists.get(query, [])
    )
    assert outcomes["rank_mismatch"] == expected > 0


@pytest.fixture
def tiangong(shared: Path, tmp_path: Path) -> tuple[Path, dict[str, float]]:
    """The judged lists as native events, grades sent by rank; and the expected values."""
    folder = shared / "data" / "tiangong-st-demo"
    path = tmp_path / "tiangong.jsonl"
    lines = (folder / "human_label_for_GraphCM_per_query_quid.txt").read_text().splitlines()
    with path.open("w") as file:
        for number, line in enumerate(lines):
            _, _, items, _, clicks, grades = line.split("\t")
            for event in judged_list(number, *map(literal_eval, (items, clicks, grades))):
                file.write(json.dumps(event) + "\n")
    return path, json.loads((folder / "expected_metrics.json").read_text())


def judged_list(
    number: int, items: list[int], clicks: list[int], grades: list[int]
) -> Iterable[Json]:
    base = {"impression_id": number, "timestamp": 1_600_000_000_000 + number}
    yield {**base, "type": "impression", "items": items}
    for rank, grade in enumerate(grades, 1):
        yield {**base, "type": "feedback", "kind": "label", "rank": rank, "grade": grade}


NAMES = ["P@1", "P@3", "P@5", "P@10", "RR", "nDCG@5", "nDCG@10", "nDCG(gain=linear)@10", "ERR@10"]


def test_tiangong_values_are_the_recorded_ones(
    tmp_path: Path, tiangong: tuple[Path, dict[str, float]]
) -> None:
    path, expected = tiangong
    scores = whole(replay(tmp_path, TIANGONG_TOML.format(names=NAMES, relevant_from=1), path))
    recorded = {
        "P@5": "P@5 grade>=1",
        "RR": "MRR grade>=1",
        "nDCG@5": "nDCG@5 exp, undefined left out",
        "nDCG@10": "nDCG@10 exp, undefined left out",
        "nDCG(gain=linear)@10": "nDCG@10 linear, undefined left out",
        "ERR@10": "ERR@10 gmax 4",
    }
    found = {name: scores[name]["mean"] for name in recorded}
    assert found == pytest.approx({n: expected[key] for n, key in recorded.items()}, abs=1e-6)
    left_out = {n: scores[n]["impressions"] - scores[n]["scored"] for n in ("P@5", "nDCG@10")}
    assert left_out == {"P@5": 0, "nDCG@10": expected["lists with no positive grade"]}


def test_tiangong_relevance_level_is_a_setting(
    tmp_path: Path, tiangong: tuple[Path, dict[str, float]]
) -> None:
    path, expected = tiangong
    scores = whole(replay(tmp_path, TIANGONG_TOML.format(names=NAMES, relevant_from=2), path))
    for k in (1, 3, 5, 10):
        assert scores[f"P@{k}"]["mean"] == pytest.approx(expected[f"P@{k} grade>=2"], abs=1e-6)
    assert scores["RR"]["mean"] == pytest.approx(expected["MRR grade>=2"], abs=1e-6)
