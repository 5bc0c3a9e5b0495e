"""CI fails for every skip that is not listed."""

import pytest

from tests.skips import SkipGate, allowed_skips


def skipped(test_id: str) -> pytest.TestReport:
    reason = ("test_a.py", 1, "no folder shared")
    return pytest.TestReport(test_id, ("test_a.py", 1, "a"), {}, "skipped", reason, "setup")


def test_unlisted_skip_is_reported_with_its_reason() -> None:
    gate = SkipGate(allowed_skips("tests/test_a.py::test_one[x]: needs a printer\n"))
    gate.pytest_runtest_logreport(skipped("tests/test_a.py::test_one[x]"))
    gate.pytest_runtest_logreport(skipped("tests/test_a.py::test_two"))
    assert gate.unlisted == ["tests/test_a.py::test_two: no folder shared"]


def test_empty_list_allows_nothing() -> None:
    gate = SkipGate(allowed_skips("# only a comment\n\n"))
    gate.pytest_runtest_logreport(skipped("tests/test_a.py::test_one"))
    assert len(gate.unlisted) == 1


def test_listed_skip_needs_a_reason() -> None:
    with pytest.raises(pytest.UsageError, match="beginning of the id: reason"):
        allowed_skips("tests/test_a.py::test_one\n")
