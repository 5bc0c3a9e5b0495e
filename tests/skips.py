"""In CI, a test may be skipped only if `allowed_skips.txt` lists it with a reason."""

import os
from pathlib import Path
from typing import Final

import pytest

LIST: Final = Path(__file__).parent / "allowed_skips.txt"


class SkipGate:
    """Fails the run if tests were skipped, or failed as expected, that are not listed."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self.allowed = allowed
        self.unlisted: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._check(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._check(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unlisted and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self.unlisted:
            terminalreporter.write_line(f"skipped, but not in {LIST.name}: {line}", red=True)

    def _check(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and not report.nodeid.startswith(self.allowed):
            where = report.longrepr
            reason = where[2] if isinstance(where, tuple) else "failed as expected"
            self.unlisted.append(f"{report.nodeid}: {reason}")


def allowed_skips(text: str) -> tuple[str, ...]:
    """The prefixes of allowed test ids; each line is `beginning of the id: reason`."""
    prefixes = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        prefix, separator, reason = line.partition(": ")
        if not separator or not reason.strip():
            raise pytest.UsageError(f"{LIST.name}: {line!r}: must be `beginning of the id: reason`")
        prefixes.append(prefix)
    return tuple(prefixes)


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("CI") == "true":
        config.pluginmanager.register(SkipGate(allowed_skips(LIST.read_text())), "skip-gate")
