"""Recorded events: every line is read once, in order of event time, and outcomes are printed."""

import gzip
import io
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress

from relevanced.daemon.config import Config, load
from relevanced.daemon.events import timestamp_text
from relevanced.daemon.judgements import add, grades
from relevanced.daemon.lane import CONFIRMED_OVER_MS
from relevanced.daemon.recompute import replay_files, replay_pipeline
from relevanced.daemon.recompute.buckets import view_of
from relevanced.daemon.recompute.files import recorded_source
from relevanced.daemon.recompute.over_time_output import Asked
from relevanced.daemon.recompute.replay_files import (
    print_report,
    read_lane,
    report_of,
    whole_report,
)
from relevanced.daemon.recompute.replay_report import ReplayReport
from relevanced.daemon.recompute.serving import words_of
from relevanced.daemon.views import Report, Score
from tests.builders import START_MS, clicked, lane_of, passing, settled, shown

HOUR_MS: Final = 3_600_000
Write = Callable[..., str]


def impression(at_ms: int = 0, of: str = "q") -> dict[str, Any]:
    at = {"type": "impression", "impression_id": of, "timestamp": START_MS + at_ms}
    return at | {"items": ["a", "b"]}


def click(at_ms: int, item: str = "a", of: str = "q") -> dict[str, Any]:
    at = {"type": "feedback", "impression_id": of, "timestamp": START_MS + at_ms}
    return at | {"kind": "click", "item": item}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes values as lines of a file; returns its path."""

    def written(*values: Any, name: str = "events.jsonl") -> str:
        lines = b"".join(json.dumps(value).encode() + b"\n" for value in values)
        path = tmp_path / name
        path.write_bytes(gzip.compress(lines) if name.endswith(".gz") else lines)
        return str(path)

    return written


def bars() -> Progress:
    return Progress(console=Console(file=io.StringIO(), quiet=True))


def scored(*paths: str, as_is: bool = False) -> Report:
    return report_of(read_lane(paths, Config(), bars(), as_is=as_is))


def rr(report: Report, window: str = "all") -> Score:
    [score] = [
        s
        for s in report.scores
        if (s.metric, s.grouping, s.window, s.view) == ("RR@10", "all", window, "live")
    ]
    return score


def whole(*paths: str) -> ReplayReport:
    return whole_report(replay_pipeline.replayed(paths, Config(), bars(), as_is=False), paths)


def printed(
    capsys: pytest.CaptureFixture[str], *paths: str, output: str = "table", **more: Any
) -> tuple[int, str, str]:
    """(exit code, output, errors) of the command."""
    code = replay_files.replay(paths, Config(), output, as_is=False, progress=False, **more)
    return code, *capsys.readouterr()


def counted(outcomes: Mapping[str, int]) -> dict[str, int]:
    """The outcomes that occurred."""
    return {outcome: n for outcome, n in outcomes.items() if n}


# Reading


def test_queries_have_the_class_that_was_in_force_at_their_time(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heads, source = tmp_path / "heads", tmp_path / "a.csv"
    heads.mkdir()
    for number, text in enumerate(("Shoes,head", "hats,head\nshoes,torso")):
        source.write_text(f"query,class\n{text}\n")
        entry, _ = add(heads, source, START_MS + number * HOUR_MS, 0, grades.read_classes)
    text = f'[[derive]]\nattribute = "traffic"\ndirectory = "{heads}"\n'
    config = load(f'{text}[segments]\ngroupings = [["traffic"]]\n', {}, "test")
    times = (-1, 0, HOUR_MS - 1, HOUR_MS)
    path = write(
        *(impression(at, f"a{at}") | {"query": "SHOES"} for at in times),
        impression(0, "b") | {"query": "hats"},
        impression(0, "c"),
    )
    report = report_of(read_lane([path], config, bars(), as_is=False))
    all_of_it = (
        s for s in report.scores if (s.window, s.metric, s.view) == ("all", "RR@10", "live")
    )
    segments = {s.segment: s.impressions for s in all_of_it if s.grouping == "traffic"}
    assert segments == {"(none)": 2, "head": 2, "tail": 1, "torso": 1}
    (heads / entry.name).unlink()
    assert replay_files.replay([path], config, "table", as_is=False, progress=False) == 1
    assert f"{entry.name}: cannot be read: No such file" in capsys.readouterr().err


def test_lines_of_all_files_are_read(write: Write) -> None:
    paths = [write(impression(), click(1)), write({"type": "x"}, name="more.jsonl.gz")]
    events = scored(*paths).events
    assert (events.impressions, events.feedback, events.rejected) == (1, 1, {"unknown_type": 1})


def test_empty_lines_and_a_missing_last_end_of_line_are_no_matter(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    lines = [json.dumps(impression(of=of)).encode() for of in "pq"]
    path.write_bytes(b"\n \r\n" + lines[0] + b"\r\n\n" + lines[1])
    events = scored(str(path)).events
    assert (events.impressions, events.rejected) == (2, {})


def test_nothing_is_in_the_future_of_a_record_without_a_time_of_its_own(write: Write) -> None:
    assert scored(write(impression(10**10))).events.impressions == 1


# Order


def test_events_are_put_in_order_of_their_time(write: Write) -> None:
    files = [write(click(5), impression(9 * HOUR_MS, "p")), write(impression(), name="b.jsonl")]
    report = scored(*files)
    assert report.events.feedback_outcomes["joined"] == 1
    assert report.events.impression_outcomes["accepted"] == 2


def test_file_order_is_that_of_a_live_stream(write: Write) -> None:
    report = scored(write(impression(9 * HOUR_MS, "p"), impression(), click(5)), as_is=True)
    assert counted(report.events.impression_outcomes) == {"accepted": 1, "late": 1}
    assert counted(report.events.feedback_outcomes) == {"late": 1}


def test_impressions_stand_before_feedback_of_the_same_time(write: Write) -> None:
    """Else feedback at the end of a long attribution window could come before its impression."""
    report = scored(write(click(0), impression(0)))
    assert counted(report.events.feedback_outcomes) == {"joined": 1}


def test_events_of_the_same_time_keep_the_order_of_the_files(write: Write) -> None:
    first, second = impression(), impression() | {"items": ["b", "a"]}
    report = scored(write(first, second, click(1, "b")))
    assert counted(report.events.impression_outcomes) == {"accepted": 1, "conflicting": 1}
    assert rr(report).mean == 0.5


def test_any_order_of_lines_gives_the_same_scores(write: Write) -> None:
    lines = [impression(n * 1000, f"q{n}") for n in range(50)]
    lines += [click(n * 1000 + 500, "b", f"q{n}") for n in range(0, 50, 3)]
    whole = scored(write(*lines))
    random.Random(1).shuffle(lines)
    assert scored(write(*lines)) == whole


def test_the_cut_into_batches_does_not_matter(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(*(impression(n * HOUR_MS, f"q{n}") for n in range(9)), click(5), click(6, "b"))
    whole = scored(path)
    monkeypatch.setattr(recorded_source, "EVENTS_AT_ONCE", 2)
    assert scored(path) == whole


# Scores


def test_the_window_of_everything_covers_settled_and_open_panes(write: Write) -> None:
    later_ms = 48 * HOUR_MS
    leap = [click(later_ms + CONFIRMED_OVER_MS * (n > 1), of=f"leap {n}") for n in range(3)]
    path = write(impression(), click(1), impression(later_ms, "p"), *leap)
    report = scored(path)
    assert (rr(report).mean, rr(report).impressions) == (0.5, 2)
    assert (rr(report, "5m").mean, rr(report, "5m").impressions) == (0.0, 1)
    assert report.as_of is not None and report.as_of.startswith("2026-11-22T12:00:00")


def test_no_events_are_no_scores(write: Write) -> None:
    report = scored(write())
    assert (report.as_of, report.events.impressions) == (None, 0)
    assert all(score.impressions == 0 for score in report.scores)


def test_a_view_is_the_lane_itself() -> None:
    lane = lane_of()
    settled(lane, shown(0, attributes={"country": "US"}), clicked(1, "a"), passing(2))
    view = view_of(lane)
    assert view.names.segments == [("all", "all"), ("country", "US")]
    assert (view.watermark_ms, view.totals, view.panes.keys()) == (
        START_MS + 2,
        {},
        lane.panes.keys(),
    )
    for key, rows in lane.panes.items():
        assert np.array_equal(view.panes[key][0], rows.page(0))


# What is printed


def test_every_event_has_its_outcome(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """Impressions too, kinds without a grade by name, and feedback that still waits."""
    views = [click(n, of="q") | {"kind": kind} for n, kind in enumerate(("view", "hover", "view"))]
    path = write(impression(), impression(), click(1), *views, click(2, "c"), click(3, of="gone"))
    code, out, err = printed(capsys, path)
    assert (code, err) == (0, "")
    assert out.splitlines()[-2:] == [
        "2 impressions: accepted 1, duplicate 1",
        "6 feedback: ignored_kind 3 (view 2, hover 1), joined 1, waiting 2",
    ]
    events = whole(path).events
    assert sum(events.impression_outcomes.values()) == events.impressions
    assert sum(events.feedback_outcomes.values()) == events.feedback
    assert events.ignored_kinds == {"view": 2, "hover": 1}


def test_nothing_read_is_said_so(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = printed(capsys, write())
    assert code == 1 and err == "No event was read: the files have no lines.\n"
    assert out.splitlines()[-2:] == ["0 impressions: none", "0 feedback: none"]


def test_the_first_refusal_of_each_reason_is_shown_with_its_place(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first in the files, though records without a time come first in the order of time."""
    bad = [
        {"type": "x"},
        impression(9) | {"items": 7},
        impression(8) | {"items": "b\u001b"},
        impression() | {"attributes": {"country": "x" * 300}},
    ]
    paths = [write(impression(of="p")), write(click(1), *bad, name="more.jsonl")]
    code, out, _ = printed(capsys, *paths)
    assert code == 0
    refused = out.splitlines()[-3:]
    start = f"in {paths[1]}, line"
    assert refused[0].startswith(
        f"refused wrong_type 2, the first {start} 3: items=7: must be an array of ids in "
    )
    assert refused[1].startswith(f"left out long_value 1, {start} 5: attributes, experiments: ")
    assert refused[2].startswith(
        f"refused unknown_type 1, {start} 2: type='x': must be impression or feedback in {{\"type\""
    )


def test_json_puts_the_whole_first_and_names_it(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(impression(), click(1), {"type": "x"})
    code, out, err = printed(capsys, path, output="json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["whole"] == {"window": "all", "view": "live"}
    windows = [(score["window"], score["view"]) for score in found["scores"]]
    assert windows == sorted(windows, key=lambda window: window != ("all", "live"))
    assert windows[0] == ("all", "live") != windows[-1]
    assert found["events"]["feedback_outcomes"]["waiting"] == 0
    [refused] = found["refused"]
    assert refused == {
        "reason": "unknown_type",
        "count": 1,
        "file": path,
        "line": 3,
        "detail": "type='x': must be impression or feedback",
        "record": '{"type": "x"}',
    }


def test_csv_leaves_the_summary_to_the_errors(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, err = printed(capsys, write(impression(), {"type": "x"}), output="csv")
    assert out.startswith("metric,") and "refused" not in out
    assert "accepted 1" in err and "refused unknown_type 1" in err


def test_nothing_accepted_exits_1_with_a_guess(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    query = {"query_id": "q", "timestamp": START_MS, "query_response_hit_ids": ["a"]}
    code, _, err = printed(capsys, write(query), output="json")
    assert code == 1 and "--format ubi" in err
    code, _, err = printed(capsys, write(click(1)))
    assert code == 1
    assert err == "No impression was accepted (there is none): there is nothing to score.\n"
    code, out, err = printed(capsys, write(query), asked=Asked(experiment="ranker"))
    assert (code, out) == (1, "") and "--format ubi" in err


@pytest.mark.parametrize(("later_ms", "is_lacking"), [(300_000, False), (600_000, True)])
def test_tail_that_nothing_confirms_is_said_where_it_is_not_counted(
    write: Write, capsys: pytest.CaptureFixture[str], later_ms: int, is_lacking: bool
) -> None:
    """After an outage, or of a clock that is wrong: nobody can tell."""
    times = [*range(0, HOUR_MS // 2, 60_000), HOUR_MS // 2 - 60_000 + later_ms]
    path = write(*(impression(at, f"q{at}") for at in times), click(1, of="q0"))
    words = "Windows and changes end at 2026-11-20T12"
    for asked in (Asked(), Asked(changes=True)):
        assert (words in printed(capsys, path, asked=asked)[2]) is is_lacking
    assert words not in printed(capsys, path, asked=Asked(every_ms=HOUR_MS))[2]
    report = scored(path)
    assert (rr(report).impressions, rr(report, "1h").impressions) == (31, 31 - is_lacking)
    lane = read_lane([path], Config(), bars(), as_is=False)
    end = timestamp_text(START_MS + times[-1])
    page = words_of([path], lane)
    assert page.startswith(f"{path} ends at {end}") and (", shown up to" in page) is is_lacking


@pytest.mark.parametrize("output", ["json", "csv", "table"])
def test_a_report_is_printed_in_the_requested_format(write: Write, output: str) -> None:
    stream = io.StringIO()
    print_report(whole(write(impression(), click(1))), output, stream)
    text = stream.getvalue()
    assert text.endswith("\n") and "RR@10" in text
    assert (output == "json") == text.startswith("{")
    assert ("1 impressions" in text) == (output == "table")


# Files that cannot be read


def whole_gzip() -> bytes:
    return gzip.compress(b'{"type":"x"}\n' * 5000)


DAMAGED: Final = {
    "not gzip": b"plain text",
    "cut off": whole_gzip()[:-20],
    "overwritten": whole_gzip()[:30] + b"\xff\xff" + whole_gzip()[32:],
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_named(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "events.jsonl.gz"
    path.write_bytes(data)
    assert replay_files.replay([str(path)], Config(), "json", as_is=False, progress=False) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith(f"{path}: cannot be read: not a whole gzip file: ")
    assert not printed.out


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "no.jsonl")
    assert replay_files.replay([path], Config(), "json", as_is=False, progress=False) == 1
    assert capsys.readouterr().err == f"{path}: cannot be read: No such file or directory\n"
