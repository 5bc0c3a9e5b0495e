"""What a run of pytest says to `python -m tests`: seconds of each file, and why what was skipped.

A plugin that does nothing unless RELEVANCED_RUN_REPORT names the file to write.
"""

import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

import msgspec
import pytest

PATH: Final = "RELEVANCED_RUN_REPORT"
SHARED_SERVERS: Final = ("kafka", "apicurio")
"""Session fixtures that take seconds to start: files with them are best in one run."""


class Seconds(msgspec.Struct):
    """How long the tests of a file take, by target, and whether they need the shared servers."""

    test: float = 0.0
    rest: float = 0.0
    servers: bool = False


class RunReport(msgspec.Struct):
    """All of one run."""

    seconds: dict[str, Seconds] = {}
    outcomes: dict[str, int] = {}
    skipped: dict[str, int] = {}
    """Reason → number of tests."""


class Reporter:
    """Gathers the report while the tests run, and writes it when they have ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rest: set[str] = set()
        self._seconds: defaultdict[str, Seconds] = defaultdict(Seconds)
        self._outcomes: Counter[str] = Counter()
        self._skipped: Counter[str] = Counter()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            if item.get_closest_marker("rest"):
                self._rest.add(item.nodeid)
            if isinstance(item, pytest.Function) and {*SHARED_SERVERS} & {*item.fixturenames}:
                self._seconds[file_of(item.nodeid)].servers = True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds = self._seconds[file_of(report.nodeid)]
        if report.nodeid in self._rest:
            seconds.rest += report.duration
        else:
            seconds.test += report.duration
        if report.skipped or report.failed or report.when == "call":
            self._outcomes[report.outcome] += 1
        if report.skipped:
            self._skipped[reason_of(report)] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._skipped[reason_of(report)] += 1

    def pytest_sessionfinish(self) -> None:
        found = RunReport(dict(self._seconds), dict(self._outcomes), dict(self._skipped))
        self._path.write_bytes(msgspec.json.encode(found))


def file_of(test_id: str) -> str:
    return test_id.partition("::")[0]


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    where = report.longrepr
    text = where[2] if isinstance(where, tuple) else "failed as expected"
    return text.removeprefix("Skipped: ")


def pytest_configure(config: pytest.Config) -> None:
    if path := os.environ.get(PATH):
        config.pluginmanager.register(Reporter(Path(path)), "run-report")
