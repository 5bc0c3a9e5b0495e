"""In CI only those tests may be skipped that `allowed_skips.txt` lists with a reason."""

import os
from pathlib import Path
from typing import Final

import pytest

LIST: Final = Path(__file__).parent / "allowed_skips.txt"


class SkipGate:
    """Collects what was skipped, or failed as expected, and is not on the list."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self.allowed = allowed
        self.found: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self.found:
            terminalreporter.write_line(f"skipped, but not in {LIST.name}: {line}", red=True)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and not report.nodeid.startswith(self.allowed):
            where = report.longrepr
            reason = where[2] if isinstance(where, tuple) else "failed as expected"
            self.found.append(f"{report.nodeid}: {reason}")


def allowed_skips(text: str) -> tuple[str, ...]:
    """How the allowed test ids begin; each line is `beginning of the id: reason`."""
    beginnings = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        beginning, found, reason = line.partition(": ")
        if not found or not reason.strip():
            raise pytest.UsageError(f"{LIST.name}: {line!r}: must be `beginning of the id: reason`")
        beginnings.append(beginning)
    return tuple(beginnings)


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("CI") == "true":
        config.pluginmanager.register(SkipGate(allowed_skips(LIST.read_text())), "skip-gate")
