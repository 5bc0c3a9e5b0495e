"""`make test` runs every test once, and fails where one does."""

from pathlib import Path

import pytest

from tests.__main__ import NOTHING_COLLECTED, SECOND, runs, verdict

ROOT = Path(__file__).parent.parent


def test_what_one_run_leaves_out_is_the_other() -> None:
    first, second = runs(["-x"], processors=2)
    assert [one.removeprefix("--ignore=") for one in first if "=tests" in one] == [*SECOND]
    assert tuple(one for one in second if one.startswith("tests")) == SECOND
    assert first[-1] == second[-1] == "-x"
    assert all((ROOT / path).exists() for path in SECOND)


@pytest.mark.parametrize(("arguments", "processors"), [(["tests/bench"], 2), (["-x"], 1)])
def test_one_run_where_tests_are_named_or_processors_lack(
    arguments: list[str], processors: int
) -> None:
    assert runs(arguments, processors) == [arguments]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [([0, 0], 0), ([0, 1], 1), ([2, 0], 2), ([0, 5], 0), ([5, 1], 1), ([5, 5], 5), ([5], 5)],
)
def test_a_failure_in_either_is_a_failure(codes: list[int], expected: int) -> None:
    assert NOTHING_COLLECTED == pytest.ExitCode.NO_TESTS_COLLECTED
    assert verdict(codes) == expected
