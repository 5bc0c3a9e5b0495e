"""`make test` runs every test once, and fails if one of them fails."""

from pathlib import Path

import pytest

from tests.__main__ import NOTHING_COLLECTED, SECOND, runs, verdict

ROOT = Path(__file__).parent.parent


def test_second_run_has_what_the_first_leaves_out() -> None:
    first, second = runs(["-x"], processors=2)
    assert [a.removeprefix("--ignore=") for a in first if "=tests" in a] == [*SECOND]
    assert tuple(a for a in second if a.startswith("tests")) == SECOND
    assert first[-1] == second[-1] == "-x"
    assert all((ROOT / path).exists() for path in SECOND)


@pytest.mark.parametrize(("arguments", "processors"), [(["tests/bench"], 2), (["-x"], 1)])
def test_one_run_if_tests_are_named_or_there_is_one_processor(
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
