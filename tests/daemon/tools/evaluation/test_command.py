"""`relevanced eval` from the command line."""

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.extras import lacking
from relevanced.daemon.tools.evaluate import eval_command
from relevanced.daemon.tools.trec import (
    Policies,
    ScoredRun,
    parse_qrels,
    parse_run,
    score_run,
)
from relevanced.daemon.tools.trec.plot import histogram_bars, mean_curve

QRELS = "1 0 a 1\n1 0 b 0\n1 0 c 2\n2 0 a 1\n"
FIRST = "1 Q0 a 1 3 first\n1 Q0 b 2 2 first\n1 Q0 c 3 1 first\n2 Q0 b 1 2 first\n2 Q0 a 2 1 first\n"
SECOND = "1 Q0 b 1 3 second\n1 Q0 c 2 2 second\n2 Q0 a 1 2 second\n"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    texts = {"qrels": QRELS, "first": FIRST, "second": SECOND}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in texts}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(eval_command, arguments)


def printed(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_table_has_a_column_for_every_run(files: dict[str, str]) -> None:
    text = printed(*files.values(), "-m", "P@1 RR")
    table, _ = text.split("\n\n", 1)
    assert [line.split() for line in table.splitlines()] == [
        ["metric", "query", "first", "second"],
        ["P@1", "all", "0.5000", "0.5000"],
        ["RR", "all", "0.7500", "0.7500"],
        ["queries", "2", "2"],
    ]


def test_default_metrics_take_the_judged_pool(files: dict[str, str]) -> None:
    text = printed(files["qrels"], files["first"])
    assert "nDCG@10 is nDCG(gain=exponential,ideal=pool)@10." in text
    assert "AP " in text and "Bpref" in text


def test_csv_has_a_row_for_every_query(files: dict[str, str]) -> None:
    text = printed(*files.values(), "-m", "RR", "-q", "--output", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {(row["run"], row["query"]): float(row["value"]) for row in rows} == {
        ("first", "1"): 1.0,
        ("second", "1"): 0.5,
        ("first", "2"): 0.5,
        ("second", "2"): 1.0,
        ("first", "all"): 0.75,
        ("second", "all"): 0.75,
    }


def test_json_contains_policies_values_and_comparisons(files: dict[str, str]) -> None:
    text = printed(*files.values(), "-m", "RR", "-q", "--compare", "--output", "json")
    output: dict[str, Any] = json.loads(text)
    assert output["policies"]["ties"] == "item"
    assert output["runs"][1]["metrics"][0]["per_query"] == {"1": 0.5, "2": 1.0}
    (comparison,) = output["comparisons"]
    assert (comparison["run"], comparison["wins"], comparison["losses"]) == ("second", 1, 1)
    assert comparison["t_test_p"] == 1.0


def test_undefined_value_is_null_in_json(files: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "none").write_text("1 0 a 0\n")
    text = printed(
        str(tmp_path / "none"), files["first"], "-m", "nDCG@1", "--undefined=skip", "--output=json"
    )
    assert json.loads(text)["runs"][0]["metrics"][0]["mean"] is None


def test_comparison_is_printed_below_the_table(files: dict[str, str]) -> None:
    text = printed(*files.values(), "-m", "RR", "--compare")
    row = ["RR", "second", "first", "higher", "0", "2", "1", "0", "1", "+0.0000"]
    assert text.splitlines()[-1].split()[:10] == row


def test_the_name_is_the_one_that_was_asked_for_beside_its_full_meaning(
    files: dict[str, str],
) -> None:
    arguments = (*files.values(), "-m", "nDCG@10,P@1", "-l", "2", "--compare")
    full_names = {
        "nDCG@10": "nDCG(gain=exponential,ideal=pool)@10",
        "P@1": "P(rel=2,variant=standard)@1",
    }
    output = json.loads(printed(*arguments, "--output", "json"))
    for entries in (*(run["metrics"] for run in output["runs"]), output["comparisons"]):
        assert {entry["metric"]: entry["full_name"] for entry in entries} == full_names
    rows = list(csv.DictReader(io.StringIO(printed(*arguments, "--output", "csv"))))
    assert {row["metric"]: row["full_name"] for row in rows} == full_names
    text = printed(*arguments)
    assert "P@1 is P(rel=2,variant=standard)@1." in text and "nDCG@10  all" in text


def test_a_metric_asked_for_twice_is_printed_once(files: dict[str, str]) -> None:
    text = printed(*files.values(), "-m", "P@1 P(rel=1)@1", "-m", "P@1", "--output", "csv")
    assert [line.split(",")[1] for line in text.splitlines()[1:]] == ["P@1", "P@1"]


def test_skipping_undefined_values_prints_the_number_that_is_left(
    files: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "qrels").write_text(QRELS + "3 0 a 0\n")
    Path(files["first"]).write_text(FIRST + "3 Q0 a 1 1 first\n")
    arguments = [str(tmp_path / "qrels"), files["first"], files["second"], "-m", "nDCG@1"]
    lines = [line.split() for line in printed(*arguments, "--undefined=skip").splitlines()]
    assert lines[2:4] == [["nDCG@1", "scored", "2", "2"], ["queries", "3", "2"]]
    assert "scored" not in printed(*arguments)
    rows = csv.DictReader(io.StringIO(printed(*arguments, "--undefined=skip", "--output=csv")))
    assert [row["scored"] for row in rows] == ["2", "2"]


def test_queries_that_runs_and_judgements_do_not_share_are_counted(files: dict[str, str]) -> None:
    Path(files["qrels"]).write_text(QRELS + "3 0 a 1\n4 0 a 1\n")
    Path(files["first"]).write_text(FIRST + "9 Q0 a 1 1 first\n")
    arguments = (files["qrels"], files["first"], "-m", "RR")
    skipped = f"{files['first']}: no results for 2 of 4 judged queries: left out of the means"
    unjudged = f"{files['first']}: results of 1 query without judgements: not scored."
    text = printed(*arguments)
    assert skipped in text and unjudged in text
    result = run(*arguments, "--output", "json", "--missing", "zero")
    assert "no results for 2 of 4 judged queries: counted as empty lists." in result.stderr
    (found,) = json.loads(result.stdout)["runs"]
    counts = ("judged_queries", "without_results", "without_judgements")
    assert [found[name] for name in counts] == [4, 2, 1]
    assert "no results for 2 of 4" in run(*arguments, "--output", "csv").stderr


def test_swapped_files_are_recognised(files: dict[str, str]) -> None:
    result = run(files["first"], files["qrels"])
    order = "judgements come first, then runs: QRELS RUN..."
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"{files['first']}: looks like results, not judgements: {order}",
        f"{files['qrels']}: looks like judgements, not results: {order}",
    ]


def test_a_byte_order_mark_costs_no_result(files: dict[str, str]) -> None:
    plain = printed(*files.values(), "-m", "RR", "-q")
    for path in files.values():
        Path(path).write_bytes(b"\xef\xbb\xbf" + Path(path).read_bytes())
    assert printed(*files.values(), "-m", "RR", "-q") == plain


def test_malformed_line_exits_with_2_and_is_named(files: dict[str, str]) -> None:
    Path(files["first"]).write_text(FIRST + "1 Q0 d 4 high first\n")
    result = run(*files.values())
    assert result.exit_code == 2
    assert f"{files['first']}:6: score=high: must be a number" in result.stderr


def test_faults_of_all_files_are_reported_at_once(files: dict[str, str]) -> None:
    Path(files["qrels"]).write_text("x\n" * 30)
    Path(files["second"]).write_text("")
    result = run(*files.values())
    assert result.exit_code == 2
    assert "and 11 more" in result.stderr


def test_all_unknown_metrics_are_reported(files: dict[str, str]) -> None:
    result = run(files["qrels"], files["first"], "-m", "MRR@10 nDGC Fallout P@1")
    assert result.exit_code == 2
    assert "name RR@10" in result.stderr and "did you mean nDCG" in result.stderr
    assert "which judgements and runs cannot provide" in result.stderr


def test_policies_reach_the_numbers(files: dict[str, str]) -> None:
    (short := Path(files["second"])).write_text("1 Q0 c 1 1 second\n")
    assert "1.0000" in printed(files["qrels"], str(short), "-m", "RR")
    assert "0.5000" in printed(files["qrels"], str(short), "-m", "RR", "--missing", "zero")
    assert run(files["qrels"], str(short), "--missing", "refuse").exit_code == 2
    cut = printed(files["qrels"], files["first"], "-m", "RR", "-l", "2", "-M", "1")
    assert "0.0000" in cut


def test_runs_with_the_same_tag_are_named_by_file(files: dict[str, str]) -> None:
    Path(files["second"]).write_text(SECOND.replace("second", "first"))
    assert "first  second" in printed(*files.values(), "-m", "RR").splitlines()[0]


@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_curves_are_drawn_to_a_file(
    ending: str, magic: bytes, files: dict[str, str], tmp_path: Path
) -> None:
    target = tmp_path / f"curves.{ending}"
    printed(*files.values(), "--plot", str(target))
    assert target.read_bytes().startswith(magic)


def test_drawing_of_the_same_runs_is_the_same(files: dict[str, str], tmp_path: Path) -> None:
    drawn = []
    for name in ("a.svg", "b.svg"):
        printed(*files.values(), "--plot", str(tmp_path / name))
        drawn.append((tmp_path / name).read_bytes())
    assert drawn[0] == drawn[1]


def test_unknown_drawing_format_is_refused(files: dict[str, str], tmp_path: Path) -> None:
    result = run(files["qrels"], files["first"], "--plot", str(tmp_path / "curves.doc"))
    assert result.exit_code == 2
    assert "curves.doc" in result.stderr


def test_plot_without_matplotlib_says_what_to_install(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "relevanced.daemon.tools.trec.plot")
    result = CliRunner().invoke(cli, ["eval", files["qrels"], files["first"], "--plot", "x.png"])
    assert (result.exit_code, result.stderr) == (1, f"Error: {lacking('plot')}\n")


def scored(text: str) -> ScoredRun:
    run_ = parse_run(text.encode(), "run")
    qrels = parse_qrels(QRELS.encode(), "qrels")
    return score_run(qrels, run_, [], Policies(), name=run_.tag, file="run")


def test_curve_is_the_mean_over_queries() -> None:
    curve = mean_curve(scored(SECOND).lists, 1)
    assert curve.tolist() == pytest.approx([0.75] * 6 + [0.5] * 5)


def test_histogram_bars_are_differences_of_r_precision() -> None:
    assert histogram_bars(scored(FIRST), scored(SECOND), 1) == {"1": 0.0, "2": -1.0}
