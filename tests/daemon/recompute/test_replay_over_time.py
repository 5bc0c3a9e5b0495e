"""`replay --every` and `--changes`: every impression in one bucket, and falls as the daemon sees
them."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner, Result
from rich.progress import Progress

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.config import loading as config
from relevanced.daemon.recompute.buckets import BucketsOverTime, selection_of
from relevanced.daemon.recompute.falls import LACKS_DAYS
from relevanced.daemon.recompute.over_time import FIELDS
from relevanced.daemon.recompute.plot import ONSET_COLOR
from relevanced.daemon.recompute.replay_pipeline import replayed
from relevanced.daemon.tools.traffic import Regression, Traffic, generate_events

START_MS = 1_795_176_000_000
"""2026-11-20 12:00 UTC."""
SETTINGS = """
windows = ["1m", "5m"]
[attribution]
window = "2m"
lateness = "10s"
[segments]
groupings = [["country"]]
"""
MINUTE_MS = 60_000
Recorded = Callable[..., str]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Writes an hour of simulated traffic, of which DE breaks after some minutes."""
    made: dict[int, str] = {}

    def record(breaks_after_min: int) -> str:
        if breaks_after_min not in made:
            path = tmp_path_factory.mktemp("recorded") / "events.jsonl"
            broken = Regression(after_s=breaks_after_min * 60)
            traffic = Traffic(seed=1, rate=15, regression=broken)
            encoder = msgspec.json.Encoder()
            with path.open("wb") as file:
                for time_ms, event in generate_events(traffic, START_MS):
                    if time_ms >= START_MS + 60 * MINUTE_MS:
                        break
                    file.write(encoder.encode(event) + b"\n")
            made[breaks_after_min] = str(path)
        return made[breaks_after_min]

    return record


def run(tmp_path: Path, *arguments: str) -> Result:
    (tmp_path / "relevanced.toml").write_text(SETTINGS)
    config_file = str(tmp_path / "relevanced.toml")
    return CliRunner().invoke(cli, ["replay", *arguments, "--config", config_file])


def rows(tmp_path: Path, *arguments: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(run(tmp_path, *arguments, "--output", "csv").stdout)))


@pytest.mark.parametrize("every_s", [10, 70, 600, 86_400])
def test_each_impression_is_in_one_bucket_integer_for_integer(
    recorded: Recorded, every_s: int
) -> None:
    settings = config.load(SETTINGS, {}, "test")
    path = recorded(30)
    bars = Progress(disable=True)
    found = replayed([path], settings, bars, as_is=False, every_ms=every_s * 1000)
    assert found.buckets is not None
    shown = selection_of(found.lane)
    found.driver.finish()
    over_time = BucketsOverTime.of(
        found.buckets, found.lane, shown, range(0, 10**14), found.lane.plan
    )
    assert set(np.diff(over_time.starts).tolist()) <= {every_s * 1000}
    names = [
        (found.lane.plan.grouping_names[grouping], value)
        for grouping, value in found.lane.segments.names
    ]
    totals = np.zeros_like(over_time.rows[0])
    for page, of_page in found.lane.totals.pages.items():
        into = shown.rows_of(names[page * len(of_page) : (page + 1) * len(of_page)])
        np.add.at(totals, into, of_page[: len(into)])
    assert np.array_equal(over_time.rows.sum(axis=0), totals) and totals[0, 0] > 20_000


def test_rows_are_the_same_in_csv_and_in_json_lines(tmp_path: Path, recorded: Recorded) -> None:
    by_csv = rows(tmp_path, recorded(30), "--every", "10m")
    lines = run(tmp_path, recorded(30), "--every", "10m", "--output", "json").stdout.splitlines()
    assert tuple(by_csv[0]) == FIELDS
    told = [json.loads(line) for line in lines]
    assert [{k: str(v) for k, v in one.items()} for one in told] == by_csv
    assert {one["start"] for one in told} == {f"2026-11-20T12:{m}0:00.000Z" for m in range(6)}
    assert [one["settled"] for one in told if one["segment"] == "all"].count(False) == 7


def test_a_span_keeps_the_buckets_that_begin_in_it(tmp_path: Path, recorded: Recorded) -> None:
    span = ("--from", "2026-11-20T12:20:00Z", "--to", "2026-11-20T12:40:00Z")
    found = {row["start"] for row in rows(tmp_path, recorded(30), "--every", "10m", *span)}
    assert found == {f"2026-11-20T12:{m}0:00.000Z" for m in (2, 3)}


def test_a_table_marks_what_has_not_settled(tmp_path: Path, recorded: Recorded) -> None:
    text = run(tmp_path, recorded(30), "--every", "30m").stdout
    assert "12:00:00.000Z  " in text and "12:30:00.000Z *" in text
    assert "12:00:00.000Z *" not in text
    assert "*: feedback may have come after the end of the files." in text


def test_a_fall_is_told_as_the_daemon_tells_it(tmp_path: Path, recorded: Recorded) -> None:
    found = run(tmp_path, recorded(30), "--changes")
    first, told, detail, lacks = found.stdout.splitlines()
    assert found.exit_code == 0 and first.startswith("Up to 20 Nov 12:57 UTC")
    assert told.startswith("RR@10 of country DE fell from 0.5") and " at 12:30, not" in told
    assert detail.strip().startswith("It carries ") and "RANKING" in detail
    assert lacks == LACKS_DAYS


def test_a_quiet_recording_has_no_change(tmp_path: Path, recorded: Recorded) -> None:
    lines = run(tmp_path, recorded(600), "--changes").stdout.splitlines()
    assert lines[1:] == ["No score fell by more than chance explains.", LACKS_DAYS]


def test_the_end_of_a_recording_is_no_fall(tmp_path: Path, recorded: Recorded) -> None:
    """The last searches lack the clicks that came later."""
    short = Path(recorded(600)).read_bytes().splitlines(keepends=True)[:1500]
    (tmp_path / "short.jsonl").write_bytes(b"".join(short))
    found = run(tmp_path, str(tmp_path / "short.jsonl"), "--changes")
    assert found.stdout.startswith("Nothing has settled: the files end before") is (
        len(found.stdout.splitlines()) == 1
    )
    assert "fell from" not in found.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--every", "7s"), "--every: 7 s: must be a multiple of the shortest pane, 2 s"),
        (
            ("--from", "2026-11-20T12:00:00Z"),
            "--from, --to: only with --every, --changes or --plot",
        ),
        (("--every", "10m", "--experiment", "x"), "--experiment: not together with"),
        (("--changes", "--output", "csv"), "--changes: no csv, but text"),
    ],
)
def test_what_does_not_go_together_is_said(
    tmp_path: Path, recorded: Recorded, arguments: tuple[str, ...], said: str
) -> None:
    result = run(tmp_path, recorded(30), *arguments)
    assert result.exit_code == 2 and said in result.stderr


def drawn(tmp_path: Path, recorded: Recorded, name: str, *arguments: str) -> Path:
    path = tmp_path / name
    result = run(tmp_path, recorded(30), "--plot", str(path), *arguments)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "", "what is drawn is not printed too, unless that is asked for"
    return path


def test_a_picture_has_each_metric_and_segment_and_where_a_fall_began(
    tmp_path: Path, recorded: Recorded
) -> None:
    text = drawn(tmp_path, recorded, "a.svg").read_text()
    for shown in ("RR@10", "nDCG@10", "everything", "DE (country)", "US (country)"):
        assert f"<!-- {shown} -->" in text
    quiet = tmp_path / "quiet.svg"
    assert run(tmp_path, recorded(90), "--plot", str(quiet)).exit_code == 0
    panels = text.count('id="axes_')
    assert panels == 7 and text.count(ONSET_COLOR) == panels, "a line in each panel"
    assert ONSET_COLOR not in quiet.read_text()
    assert drawn(tmp_path, recorded, "b.svg").read_text() == text, "the same bytes again"
    assert drawn(tmp_path, recorded, "c.png").read_bytes().startswith(b"\x89PNG")


def test_what_has_not_settled_is_dashed(tmp_path: Path, recorded: Recorded) -> None:
    whole = drawn(tmp_path, recorded, "a.svg").read_text()
    settled = drawn(tmp_path, recorded, "b.svg", "--to", "2026-11-20T12:50:00Z").read_text()
    assert "stroke-dasharray" in whole and "stroke-dasharray" not in settled


def test_a_picture_that_cannot_be_drawn_says_why(tmp_path: Path, recorded: Recorded) -> None:
    for name, words in (("a.xyz", "xyz"), ("none/a.png", "No such file")):
        result = run(tmp_path, recorded(30), "--plot", str(tmp_path / name))
        assert result.exit_code == 1 and words in result.stderr
        assert "Traceback" not in result.stderr


def test_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with path.open("w") as file:
        for number in range(200):
            event = {
                "type": "impression",
                "impression_id": f"q{number}",
                "timestamp": START_MS + number * 10_000,
                "items": ["a"],
                "attributes": {"country": ("$x_1$", "_hidden")[number % 2]},
            }
            file.write(json.dumps(event) + "\n")
        click = {"type": "feedback", "impression_id": "q0", "kind": "click", "item": "a"}
        file.write(json.dumps(click | {"timestamp": START_MS + 1}) + "\n")
    picture = tmp_path / "a.svg"
    assert run(tmp_path, str(path), "--plot", str(picture)).exit_code == 0
    text = picture.read_text()
    assert "<!-- $x_1$ (country) -->" in text and "_hidden (country) -->" in text
    assert "Oblique" not in text, "no mathematics"
