"""`relevanced simulate --break-queries`: the file, its faults, and what it does to the events."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli

START = "2026-11-20T12:00:00Z"


def simulate(folder: Path, *options: str) -> tuple[int, str, list[dict[str, object]]]:
    out = folder / "events.jsonl"
    given = ["simulate", "--out", str(out), "--start", START, "--rate", "100", *options]
    result = CliRunner().invoke(cli, given)
    lines = out.read_text().splitlines() if out.exists() else []
    return result.exit_code, result.output, [json.loads(line) for line in lines]


def clicked(events: list[dict[str, object]], query: str) -> int:
    ids = {one["impression_id"] for one in events if one.get("query") == query}
    return sum(one.get("kind") == "click" and one["impression_id"] in ids for one in events)


def test_nobody_clicks_what_is_irrelevant_after_the_break(tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    file.write_text("Red  running SHOES\n")
    broken = ["--break-queries", str(file)]
    code, text, events = simulate(tmp_path, "--duration", "5m", *broken)
    assert code == 0, text
    assert clicked(events, "red running shoes") == 0 < clicked(events, "red kids shoes")
    later = ["--backfill", "2m", "--duration", "3m", "--break-after", "1m"]
    code, text, events = simulate(tmp_path, *later, *broken)
    before = [one for one in events if _minute(one) < 3]
    assert code == 0 and clicked(before, "red running shoes") > 0
    assert clicked([one for one in events if _minute(one) >= 3], "red running shoes") == 0


def _minute(event: dict[str, object]) -> float:
    first = 1_795_176_000_000
    return (int(str(event["timestamp"])) - first) / 60_000


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        (b"nobody asks this\n", [], "line 1: 'nobody asks this': must be a query of the simulated"),
        (b"\xff\xfe", [], "must be UTF-8"),
        (b"\n", [], "has no query"),
        (b"x" * 1_000_001, [], "must have at most 1,000,000 bytes"),
        (b"red kids shoes", ["--break-share", "0"], "is not in the range"),
    ],
)
def test_faults_of_the_file_are_said(
    tmp_path: Path, content: bytes, options: list[str], says: str
) -> None:
    file = tmp_path / "queries.txt"
    file.write_bytes(content)
    code, text, _ = simulate(tmp_path, "--duration", "1m", "--break-queries", str(file), *options)
    assert code == 2 and says in " ".join(text.split())


def test_share_alone_breaks_nothing(tmp_path: Path) -> None:
    code, text, _ = simulate(tmp_path, "--duration", "1m", "--break-share", "0.5")
    assert code == 2 and "only with --break-queries" in text
