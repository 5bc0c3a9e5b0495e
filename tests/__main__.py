"""`make test`: the tests, in two runs of pytest at the same time.

    python -m tests [arguments for pytest]

A single run leaves most of two processors idle while it waits for servers. The output of the
second run is printed when both have ended. Both get the arguments; if these name tests, or there is
only one processor, there is one run.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

SECOND: Final = (
    "tests/chaos/test_protocol_model.py",
    "tests/daemon",
    "tests/test_oracle.py",
    "tests/fuzz",
    "tests/metrics",
    "tests/deploy",
    "tests/bench",
    "tests/page",
)
"""Tests of the second run: those that compute, of `deploy/`, the benchmark and the page, about
half of the time. All others are in the first run."""
PYTEST: Final = (sys.executable, "-m", "pytest")
APART: Final = ("-o", "cache_dir=.pytest_cache/second")
"""The second run has its own cache, so that `--last-failed` works for both."""
NOTHING_COLLECTED: Final = 5


def runs(arguments: Sequence[str], processors: int) -> list[list[str]]:
    """The arguments of each run of pytest."""
    if processors < 2 or any(argument.startswith("tests") for argument in arguments):
        return [[*arguments]]
    left_out = [f"--ignore={path}" for path in SECOND]
    return [[*left_out, *arguments], [*SECOND, *APART, *arguments]]


def verdict(codes: Sequence[int]) -> int:
    """The exit code of all runs; a run without tests counts only if no run has any."""
    with_tests = [code for code in codes if code != NOTHING_COLLECTED]
    return next((code for code in with_tests if code), 0) if with_tests else NOTHING_COLLECTED


def main() -> int:
    first, *others = runs(sys.argv[1:], os.cpu_count() or 1)
    with tempfile.TemporaryFile() as output:
        processes = [
            subprocess.Popen([*PYTEST, *arguments], stdout=output, stderr=subprocess.STDOUT)
            for arguments in others
        ]
        try:
            codes = [subprocess.call([*PYTEST, *first])]
        finally:  # Ctrl-C reaches all runs, and each stops its servers
            codes_of_others = [process.wait() for process in processes]
        output.seek(0)
        shutil.copyfileobj(output, sys.stdout.buffer)
    return verdict([*codes, *codes_of_others])


if __name__ == "__main__":
    sys.exit(main())
