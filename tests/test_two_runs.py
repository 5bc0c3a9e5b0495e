"""`make test` and `make test-rest` have every test once between them, and fail if one fails."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from tests import durations, targets
from tests.__main__ import (
    MORE_RUNS,
    MOST_RUNS,
    NOTHING_COLLECTED,
    runs,
    summary,
    target_of,
    verdict,
)
from tests.mutants import MUTANTS, misplaced
from tests.run_report import RunReport, Seconds
from tests.seeds import FEW, seeds

ROOT = Path(__file__).parent.parent
FILES = targets.test_files(ROOT)
SECONDS = {
    "tests/a.py": Seconds(test=30, servers=True),
    "tests/b.py": Seconds(test=20, servers=True),
    "tests/c.py": Seconds(test=25, rest=500),
    "tests/d.py": Seconds(test=24),
}


@pytest.mark.parametrize("target", ["rest", "all"])
def test_the_rest_and_all_read_every_file_once(target: targets.Target) -> None:
    found = [path for run in runs([], target, FILES, 2, durations.load()) for path in run]
    assert sorted(path for path in found if path in FILES) == FILES


def test_what_the_quick_tests_leave_out_has_none_of_them() -> None:
    found = {path for run in runs([], "test", FILES, 2, durations.load()) for path in run}
    left_out = [file for file in FILES if file not in found]
    assert left_out and not any(targets.has_quick_tests(file) for file in left_out)


def test_the_longest_path_of_the_table_decides() -> None:
    assert targets.place_of("tests/daemon/test_plan.py::test_new") == targets.TEST
    assert targets.place_of("tests/fuzz/test_new.py::test_new[1]") == targets.REST
    assert targets.place_of("tests/fuzz_of_another_kind/test_new.py") == targets.TEST


def test_the_table_names_what_is_there() -> None:
    for path in targets.TABLE:
        file, _, name = path.partition("::")
        assert (ROOT / file).exists(), path
        assert name.partition("[")[0] in (ROOT / file).read_text() if name else True, path


def test_the_first_seeds_are_quick_and_the_others_are_of_the_rest() -> None:
    found = seeds(10, first=40)
    assert [one.values for one in found] == [(seed,) for seed in range(40, 50)]
    assert [len(one.marks) for one in found] == [0] * FEW + [1] * (10 - FEW)
    assert len(seeds(2)) == 2


def test_runs_take_equally_long_and_share_servers() -> None:
    shares = durations.shares([*SECONDS], 2, "test", SECONDS)
    assert shares == [["tests/a.py", "tests/b.py"], ["tests/c.py", "tests/d.py"]]
    assert durations.shares([*SECONDS], 2, "rest", SECONDS)[1] == ["tests/c.py"]


def test_a_file_that_was_not_measured_is_run() -> None:
    found = durations.shares(["tests/new.py", *SECONDS], 2, "test", SECONDS)
    assert Counter(path for share in found for path in share) == Counter(["tests/new.py", *SECONDS])


def test_durations_of_one_target_leave_those_of_the_other() -> None:
    found = {"tests/c.py": Seconds(test=1), "tests/gone.py": Seconds(test=1)}
    renewed = durations.renewed(SECONDS, found, "test", [*SECONDS])
    assert renewed["tests/c.py"] == Seconds(test=1, rest=500)
    assert renewed.keys() == SECONDS.keys()


def test_durations_are_read_as_they_were_written(tmp_path: Path) -> None:
    (tmp_path / "some.json").write_bytes(durations.encode(SECONDS))
    assert durations.load(tmp_path / "some.json") == SECONDS


@pytest.mark.parametrize("arguments", [["tests/bench"], ["-x", "tests/bench"]])
def test_one_run_of_the_tests_that_are_named(arguments: list[str]) -> None:
    assert runs(arguments, "test", FILES, 2, {}) == [arguments]


def test_arguments_reach_every_run() -> None:
    found = runs(["-x"], "test", FILES, 64, {})
    assert len(found) == MOST_RUNS and all(run[-3:] == ["-m", "not rest", "-x"] for run in found)
    assert len(runs([], "test", FILES, 1, {})) == 1 + MORE_RUNS


def test_the_target_is_taken_out_of_the_arguments() -> None:
    arguments = ["-x", "--rest"]
    assert target_of(arguments) == "rest" and arguments == ["-x"]
    assert target_of(arguments) == "test"


def test_what_was_not_run_is_said_with_the_command_that_runs_it() -> None:
    reports = [
        RunReport(outcomes={"passed": 1000, "skipped": 2}, skipped={"no chromium": 2}),
        RunReport(outcomes={"passed": 500, "failed": 1}, skipped={"no chromium": 1}),
    ]
    text = summary("test", reports, took_s=390, rest_s=1260)
    assert text.startswith("1 failed, 1,500 passed, 2 skipped in 6.5 minutes.")
    assert "3 tests: no chromium" in text
    assert "the rest, some 21 minutes: make test-rest" in text and "make chaos" in text
    assert "make test-rest" not in summary("rest", reports, 1, 1)


def test_a_report_is_read_as_it_was_written() -> None:
    report = RunReport({"tests/a.py": Seconds(1, 2, True)}, {"passed": 3}, {"no printer": 1})
    assert msgspec.json.decode(msgspec.json.encode(report), type=RunReport) == report


def test_every_mutant_has_its_place_and_its_tests() -> None:
    assert not misplaced(MUTANTS, ROOT)
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize(
    ("codes", "expected"),
    [([0, 0], 0), ([0, 1], 1), ([2, 0], 2), ([0, 5], 0), ([5, 1], 1), ([5, 5], 5), ([5], 5)],
)
def test_a_failure_in_either_is_a_failure(codes: list[int], expected: int) -> None:
    assert NOTHING_COLLECTED == pytest.ExitCode.NO_TESTS_COLLECTED
    assert verdict(codes) == expected
