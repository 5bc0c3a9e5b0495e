"""A replay grades by the whole index: its judged scores are those of `eval` over the same lists."""

import csv
import io
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress

from relevanced.daemon.config import Config, load
from relevanced.daemon.events import timestamp_text
from relevanced.daemon.http import judged
from relevanced.daemon.judgements import INDEX, add, file_name
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.recompute import replay_files
from relevanced.daemon.recompute.buckets import JudgedHours
from relevanced.daemon.recompute.libraries import whole_index
from relevanced.daemon.recompute.over_time import Looks
from relevanced.daemon.recompute.over_time_output import SCORES, Asked
from relevanced.daemon.recompute.replay_pipeline import replayed
from relevanced.daemon.recompute.tables import NOTHING_JUDGED
from relevanced.metrics import evaluate
from tests.builders import START_MS

FIRST_MS: Final = START_MS // HOUR_MS * HOUR_MS
ITEMS: Final = [f"d{n}" for n in range(12)]
METRICS: Final = ["nDCG(ideal=pool)@10", "P@5"]
SETTINGS: Final = """
windows = ["5m", "1h"]
[attribution]
window = "2m"
[segments]
groupings = [["country"]]
"""
Grades = dict[str, dict[str, int]]


def put_in_place(directory: Path, start_ms: int, grades: Grades) -> None:
    """Add a file to the directory, in force from then on."""
    directory.mkdir(exist_ok=True)
    lines = [f"{query},{item},{of}" for query, by in grades.items() for item, of in by.items()]
    source = directory.parent / "grades.csv"
    source.write_text("\n".join(["query,docid,rating", *lines]))
    add(directory, source, start_ms, 0)


def grades_of(rng: random.Random) -> Grades:
    queries = rng.sample([f"q{n}" for n in range(8)], 6)
    return {q: {item: rng.randrange(4) for item in rng.sample(ITEMS, 7)} for q in queries}


def config_of(directory: Path) -> Config:
    return load(f'{SETTINGS}[judgements]\ndirectory = "{directory}"\n', {}, "test")


def searches(rng: random.Random, count: int) -> list[dict[str, Any]]:
    """Of three hours, in any order."""
    found = []
    for number in range(count):
        at = FIRST_MS + rng.randrange(3 * HOUR_MS)
        found.append(
            {
                "type": "impression",
                "impression_id": f"i{number}",
                "timestamp": at,
                "query": f"q{rng.randrange(10)}",
                "items": rng.sample(ITEMS, rng.randrange(0, 11)),
                "attributes": {"country": rng.choice(["US", "DE"])},
            }
        )
    return found


def written(path: Path, events: Sequence[dict[str, Any]]) -> str:
    path.write_text("\n".join(map(json.dumps, events)))
    return str(path)


def printed(
    paths: Sequence[str],
    config: Config,
    output: str,
    capsys: pytest.CaptureFixture[str],
    asked: Asked = SCORES,
) -> str:
    assert replay_files.replay(paths, config, output, asked, as_is=False, progress=False) == 0
    return capsys.readouterr().out


def test_scores_of_each_file_are_those_of_eval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(5)
    directory, second_ms = tmp_path / "judgements", FIRST_MS + 2 * HOUR_MS
    files = {FIRST_MS: grades_of(rng), second_ms: grades_of(rng)}
    for start_ms, grades in files.items():
        put_in_place(directory, start_ms, grades)
    events = searches(rng, 400)
    found = json.loads(
        printed([written(tmp_path / "e", events)], config_of(directory), "json", capsys)
    )["judged"]
    assert found["late"] == {} and len(found["files"]) == 2
    ends_ms = (second_ms, FIRST_MS + 3 * HOUR_MS)
    for file, end_ms, (start_ms, grades) in zip(found["files"], ends_ms, files.items()):
        for segment in ("all", "DE"):
            count, means = by_eval(events, range(start_ms, end_ms), segment, grades)
            for name, mean in means.items():
                (score,) = [
                    one
                    for one in found["scores"]
                    if (one["window"], one["judgements"]) == ("all", file["name"])
                    and (one["judged_metric"], one["segment"]) == (name, segment)
                ]
                assert score["impressions"] == count > 20
                assert score["mean"] == pytest.approx(mean, abs=1e-6)


def test_queries_are_listed_where_items_without_a_judgement_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(6)
    directory = tmp_path / "judgements"
    put_in_place(directory, FIRST_MS, grades_of(rng))
    more = f'[judgements]\ndirectory = "{directory}"\n%s[queries]\ntext = "plain"\nmin_users = 1\n'
    events = [one | {"user_id": f"u{at}"} for at, one in enumerate(searches(rng, 200))]
    paths = [written(tmp_path / "e", events)]
    with_missing, without = (
        printed(
            paths,
            load(SETTINGS + more % each, {}, "test"),
            "csv",
            capsys,
            Asked(queries="impressions"),
        )
        for each in ("missing = true\n", "")
    )
    assert with_missing == without and with_missing.count("\n") > 10


def by_eval(
    events: Sequence[dict[str, Any]], span: range, segment: str, grades: Grades
) -> tuple[int, dict[str, float]]:
    """The judged impressions of a span, and the mean of each metric as `eval` has it."""
    graded = {
        event["impression_id"]: event
        for event in events
        if event["timestamp"] in span
        and event["query"] in grades
        and segment in ("all", event["attributes"]["country"])
    }
    if not graded:
        return 0, {}
    found = evaluate(
        {key: event["items"] for key, event in graded.items()},
        METRICS,
        judgements={key: grades[event["query"]] for key, event in graded.items()},
        relevant_from=1,
        max_grade=3,
    )
    values = {name: np.array(of.values, float) for name, of in zip(METRICS, found.values())}
    return len(graded), {name: float(np.nan_to_num(each).mean()) for name, each in values.items()}


@pytest.mark.parametrize("minutes", [35, 90, 1440])
def test_each_bucket_has_the_scores_of_each_file_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], minutes: int
) -> None:
    rng, length_ms = random.Random(minutes), minutes * 60_000
    directory, second_ms = tmp_path / "judgements", FIRST_MS + 2 * HOUR_MS
    files = {FIRST_MS: grades_of(rng), second_ms: grades_of(rng)}
    for start_ms, grades in files.items():
        put_in_place(directory, start_ms, grades)
    events = searches(rng, 300)
    asked = Asked(every_ms=length_ms)
    arguments = [written(tmp_path / "e", events)], config_of(directory)
    text = printed(*arguments, "json", capsys, asked)
    found = [one for one in map(json.loads, text.splitlines()) if "judged_metric" in one]
    last_ms, expected = FIRST_MS + 3 * HOUR_MS, {}
    for begin_ms in range(FIRST_MS // length_ms * length_ms, last_ms, length_ms):
        for first_ms, end_ms in ((FIRST_MS, second_ms), (second_ms, last_ms)):
            span = range(max(begin_ms, first_ms), min(begin_ms + length_ms, end_ms))
            for segment in ("all", "DE", "US"):
                count, means = by_eval(events, span, segment, files[first_ms])
                name = file_name(first_ms, "grades.csv")
                for metric, mean in means.items():
                    at = timestamp_text(begin_ms), name, segment, metric
                    expected[at] = count, pytest.approx(mean, abs=1e-6)
    of_metrics = [one for one in found if one["judged_metric"] in METRICS]
    keys = ("start", "judgements", "segment", "judged_metric")
    assert expected == {
        tuple(one[key] for key in keys): (one["impressions"], one["mean"]) for one in of_metrics
    }
    assert len({one["judgements"] for one in found}) == 2
    by_csv = csv.DictReader(io.StringIO(printed(*arguments, "csv", capsys, asked)))
    judged_rows = [row for row in by_csv if row["judged_metric"]]
    assert [row["mean"] for row in judged_rows] == [str(one["mean"]) for one in found]
    assert not any(row["metric"] for row in judged_rows)


def test_a_pane_within_which_a_file_starts_is_mixed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, directory, second_ms = random.Random(12), tmp_path / "judgements", FIRST_MS + HOUR_MS
    grades = {f"q{n}": {rng.choice(ITEMS): 1} for n in range(10)}
    for start_ms in (FIRST_MS, second_ms):
        put_in_place(directory, start_ms, grades)
    config = load(
        f'windows = ["7m"]\n[judgements]\ndirectory = "{directory}"\n', {}, "panes of 14 s"
    )
    assert HOUR_MS % config.plan.timing.base_ms and second_ms % config.plan.timing.base_ms
    events = searches(rng, 3)
    for event, at_ms in zip(events, (second_ms - 60_000, second_ms - 1, second_ms + 1)):
        event["timestamp"] = at_ms
    asked = Asked(every_ms=7 * 60_000)
    text = printed([written(tmp_path / "e", events)], config, "json", capsys, asked)
    found = [one for one in map(json.loads, text.splitlines()) if "judged_metric" in one]
    of_all = (one for one in found if one["grouping"] == "all")
    counts = {one["judgements"]: one["impressions"] for one in of_all}
    assert counts == {file_name(FIRST_MS, "grades.csv"): 1, "mixed": 2}


def test_csv_has_judged_scores_behind_those_of_clicks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, directory = random.Random(9), tmp_path / "judgements"
    put_in_place(directory, FIRST_MS, grades_of(rng))
    events = searches(rng, 60)
    first = next(event for event in events if event["items"])
    click = {**first, "type": "feedback", "kind": "click", "item": first["items"][0]}
    path, config = written(tmp_path / "e", [*events, click]), config_of(directory)
    plain = printed([path], load(SETTINGS, {}, "test"), "csv", capsys).splitlines()
    lines = printed([path], config, "csv", capsys).splitlines()
    assert lines[: len(plain)] == [
        f"{plain[0]},judged_metric,best_case,best_case_stderr,items_share,judgements",
        *(f"{line},,,,," for line in plain[1:]),
    ]
    report = json.loads(printed([path], config, "json", capsys))["judged"]
    for line, score in zip(lines[len(plain) :], report["scores"], strict=True):
        assert line.startswith(f",{score['grouping']},{score['segment']},{score['window']},,")
        assert f",{score['judged_metric']}," in line and line.endswith(score["judgements"])


def test_judged_scores_are_drawn_in_panels_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, directory = random.Random(10), tmp_path / "judgements"
    for hour in (0, 1):
        put_in_place(directory, FIRST_MS + hour * HOUR_MS, grades_of(rng))
    path = written(tmp_path / "e", searches(rng, 100))
    pictures = []
    graded = config_of(directory)
    for config in (load(SETTINGS, {}, "test"), graded):
        asked = Asked(plot=str(tmp_path / "a.svg"))
        printed([path], config, "table", capsys, asked)
        pictures.append((tmp_path / "a.svg").read_text())
    panels = [picture.count('id="axes_') for picture in pictures]
    of_judged = pictures[1].count("<!-- by judgements -->")
    assert pictures[0].count("by judgements") == 0
    assert graded.plan.judged is not None
    assert panels[1] - panels[0] == of_judged == len(graded.plan.judged.metrics)


def test_a_table_over_time_has_a_part_for_each_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, directory = random.Random(11), tmp_path / "judgements"
    path = written(tmp_path / "e", searches(rng, 100))
    put_in_place(directory, FIRST_MS + 5 * HOUR_MS, grades_of(rng))
    asked = Asked(every_ms=3 * HOUR_MS)
    assert NOTHING_JUDGED in printed([path], config_of(directory), "table", capsys, asked)
    for hour in (0, 1):
        put_in_place(directory, FIRST_MS + hour * HOUR_MS, grades_of(rng))
    text = printed([path], config_of(directory), "table", capsys, asked)
    assert text.count("by judgements: 2026") == 2 and "searches may have come after" in text


def test_the_table_has_the_judged_scores_of_each_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, directory = random.Random(6), tmp_path / "judgements"
    put_in_place(directory, FIRST_MS, grades_of(rng))
    path = written(tmp_path / "e", searches(rng, 60))
    text = printed([path], config_of(directory), "table", capsys)
    assert "by judgements: 2026" in text and "Judged@10" in text and "DE" in text
    later = tmp_path / "later"
    put_in_place(later, FIRST_MS + 5 * HOUR_MS, grades_of(rng))
    assert NOTHING_JUDGED in printed([path], config_of(later), "table", capsys)


def test_served_windows_are_those_that_are_printed(tmp_path: Path) -> None:
    rng, directory = random.Random(7), tmp_path / "judgements"
    put_in_place(directory, FIRST_MS, grades_of(rng))
    config = config_of(directory)
    path = written(tmp_path / "e", searches(rng, 600))
    bars = Progress(console=Console(file=io.StringIO(), quiet=True))

    def hours() -> JudgedHours:
        index = whole_index(config)
        assert index is not None
        return JudgedHours(index.timeline, index.judgements)

    graded = hours()
    looks = Looks(config.plan, config.resolved_changes, judged=graded)
    served = replayed([path], config, bars, as_is=False, looks=looks, judged=graded)
    reading = looks.published(served.lane, "").reading
    alone = replayed([path], config, bars, as_is=False, judged=hours())
    report = replay_files.whole_report(alone, [path]).judged
    assert reading is not None and report is not None
    answer = judged(reading, {})
    assert answer.scores == tuple(one for one in report.scores if one.window != "all")
    assert answer.scores and answer.until == report.until
    assert {change.unit for change in answer.compared} == {"hour"}


def test_a_fault_of_the_directory_ends_the_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, directory = random.Random(8), tmp_path / "judgements"
    put_in_place(directory, FIRST_MS, grades_of(rng))
    path = written(tmp_path / "e", searches(rng, 5))
    (directory / INDEX).write_bytes(b"half a line\n")
    code = replay_files.replay(
        [path], config_of(directory), "json", SCORES, as_is=False, progress=False
    )
    assert code == 1 and f"{directory / INDEX}:1: " in capsys.readouterr().err
