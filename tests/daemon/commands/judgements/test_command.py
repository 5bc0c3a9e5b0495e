"""`relevanced judgements`: what a user sees of good and of faulty files."""

import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

import pytest
from click import Group
from click.testing import CliRunner, Result

from relevanced.daemon.commands.classes import classes_command
from relevanced.daemon.commands.judgements import judgements_command
from relevanced.daemon.judgements import HOUR_MS, earliest_start_ms

GOOD: Final = "query,docid,rating\nRed shoes,d7,2\nred shoes,d8,0\nboots,d9,\n"
FIVE_MINUTES_MS: Final = 300_000


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "judgements").mkdir()
    return tmp_path / "judgements"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "quepid.csv"
    path.write_text(GOOD)
    return path


def call(*arguments: object, of: Group = judgements_command) -> Result:
    return CliRunner().invoke(of, [str(argument) for argument in arguments])


def hours_from_now(hours: int, max_future_ms: int = FIVE_MINUTES_MS) -> str:
    """The earliest start that is allowed now, or so many hours from it."""
    start_ms = earliest_start_ms(time.time_ns() // 1_000_000, max_future_ms) + hours * HOUR_MS
    return datetime.fromtimestamp(start_ms / 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_added_file_is_checked_as_good(directory: Path, source: Path) -> None:
    start = hours_from_now(1)
    added = call("add", source, "--from", start, "--directory", directory)
    assert (added.exit_code, added.stderr) == (0, "")
    name = f"{start[:13]}00Z-quepid.csv"
    expected = f"{name}: in force from {start}, 1 query, 2 judgements, 1 pair without a rating\n"
    assert added.stdout == expected
    checked = call("check", directory)
    assert (checked.exit_code, checked.stdout) == (0, expected)


def test_time_is_any_spelling_of_a_whole_hour(directory: Path, source: Path) -> None:
    start = hours_from_now(1)
    local = start.replace("Z", "+00:00")
    assert call("add", source, "--from", local, "--directory", directory).exit_code == 0
    half = start.replace("00:00Z", "30:00Z")
    refused = call("add", source, "--from", half, "--directory", directory)
    assert refused.exit_code == 2 and f"start={half}: must be a whole hour" in refused.stderr


def test_file_needs_a_lead(directory: Path, source: Path, tmp_path: Path) -> None:
    soon = hours_from_now(-1)
    refused = call("add", source, "--from", soon, "--directory", directory)
    assert refused.exit_code == 2 and f"start={soon}: must be a whole hour" in refused.stderr
    config = tmp_path / "relevanced.toml"
    config.write_text('[events]\nmax_future = "5h"\n')
    late = call(
        "add", source, "--from", hours_from_now(1), "--directory", directory, "--config", config
    )
    assert late.exit_code == 2 and "and not before" in late.stderr
    assert not list(directory.iterdir())


def test_file_for_a_replay_may_start_in_the_past(directory: Path, source: Path) -> None:
    start = "2026-01-20T12:00:00Z"
    arguments = ("add", source, "--from", start, "--directory", directory)
    assert call(*arguments).exit_code == 2
    assert call(*arguments, "--past").stdout.startswith(f"2026-01-20T1200Z-{source.name}: ")
    half = call("add", source, "--from", "2026-01-20T12:30:00Z", "--directory", directory, "--past")
    assert half.exit_code == 2 and "must be a whole hour" in half.stderr


def test_faulty_file_is_not_added(directory: Path, source: Path) -> None:
    source.write_text(GOOD + "boots,d9,good\nboots,d9,2\nRED shoes,d7,1\n")
    refused = call("add", source, "--from", hours_from_now(1), "--directory", directory)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.splitlines() == [
        f"{source}:5: grade='good' of item 'd9' of query 'boots': must be a number",
        f"{source}:7: grade='1' of item 'd7' of query 'red shoes': must be 2, its grade further up;"
        " of several raters, `judgements agreement` says how far they agree",
    ]
    assert not (directory / "index").exists()


def test_agreement_is_of_files_or_of_repeated_pairs(tmp_path: Path) -> None:
    one, other, both = (str(tmp_path / name) for name in ("one.csv", "other.csv", "both.csv"))
    header = "query,docid,rating\n"
    ones = [f"a,d{n},{int(n < 25)}\n" for n in range(50)]
    others = [f"A,d{n},{int(n < 20 or 25 <= n < 35)}\n" for n in range(50)]
    Path(one).write_text(header + "".join(ones) + "b,d1,2\n")
    Path(other).write_text(header + "".join(others))
    Path(both).write_text(header + "".join(ones + others))
    for files in ((one, other), (both,)):
        printed = call("agreement", *files).stdout
        assert "raters 1 and 2: 50 pairs, 70.0% the same, kappa 0.400, squared 0.400" in printed
    alone = call("agreement", one)
    assert alone.exit_code == 2 and "no pair of a query and an item has two" in alone.stderr


def test_start_that_is_taken_is_refused(directory: Path, source: Path) -> None:
    start = hours_from_now(1)
    assert call("add", source, "--from", start, "--directory", directory).exit_code == 0
    again = call("add", source, "--from", start, "--directory", directory)
    assert again.exit_code == 2 and "an entry of the index is never changed" in again.stderr


def test_check_lists_the_faults_of_all_files(directory: Path, source: Path) -> None:
    for hours in (1, 2):
        call("add", source, "--from", hours_from_now(hours), "--directory", directory)
    first, second = sorted(path for path in directory.iterdir() if path.suffix == ".csv")
    first.write_text(GOOD[:-8])
    other = source.with_name("other.qrels")
    other.write_text("shoes 0 d7\n")
    (directory / "forgotten.csv").write_text(GOOD)
    checked = call("check", directory, source, other)
    assert checked.exit_code == 2
    assert [line.partition(": ")[0] for line in checked.stdout.splitlines()] == [
        second.name,
        "not listed in the index, so nothing reads it",
        str(source),
    ]
    faults = checked.stderr.splitlines()
    assert faults[0].startswith(f"{first}: sha256=") and "put the file back" in faults[0]
    assert faults[1].startswith(f"{other}:1: 'shoes 0 d7': must be 4 fields")


def test_only_so_many_faults_are_shown(source: Path) -> None:
    good = [f"q{line} 0 d7 1" for line in range(20)]
    source.write_text("\n".join([*good, *(f"q{line} 0 d7 x{line}" for line in range(2_000))]))
    lines = call("check", source).stderr.splitlines()
    assert len(lines) == 101 and lines[-1] == "and 1,900 more"


def test_scale_is_an_option(source: Path) -> None:
    assert call("check", source, "--max-grade", 1).exit_code == 2
    assert call("check", source, "--max-grade", 2).exit_code == 0


def test_grade_that_the_configuration_does_not_read_is_a_fault(
    directory: Path, source: Path, tmp_path: Path
) -> None:
    """What would stop the lanes at its start is not put in place; once in place, it is named."""
    source.write_text("query,docid,rating\nshoes,d1,5\n")
    config = tmp_path / "relevanced.toml"
    config.write_text(f'[judgements]\ndirectory = "{directory}"\n')
    arguments = ("add", source, "--from", hours_from_now(1), "--directory", directory)
    refused = call(*arguments, "--config", config)
    assert refused.exit_code == 2 and not (directory / "index").exists()
    rule = "must be from -100 to 3; for a longer scale raise judgements.max_grade"
    assert refused.stderr.startswith(f"{source}:2: grade='5' of item 'd1'")
    assert rule in refused.stderr
    without = call(*arguments)
    assert (without.exit_code, without.stderr) == (2, refused.stderr)
    assert not (directory / "index").exists()
    assert call(*arguments, "--max-grade", 5).exit_code == 0
    checked = call("check", directory, "--config", config)
    assert checked.exit_code == 2 and rule in checked.stderr
    config.write_text("[judgements]\nmax_grade = 5\n")
    later = ("add", source, "--from", hours_from_now(2), "--directory", directory)
    assert call(*later, "--config", config, "--max-grade", 4).exit_code == 2
    assert call(*later, "--config", config).exit_code == 0


def test_file_that_lanes_read_by_a_setting_only_says_so(directory: Path, source: Path) -> None:
    source.write_text("query,docid,rating\nshoes,d1,3\n")
    assert "max_grade" not in call("check", source).output
    source.write_text("query,docid,rating\nshoes,d1,3.5\n")
    needs = "grades up to 3.5 (lanes need judgements.max_grade = 3.5 or more, the default is 3)"
    arguments = ("--from", hours_from_now(1), "--directory", directory, "--max-grade", 4)
    added = call("add", source, *arguments)
    for printed in (added, call("check", source), call("check", directory)):
        assert printed.exit_code == 0 and printed.stdout.endswith(f"1 judgement, {needs}\n")


def test_directory_without_an_index_is_no_fault(directory: Path) -> None:
    checked = call("check", directory)
    assert (checked.exit_code, checked.stdout) == (0, "the index lists no file\n")


def test_faulty_index_is_a_fault(directory: Path, source: Path) -> None:
    (directory / "index").write_text("a.csv\n")
    for arguments in (
        ("check", directory),
        ("add", source, "--from", hours_from_now(1), "--directory", directory),
    ):
        refused = call(*arguments)
        assert refused.exit_code == 2
        assert f"{directory / 'index'}:1: 'a.csv': must be 3 fields" in refused.stderr


def test_file_of_classes_is_put_in_place_as_one_of_judgements_is(
    directory: Path, tmp_path: Path
) -> None:
    heads = tmp_path / "head.csv"
    heads.write_text("query,class\nRed shoes,head\nred shoes,tail\n")
    start = hours_from_now(1)
    arguments = ("add", heads, "--from", start, "--directory", directory)
    faulty = call(*arguments, of=classes_command)
    assert faulty.exit_code == 2 and not (directory / "index").exists()
    assert faulty.stderr == (
        f"{heads}:3: class='tail' of query 'red shoes': must be 'head', its class further up\n"
    )
    heads.write_text("query,class\nRed shoes,head\n")
    added = call(*arguments, of=classes_command)
    assert added.stdout == f"{start[:13]}00Z-head.csv: in force from {start}, 1 query head\n"
    assert call("check", directory, of=classes_command).stdout == added.stdout
