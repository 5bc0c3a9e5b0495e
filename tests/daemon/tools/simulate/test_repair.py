"""`relevanced simulate --repair-after`: what broke is as before from then on."""

from pathlib import Path

import msgspec
from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli

START = "2026-11-20T12:00:00Z"
START_MS = 1_795_176_000_000


def lists_of_de(file: Path) -> dict[int, set[int]]:
    """Minute → the lengths of the lists that are not empty, in DE."""
    found: dict[int, set[int]] = {}
    for line in file.read_bytes().splitlines():
        event = msgspec.json.decode(line)
        if event["type"] == "impression" and event["attributes"]["country"] == "DE":
            minute = (event["timestamp"] - START_MS) // 60_000
            found.setdefault(minute, set()).add(len(event["items"]) or 10)
    return found


def simulate(file: Path, *options: str) -> tuple[int, str]:
    given = ["simulate", "--out", str(file), "--start", START, "--duration", "9m", *options]
    result = CliRunner().invoke(cli, given)
    return result.exit_code, " ".join(result.output.split())


def test_it_is_broken_from_then_until_then(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    options = ["--regression-after", "3m", "--repair-after", "2m", "--regression-kind", "index"]
    code, text = simulate(file, *options)
    assert code == 0, text
    lengths = lists_of_de(file)
    assert {minute for minute, found in lengths.items() if found != {10}} == {3, 4}
    assert set(lengths) >= set(range(9))


def test_nothing_is_repaired_that_does_not_break(tmp_path: Path) -> None:
    code, text = simulate(tmp_path / "events.jsonl", "--repair-after", "2m")
    assert code == 2 and "--repair-after: only with --regression-after" in text
